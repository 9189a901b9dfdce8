"""The gates' arithmetic: from the traces of two sides and of the judge to one number a metric, and a line a gate.

G1 forward: the loss of a test batch and of single images, from one state. G2 step: the update after each of the first
steps from one state, then the loss curve; the control is the same side twice. G3: the loss falls. G4 is
`check_boundary` and `check_state`, which every side's child goes through first: a side that drops state is Refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ladder.ties.bounds import Bound, find
from ladder.ties.measure import LeafError, compare, worst, worst_own
from ladder.ties.side import CURVE, UPDATES, Trace

LAST = 10  # steps over which the end of the loss curve is averaged
IMAGES = 1  # images that two sides may score differently in a batch: logits that tie to rounding go either way


@dataclass(frozen=True)
class Line:
    """A metric of a gate: its value, what it may be at most, and what stands behind it. NaN is beyond any bound."""

    gate: str
    metric: str
    value: float
    bound: float
    told: str

    @property
    def passed(self) -> bool:
        """Whether the value is within the bound."""
        return self.value <= self.bound


@dataclass(frozen=True)
class Measured:
    """What two traces and the judge's give: `values` by (gate, metric), what to say of each, and each step's leaves."""

    values: Mapping[tuple[str, str], float]
    told: Mapping[tuple[str, str], str]
    images: float
    leaves: tuple[tuple[LeafError, ...], ...]  # after step 1, 2, ...

    @property
    def worst_step(self) -> int:
        """The step (1-based) after which a leaf is furthest apart."""
        return 1 + int(np.argmax([(worst(leaves)) for leaves in self.leaves]))


@np.errstate(all="ignore")  # what is not finite becomes infinite
def measure(a: Trace, b: Trace, judge: Trace | None) -> Measured:
    """All metrics of a pair. `update`, `example`, `loss`: the largest of the difference and the sides' own errors.

    Metrics: G1 `example`: the largest difference of one image's loss, over their mean loss; G1 `loss`: of the
    batch's loss, relative. G2 `control`, `update`: the worst leaf's relative L2 difference; G2 `curve`: the relative L2
    difference of the losses. G3 `fall`: the mean of the last LAST losses over the first loss, the worse side's.
    """
    start = a.state(0)
    leaves = tuple(compare(start, a.state(k), b.state(k), judge and judge.state(k)) for k in range(1, UPDATES + 1))
    updates = [worst(step) for step in leaves]
    own = [worst_own(step) for step in leaves] if judge else []
    loss, told_loss = _apart(a.evals[:1, 2], b.evals[:1, 2], judge and judge.evals[:1, 2])
    example, told_example = _apart(a.evals[1:, 2], b.evals[1:, 2], judge and judge.evals[1:, 2])
    shared = min(len(a.losses), len(b.losses))
    curves = [t.losses[:shared] for t in (a, b)]
    falls = [float(t.losses[-LAST:].mean() / t.losses[0]) for t in (a, b)]
    images = float(np.abs(a.evals[0, :2] - b.evals[0, :2]).max())
    values = {
        ("G1", "example"): example,
        ("G1", "loss"): loss,
        ("G2", "control"): max(a.again, b.again),
        ("G2", "update"): max([*updates, *(x for pair in own for x in pair)]),
        ("G2", "curve"): _finite(np.linalg.norm(curves[0] - curves[1]) / np.linalg.norm(curves[0])),
    }
    told = {
        ("G1", "example"): told_example,
        ("G1", "loss"): f"{told_loss}; {images:.0f} images apart",
        ("G2", "control"): "every bit the same" if not max(a.again, b.again) else f"a {a.again:.1e}, b {b.again:.1e}",
        ("G2", "update"): _told(max(updates), [max(column) for column in zip(*own, strict=True)]),
        ("G2", "curve"): f"over {shared} steps",
    }
    if shared >= CURVE:
        values["G3", "fall"] = _finite(max(falls))
        told["G3", "fall"] = f"a {falls[0]:.2f}, b {falls[1]:.2f} of the first loss after {shared} steps"
    return Measured(values, told, images, leaves)


def lines(measured: Measured, bounds: tuple[Bound, ...], dtype: str, family: str) -> tuple[Line, ...]:
    """A line a metric, in the gates' order, the control first. Raises LadderError where a bound was not measured."""
    order = [("G2", "control"), ("G1", "example"), ("G1", "loss"), ("G2", "update"), ("G2", "curve"), ("G3", "fall")]
    made: list[Line] = []
    for gate, metric in order:
        if (gate, metric) in measured.values:
            limit = find(bounds, gate, "update" if metric == "control" else metric, dtype, family).bound
            value = measured.values[gate, metric]
            made.append(Line(gate, metric, value, limit, measured.told[gate, metric]))
    images = Line("G1", "images", measured.images, IMAGES, "correct or in the top five on one side only")
    return (*made[:3], images, *made[3:])


def _apart(a: np.ndarray, b: np.ndarray, judge: np.ndarray | None) -> tuple[float, str]:
    """The largest of the sides' difference in loss and of each from the judge, over the mean loss; and its words."""
    size = np.abs(a if judge is None else judge).mean()
    difference = _finite(np.abs(a - b).max() / size)
    own = [] if judge is None else [_finite(np.abs(side - judge).max() / size) for side in (a, b)]
    return max([difference, *own]), _told(difference, own)


def _told(difference: float, own: list[float]) -> str:
    text = f"apart {difference:.1e}"
    return f"{text}; a {own[0]:.1e}, b {own[1]:.1e} from float64" if own else f"{text}; no judge"


def _finite(value: float) -> float:
    return float(value) if np.isfinite(value) else float("inf")
