"""The manifest's halves tell the truth on odd boxes too: broken packages, somebody else's repository."""

import subprocess
import sys
from pathlib import Path

import pytest

from platforms import manifest, profile


def test_a_distribution_without_metadata_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an interrupted pip leaves behind."""
    (tmp_path / "jax_cuda13_plugin-1.0.dist-info").mkdir()
    (tmp_path / "~ax-0.1.dist-info").mkdir()
    whole = tmp_path / "jax_rocm7_plugin-2.0.dist-info"
    whole.mkdir()
    (whole / "METADATA").write_text("Metadata-Version: 2.1\nName: jax-rocm7-plugin\nVersion: 2.0\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    plugins = manifest.box(profile.load("cpu"))["plugins"]
    assert plugins["jax-rocm7-plugin"] == "2.0"
    assert "jax-cuda13-plugin" not in plugins


def test_a_repository_around_an_installed_ladder_is_not_ours(tmp_path: Path) -> None:
    """Ladder installed in the virtual environment of somebody's project: the project's commit is not Ladder's."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "file").touch()
    commit = ["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "-m", "theirs"]
    subprocess.run(["git", "-C", str(tmp_path), "add", "file"], check=True)
    subprocess.run(["git", "-C", str(tmp_path), *commit], check=True)
    assert manifest.core(tmp_path)["commit"] != "unknown"
    site_packages = tmp_path / ".venv" / "lib"
    site_packages.mkdir(parents=True)
    core = manifest.core(site_packages)
    assert (core["commit"], core["dirty"]) == ("unknown", "unknown")


@pytest.mark.parametrize(
    "text",
    [
        "name = ",
        'name = "odd"',
        'name = "odd"\nunknown = 1',
        "[environment.X]\nvalue = 1",
        (profile.FOLDER / "cpu.toml").read_text() + "\n[environment.X]\nvalue = 'no why'\n",
        (profile.FOLDER / "cpu.toml").read_text().replace("slots = 1 ", 'slots = "1" '),
    ],
)
def test_a_broken_profile_is_told_by_its_file(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "odd.toml").write_text(text)
    monkeypatch.setattr(profile, "FOLDER", tmp_path)
    with pytest.raises(profile.UnknownProfile, match=r"platform 'odd' cannot be read from odd\.toml"):
        profile.load("odd")


@pytest.mark.parametrize("name", ["../cpu", "", "cpu.toml", "profiles/cpu"])
def test_a_name_that_is_a_path_is_no_platform(name: str) -> None:
    with pytest.raises(profile.UnknownProfile, match="there is no platform"):
        profile.load(name)
