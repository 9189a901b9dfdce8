"""`climb`: the rungs in order, in one flow run, until one breaks."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from prefect import flow
from prefect.artifacts import create_table_artifact
from prefect.client.schemas.objects import State
from prefect.states import Cancelled, Failed

from flows.artifacts import key
from flows.link import Link
from flows.live import ENDED
from flows.live import Cancelled as CancelledFromUI
from flows.rungs import PROFILES_OWN, RUNG_FLOWS, Hours, Lowerer, Platform, Rung, Seeds, offers
from flows.train import final_state
from ladder import paths
from ladder.errors import LadderError
from ladder.request import Request
from ladder.run import Outcome, drive
from ladder.verdict import Word

STOPS = (Word.FAIL, Word.DIVERGED, Word.CRASHED, Word.TIMEOUT)
LAST_BY_DEFAULT = "cifar"  # the rungs above it take days on a small box

ORDER = tuple(RUNG_FLOWS)
DEFAULT_TO = LAST_BY_DEFAULT if LAST_BY_DEFAULT in ORDER else ORDER[-1]


@flow(name="climb", persist_result=False, retries=0)
@offers(to=Rung, seeds=Seeds, budget_hours=Hours, platform=Platform, lowerer=Lowerer)
def climb(
    to: str = DEFAULT_TO,
    seeds: int = 3,
    budget_hours: float = 8.0,
    platform: str = "cpu",
    lowerer: str = PROFILES_OWN,
) -> State[Any]:
    """Climb the ladder: the rungs in order, until one fails, diverges, crashes or hangs.

    Args:
        to: The last rung.
        seeds: How many seeds of every rung, from 1 on.
        budget_hours: A trial that cannot finish within this time, all rungs together, is not started.
        platform: What to run on.
        lowerer: What turns the programs into something that runs.
    """
    deadline = time.time() + 3600 * budget_hours
    rungs = ORDER[: ORDER.index(str(to)) + 1]
    ended: dict[str, Outcome] = {}
    with Link() as link:
        link.claim()
        link.describe(f"platform:{platform}", f"box:{paths.box()}")
        try:
            for rung in rungs:
                ended[rung] = outcome = _rung(link, rung, seeds, deadline, str(platform), str(lowerer))
                if outcome.word in STOPS:
                    break
                if outcome.word != Word.PASS and rung != rungs[-1]:
                    link.say(f"{rung} is {outcome.word}, which shows nothing wrong: the climb goes on")
        except CancelledFromUI as error:
            return Cancelled(message=str(error))
        except LadderError as error:
            return Failed(name="refused", message=str(error))
        text = told({rung: outcome.word for rung, outcome in ended.items()}, rungs)
        link.find_again()
        link.attempt(lambda: create_table_artifact(table(ended, rungs), key("climb", str(platform)), text))
        link.say(text)
        return final_state(worst(outcome.word for outcome in ended.values()), text)


def table(ended: Mapping[str, Outcome], rungs: Sequence[str]) -> list[dict[str, str]]:
    """A row per rung."""
    rows = [{"rung": rung, "verdict": o.word, "record": o.record_path.name} for rung, o in ended.items()]
    return rows + [{"rung": rung, "verdict": "not climbed", "record": ""} for rung in rungs[len(ended) :]]


def worst(words: Iterable[Word]) -> Word:
    """The word of the whole climb: the first in `Word`'s order, which is worst first."""
    return min(words, key=list(Word).index)


def told(words: Mapping[str, Word], rungs: Sequence[str]) -> str:
    """`mnist pass, cifar fail: stopped; not climbed: imagenette`."""
    text = ", ".join(f"{rung} {word}" for rung, word in words.items())
    left = rungs[len(words) :]
    return f"{text}: stopped; not climbed: {', '.join(left)}" if left else text


def _rung(link: Link, rung: str, seeds: int, deadline: float, platform: str, lowerer: str) -> Outcome:
    """A rung's flow, in this process; when Prefect is lost, the rung without it. Raises what the rung refused with."""
    left = max(deadline - time.time(), 1.0)
    options = {"platform": platform, "lowerer": lowerer, "wait_s": left, "budget_hours": left / 3600}
    before = len(ENDED)
    state = link.attempt(lambda: RUNG_FLOWS[rung](seeds=seeds, **options, return_state=True))
    if len(ENDED) == before:
        if state is not None:
            raise RuntimeError(f"{rung}: {state.message}")
        own = None if lowerer == PROFILES_OWN else lowerer
        every = tuple(range(1, seeds + 1))
        ENDED.append(drive(Request(rung, (), (), every, platform, own, wait_s=left, deadline=deadline), link.say))
    ended = ENDED[-1]
    if isinstance(ended, LadderError):
        raise ended
    return ended
