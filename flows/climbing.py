"""Which rungs a climb takes and when it stops. No Prefect here: the flow and `ladder climb --no-server` share it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from ladder.errors import LadderError
from ladder.recipes import RUNGS
from ladder.verdict import Word

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
) -> dict[str, O]:
    """Run the rungs up to `to` in order and stop at the first that shows something wrong; a red suite if not told."""
    ended: dict[str, O] = {}
    for rung in rungs()[: rungs().index(to) + 1]:
        ended[rung] = outcome = run(rung)
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
