"""The verdict: does a run's set of finals agree with a reference's set of finals?

The range (min, median, max) is for display. "All my m finals lie inside the min-max of n" passes a healthy box with
probability n(n-1)/((n+m)(n+m-1)) only. The decision is made of tests whose error rates are known; each is derived in
its own docstring in `ladder.significance`, and all are simulated in docs/verdict_simulation.md:

- `fail`: a one-sided test rejects "this box is healthy" after Holm over the whole run, so that P(any fail | healthy)
  <= 1 %. Per net and arm: the mean is lower by more than the margin (`mean_p`), too many trials are outlying
  (`count_p`), one or a few are too deep (`depth_p`), too many diverge (`divergence_p`).
- `pass`: not failed, and two one-sided tests put the mean within the margin at 5 % (`equivalence_p`); or the mean is
  shown to be better by more than the margin (note `above`).
- else `inconclusive`, with the number of further seeds that would settle it.

How to choose a margin (percentage points, fixed before measuring). A healthy run of m seeds passes with probability
>= 90 % when margin >= (t + 1.64) sd sqrt(1/n + 1/m), t the 95 % quantile at n + m - 2 degrees of freedom: at n = 30
and m = 5, 1.6 sd (0.17 for the mnist mlp, 0.44 for the cnn); at n = m = 5, 2.2 sd. A fault is found when it moves the
mean by about twice the margin. So: at least that bound, and at most half of the smallest fault worth finding.
A margin of 0 with a zero-variance reference means exact: any other count fails, equal counts pass.

Decisions that the rules above leave open:
- Zero or one finite reference final: `no-reference`, the published figure is context. Two to four: judged by the same
  formulas, whose t quantiles know how little that is, with the note `thin reference`.
- One run final: no test of the mean can fail it, only the exact count and its depth; it can pass.
- A divergence where the reference has none is `fail` if an excess is shown, else `diverged`, never `pass`. Where the
  reference itself diverges, the rates are compared; an excess significant at 5 % only is `inconclusive`.
- Trials lost to a crash, a timeout, an unsupported op or the budget: the finals that exist can still `fail`;
  otherwise the word is the worst loss. A run with lost trials never passes: they need not be lost at random.
- Zero pooled variance under a positive margin: the standard deviation is 1/sqrt(12) image, the rounding of a count.
- Margin 0 and a reference that varies: nothing can be shown to be within it; it fails or is inconclusive for ever.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median

from ladder.errors import LadderError
from ladder.significance import (
    THIN,
    Difference,
    Finals,
    at_chance,
    count_p,
    depth_p,
    depths,
    difference,
    divergence_p,
    equivalence_p,
    holm,
    mean_p,
    more_seeds,
    outlying,
    seeds_without_divergence,
    wilson,
)

__all__ = ["Cell", "Finals", "Judgement", "PValue", "Word", "at_chance", "exit_code", "judge", "run_word", "wilson"]


class Word(StrEnum):
    """The verdict's words, worst first: `run_word` takes the first that occurs."""

    FAIL = "fail"
    DIVERGED = "diverged"
    CRASHED = "crashed"
    TIMEOUT = "timeout"
    INCONCLUSIVE = "inconclusive"
    UNSUPPORTED = "unsupported"
    NO_REFERENCE = "no-reference"
    NOT_RUN = "not-run"
    PASS = "pass"


LOSSES = (Word.CRASHED, Word.TIMEOUT, Word.UNSUPPORTED, Word.NOT_RUN)


@dataclass(frozen=True)
class Cell:
    """One net and arm of a run, to be judged."""

    net: str
    arm: str
    run: Finals
    reference: Finals | None  # None: no reference has this recipe hash
    margin: float  # percentage points; 0 = exact, to the image
    reference_name: str = ""
    lost: Mapping[Word, int] = field(default_factory=dict[Word, int])  # trials without a final, by reason
    stand_in: str = ""  # reason, when the reference is a declared stand-in

    def __post_init__(self) -> None:
        if not self.margin >= 0:
            raise LadderError(f"{self.net} {self.arm}: a margin is >= 0 percentage points, got {self.margin}")
        if unknown := [word for word in self.lost if word not in LOSSES]:
            raise LadderError(f"{self.net} {self.arm}: a trial is lost as {', '.join(LOSSES)}, not {unknown[0]}")
        if self.reference and self.run.correct and self.run.total != self.reference.total:
            raise LadderError(
                f"{self.net} {self.arm}: the run scores {self.run.total} images, the reference"
                f" {self.reference.total}: these finals cannot be compared"
            )

    @property
    def judged_against(self) -> Finals | None:
        """The reference, if it has the two finite finals that a comparison takes."""
        return self.reference if self.reference and len(self.reference.correct) >= 2 else None

    @property
    def exact(self) -> bool:
        """Margin 0 and a zero-variance reference: compared to the image, without statistics."""
        return self.judged_against is not None and self.margin == 0 and len(set(self.judged_against.correct)) == 1

    @property
    def images(self) -> float:
        """The margin in images."""
        return self.margin * (self.reference or self.run).total / 100


@dataclass(frozen=True)
class PValue:
    """One test that can fail a cell. `holm` is adjusted over the run; None: not counted, it could never reject."""

    test: str  # mean, count, depth, divergence
    raw: float
    holm: float | None


@dataclass(frozen=True)
class Judgement:
    """All that a table or a report prints of one cell. Scores in per cent, `range` and `outside` in images."""

    net: str
    arm: str
    word: Word
    reason: str
    m: int
    n: int
    total: int
    mean: float | None
    sd: float | None
    reference_mean: float | None
    reference_sd: float | None
    range: tuple[int, float, int] | None  # the reference's min, median, max
    outside: tuple[int, ...]  # by how many images each final outside the range lies below (-) or above it
    diverged: int
    reference_diverged: int
    margin: float
    interval: tuple[float, float] | None  # of run mean - reference mean, percentage points; 90 % at the default level
    equivalence: float | None  # p of the two one-sided tests
    tests: tuple[PValue, ...]
    more_seeds: int | None
    reference_name: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Levels:
    """`fail` and `passing` as asked for; `each`: what one failing test alone must reach (Bonferroni), for planning."""

    fail: float
    passing: float
    each: float


def judge(cells: Sequence[Cell], alpha_fail: float = 0.01, alpha_pass: float = 0.05) -> tuple[Judgement, ...]:
    """One judgement per cell, in order. All cells of a run must be judged together: Holm spans them.

    A test whose smallest attainable p exceeds `alpha_fail` can never reject and is not counted (Tarone 1990).
    """
    tests = [fail_tests(cell) for cell in cells]
    counted = [(i, name) for i, of in enumerate(tests) for name, (_, least) in of.items() if least <= alpha_fail]
    adjusted = dict(zip(counted, holm([tests[i][name][0] for i, name in counted]), strict=True))
    levels = Levels(alpha_fail, alpha_pass, alpha_fail / max(1, len(counted)))
    return tuple(
        judgement(cell, tuple(PValue(name, p, adjusted.get((i, name))) for name, (p, _) in tests[i].items()), levels)
        for i, cell in enumerate(cells)
    )


def fail_tests(cell: Cell) -> dict[str, tuple[float, float]]:
    """Each test that can fail the cell: its p, and the smallest p that it could reach with these n, m, divergences.

    The mean is not tested with one final: it is that final, and a t test of one final trusts the Gaussian tail.
    Depth is not tested on a thin reference, whose range can be tiny by luck.
    """
    run, reference, margin = cell.run, cell.judged_against, cell.images
    tests: dict[str, tuple[float, float]] = {}
    if reference is None:
        return tests
    n, m = len(reference.correct), len(run.correct)
    if m >= 2 and not cell.exact:
        tests["mean"] = mean_p(run, reference, margin), 0.0
    if m >= 1 and not cell.exact:
        tests["count"] = count_p(outlying(run, reference, margin), n, m), count_p(m, n, m)
    if m >= 1 and n >= THIN and not cell.exact:
        bottom = depths(Finals((0,) * m, run.total), reference, margin)
        tests["depth"] = depth_p(depths(run, reference, margin), n), depth_p(bottom, n)
    if total := run.diverged + reference.diverged:
        trials = total, reference.trials, run.trials
        tests["divergence"] = divergence_p(run.diverged, *trials), divergence_p(min(total, run.trials), *trials)
    return tests


def judgement(cell: Cell, tests: tuple[PValue, ...], levels: Levels) -> Judgement:
    """The cell's word, with every figure that it rests on."""
    run, reference, judged_against = cell.run, cell.reference or Finals((), cell.run.total), cell.judged_against
    diff = difference(run, judged_against) if judged_against and run.correct and not cell.exact else None
    word, reason, more = decide(cell, tests, diff, levels)
    low, high = min(reference.correct, default=0), max(reference.correct, default=run.total)
    return Judgement(
        net=cell.net,
        arm=cell.arm,
        word=word,
        reason=reason,
        m=len(run.correct),
        n=len(reference.correct),
        total=reference.total,
        mean=per_cent(run.mean, run) if run.correct else None,
        sd=None if run.sd is None else per_cent(run.sd, run),
        reference_mean=per_cent(reference.mean, reference) if reference.correct else None,
        reference_sd=None if reference.sd is None else per_cent(reference.sd, reference),
        range=(low, median(reference.correct), high) if reference.correct else None,
        outside=tuple(c - low if c < low else c - high for c in run.correct if not low <= c <= high),
        diverged=run.diverged,
        reference_diverged=reference.diverged,
        margin=cell.margin,
        interval=interval(diff, run, levels) if diff else None,
        equivalence=equivalence_p(diff, cell.images) if diff else None,
        tests=tests,
        more_seeds=more,
        reference_name=cell.reference_name,
        notes=notes(cell, word == Word.PASS and diff is not None and diff.estimate > cell.images),
    )


def per_cent(images: float, finals: Finals) -> float:
    return 100 * images / finals.total


def interval(diff: Difference, run: Finals, levels: Levels) -> tuple[float, float]:
    low, high = diff.interval(levels.passing)
    return per_cent(low, run), per_cent(high, run)


def decide(
    cell: Cell, tests: tuple[PValue, ...], diff: Difference | None, levels: Levels
) -> tuple[Word, str, int | None]:
    """Word, one plain sentence, further seeds: the first rule that applies."""
    run, reference = cell.run, cell.judged_against
    if failed := [t.test for t in tests if t.holm is not None and t.holm <= levels.fail]:
        return Word.FAIL, "; ".join(FAILURES[test](cell) for test in failed), None
    if reference and cell.exact and set(run.correct) - set(reference.correct):
        return Word.FAIL, inexact(cell), None
    if run.diverged and not (cell.reference and cell.reference.diverged):
        return Word.DIVERGED, diverged(cell), None
    if losses := [word for word in LOSSES if cell.lost.get(word)]:
        return losses[0], f"{lost(cell)}; {len(run.correct)} finals exist and do not fail", None
    if not run.trials:
        return Word.NOT_RUN, "no trial was run", None
    if reference is None:
        return Word.NO_REFERENCE, no_reference(cell.reference), None
    suspicion = next((t.raw for t in tests if t.test == "divergence"), 1.0) <= levels.passing
    if suspicion or not run.correct:
        return Word.INCONCLUSIVE, *divergences_undecided(cell, levels)
    if diff is None:
        return Word.PASS, f"every final is {run.correct[0]} of {run.total}, as in {theirs(cell)}", None
    if equivalence_p(diff, cell.images) <= levels.passing:
        return Word.PASS, f"{means(cell)}, shown to be within the margin of {cell.margin:g} points", None
    if diff.above(cell.images) <= levels.passing:
        return Word.PASS, f"{means(cell)}, shown to be better by more than the margin of {cell.margin:g} points", None
    return Word.INCONCLUSIVE, *means_undecided(cell, diff, levels)


def means_undecided(cell: Cell, diff: Difference, levels: Levels) -> tuple[str, int | None]:
    """Why neither `pass` nor `fail` is shown, and how many further seeds would show one."""
    more = more_seeds(diff, cell.images, levels.each, levels.passing)
    why = f"{means(cell)}, neither shown to be within the margin of {cell.margin:g} points nor beyond it"
    if more is None:
        return f"{why}; too near the margin for any number of seeds to tell, a larger reference might", None
    return f"{why}; {more} more {'seed' if more == 1 else 'seeds'} would, if mean and spread stay as they are", more


def divergences_undecided(cell: Cell, levels: Levels) -> tuple[str, int | None]:
    """The run diverges more often than the reference at 5 %, not at 1 %, or has no finite final at all."""
    if not cell.run.correct or cell.judged_against is None:
        return f"{diverged(cell)}; there is no finite final to judge", None
    more = seeds_without_divergence(cell.run, cell.judged_against, levels.passing)
    return (
        f"{diverged(cell)}, too many to pass and too few to fail; {more} more seeds would clear it if none diverges",
        more,
    )


def theirs(cell: Cell) -> str:
    return "the stand-in" if cell.stand_in else "the reference"


def means(cell: Cell) -> str:
    reference = cell.reference or cell.run
    ours, mean = per_cent(cell.run.mean, cell.run), per_cent(reference.mean, reference)
    return f"mean {ours:.2f} % against {theirs(cell)}'s {mean:.2f} %"


def diverged(cell: Cell) -> str:
    beside = (
        f"{cell.reference.diverged} of {cell.reference.trials} in {theirs(cell)}" if cell.reference else "no reference"
    )
    return f"{cell.run.diverged} of {cell.run.trials} trials diverged ({beside})"


def lost(cell: Cell) -> str:
    return "lost trials: " + ", ".join(f"{cell.lost[word]} {word}" for word in LOSSES if cell.lost.get(word))


def no_reference(reference: Finals | None) -> str:
    if reference is None:
        return "no reference has this recipe hash"
    if reference.correct:
        return "the reference is a single final: a figure for context, not a range"
    return f"all {reference.diverged} reference trials diverged: nothing to hold a final against"


def inexact(cell: Cell) -> str:
    reference = cell.reference or cell.run
    wrong = [c for c in cell.run.correct if c != reference.correct[0]]
    return (
        f"{len(wrong)} of {len(cell.run.correct)} finals (first {wrong[0]}) differ from {reference.correct[0]} of"
        f" {reference.total}, where all {len(reference.correct)} finals of {theirs(cell)} are"
    )


def too_many_outlying(cell: Cell) -> str:
    reference = cell.reference or cell.run
    return (
        f"{outlying(cell.run, reference, cell.images)} of {len(cell.run.correct)} finals are outlying: below all"
        f" {len(reference.correct)} of {theirs(cell)} and more than the margin below its median"
    )


def too_deep(cell: Cell) -> str:
    deep = [f"{depth:.1f}" for depth in depths(cell.run, cell.reference or cell.run, cell.images) if depth >= 1]
    return (
        f"finals as low as {min(cell.run.correct)} lie {', '.join(deep)} times the range plus margin of {theirs(cell)}"
        " below its median"
    )


FAILURES = {
    "mean": lambda cell: f"{means(cell)}, shown to be lower by more than the margin of {cell.margin:g} points",
    "count": too_many_outlying,
    "depth": too_deep,
    "divergence": diverged,
}


def notes(cell: Cell, above: bool) -> tuple[str, ...]:
    """What a reader must know beside the word."""
    published = cell.reference.correct if cell.reference else ()
    candidates = {
        "above": above,
        f"stand-in: {cell.stand_in}": bool(cell.stand_in),
        "n=1 context: the published final is " + " ".join(f"{c} of {cell.run.total}" for c in published[:1]): len(
            published
        )
        == 1,
        f"thin reference: n={len(published)}": 2 <= len(published) < THIN,
        lost(cell): any(cell.lost.values()),
        diverged(cell): cell.run.diverged > 0,
        "m=1: the spread is taken from the reference": len(cell.run.correct) == 1
        and len(published) >= 2
        and not cell.exact,
    }
    return tuple(note for note, holds in candidates.items() if holds)


def run_word(judgements: Sequence[Judgement]) -> Word:
    """The run's one word: its worst, in the order of `Word`; a run without judgements is `not-run`."""
    words = {judgement.word for judgement in judgements}
    return next((word for word in Word if word in words), Word.NOT_RUN)


def exit_code(word: Word) -> int:
    """0 pass; 1 fail, diverged, crashed, timeout; 3 inconclusive, no-reference, unsupported, not-run."""
    if word is Word.PASS:
        return 0
    return 1 if word in (Word.FAIL, Word.DIVERGED, Word.CRASHED, Word.TIMEOUT) else 3
