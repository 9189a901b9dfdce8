"""A vendor's tool has seven answers, each told apart; a box is known by its tool or its device files, with why."""

import time
from pathlib import Path

import pytest

from platforms import detect, profile
from platforms.detect import Answer
from platforms.detect import detect as detected
from tests.platforms.conftest import SAID, Fake, says

CUDA, TEGRA, ROCM, XPU = (profile.load(name) for name in ("cuda-desktop", "cuda-tegra", "rocm", "xpu"))


def answer(script: str | None, fake: Fake) -> Answer:
    if script is not None:
        fake("nvidia-smi", script)
    tool = CUDA.detect.tools[0]
    return detect.read(tool, detect.ask(tool))


@pytest.mark.parametrize(
    ("script", "state", "reason"),
    [
        (None, "absent", "nvidia-smi is not installed"),
        ("echo no driver >&2; exit 9", "failed", "nvidia-smi ended with exit code 9: no driver"),
        ("kill -SEGV $$", "failed", "nvidia-smi ended with signal SIGSEGV"),
        ("exit 0", "empty", "nvidia-smi ended well but printed nothing"),
        (
            "echo '<html>busy</html>'",
            "garbage",
            "nvidia-smi printed what this profile cannot read: '<html>busy</html>'",
        ),
        ("head -c 300 /dev/urandom", "garbage", "nvidia-smi printed what this profile cannot read: "),
        ("echo No devices were found; exit 6", "no-device", "nvidia-smi lists no device"),
        (says(SAID["nvidia-smi"]), "devices", "nvidia-smi lists 2 x NVIDIA GeForce RTX 4090, driver 580.159.04"),
    ],
)
def test_every_answer_of_a_tool_is_told_apart(script: str | None, state: str, reason: str, fake: Fake) -> None:
    told = answer(script, fake)
    assert told.state == state
    assert told.reason.startswith(reason)


def test_a_tool_that_hangs_is_killed_with_what_it_started(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detect, "TOOL_S", 0.5)
    start = time.monotonic()
    told = answer(f"sleep 120 & echo $! > {tmp_path}/pid; wait", fake)
    assert told.state == "hanging"
    assert time.monotonic() - start < 10
    pid = (tmp_path / "pid").read_text().strip()
    for _ in range(100):
        state = Path(f"/proc/{pid}/stat")
        if not state.exists() or state.read_text().split()[2] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("the tool's child outlived it")


def test_a_file_that_cannot_be_run_is_a_failure_not_an_absence(fake: Fake) -> None:
    fake("nvidia-smi", "").write_bytes(b"\x7fELF nonsense")
    told = detect.read(CUDA.detect.tools[0], detect.ask(CUDA.detect.tools[0]))
    assert told.state == "failed"


@pytest.mark.parametrize(
    ("name", "tool", "device", "driver"),
    [
        ("cuda-desktop", "nvidia-smi", "NVIDIA GeForce RTX 4090", "580.159.04"),
        ("iree-cuda", "nvidia-smi", "NVIDIA GeForce RTX 4090", "580.159.04"),
        ("rocm", "rocm-smi", "AMD Radeon RX 7900 XTX", "6.10.5"),
        ("rocm", "amd-smi", "AMD Instinct MI300X", "6.10.5"),
        ("iree-rocm", "rocm-smi", "AMD Radeon RX 7900 XTX", "6.10.5"),
        ("xpu", "xpu-smi", "Intel(R) Arc(TM) Pro B50 Graphics", ""),
        ("metal", "system_profiler", "Apple M1", ""),
    ],
)
def test_every_vendors_tool_is_read(
    name: str, tool: str, device: str, driver: str, fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(tool, says(SAID[tool]))
    monkeypatch.setattr("platform.system", lambda: "Darwin" if name == "metal" else "Linux")
    found = detected(profile.load(name), root=tmp_path)
    assert found.found
    assert found.devices[0].name == device
    assert found.driver == driver


def test_a_tool_that_prints_for_ever_is_left_after_its_first_line(fake: Fake, tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nv_tegra_release").touch()
    line = "RAM 2000/7620MB (lfb 4x4MB) SWAP 0/0MB CPU [1%@729] GR3D_FREQ 0% cpu@45C"
    fake("tegrastats", f"while :; do echo '{line}'; sleep 0.1; done")
    found = detected(TEGRA, root=tmp_path)
    assert (found.found, found.devices[0].memory) == (True, "7620MB")
    assert found.answers[0].state == "absent"


def test_a_jetson_is_not_a_desktop_and_the_reverse(tmp_path: Path, fake: Fake) -> None:
    fake("nvidia-smi", says("Orin (nvgpu), 540.4.0, [N/A]\n"))
    assert detected(TEGRA, root=tmp_path).reason == "there is no /etc/nv_tegra_release"
    assert detected(CUDA, root=tmp_path).found
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nv_tegra_release").touch()
    assert detected(TEGRA, root=tmp_path).driver == "540.4.0"
    assert detected(CUDA, root=tmp_path).reason == "/etc/nv_tegra_release is here: another platform's"


@pytest.mark.parametrize(("name", "file"), [("rocm", "dev/kfd"), ("cuda-desktop", "dev/nvidia0")])
def test_device_files_do_where_the_tool_is_absent_or_sick(name: str, file: str, tmp_path: Path, fake: Fake) -> None:
    p = profile.load(name)
    (tmp_path / "dev").mkdir()
    assert not detected(p, root=tmp_path).found
    (tmp_path / file).touch()
    found = detected(p, root=tmp_path)
    assert found.found
    assert "is here" in found.reason
    assert not found.sick
    fake(p.detect.tools[0].command[0], "exit 9")
    assert [a.state for a in detected(p, root=tmp_path).sick] == ["failed"]


def test_another_system_is_not_asked(tmp_path: Path) -> None:
    assert detected(profile.load("metal"), root=tmp_path).reason == "this is Linux, not Darwin"


def test_tools_are_asked_once_and_side_by_side(fake: Fake, tmp_path: Path) -> None:
    """Three profiles read nvidia-smi; the four tools each sleep a second."""
    for name in ("nvidia-smi", "rocm-smi", "amd-smi", "xpu-smi"):
        fake(name, f"echo x >> {tmp_path}/calls-{name}; sleep 1")
    start = time.monotonic()
    ask = detect.ask_all(profile.load_all())
    assert time.monotonic() - start < 3.5
    for p in (CUDA, TEGRA, ROCM, XPU, profile.load("iree-cuda")):
        detected(p, ask, tmp_path)
    assert (tmp_path / "calls-nvidia-smi").read_text() == "x\n"


def test_a_secret_that_a_tool_prints_is_not_told(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even the half of it that fits in a message."""
    monkeypatch.setenv("HF_TOKEN", "hf_" + "s3cret" * 40)
    told = answer('echo "error: $HF_TOKEN"', fake)
    assert told.state == "garbage"
    assert "s3cret" not in told.reason
    assert "***" in told.reason
