"""The xla lowerer: the device that was asked for or an error, and compiled code found again by the next process."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ladder.errors import LadderError
from ladder.lowerers import Executable, Lowerer, Unsupported, make
from ladder.train.artifact import Program

REPO = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("platform", ["cuda", "gpu", "rocm", "tpu", "nonsense"])
def test_a_platform_that_is_not_there_is_an_error_and_never_the_cpu(platform: str) -> None:
    with pytest.raises(LadderError, match=f"jax platform '{platform}' did not start"):
        make("xla", platform)


@pytest.mark.parametrize("device", [1, 99, -1])
def test_a_device_that_is_not_there_is_an_error_and_never_another_one(device: int) -> None:
    with pytest.raises(LadderError, match=f"has 1 devices; there is no device {device}"):
        make("xla", "cpu", device)


def test_an_unknown_lowerer_is_told_the_lowerers() -> None:
    with pytest.raises(LadderError, match="there is no lowerer 'tvm'; the lowerers are: xla, iree"):
        make("tvm", "cpu")


def test_a_cache_that_cannot_be_written_is_an_error_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("LADDER_CACHE", str(tmp_path / "file"))
    with pytest.raises(LadderError, match="cannot be written"):
        make("xla", "cpu")


def test_the_device_is_described(xla: Lowerer) -> None:
    told = xla.describe()
    assert told["device"] == "cpu:0"
    assert told["runtime"].startswith("jax ")
    assert set(told) == {"device", "device_kind", "runtime", "platform_version"}


def test_a_program_for_another_platform_is_unsupported(xla: Lowerer, program: Callable[[str], Program]) -> None:
    with pytest.raises(Unsupported, match="is for cuda, this lowerer is on cpu"):
        xla.compile(replace(program("linear"), platform="cuda"))


def test_a_copy_from_the_device_is_the_callers(compiled: Callable[[str], Executable]) -> None:
    exe = compiled("linear")
    on_device = exe.put(np.zeros(4, np.float32))
    host = exe.get(on_device)
    host[:] = 1
    assert not exe.get(on_device).any()


def test_a_step_leaves_the_host_arrays_it_came_from_alone(
    program: Callable[[str], Program], compiled: Callable[[str], Executable]
) -> None:
    """The state passed in is consumed on the device; the host array that was put there stays the caller's."""
    exe, rng = compiled("linear"), np.random.default_rng(0)
    host = {leaf.name: np.zeros(leaf.shape, leaf.dtype) for leaf in program("linear").leaves}
    batch = {
        "image": exe.put(rng.integers(0, 256, (16, 28, 28, 1), np.uint8)),
        "label": exe.put(np.arange(16, dtype=np.int32) % 10),
        "weight": exe.put(np.ones(16, np.float32)),
    }
    state = {name: exe.put(value) for name, value in host.items()}
    for _ in range(3):
        state, _ = exe.step(state, batch, np.float32(0.1), np.zeros(2, np.uint32))
    assert exe.get(state["params/fc1/w"]).any()
    assert not any(value.any() for value in host.values())


def test_a_second_process_finds_the_compiled_code(
    tmp_path: Path, program: Callable[[str], Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LADDER_CACHE", str(tmp_path))
    code = (
        "import json, sys; from pathlib import Path;"
        "from ladder.lowerers import make; from ladder.train import artifact;"
        "exe = make('xla', 'cpu').compile(artifact.read(Path(sys.argv[1])));"
        "print(json.dumps(dict(exe.compiled.cached)))"
    )

    def compile_once() -> dict[str, bool]:
        folder = str(program("linear").folder)
        out = subprocess.run([sys.executable, "-c", code, folder], cwd=REPO, check=True, capture_output=True, text=True)
        return json.loads(out.stdout)

    names = ("feed", "test_feed", "step", "eval")
    assert compile_once() == dict.fromkeys(names, False)
    assert compile_once() == dict.fromkeys(names, True)
