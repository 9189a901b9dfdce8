"""Gate G4: a program or state that would lose something is refused, and the refusal names it."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from ladder.lowerers import check_boundary
from ladder.lowerers.protocol import DroppedState, check_state
from ladder.train.artifact import Array, Function, Program
from ladder.train.layout import initial_state


@pytest.fixture
def linear(program: Callable[[str], Program]) -> Program:
    return program("linear")


def changed(
    program: Program,
    function: str,
    inputs: Callable[[tuple[Array, ...]], tuple[Array, ...]] = lambda arrays: arrays,
    outputs: Callable[[tuple[Array, ...]], tuple[Array, ...]] = lambda arrays: arrays,
) -> Program:
    f = program.functions[function]
    return replace(program, functions={**program.functions, function: Function(inputs(f.inputs), outputs(f.outputs))})


def without(name: str) -> Callable[[tuple[Array, ...]], tuple[Array, ...]]:
    return lambda arrays: tuple(a for a in arrays if a.name != name)


def renamed(old: str, new: str) -> Callable[[tuple[Array, ...]], tuple[Array, ...]]:
    return lambda arrays: tuple(replace(a, name=new) if a.name == old else a for a in arrays)


def retyped(name: str, dtype: str) -> Callable[[tuple[Array, ...]], tuple[Array, ...]]:
    return lambda arrays: tuple(replace(a, dtype=dtype) if a.name == name else a for a in arrays)


def test_the_exported_programs_drop_nothing(program: Callable[[str], Program]) -> None:
    for net in ("linear", "mlp", "cnn"):
        check_boundary(program(net))


def test_a_step_that_forgets_a_parameter_is_refused(linear: Program) -> None:
    with pytest.raises(DroppedState, match="step returns: state:params/fc1/b is missing"):
        check_boundary(changed(linear, "step", outputs=without("state:params/fc1/b")))


def test_an_eval_that_reads_less_state_is_refused(linear: Program) -> None:
    with pytest.raises(DroppedState, match="eval reads: state:params/fc1/w is missing"):
        check_boundary(changed(linear, "eval", inputs=without("state:params/fc1/w")))


def test_a_step_that_ignores_its_weights_is_refused(linear: Program) -> None:
    with pytest.raises(DroppedState, match="step reads: batch:weight is missing"):
        check_boundary(changed(linear, "step", inputs=without("batch:weight")))


def test_a_renamed_parameter_is_refused_by_both_names(linear: Program) -> None:
    renaming = renamed("state:params/fc1/w", "state:params/fc1/kernel")
    with pytest.raises(DroppedState, match=r"params/fc1/kernel has no place; state:params/fc1/w is missing"):
        check_boundary(changed(linear, "step", outputs=renaming))


def test_an_output_without_a_destination_is_refused(linear: Program) -> None:
    extra = Array("state:opt/m/fc1/w", (784, 10), "float32")
    with pytest.raises(DroppedState, match="step returns: state:opt/m/fc1/w has no place"):
        check_boundary(changed(linear, "step", outputs=lambda arrays: (*arrays, extra)))


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_a_wrong_dtype_is_refused(linear: Program, dtype: str) -> None:
    with pytest.raises(DroppedState, match=rf"params/fc1/w is {dtype}\[784, 10\], not float32\[784, 10\]"):
        check_boundary(changed(linear, "step", outputs=retyped("state:params/fc1/w", dtype)))


def test_a_name_given_twice_is_refused(linear: Program) -> None:
    """Two outputs under one name: one of them would be lost."""
    with pytest.raises(DroppedState, match="state:step is there 2 times"):
        check_boundary(changed(linear, "step", outputs=lambda arrays: (*arrays, Array("state:step", (), "int32"))))


def test_eval_must_give_the_three_counts(linear: Program) -> None:
    with pytest.raises(DroppedState, match="eval returns: top5 is missing"):
        check_boundary(changed(linear, "eval", outputs=without("top5")))


def test_a_feed_of_another_dataset_is_refused(linear: Program) -> None:
    with pytest.raises(DroppedState, match="feed reads: labels"):
        check_boundary(changed(linear, "feed", inputs=retyped("labels", "uint8")))


def test_a_host_state_is_the_programs(linear: Program) -> None:
    state = initial_state(linear.leaves, "linear", 1)
    check_state(linear, state)
    with pytest.raises(DroppedState, match="the state holds: params/fc1/b is missing"):
        check_state(linear, {k: v for k, v in state.items() if k != "params/fc1/b"})
    with pytest.raises(DroppedState, match="stats/bn1/mean has no place"):
        check_state(linear, {**state, "stats/bn1/mean": np.zeros(3, np.float32)})
    with pytest.raises(DroppedState, match=r"params/fc1/b is float64\[10\], not float32\[10\]"):
        check_state(linear, {**state, "params/fc1/b": np.zeros(10)})
