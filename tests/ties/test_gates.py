"""Each gate's line goes red for what it is there to catch, on traces written by hand."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ladder.errors import LadderError
from ladder.ties.bounds import Bound, find, load
from ladder.ties.calibrate import CATCHES, rounded, text
from ladder.ties.gates import Line, lines, measure
from ladder.ties.side import CURVE, EXAMPLES, UPDATES, Trace

Make = Callable[..., Trace]


def made(gate: str, metric: str, bound: float = 1e-3) -> Bound:
    return Bound(gate, metric, "float32", "dot", bound, bound / 3, "mlp", 5, "tf32", bound * 9, "box", "day", "jax")


BOUNDS = tuple(made(*key, bound=0.75 if key == ("G3", "fall") else 1e-3) for key in CATCHES)


@pytest.fixture
def trace(tmp_path: Path) -> Make:
    """trace(...): a side that learns; what is named is replaced."""

    def write(name: str, scale: float = 1.0, **replaced: Any) -> Trace:
        arrays: dict[str, Any] = {f"{k}:params/w": np.arange(1.0, 5) * (1 + scale * k) for k in range(1, UPDATES + 1)}
        arrays["0:params/w"] = np.arange(1.0, 5)
        arrays["losses"] = np.linspace(2.3, 0.4, CURVE)
        arrays["evals"] = np.ones((1 + EXAMPLES, 3)) * [90, 99, 1.5]
        arrays["again"] = np.array(0.0)
        arrays |= replaced
        np.savez(tmp_path / f"{name}.npz", **arrays)
        return Trace(tmp_path / f"{name}.npz")

    return write


def red(a: Trace, b: Trace, judge: Trace | None = None) -> list[str]:
    return [
        f"{line.gate} {line.metric}"
        for line in lines(measure(a, b, judge), BOUNDS, "float32", "dot")
        if not line.passed
    ]


def test_equal_sides_pass_every_gate(trace: Make) -> None:
    found = lines(measure(trace("a"), trace("b"), trace("judge")), BOUNDS, "float32", "dot")
    assert [(line.gate, line.metric) for line in found] == [
        *(("G2", "control"), ("G1", "example"), ("G1", "loss"), ("G1", "images")),
        *(("G2", "update"), ("G2", "curve"), ("G3", "fall")),
    ]
    assert all(line.passed for line in found)


def evals(change: Callable[[np.ndarray], None]) -> np.ndarray:
    table = np.ones((1 + EXAMPLES, 3)) * [90, 99, 1.5]
    change(table)
    return table


def test_each_gate_is_red_for_its_own(trace: Make) -> None:
    a = trace("a")
    assert red(a, trace("b", 1.01)) == ["G2 update"]
    assert red(a, trace("b", again=np.array(0.01))) == ["G2 control"]
    assert red(a, trace("b", evals=evals(lambda t: t.__setitem__((2, 2), 1.51)))) == ["G1 example"]
    assert red(a, trace("b", evals=evals(lambda t: t.__setitem__((0, 2), 1.51)))) == ["G1 loss"]
    assert red(a, trace("b", evals=evals(lambda t: t.__setitem__((0, 0), 92)))) == ["G1 images"]
    assert red(a, trace("b", evals=evals(lambda t: t.__setitem__((0, 0), 91)))) == []
    assert red(a, trace("b", losses=np.linspace(2.3, 0.5, CURVE))) == ["G2 curve"]
    flat = np.full(CURVE, 2.3)
    assert red(trace("a", losses=flat), trace("b", losses=flat)) == ["G3 fall"]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_red_on_both_sides_too(trace: Make, bad: float) -> None:
    losses = np.linspace(2.3, 0.4, CURVE)
    losses[50:] = bad
    ways = {"losses": losses, "evals": evals(lambda t: t.__setitem__(slice(None), bad)), "5:params/w": np.full(4, bad)}
    for name, value in ways.items():
        assert red(trace("a", **{name: value}), trace("b", **{name: value}))


def test_sides_that_are_wrong_alike_are_caught_by_the_judge(trace: Make) -> None:
    a, b = trace("a", 1.01), trace("b", 1.01)
    assert red(a, b) == []
    assert red(a, b, trace("judge")) == ["G2 update"]


def test_a_short_curve_has_no_line_for_the_fall(trace: Make) -> None:
    short = np.linspace(2.3, 2.2, CURVE - 1)
    found = lines(measure(trace("a", losses=short), trace("b", losses=short), None), BOUNDS, "float32", "dot")
    assert "G3" not in [line.gate for line in found]


def test_not_a_number_is_beyond_any_bound() -> None:
    assert not Line("G2", "update", float("nan"), 1.0, "").passed


def test_a_bound_that_was_not_measured_is_told() -> None:
    with pytest.raises(LadderError, match="no bound was measured for G2 update, bfloat16 dot programs"):
        find(BOUNDS, "G2", "update", "bfloat16", "dot")


def test_bounds_are_written_and_read_back(tmp_path: Path) -> None:
    (tmp_path / "bounds.toml").write_text(text(BOUNDS))
    assert load(tmp_path / "bounds.toml") == BOUNDS


def test_a_bound_that_its_own_fault_does_not_reach_is_refused(tmp_path: Path) -> None:
    loose = replace(BOUNDS[0], bound=1.0)
    (tmp_path / "bounds.toml").write_text(text([loose]))
    with pytest.raises(LadderError, match="below what the smallest fault moves"):
        load(tmp_path / "bounds.toml")


def test_bounds_are_rounded_up_to_two_digits() -> None:
    assert [rounded(x) for x in (1.23e-5, 9.99e-7, 2e-3, 0.101)] == [1.3e-5, 1e-6, 2e-3, 0.11]


def test_every_metric_has_a_shipped_bound_for_every_family() -> None:
    shipped = load()
    for family in ("affine", "dense", "conv"):
        assert {(b.gate, b.metric) for b in shipped if b.family == family} == set(CATCHES)
    assert min(b.n for b in shipped) >= 5
