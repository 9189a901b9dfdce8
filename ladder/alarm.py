"""The early alarm: an epoch's test score outside what the reference's trials scored at that epoch, told while it runs.

It is no verdict and enters none. It says, hours before the final, that something is worth a look.

The band. A reference's n curves R hold images correct at epochs 1..E. A curve x is off at an epoch by

    z_e(x, R) = (x_e - mean_e(R)) / (sd_e(R) sqrt(1 + 1/n)),

and its deviation on a side is the greatest over its epochs: max_e -z_e below, max_e z_e above. Each of the n has a
deviation from the other n - 1. With D the greatest of these on a side, the band ends there at c D:
mean_e - c D_below sd_e sqrt(1 + 1/n) to mean_e + c D_above sd_e sqrt(1 + 1/n), and never nearer than an image.

Its false-alarm rate. A curve has one deviation a side, however many epochs it has and however these depend on each
other. One exchangeable with the n has the greatest deviation of n + 1 with probability 1/(n + 1), whatever the
distribution (theirs, from n - 1 curves, spread a little more than its own: the error is on the safe side). Beyond
the greatest, one assumption as in `ladder.significance.depth_p`: deviations have a variance, so their tail falls at
least like 1/D^2 (Student's, with n - 2 >= 3 degrees of freedom, falls faster). Hence

    P(deviation > c D) <= 1 / ((n + 1) c^2), and for K trials with two sides c = sqrt(2 K / ((n + 1) RATE)), at least 1,

gives P(any alarm in a healthy run) <= RATE: per run, over all its trials and epochs. Gaussian curves alone would do
with narrower bands; a cnn's seeds that lie 13 and 17 deviations low for an epoch, as 2 of the 30 published do, do not.
Measured (tests/test_alarm.py): an alarm in 0-10 % of runs drawn from the shipped references, in 0-6 % of Gaussian
ones. Power: with 30 curves and up to five trials the mlp's first epoch shows a rate 1.5 times too high; with five
curves a collapse shows, and little else.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ladder.recipes import Recipe
from ladder.references import Reference
from ladder.significance import ROUNDING_SD

RATE = 0.10  # of healthy runs with an alarm, at most
LEAST_CURVES = 5  # fewer say nothing of a spread: the deviation of one from the others needs three degrees of freedom


@dataclass(frozen=True)
class Band:
    """Where a recipe's scores are expected, in images, a value an epoch; both ends belong to it."""

    reference: str
    curves: int
    low: tuple[float, ...]
    high: tuple[float, ...]

    def holds(self, epoch: int, correct: int) -> bool:
        """Whether the score after an epoch (1-based) lies in the band."""
        return self.low[epoch - 1] <= correct <= self.high[epoch - 1]


def bands(recipes: Sequence[Recipe], references: Sequence[Reference], seeds: int) -> dict[str, Band]:
    """The band of each recipe, by its hash, for a run of all of them at so many seeds.

    It is made of the curves of the reference that has most of them, which need not be the verdict's. A recipe for
    which none has LEAST_CURVES is not there.
    """
    found = {r.hash: most_curves(r, references) for r in recipes}
    enough = {h: (name, curves) for h, (name, curves) in found.items() if len(curves) >= LEAST_CURVES}
    trials = seeds * len(enough)
    return {h: Band(name, len(curves), *limits(curves, trials)) for h, (name, curves) in enough.items()}


def most_curves(recipe: Recipe, references: Sequence[Reference]) -> tuple[str, list[tuple[int, ...]]]:
    """The reference with the most whole curves of the recipe, by name where two have as many, and those curves."""
    curves = {
        r.name: [f.epoch_correct for f in part.finals if len(f.epoch_correct) == recipe.epochs and not f.diverged]
        for r in references
        for part in r.parts
        if part.hash == recipe.hash
    }
    return min(curves.items(), key=lambda item: (-len(item[1]), item[0]), default=("", []))


def limits(curves: ArrayLike, trials: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The lower and upper end of the band at every epoch, for a run of `trials` trials."""
    reference = np.array(curves, np.float64)
    n = len(reference)
    own = np.array([off(reference[i], np.delete(reference, i, 0)) for i in range(n)])
    factor = max(1.0, math.sqrt(2 * trials / ((n + 1) * RATE)))
    mean, unit = reference.mean(0), spread(reference)
    below, above = (np.maximum(factor * max(worst, 0.0) * unit, 1.0) for worst in (-own.min(), own.max()))
    return tuple(mean - below), tuple(mean + above)


def off(curve: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """z of a curve [epochs] against a reference [n, epochs]."""
    return (curve - reference.mean(0)) / spread(reference)


def spread(reference: np.ndarray) -> np.ndarray:
    """The standard deviation of one more curve from the mean of these, at every epoch; at least a count's rounding."""
    return np.maximum(reference.std(0, ddof=1), ROUNDING_SD) * math.sqrt(1 + 1 / len(reference))


def raised(found: Mapping[str, Band], recipe: Recipe, seed: int, line: Mapping[str, Any]) -> dict[str, Any] | None:
    """The alarm that a trial's epoch raises, for its event and the record, or None.

    `line` has epoch, correct, total; the alarm's low and high are the whole images that still lie in the band.
    """
    epoch, band = line["epoch"], found.get(recipe.hash)
    if band is None or band.holds(epoch, line["correct"]):
        return None
    return {
        "net": recipe.net,
        "arm": recipe.arm,
        "seed": seed,
        "epoch": epoch,
        "correct": line["correct"],
        "total": line["total"],
        "low": math.ceil(band.low[epoch - 1]),
        "high": math.floor(band.high[epoch - 1]),
        "reference": band.reference,
        "curves": band.curves,
    }


def told(recipe: Recipe, found: Mapping[str, Band]) -> str:
    """What is said of a recipe's alarm before the run."""
    if band := found.get(recipe.hash):
        return f"epochs are watched against {band.curves} curves of {band.reference}"
    return f"no reference has {LEAST_CURVES} epoch curves of it: its epochs are not watched"
