"""Which versions go together, whether an install kept a vendor's stack, and a stack outside Python that is too old."""

from pathlib import Path

import pytest

from platforms import profile, stack
from tests.platforms.conftest import Install

CUDA, ROCM, IREE, CPU = (profile.load(name) for name in ("cuda-desktop", "rocm", "iree-cpu", "cpu"))
SEEN = {"jax": "0.11.1", "jaxlib": "0.11.1", "jax-cuda12-plugin": "0.11.1", "jax-cuda12-pjrt": "0.11.1"}


@pytest.mark.parametrize(
    ("p", "found", "level", "why"),
    [
        (CUDA, SEEN, "OK", "seen on RTX 4090"),
        (
            CUDA,
            dict.fromkeys(SEEN, "0.12.0"),
            "WARN",
            "not among the versions seen together: jax 0.11.1 / jaxlib 0.11.1",
        ),
        (
            CUDA,
            SEEN | {"jax-cuda12-pjrt": "0.2.0"},
            "FAIL",
            "jax-cuda12-pjrt 0.2.0 is for another jax; the versions seen",
        ),
        (CUDA, {"jax": "0.11.1", "jaxlib": "0.11.1"}, "FAIL", "none of this platform's plugins is installed"),
        (CUDA, SEEN | {"jaxlib": "0.10.2"}, "FAIL", "jax and jaxlib are not of one release"),
        (CUDA, {}, "FAIL", "jax not installed"),
        (CPU, {"jax": "0.12.0.1", "jaxlib": "0.12.0.1"}, "OK", "jax 0.12.0.1, jaxlib 0.12.0.1"),
        (
            ROCM,
            {"jax": "0.11.0", "jaxlib": "0.11.0", "jax-rocm10-pjrt": "0.11.0+rocm10.0.0"},
            "OK",
            "seen on MI300X (gfx942)",
        ),
        (
            IREE,
            {"jax": "0.12.0.1", "jaxlib": "0.12.0.1", "iree-base-compiler": "3.13.0", "iree-base-runtime": "3.12.0"},
            "FAIL",
            "compiler and runtime are pinned together",
        ),
    ],
)
def test_versions_that_go_together(p: profile.Profile, found: dict[str, str], level: str, why: str) -> None:
    judged, told = stack.judge(p, found)
    assert judged == level
    assert why in told


def test_an_install_that_swaps_jaxlib_is_caught_with_the_list(
    install: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site, saved = install({"jaxlib": "0.11.0", "jax-rocm10-pjrt": "0.11.0+rocm10.0.0"}), str(tmp_path / "before")
    assert stack.main(["save", saved]) == 0
    assert "jaxlib==0.11.0\n" in Path(saved).read_text()
    assert stack.main(["check", saved]) == 0
    (site / "jaxlib-0.11.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: jaxlib\nVersion: 0.12.0\n")
    capsys.readouterr()
    assert stack.main(["check", saved]) == 1
    assert "FAIL: the install changed the vendor's stack:\n  jaxlib: 0.11.0 -> 0.12.0\n" in capsys.readouterr().out


def test_what_was_never_there_is_not_preserved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty list equals an empty list; that proves nothing."""
    (tmp_path / "before").touch()
    assert stack.main(["check", str(tmp_path / "before")]) == 1
    assert stack.main(["check", str(tmp_path / "nowhere")]) == 1
    assert "is not known" in capsys.readouterr().err
    assert stack.main(["chekc", "x"]) == 2


def test_changes_name_what_came_and_what_went() -> None:
    assert stack.changes({"a": "1", "b": "1"}, {"b": "2", "c": "3"}) == [
        "a: 1 -> absent",
        "b: 1 -> 2",
        "c: absent -> 3",
    ]


@pytest.mark.parametrize(
    ("here", "is_older"), [("7.2.0", True), ("10.0.9-123", True), ("10.1.0", False), ("10.2", False)]
)
def test_a_system_stack_older_than_the_wheel(here: str, is_older: bool, tmp_path: Path) -> None:
    folder = tmp_path / "opt/rocm/.info"
    folder.mkdir(parents=True)
    (folder / "version").write_text(f"{here}\n")
    version = stack.system_version(ROCM, {"jax-rocm10-pjrt": "0.11.1+rocm10.1.0"}, tmp_path)
    assert version == {"here": here, "wanted": "10.1.0"}
    assert stack.older(version["here"], version["wanted"]) == is_older


def test_no_system_stack_is_no_finding(tmp_path: Path) -> None:
    assert stack.system_version(ROCM, {}, tmp_path) == {}
    assert stack.system_version(CUDA, {}, tmp_path) == {}
