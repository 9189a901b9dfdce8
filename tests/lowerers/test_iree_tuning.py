"""The walk over flag sets: what fails, hangs, crashes or is wrong costs that flag set only, and is told."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest

from ladder import children
from ladder.lowerers import Unsupported, probe
from ladder.lowerers.iree import compiling, flags, targets, tuning
from ladder.lowerers.iree.executable import Call, Device
from ladder.lowerers.iree.flags import FlagSet
from ladder.ties import bounds
from ladder.train.artifact import Array, Program

CPU = targets.TARGETS["llvm-cpu"]
O1, O3 = (FlagSet(level, (f"--iree-opt-level={level}",)) for level in ("O1", "O3"))

# A Python that runs this first kills the first child that tries a candidate, as bad code would.
CRASH = """
import os, signal, sys
if "ladder.lowerers.iree.candidate" in sys.orig_argv and not os.path.exists({marker!r}):
    open({marker!r}, "w").close()
    os.kill(os.getpid(), signal.SIGSEGV)
"""


def gone(pid: int) -> bool:
    """Within ten seconds; whoever inherits it may take its time to bury it."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.1)
    return False


def test_what_fails_or_crashes_costs_that_flag_set_only(
    program: Callable[[str], Program], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "sitecustomize.py").write_text(CRASH.format(marker=str(tmp_path / "crashed")))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "code"))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    said: list[str] = []
    sets = (FlagSet("unknown", ("--iree-no-such-flag",)), O3, O1)
    choice = tuning.tune(program("linear"), CPU, 0, sets, scratch, said.append)
    assert [t.outcome for t in choice.tried] == ["failed to compile", "crashed", "kept"]
    assert "Unknown command line argument" in choice.tried[0].detail or "exit" in choice.tried[0].detail
    assert choice.tried[1].detail == "SIGSEGV"
    assert choice.flag_set == "O1"
    assert choice.reason == "the fastest of 1 that agree with XLA on the CPU, of 3 flag sets"
    assert sorted(p.name for p in scratch.glob("*.vmfb")) == [
        f"{f}.vmfb" for f in ("eval", "feed", "step", "test_feed")
    ]
    assert [line.partition(":")[2].split(":")[0].strip() for line in said] == ["unknown", "O3", "O1"]


def test_code_that_overwrites_what_it_still_reads_is_found_wrong(
    program: Callable[[str], Program], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real miscompile: IREE 3.13.0 given the donated arguments that jax exports."""
    assert "tf.aliasing_output" in program("mlp").stablehlo("step")
    monkeypatch.setattr(compiling, "without_donation", lambda text: text)
    with pytest.raises(Unsupported, match=r"O1: wrong \(the update of params/fc1/[bw] is [\d.]+ of itself apart"):
        tuning.tune(program("mlp"), CPU, 0, (O1,), tmp_path, lambda _: None)


ALIASED = Path(__file__).resolve().parents[2] / "upstream" / "iree-donated-argument" / "step.mlir"


@pytest.mark.parametrize("donated", [True, False])
def test_the_smallest_text_whose_donated_argument_is_overwritten_while_it_is_read(
    donated: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the donated case fails, IREE is mended: `without_donation` can go, and the state costs half the memory."""
    if donated:
        monkeypatch.setattr(compiling, "without_donation", lambda text: text)
    module = tmp_path / "module.vmfb"
    assert compiling.compile_text(ALIASED.read_text(), module, CPU, O1.flags).error == ""
    device, four = Device(CPU, 0), [Array(name, (4, 4), "float32") for name in ("w", "x", "new", "y")]
    w, x = np.eye(4, dtype=np.float32), np.arange(16, dtype=np.float32).reshape(4, 4)
    out = Call(device, module, four[:2], four[2:])({"w": device.put(w), "x": device.put(x)})
    new = w - x @ x.T
    np.testing.assert_array_equal(device.get(out["new"]), new)
    np.testing.assert_array_equal(device.get(out["y"]), x @ (new if donated else w))


def test_no_argument_is_given_up_to_a_result(program: Callable[[str], Program]) -> None:
    text = program("mlp").stablehlo("step")
    without = compiling.without_donation(text)
    assert "aliasing" not in without
    assert without.count("tensor<") == text.count("tensor<")
    first = '%a: tensor<2xf32> {mhlo.sharding = "x", tf.aliasing_output = 0 : i32}'
    second = "%b: tensor<i32> {jax.buffer_donor = true}"
    assert (
        compiling.without_donation(f"{first}, {second}") == '%a: tensor<2xf32> {mhlo.sharding = "x"}, %b: tensor<i32>'
    )


def test_a_compiler_that_never_returns_is_killed_with_what_it_started(
    program: Callable[[str], Program], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = tmp_path / "iree-compile"
    stuck.write_text(f"#!/bin/sh\nsleep 1000 &\necho $! > {tmp_path}/child\nwait\n")
    stuck.chmod(0o755)
    monkeypatch.setattr(targets, "compiler", lambda: str(stuck))
    start = time.perf_counter()
    done = compiling.compile_text(program("linear").stablehlo("step"), tmp_path / "step.vmfb", CPU, (), 2)
    assert done.error == "killed after 2 s"
    assert time.perf_counter() - start < 30
    assert gone(int((tmp_path / "child").read_text()))


def test_a_walk_whose_time_is_over_says_so(
    program: Callable[[str], Program], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "TUNE_LIMIT_S", 0.0)
    with pytest.raises(Unsupported, match=r"no usable code .* O1: not tried \(the walk's 0 s were over\)"):
        tuning.tune(program("linear"), CPU, 0, (O1,), tmp_path, lambda _: None)


def test_a_child_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    code = (
        "import os; from ladder import children;"
        f"children.run(['/bin/sh', '-c', 'echo $$ > {tmp_path}/pid; sleep 1000'], 1000, os.environ)"
    )
    argv = [*children.command("timeit")[:2], "-c", code]
    ended = children.run(argv, 3, children.environment(os.environ))
    assert ended.code is None
    assert gone(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"step:params/fc1/w": 1.02}, "the update of params/fc1/w is 0.02 of itself apart"),
        ({"step:loss": 1.001}, "step:loss is 1.001, not 1"),
        ({"feed:weight": 0.0}, "feed:weight has other values"),
        ({"eval:correct": 5.0}, "eval:correct is 50, not 10"),
        ({"step:params/fc1/w": np.nan}, "the update of params/fc1/w"),
        ({}, ""),
    ],
)
def test_what_disagrees_is_named(program: Callable[[str], Program], change: dict[str, float], told: str) -> None:
    linear = program("linear")
    state = {f"step:{leaf.name}": np.ones(leaf.shape, leaf.dtype) for leaf in linear.leaves}
    loss, correct = np.array(1, np.float32), np.array(10, np.int32)
    right = {**state, "step:loss": loss, "feed:weight": np.ones(4, np.float32), "eval:correct": correct}
    found = {key: np.asarray(value * change.get(key, 1.0), value.dtype) for key, value in right.items()}
    assert tuning.disagreement(linear, right, found).startswith(told)
    assert bool(tuning.disagreement(linear, right, found)) == bool(told)


@pytest.mark.parametrize(
    ("name", "family", "less"), [("linear", "affine", 0.0), ("mlp", "dense", 1e-5), ("cnn", "conv", 1e-2)]
)
def test_an_update_may_be_as_far_off_as_the_ties_let_its_family_be(
    name: str, family: str, less: float, program: Callable[[str], Program]
) -> None:
    net = program(name)
    limit = bounds.find(bounds.load(), "G2", "update", "float32", family).bound
    assert less < 0.5 * limit  # what this family's bound lets pass, the stricter ones do not
    start = probe.start(net)
    right = {f"step:{leaf}": value + 1 for leaf, value in start.items()}
    for share, wrong in ((0.5, False), (2.0, True)):
        found = {f"step:{leaf}": value + np.float32(1 + share * limit) for leaf, value in start.items()}
        assert bool(tuning.disagreement(net, right, found)) == wrong


def test_flags_for_convolutions_are_tried_where_there_are_convolutions(program: Callable[[str], Program]) -> None:
    names = [one.name for one in flags.flag_sets(CPU, program("mlp").stablehlo("step"))]
    assert names == ["O1+tiling", "O1", "O3+tiling", "O3", "O2+tiling", "O2"]
    assert "O1+im2col+tiling" in [one.name for one in flags.flag_sets(CPU, "stablehlo.convolution")]


@pytest.mark.parametrize("name", ["cuda", "rocm", "vulkan-spirv"])
def test_the_pip_compiler_makes_code_for_cards_that_are_not_here(
    name: str, program: Callable[[str], Program], tmp_path: Path
) -> None:
    text = program("linear").stablehlo("step")
    done = compiling.compile_text(text, tmp_path / "step.vmfb", targets.TARGETS[name], ("--iree-opt-level=O1",))
    assert done.error == ""
    assert (tmp_path / "step.vmfb").stat().st_size > 1000


@pytest.mark.parametrize(("name", "error"), [("feed", ""), ("eval", "exceeded the limit of 32768 bytes")])
def test_for_metal_the_compiler_gives_some_matmuls_more_memory_than_there_is(
    name: str, error: str, program: Callable[[str], Program], tmp_path: Path
) -> None:
    """IREE 3.13.0: a matmul `[64, 784] x [784, 10]` after the division by 255 `uses 50304 bytes of shared memory`."""
    metal, text = targets.TARGETS["metal-spirv"], program("linear").stablehlo(name)
    done = compiling.compile_text(text, tmp_path / "out.vmfb", metal, ("--iree-opt-level=O1",))
    assert done.error.endswith(error)
    assert bool(done.error) == bool(error)


def test_an_operation_that_the_compiler_made_itself_is_said_to_be(program: Callable[[str], Program]) -> None:
    done = compiling.Compilation(1.0, "no", "tensor.unpack")
    told = compiling.unsupported(program("linear"), "step", done).message
    assert told.endswith("tensor.unpack, which IREE makes of the program's own operations, is not supported")
