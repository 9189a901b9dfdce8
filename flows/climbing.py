"""Which rungs a climb takes and when it stops. No Prefect here: the flow and `ladder climb --no-server` share it."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ladder.data.source import NoData
from ladder.errors import LadderError
from ladder.recipes import RUNGS
from ladder.request import NotApplicable, Request
from ladder.run import Outcome, drive
from ladder.suite import run as suite
from ladder.suite.run import SuiteOutcome, SuiteRequest
from ladder.verdict import Word, exit_code

STOPS = (Word.FAIL, Word.DIVERGED, Word.CRASHED, Word.TIMEOUT)
SUITE = "suite"
ORDER = ("suite", "mnist", "cifar", "imagenette", "imagenet")
LAST_BY_DEFAULT = "cifar"  # the rungs above it take days on a small box


class HasWord(Protocol):
    """How a rung ended, as far as a climb asks."""

    @property
    def word(self) -> Word:
        """The verdict's word."""
        ...


@dataclass(frozen=True)
class NotRun:
    """A rung that this box has no data for, or cannot run. It has no record, only a reason."""

    reason: str
    word: Word = Word.NOT_RUN

    @property
    def exit_code(self) -> int:
        """As a run's whose trials were all not run."""
        return exit_code(self.word)


@dataclass(frozen=True)
class Climb:
    """What a climb asks of its rungs. `deadline`: the unix time after which no trial that cannot finish is started."""

    seeds: int  # how many, from 1 on
    platform: str
    lowerer: str | None
    data_dir: str | None
    deadline: float

    def request(self, rung: str) -> Request:
        """Of a rung that trains."""
        return Request(
            rung,
            seeds=tuple(range(1, self.seeds + 1)),
            platform=self.platform,
            lowerer=self.lowerer,
            data_dir=self.data_dir,
            wait_s=self.wait_s,
            deadline=self.deadline,
        )

    @property
    def wait_s(self) -> float:
        """How long a rung waits for a device: as long as the climb has time."""
        return max(self.deadline - time.time(), 1.0)

    def drive(self, rung: str, say: Callable[[str], None]) -> Outcome | SuiteOutcome:
        """A rung without Prefect."""
        if rung != SUITE:
            return drive(self.request(rung), say)
        asked = SuiteRequest(platform=self.platform, lowerer=self.lowerer, wait_s=self.wait_s, deadline=self.deadline)
        return suite.drive(asked, say)


def rungs() -> list[str]:
    """The rungs there are, in the ladder's order; the suite trains nothing and is always there."""
    return sorted({SUITE, *RUNGS}, key=ORDER.index)


def last_rung(to: str = "") -> str:
    """The rung named; by default cifar, or the last there is below it. Raises LadderError for one that is not there."""
    if not to:
        return [rung for rung in rungs() if ORDER.index(rung) <= ORDER.index(LAST_BY_DEFAULT)][-1]
    if to not in rungs():
        raise LadderError(f"there is no rung '{to}' to climb to; the rungs are: {', '.join(rungs())}")
    return to


def climb_through[O: HasWord](
    to: str, run: Callable[[str], O], say: Callable[[str], None], past_suite: bool = False
) -> dict[str, O | NotRun]:
    """Run the rungs up to `to` in order and stop at the first that shows something wrong; a red suite if not told.

    A rung that `run` raises NoData or NotApplicable for is not run, which shows nothing wrong.
    """
    ended: dict[str, O | NotRun] = {}
    for rung in rungs()[: rungs().index(to) + 1]:
        try:
            outcome = run(rung)
        except (NoData, NotApplicable) as error:
            outcome = NotRun(error.message)
            say(f"{rung} is not-run: {error}")
        ended[rung] = outcome
        if outcome.word in STOPS and rung == SUITE != to and past_suite:
            say(f"suite is {outcome.word}; the climb goes on as it was told to, and what follows it stands on that")
        elif outcome.word in STOPS:
            break
        elif outcome.word != Word.PASS and rung != to:
            say(f"{rung} is {outcome.word}, which shows nothing wrong: the climb goes on")
    return ended


def not_climbed(ended: Iterable[str], to: str) -> list[str]:
    """The rungs up to `to` that the climb did not come to."""
    return [rung for rung in rungs()[: rungs().index(to) + 1] if rung not in set(ended)]


def worst(words: Iterable[Word]) -> Word:
    """The word of the whole climb: the first in `Word`'s order, which is worst first."""
    return min(words, key=list(Word).index)


def told(words: Mapping[str, Word], left: Sequence[str]) -> str:
    """`mnist pass, cifar fail: stopped; not climbed: imagenette`."""
    text = ", ".join(f"{rung} {word}" for rung, word in words.items())
    return f"{text}: stopped; not climbed: {', '.join(left)}" if left else text
