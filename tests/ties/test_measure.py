"""The differences that ties are judged by, on numbers worked out by hand."""

import numpy as np
import pytest

from ladder.ties.measure import compare, worst, worst_own

BEFORE = {"params/w": np.zeros(4, np.float32), "params/b": np.ones(2, np.float32), "step": np.array(0, np.int32)}


def after(w: list[float], b: list[float], step: int = 1) -> dict[str, np.ndarray]:
    return {
        "params/w": np.array(w, np.float32),
        "params/b": np.array(b, np.float32),
        "step": np.array(step, np.int32),
    }


def test_equal_updates_are_not_apart() -> None:
    errors = compare(BEFORE, after([3, 0, 0, 4], [2, 2]), after([3, 0, 0, 4], [2, 2]))
    assert worst(errors) == 0
    assert [e.non_finite for e in errors] == [0, 0, 0]
    assert errors[0].own is None


def test_a_difference_is_measured_against_the_larger_update_worst_leaf_first() -> None:
    first, second, third = compare(BEFORE, after([3, 0, 0, 4], [2, 2]), after([3, 0, 0, 3], [1, 2]))
    assert (first.name, first.relative, first.largest) == ("params/b", pytest.approx(2**-0.5), 1.0)
    assert (second.name, second.relative, second.largest) == ("params/w", pytest.approx(1 / 5), 1 / 4)
    assert (third.name, third.relative) == ("step", 0)


def test_what_is_the_same_in_both_states_does_not_hide_a_difference_of_updates() -> None:
    before = {"w": np.full(3, 1000.0)}
    assert worst(compare(before, {"w": before["w"] + 1}, {"w": before["w"] + 1.5})) == pytest.approx(0.5 / 1.5)


def test_a_leaf_that_moves_on_one_side_only_is_one_apart() -> None:
    errors = compare(BEFORE, after([3, 0, 0, 4], [2, 2]), after([0, 0, 0, 0], [2, 2], step=0))
    assert {e.name: e.relative for e in errors} == {"params/w": 1, "params/b": 0, "step": 1}


def test_each_side_is_measured_against_the_judge() -> None:
    errors = compare(
        BEFORE, after([3, 0, 0, 4], [2, 2]), after([3, 0, 1, 4], [2, 2]), judge=after([3, 0, 0.5, 4], [2, 2])
    )
    norm = np.sqrt(9 + 0.25 + 16)
    assert errors[0].own == pytest.approx((0.5 / norm, 0.5 / norm))
    assert errors[0].relative == pytest.approx(1 / norm)
    assert worst_own(errors) == pytest.approx((0.5 / norm, 0.5 / norm))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_the_worst(bad: float) -> None:
    errors = compare(BEFORE, after([3, 0, 0, 4], [9, 9]), after([3, bad, bad, 4], [2, 2]))
    assert (errors[0].name, errors[0].non_finite, errors[0].relative) == ("params/w", 2, float("inf"))
    both = compare(BEFORE, after([bad, 0, 0, 4], [2, 2]), after([bad, 0, 0, 4], [2, 2]))
    assert (both[0].name, both[0].non_finite, both[0].relative) == ("params/w", 2, float("inf"))


def test_a_leaf_whose_update_vanishes_is_measured_against_the_whole() -> None:
    """A bias before a norm has gradient zero: what is there is rounding, and twice the rounding is no fault."""
    errors = compare(BEFORE, after([3, 0, 0, 4], [1 + 2e-7, 1]), after([3, 0, 0, 4], [1, 1]))
    assert worst(errors) < 1e-7


def test_a_missing_leaf_is_an_error() -> None:
    with pytest.raises(KeyError):
        compare(BEFORE, BEFORE, {k: v for k, v in BEFORE.items() if k != "step"})
