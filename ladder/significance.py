"""The tests behind the verdict: pure functions of a run's and a reference's finals. `ladder.verdict` decides with them.

n is the number of the reference's finite finals, m the run's; margins here are in images. Every p is one-sided and
answers "how often would a healthy box look at least this bad?".
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from scipy.special import bdtrc, ndtri, stdtr, stdtrit

from ladder.errors import LadderError

THIN = 5  # fewer reference finals than this are a thin reference
ROUNDING_SD = 1 / math.sqrt(12)  # of a count: the least standard deviation of a final
MOST_FURTHER_SEEDS = 1000


@dataclass(frozen=True)
class Finals:
    """A reference's or a run's finals for one net and arm."""

    correct: tuple[int, ...]  # images correct, finite finals only
    total: int  # images scored
    diverged: int = 0  # trials that diverged (not in correct)

    def __post_init__(self) -> None:
        if self.diverged < 0 or any(not 0 <= c <= self.total for c in self.correct):
            raise LadderError(f"finals must be counts of 0 to {self.total} images and divergences >= 0, got {self}")

    @property
    def trials(self) -> int:
        return len(self.correct) + self.diverged

    @property
    def mean(self) -> float:
        return sum(self.correct) / len(self.correct)

    @property
    def squares(self) -> float:
        """Sum of squared deviations from the mean."""
        mean = self.mean
        return sum((c - mean) ** 2 for c in self.correct)

    @property
    def sd(self) -> float | None:
        """Sample standard deviation; none of fewer than two finals."""
        return math.sqrt(self.squares / (len(self.correct) - 1)) if len(self.correct) >= 2 else None


def wilson(correct: int, total: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval for a binomial fraction (Wilson 1927; Newcombe 1998, method 3).

    (p + z²/2N ± z sqrt(p(1-p)/N + z²/4N²)) / (1 + z²/N). It speaks of the test images, not of the seeds.
    """
    z = float(ndtri((1 + confidence) / 2))
    p, shrink = correct / total, 1 + z * z / total
    centre = (p + z * z / (2 * total)) / shrink
    half = z * math.sqrt(p * (1 - p) / total + z * z / (4 * total * total)) / shrink
    return max(0.0, centre - half), min(1.0, centre + half)


def at_chance(correct: int, total: int, majority: float) -> bool:
    """A final that is not shown, at 0.1 %, to beat always answering the commonest class (a fraction `majority`).

    One-sided binomial test: P(Bin(total, majority) >= correct) > 0.001. On mnist (0.1135) that is 1,234 or less.
    """
    return float(bdtrc(correct - 1, total, majority)) > 0.001


@dataclass(frozen=True)
class Difference:
    """Run mean minus reference mean in images, with the pooled standard deviation of one final.

    Assumption: a healthy box differs by arithmetic only, hence has the reference's spread. With m = 1 the pooled
    standard deviation *is* the reference's.
    """

    estimate: float
    sd: float
    n: int
    m: int

    @property
    def error(self) -> float:
        return self.sd * math.sqrt(1 / self.n + 1 / self.m)

    @property
    def freedom(self) -> int:
        return self.n + self.m - 2

    def below(self, limit: float) -> float:
        """p against "the difference is >= limit" (Student, pooled variance)."""
        return float(stdtr(self.freedom, (self.estimate - limit) / self.error))

    def above(self, limit: float) -> float:
        """p against "the difference is <= limit"."""
        return float(stdtr(self.freedom, (limit - self.estimate) / self.error))

    def interval(self, level: float) -> tuple[float, float]:
        """The 1 - 2 level interval: it lies inside ±margin exactly when `equivalence_p` <= level."""
        half = float(stdtrit(self.freedom, 1 - level)) * self.error
        return self.estimate - half, self.estimate + half


def difference(run: Finals, reference: Finals) -> Difference:
    """sd² = (squares of run + squares of reference) / (n + m - 2), at least the rounding of a count."""
    n, m = len(reference.correct), len(run.correct)
    sd = math.sqrt((run.squares + reference.squares) / (n + m - 2))
    return Difference(run.mean - reference.mean, max(sd, ROUNDING_SD), n, m)


def equivalence_p(diff: Difference, margin: float) -> float:
    """Two one-sided tests (Schuirmann 1987): the larger p of "below -margin" and "above +margin" being refuted."""
    return max(diff.above(-margin), diff.below(margin))


def reach(reference: Finals, margin: float) -> float:
    """The unit of depth: the reference's whole range plus the margin."""
    return max(reference.correct) - min(reference.correct) + margin


def depths(run: Finals, reference: Finals, margin: float) -> list[float]:
    """How far each final of the run lies below the reference's median, in reaches, deepest first."""
    middle, unit = median(reference.correct), reach(reference, margin)
    return [(middle - c) / unit for c in sorted(run.correct)]


def mean_p(run: Finals, reference: Finals, margin: float) -> float:
    """p against "the run's mean is no more than the margin below the reference's".

    Finals deeper than two reaches count as two reaches deep, lest one abyss hide a shift of the others by inflating
    the variance. Clipping raises the run's mean, but lowers its variance too: not done on a thin reference, whose
    reach can be tiny by luck.
    """
    if len(reference.correct) >= THIN:
        floor = math.floor(median(reference.correct) - 2 * reach(reference, margin))
        run = Finals(tuple(max(c, floor) for c in run.correct), run.total)
    return difference(run, reference).below(-margin)


def outlying(run: Finals, reference: Finals, margin: float) -> int:
    """Trials below every reference final and more than the margin below the reference's median."""
    cut = min(min(reference.correct), median(reference.correct) - margin)
    return sum(c < cut for c in run.correct)


def count_p(k: int, n: int, m: int) -> float:
    """P(at least k of m finals lie below all n of the reference | one distribution) = C(m,k) / C(n+m,k).

    The k lowest of n + m exchangeable finals all come from the run: the upper tail of a negative hypergeometric
    (exceedance) count, free of any distribution (Wilks 1942). Ties only lower the true probability.
    """
    return math.comb(m, k) / math.comb(n + m, k)


def depth_p(deepest_first: Sequence[float], n: int) -> float:
    """P(the k deepest of m finals are all at least as deep as the k-th here | healthy), bounded, over all k.

    k given finals lie below all n with probability 1/C(n+k,k), and nothing free of distribution says more: a single
    seed could never fail. One assumption is added, Student's own, that finals have a variance: beyond the reference's
    worst the tail then falls at least like 1/depth² (Chebyshev's rate, regular variation of index 2). Over the C(m,k)
    choices of k finals, p_k <= C(m,k) / C(n+k,k) / depth_k^2k; for m = 1, 1/((n+1) depth²). The k-th gets a share of
    the level in proportion to 10^-k (weighted Bonferroni): asking about pairs costs the deepest alone a tenth.
    """
    m = len(deepest_first)
    whole = sum(10.0**-k for k in range(1, m + 1))
    bounds = (
        10**k * whole * math.comb(m, k) / (math.comb(n + k, k) * depth ** (2 * k))
        for k, depth in enumerate(deepest_first, start=1)
        if depth >= 1
    )
    return min(1.0, *bounds, 1.0)


def divergence_p(k: int, total: int, n: int, m: int) -> float:
    """Fisher's exact one-sided p: at least k of `total` divergences among n + m trials fall on the run's m."""
    ways = sum(math.comb(m, j) * math.comb(n, total - j) for j in range(k, min(m, total) + 1))
    return ways / math.comb(n + m, total)


def holm(p: Sequence[float]) -> list[float]:
    """Holm's (1979) step-down adjusted p-values: p(i) -> max over j <= i of min(1, (T - j + 1) p(j))."""
    adjusted, highest = [0.0] * len(p), 0.0
    for rank, i in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        highest = max(highest, min(1.0, (len(p) - rank) * p[i]))
        adjusted[i] = highest
    return adjusted


def more_seeds(diff: Difference, margin: float, fail_level: float, pass_level: float) -> int | None:
    """The fewest further seeds at which the present difference d and pooled sd would give `pass` or `fail`.

    |margin - |d|| >= t sd sqrt(1/n + 1/m'), t at `pass_level` (within the margin, or above it) or at `fail_level`
    (below it). The right side stays above t sd / sqrt(n), the reference's own uncertainty: a d nearer to the margin
    than that is never settled (None). A plan, not a promise: with m = 1 the estimate is one final's.
    """
    level = fail_level if diff.estimate < -margin else pass_level
    room = abs(margin - abs(diff.estimate))

    def settled(further: int) -> bool:
        planned = Difference(diff.estimate, diff.sd, diff.n, diff.m + further)
        return room >= float(stdtrit(planned.freedom, 1 - level)) * planned.error

    further = bisect_left(range(MOST_FURTHER_SEEDS), True, lo=1, key=settled)
    return further if further < MOST_FURTHER_SEEDS else None


def seeds_without_divergence(run: Finals, reference: Finals, level: float) -> int | None:
    """The fewest further seeds, none diverging, after which the excess of divergences exceeds p = `level`."""
    total, n, m = run.diverged + reference.diverged, reference.trials, run.trials
    further = range(1, MOST_FURTHER_SEEDS)
    return next((k for k in further if divergence_p(run.diverged, total, n, m + k) > level), None)
