"""How far two updates are apart, leaf by leaf. NumPy only."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

State = Mapping[str, np.ndarray]
VANISHING = (
    1e-5  # of the whole update's largest element; a leaf below it is rounding, and is measured against the whole
)


@dataclass(frozen=True)
class LeafError:
    """The difference of two updates of one leaf of the state. Ratios, so without a unit; infinite when not finite.

    `relative` is the L2 norm of the difference over that of the update, `largest` the largest element of the difference
    over that of the update, `non_finite` how many values of either side are. `own` is the relative error of each
    side against the judge, where there is one.
    """

    name: str
    relative: float
    largest: float
    non_finite: int
    own: tuple[float, float] | None = None

    @classmethod
    def rank(cls, error: Self) -> tuple[int, float, float]:
        """Worst first: what is not finite, then the relative difference."""
        return -error.non_finite, -error.relative, -error.largest


def compare(before: State, after_a: State, after_b: State, judge: State | None = None) -> tuple[LeafError, ...]:
    """The differences between the updates `after_a - before` and `after_b - before`, worst leaf first.

    All are by leaf name, of any dtype; arithmetic is in float64. `judge` is the state that a float64 program reaches
    from `before`. Without it the larger of the two updates is what a difference is measured against; a leaf
    that did not move on one side is 1 apart. Raises KeyError when a side lacks a leaf of `before`.
    """
    with np.errstate(all="ignore"):  # what is not finite is counted
        sides = [_update(before, after) for after in (after_a, after_b, *([] if judge is None else [judge]))]
        told = sides[2:] or sides
        whole = max((_largest(u) for update in told for u in update.values()), default=0.0)
        return tuple(sorted((_leaf(name, [s[name] for s in sides], whole) for name in before), key=LeafError.rank))


def worst(errors: tuple[LeafError, ...]) -> float:
    """The largest relative difference of any leaf: what a bound on an update is compared with."""
    return max((e.relative for e in errors), default=0.0)


def worst_own(errors: tuple[LeafError, ...]) -> tuple[float, float]:
    """The largest relative error of any leaf against the judge, of each side. Raises ValueError without a judge."""
    own = [e.own for e in errors if e.own is not None]
    return max(a for a, _ in own), max(b for _, b in own)


def _update(before: State, after: State) -> dict[str, np.ndarray]:
    return {name: np.asarray(after[name], np.float64) - np.asarray(start, np.float64) for name, start in before.items()}


def _leaf(name: str, updates: list[np.ndarray], whole: float) -> LeafError:
    a, b, *judge = updates
    told = judge or [a, b]
    size = max(_largest(u) for u in told)
    norm = max(float(np.linalg.norm(u)) for u in told)
    if size <= VANISHING * whole:
        size, norm = whole, whole * np.sqrt(a.size)
    return LeafError(
        name,
        _ratio(float(np.linalg.norm(a - b)), norm),
        _ratio(_largest(a - b), size),
        int((~np.isfinite(a)).sum() + (~np.isfinite(b)).sum()),
        (_ratio(float(np.linalg.norm(a - judge[0])), norm), _ratio(float(np.linalg.norm(b - judge[0])), norm))
        if judge
        else None,
    )


def _largest(u: np.ndarray) -> float:
    return float(np.abs(u).max(initial=0.0))


def _ratio(difference: float, size: float) -> float:
    if not np.isfinite(difference) or not np.isfinite(size):
        return float("inf")
    if not size:
        return float("inf") if difference else 0.0
    return difference / size
