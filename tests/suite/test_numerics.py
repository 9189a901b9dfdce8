"""Errors against float64, tolerances, and differences that are documented."""

import numpy as np
import pytest

from ladder.errors import LadderError
from ladder.suite.numerics import Difference, OutputError, bounds, compare, judge

ALLOWED = {"l2": 1e-3, "largest": 1e-2}
KNOWN = Difference("iree-cpu", "reductions-bf16", "y", 0.5, 0.2, "sums are in bfloat16")
RIGHT = {"y": np.array([3.0, 4.0])}


def test_errors_are_relative() -> None:
    (e,) = compare({"y": np.array([3.0, 4.5], np.float32)}, RIGHT)
    assert (e.l2, e.largest) == (0.1, 0.125)


def test_whole_numbers_are_counted() -> None:
    (e,) = compare({"y": np.array([1, 2, 3, 9], np.int32)}, {"y": np.array([1, 2, 3, 4])})
    assert e.l2 == 0.25


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_fails_and_is_counted(value: float) -> None:
    found = judge(compare({"y": np.array([3.0, value], np.float32)}, RIGHT), {"l2": 1e9, "largest": 1e9}, ())
    assert found.status == "fail"
    assert "1 values that are not finite" in found.detail


@pytest.mark.parametrize("found", [{}, {"y": np.zeros(2), "z": np.zeros(2)}, {"y": np.zeros(3)}])
def test_outputs_and_shapes_must_be_the_same(found: dict[str, np.ndarray]) -> None:
    with pytest.raises(ValueError, match="output"):
        compare(found, RIGHT)


@pytest.mark.parametrize(("l2", "largest", "status"), [(9e-4, 9e-3, "pass"), (2e-3, 0, "fail"), (0, 2e-2, "fail")])
def test_either_metric_fails_a_test(l2: float, largest: float, status: str) -> None:
    assert judge([OutputError("y", l2, largest)], ALLOWED, ()).status == status


def test_what_must_be_exact_must_be_exact() -> None:
    exact = {"l2": 0.0, "largest": 0.0}
    assert judge([OutputError("y", 0.0, 0.0)], exact, ()).status == "pass"
    assert judge([OutputError("y", 1e-9, 1e-9)], exact, ()).status == "fail"


def test_a_documented_difference_passes_and_is_told() -> None:
    found = judge([OutputError("y", 0.2, 0.2), OutputError("z", 1e-4, 1e-4)], ALLOWED, (KNOWN,))
    assert found.status == "pass"
    assert "documented difference: y 0.2 (sums are in bfloat16)" in found.detail


@pytest.mark.parametrize(
    ("l2", "told"), [(0.6, "more than its documented difference"), (1e-4, "the documented difference is gone")]
)
def test_a_documented_difference_is_strict_both_ways(l2: float, told: str) -> None:
    found = judge([OutputError("y", l2, l2)], ALLOWED, (KNOWN,))
    assert found.status == "fail"
    assert told in found.detail


def test_a_difference_of_no_output_fails() -> None:
    assert "no output" in judge([OutputError("z", 0.0, 0.0)], ALLOWED, (KNOWN,)).detail


def test_a_missing_tolerance_is_no_pass() -> None:
    with pytest.raises(LadderError, match="no tolerance was measured for pooling"):
        bounds("operator", "pooling", "float32", "cpu")
