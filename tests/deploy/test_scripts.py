"""The set-up scripts: a dry run does nothing, the wrong box is refused in words, a vendor's stack survives."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from platforms import profile
from tests.conftest import REPO

Run = Callable[..., subprocess.CompletedProcess[str]]
FAKE_TOOL = """#!/bin/sh
echo '{"card0": {"Card Series": "a card"}, "system": {"Driver version": "6.10.5"}}'
"""
VENDOR_PYTHON = """#!/bin/sh
# A vendor's Python: its own site folder, and a pip that only logs, then does what the test wants done.
case "$*" in
    *"-m pip"*) echo "$*" >>{log}; {pip} ;;
    *"-m ladder.cli"*) echo "$*" >>{log} ;;
    *) PYTHONPATH={site} exec {python} "$@" ;;
esac
"""


@pytest.fixture
def script(tmp_path: Path) -> Run:
    """script("rocm", "--dry-run"): the script run with a PATH of its own."""

    def run(name: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join((str(tmp_path), str(Path(sys.executable).parent), os.environ["PATH"]))
        command = ["bash", str(REPO / "deploy" / f"{name}.sh"), *arguments]
        environ = {**os.environ, "PATH": path, **env}
        return subprocess.run(
            command, capture_output=True, text=True, timeout=100, env=environ, cwd=tmp_path, check=False
        )

    return run


@pytest.fixture
def amd(tmp_path: Path) -> None:
    """This box has a card, as its vendor's tool tells."""
    (tmp_path / "rocm-smi").write_text(FAKE_TOOL)
    (tmp_path / "rocm-smi").chmod(0o755)


@pytest.fixture
def vendor(tmp_path: Path, amd: None) -> Callable[[str], tuple[Path, Path]]:
    """vendor(what pip does): a vendor's Python, and the log of what it was asked."""

    def make(pip: str) -> tuple[Path, Path]:
        site, log, file = tmp_path / "site", tmp_path / "log", tmp_path / "vendor-python"
        info = site / "jaxlib-0.11.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: jaxlib\nVersion: 0.11.0\n")
        file.write_text(VENDOR_PYTHON.format(site=site, log=log, python=sys.executable, pip=pip.format(info=info)))
        file.chmod(0o755)
        return file, log

    return make


@pytest.mark.parametrize("name", profile.names())
def test_every_script_has_help_and_refuses_what_it_does_not_know(name: str, script: Run) -> None:
    told = script(name, "--help")
    assert told.returncode == 0
    assert told.stdout.startswith(f"usage: bash deploy/{name}.sh [--dry-run]")
    refused = script(name, "--bogus")
    assert refused.returncode == 2
    assert refused.stderr == (
        f"error: '--bogus' is no option of deploy/{name}.sh\n  next: bash deploy/{name}.sh --help\n"
    )


@pytest.mark.parametrize("name", [n for n in profile.names() if not n.endswith("cpu")])
def test_the_wrong_box_is_refused_in_words(name: str, script: Run) -> None:
    refused = script(name, "--dry-run")
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"error: this box is not {name}: ")
    assert refused.stderr.endswith("  next: ladder doctor\n")
    assert refused.stdout == ""


@pytest.mark.parametrize("name", ["cpu", "iree-cpu"])
def test_a_dry_run_prints_and_does_nothing(name: str, script: Run) -> None:
    told = script(name, "--dry-run")
    assert (told.returncode, told.stderr) == (0, "")
    lines = told.stdout.splitlines()
    assert lines[0].startswith(f"this box is {name}: ")
    assert all(line.startswith("+ ") for line in lines[1:])
    assert lines[-1].endswith(f"-m ladder.cli doctor --platform {name}")


def test_a_plugin_without_its_vendors_libraries_is_refused(amd: None, script: Run, tmp_path: Path) -> None:
    refused = script("rocm", "--dry-run", ROCM_PATH=str(tmp_path / "none"))
    assert refused.returncode == 2
    assert "the published plugin brings no ROCm libraries" in refused.stderr
    assert "holds no wheel" in script("rocm", "--dry-run", "--wheels", str(tmp_path)).stderr
    (tmp_path / "some-1-py3-none-any.whl").touch()
    assert "jaxlib==0.11.1 " in script("rocm", "--dry-run", "--wheels", str(tmp_path)).stdout


def test_a_dry_run_of_a_card_names_the_versions_seen_together(amd: None, script: Run, tmp_path: Path) -> None:
    told = script("rocm", "--dry-run", ROCM_PATH=str(tmp_path))
    assert "jax==0.11.1 jaxlib==0.11.1 jax-rocm10-plugin==0.11.1 jax-rocm10-pjrt==0.11.1" in told.stdout


def test_a_vendors_stack_that_is_kept_is_said_to_be(vendor: Callable[[str], tuple[Path, Path]], script: Run) -> None:
    python, log = vendor("true")
    told = script("rocm", "--python", str(python))
    assert told.returncode == 0, told.stderr
    assert "the stack is the one there was" in told.stdout
    install, examined = log.read_text().splitlines()
    assert install.startswith("-m pip install --constraint ")
    assert examined == "-m ladder.cli doctor --platform rocm"


def test_an_install_that_swaps_the_vendors_jaxlib_is_a_failure_with_the_list(
    vendor: Callable[[str], tuple[Path, Path]], script: Run
) -> None:
    python, log = vendor("sed -i s/0.11.0/0.12.0/ {info}/METADATA")
    told = script("rocm", "--python", str(python))
    assert told.returncode == 2
    assert "FAIL: the install changed the vendor's stack:\n  jaxlib: 0.11.0 -> 0.12.0\n" in told.stdout
    assert "the install changed the vendor's stack, as listed above" in told.stderr
    assert "doctor" not in log.read_text()


def test_an_install_that_fails_beside_a_vendors_stack_is_told(
    vendor: Callable[[str], tuple[Path, Path]], script: Run
) -> None:
    python, _ = vendor("exit 1")
    told = script("rocm", "--python", str(python))
    assert told.returncode == 2
    assert "error: Ladder does not install beside this stack" in told.stderr


@pytest.mark.skipif(
    shutil.which("shellcheck") is None, reason="shellcheck is not installed (apt-get install shellcheck)"
)
def test_shellcheck_finds_nothing() -> None:
    files = sorted(map(str, (REPO / "deploy").glob("*.sh")))
    done = subprocess.run(["shellcheck", "-x", *files], capture_output=True, text=True, cwd=REPO, check=False)
    assert (done.returncode, done.stdout) == (0, "")
