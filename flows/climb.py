"""`climb`: the rungs in order, in one flow run, until one breaks."""

import time
from collections.abc import Mapping
from typing import Any

from prefect import flow
from prefect.artifacts import create_table_artifact
from prefect.client.schemas.objects import State
from prefect.states import Cancelled, Failed

from flows.artifacts import key
from flows.climbing import SUITE, Climb, NotRun, climb_through, last_rung, not_climbed, told, worst
from flows.link import Link
from flows.live import ENDED
from flows.live import Cancelled as CancelledFromUI
from flows.rungs import PROFILES_OWN, RUNG_FLOWS, Hours, Lowerer, Platform, Rung, Seeds, offers
from flows.train import final_state
from ladder import paths
from ladder.errors import LadderError
from ladder.run import Outcome
from ladder.suite.run import SuiteOutcome


@flow(name="climb", persist_result=False, retries=0)
@offers(to=Rung, seeds=Seeds, budget_hours=Hours, platform=Platform, lowerer=Lowerer)
def climb(
    to: str = last_rung(),
    seeds: int = 3,
    budget_hours: float = 8.0,
    platform: str = "cpu",
    lowerer: str = PROFILES_OWN,
    data_dir: str = "",
    past_suite: bool = False,
) -> State[Any]:
    """Climb the ladder: the suite, then the rungs in order, until one fails, diverges, crashes or hangs.

    Args:
        to: The last rung.
        seeds: How many seeds of every rung, from 1 on.
        budget_hours: A trial that cannot finish within this time, all rungs together, is not started.
        platform: What to run on.
        lowerer: What turns the programs into something that runs.
        data_dir: A folder with the original files of the datasets, on this box. A rung that it has none for is not run.
        past_suite: Go on after a red suite.
    """
    own = None if lowerer == PROFILES_OWN else str(lowerer)
    asked = Climb(seeds, str(platform), own, data_dir or None, time.time() + 3600 * budget_hours)
    with Link() as link:
        link.claim()
        link.describe(f"platform:{platform}", f"box:{paths.box()}")

        def run(rung: str) -> Outcome | SuiteOutcome:
            return _rung(link, rung, asked)

        try:
            ended = climb_through(str(to), run, link.say, past_suite)
        except CancelledFromUI as error:
            return Cancelled(message=str(error))
        except LadderError as error:
            return Failed(name="refused", message=str(error))
        words = {rung: outcome.word for rung, outcome in ended.items()}
        left = not_climbed(ended, str(to))
        text = told(words, left)
        link.find_again()
        rows = table(ended) + [{"rung": rung, "verdict": "not climbed", "record": "", "why": ""} for rung in left]
        link.attempt(lambda: create_table_artifact(rows, key("climb", str(platform)), text))
        link.say(text)
        return final_state(worst(words.values()), text)


def table(ended: Mapping[str, Outcome | SuiteOutcome | NotRun]) -> list[dict[str, str]]:
    """A row per rung that was come to."""
    told = {rung: ("", o.reason) if isinstance(o, NotRun) else (o.record_path.name, "") for rung, o in ended.items()}
    return [
        {"rung": rung, "verdict": ended[rung].word, "record": record, "why": why}
        for rung, (record, why) in told.items()
    ]


def _rung(link: Link, rung: str, asked: Climb) -> Outcome | SuiteOutcome:
    """A rung's flow, in this process; when Prefect is lost, the rung without it. Raises what the rung refused with."""
    options: dict[str, Any] = {
        "platform": asked.platform,
        "lowerer": asked.lowerer or PROFILES_OWN,
        "wait_s": asked.wait_s,
        "budget_hours": max(asked.deadline - time.time(), 1e-9) / 3600,
    }
    options |= {} if rung == SUITE else {"seeds": asked.seeds, "data_dir": asked.data_dir or ""}
    before = len(ENDED)
    state = link.attempt(lambda: RUNG_FLOWS[rung](**options, return_state=True))
    if len(ENDED) == before:
        if state is not None:
            raise RuntimeError(f"{rung}: {state.message}")
        try:
            ENDED.append(asked.drive(rung, link.say))
        except LadderError as error:
            ENDED.append(error)
    ended = ENDED[-1]
    if isinstance(ended, LadderError):
        raise ended
    return ended
