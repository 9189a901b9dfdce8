"""Each fault does what it says, so that a detector that misses one is at fault itself."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from ladder.data.identity import Arrays
from ladder.errors import LadderError
from ladder.lowerers import Executable, Lowerer, make
from ladder.lowerers.faulty import FAULTS, Faulty, parse, round_mantissa
from ladder.train.artifact import Program
from ladder.train.layout import initial_state

REPO = Path(__file__).resolve().parents[2]
Host = dict[str, np.ndarray]
KEY = np.zeros(2, np.uint32)


@pytest.fixture
def faulty(xla: Lowerer, program: Callable[[str], Program]) -> Callable[[str], Executable]:
    """faulty(fault): the mlp with that fault."""
    return lambda fault: Faulty(xla, fault).compile(program("mlp"))


def run(exe: Executable, state: Host, learnable: Arrays, steps: int = 1) -> tuple[Host, list[float]]:
    """The host state after some steps, and their losses."""
    images, labels = exe.put(learnable.train_images), exe.put(learnable.train_labels.astype(np.int32))
    on_device = {name: exe.put(value) for name, value in state.items()}
    losses: list[float] = []
    for k in range(steps):
        batch = exe.feed(images, labels, np.arange(16 * k, 16 * k + 16, dtype=np.int32), {})
        on_device, metrics = exe.step(on_device, batch, np.float32(0.1), KEY)
        losses.append(float(exe.get(metrics["loss"])))
    return {name: exe.get(value) for name, value in on_device.items()}, losses


@pytest.fixture
def state(program: Callable[[str], Program]) -> Host:
    return initial_state(program("mlp").leaves, "mlp", 1)


@pytest.fixture
def clean(compiled: Callable[[str], Executable], state: Host, learnable: Arrays) -> Host:
    return run(compiled("mlp"), state, learnable)[0]


def params(state: Host) -> Host:
    return {name: v for name, v in state.items() if name.startswith("params/")}


def test_a_scaled_gradient_scales_every_update(
    faulty: Callable[[str], Executable], state: Host, clean: Host, learnable: Arrays
) -> None:
    bad, _ = run(faulty("scaled-gradient=1.5"), state, learnable)
    for name, before in params(state).items():
        np.testing.assert_allclose(bad[name] - before, 1.5 * (clean[name] - before), rtol=1e-3, atol=3e-8)
    assert bad["step"] == 1


def test_a_stale_parameter_stays_and_the_others_move(
    faulty: Callable[[str], Executable], state: Host, clean: Host, learnable: Arrays
) -> None:
    bad, _ = run(faulty("stale=fc2/w"), state, learnable)
    differs = [name for name in clean if not np.array_equal(bad[name], clean[name])]
    assert differs == ["params/fc2/w"]
    np.testing.assert_array_equal(bad["params/fc2/w"], state["params/fc2/w"])


def test_a_swapped_kernels_update_is_flipped(
    faulty: Callable[[str], Executable], state: Host, clean: Host, learnable: Arrays
) -> None:
    bad, _ = run(faulty("swapped=fc3/w"), state, learnable)
    assert [name for name in clean if not np.array_equal(bad[name], clean[name])] == ["params/fc3/w"]
    before = state["params/fc3/w"]
    update = clean["params/fc3/w"] - before
    np.testing.assert_allclose(bad["params/fc3/w"] - before, update[::-1], atol=2e-8)


def test_one_ulp_moves_every_parameter_by_one_unit_in_the_last_place(
    faulty: Callable[[str], Executable], state: Host, clean: Host, learnable: Arrays
) -> None:
    bad, _ = run(faulty("ulp"), state, learnable)
    for name, value in params(clean).items():
        apart = abs(bad[name].view(np.int32).astype(np.int64) - value.view(np.int32))
        assert set(np.unique(apart[value != 0])) == {1}, name


@pytest.mark.parametrize(("fault", "bits"), [("bf16", 7), ("tf32", 10)])
def test_rounded_operands_change_the_loss_and_not_the_stored_parameters(
    faulty: Callable[[str], Executable],
    compiled: Callable[[str], Executable],
    state: Host,
    learnable: Arrays,
    fault: str,
    bits: int,
) -> None:
    bad, losses = run(faulty(fault), state, learnable)
    rounded = {k: round_mantissa(v, bits) if k.startswith("params/") else v for k, v in state.items()}
    after, expected = run(compiled("mlp"), rounded, learnable)
    assert losses == expected
    assert losses != run(compiled("mlp"), state, learnable)[1]
    for name, before in params(state).items():
        np.testing.assert_array_equal(bad[name], before + (after[name] - rounded[name]))


def test_rounded_operands_reach_eval(
    faulty: Callable[[str], Executable], compiled: Callable[[str], Executable], state: Host, learnable: Arrays
) -> None:
    def loss_sum(exe: Executable, host: Host) -> float:
        idx = np.arange(64, dtype=np.int32)
        labels = exe.put(learnable.test_labels.astype(np.int32))
        batch = exe.test_feed(exe.put(learnable.test_images), labels, idx, {})
        return float(exe.get(exe.eval({k: exe.put(v) for k, v in host.items()}, batch)[2]))

    assert loss_sum(faulty("bf16"), state) != loss_sum(compiled("mlp"), state)
    assert loss_sum(faulty("ulp"), state) == loss_sum(compiled("mlp"), state)


def test_a_bf16_state_is_stored_with_seven_bits(
    faulty: Callable[[str], Executable], state: Host, clean: Host, learnable: Arrays
) -> None:
    bad, _ = run(faulty("bf16-state"), state, learnable)
    for name, value in params(clean).items():
        np.testing.assert_array_equal(bad[name], value.astype(ml_dtypes.bfloat16).astype(np.float32))


def test_a_nan_comes_at_its_step_of_each_trial(
    faulty: Callable[[str], Executable], state: Host, learnable: Arrays
) -> None:
    """The step is the trial's own: the second trial on a worker, and one resumed before that step, meet it too."""
    exe = faulty("nan=3")
    for _ in range(2):
        _, losses = run(exe, state, learnable, 5)
        assert np.isfinite(losses).tolist() == [True, True, True, False, False]
    _, losses = run(exe, {**state, "step": np.array(2, np.int32)}, learnable, 3)
    assert np.isfinite(losses).tolist() == [True, False, False]


def test_an_abort_ends_the_process_with_its_signal(program: Callable[[str], Program]) -> None:
    code = (
        "import sys; from pathlib import Path; import numpy as np; from ladder.lowerers import make;"
        "from ladder.train import artifact; from ladder.train.layout import initial_state;"
        "p = artifact.read(Path(sys.argv[1])); exe = make('xla', 'cpu', fault='abort=1').compile(p);"
        "state = {k: exe.put(v) for k, v in initial_state(p.leaves, 'linear', 1).items()};"
        "exe.step(state, {}, np.float32(0.1), np.zeros(2, np.uint32))"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(program("linear").folder)], cwd=REPO, env={**os.environ})
    assert ended.returncode == -signal.SIGABRT


def test_a_fault_is_in_the_lowerers_name() -> None:
    assert make("xla", "cpu", fault="scaled-gradient=1.05").name == "faulty(xla, scaled-gradient=1.05)"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("gremlin", "there is no fault 'gremlin'; the faults are: scaled-gradient, "),
        ("", "there is no fault ''"),
        ("nan", "write nan=STEP"),
        ("stale=", "write stale=PARAMETER"),
        ("ulp=3", "fault ulp takes no value"),
        ("scaled-gradient=much", "'much' is no factor"),
        ("scaled-gradient=nan", "'nan' is no factor"),
        ("scaled-gradient=inf", "'inf' is no factor"),
        ("hang=soon", "'soon' is no step"),
        ("nan=0", "'0' is no step"),
        ("abort=-3", "'-3' is no step"),
    ],
)
def test_a_fault_that_cannot_be_is_told_why(text: str, told: str) -> None:
    with pytest.raises(LadderError, match=told):
        parse(text)


def test_a_parameter_that_the_program_lacks_is_told_the_parameters(
    xla: Lowerer, program: Callable[[str], Program]
) -> None:
    with pytest.raises(LadderError, match="stale=fc9/w: no such parameter; the program has: fc1/b, fc1/w"):
        Faulty(xla, "stale=fc9/w").compile(program("linear"))


def test_every_fault_is_tested_here() -> None:
    assert set(FAULTS) == {
        *("scaled-gradient", "stale", "swapped", "ulp", "tf32", "bf16", "bf16-state", "nan", "hang", "abort"),
    }


def test_rounding_is_bfloat16s_for_every_kind_of_number() -> None:
    words = np.random.default_rng(0).integers(0, 1 << 32, 100_000, np.uint32)
    special = [0, 0x80000000, 0x7F800000, 0xFF800000, 0x7F7FFFFF, 1, 0x00800000, 0x3F808000, 0x3F818000, 0x3F808001]
    x = np.concatenate([words, np.array(special, np.uint32)]).view(np.float32)
    finite = x[~np.isnan(x)]
    with np.errstate(over="ignore"):
        expected = finite.astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(round_mantissa(finite, 7).view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("bits", [7, 10])
@pytest.mark.parametrize("word", [0x7FC00000, 0x7F800001, 0xFFFFFFFF, 0xFF800001, 0x7FFFFFFF])
def test_rounding_keeps_a_nan_a_nan(word: int, bits: int) -> None:
    assert np.isnan(round_mantissa(np.array([word], np.uint32).view(np.float32), bits)).all()


def test_tf32_rounds_to_nearest_even_in_ten_bits() -> None:
    one, unit = np.float32(1), np.float32(2.0**-10)
    x = np.array([one + unit / 2, one + 3 * unit / 2, one + unit / 2 + unit / 64, -one - unit / 2], np.float32)
    np.testing.assert_array_equal(round_mantissa(x, 10), [1, 1 + 2 * unit, 1 + unit, -1])
    assert round_mantissa(np.zeros((3, 0), np.float32), 10).shape == (3, 0)
