"""`climb`: the rungs in order, in one flow run, until one breaks."""

import time
from collections.abc import Mapping
from typing import Any

from prefect import flow
from prefect.artifacts import create_table_artifact
from prefect.client.schemas.objects import State
from prefect.states import Cancelled, Failed

from flows.artifacts import key
from flows.climbing import SUITE, climb_through, last_rung, not_climbed, told, worst
from flows.link import Link
from flows.live import ENDED
from flows.live import Cancelled as CancelledFromUI
from flows.rungs import PROFILES_OWN, RUNG_FLOWS, Hours, Lowerer, Platform, Rung, Seeds, offers
from flows.train import final_state
from ladder import paths
from ladder.errors import LadderError
from ladder.request import Request
from ladder.run import Outcome, drive
from ladder.suite import run as suite
from ladder.suite.run import SuiteOutcome, SuiteRequest


@flow(name="climb", persist_result=False, retries=0)
@offers(to=Rung, seeds=Seeds, budget_hours=Hours, platform=Platform, lowerer=Lowerer)
def climb(
    to: str = last_rung(),
    seeds: int = 3,
    budget_hours: float = 8.0,
    platform: str = "cpu",
    lowerer: str = PROFILES_OWN,
    past_suite: bool = False,
) -> State[Any]:
    """Climb the ladder: the suite, then the rungs in order, until one fails, diverges, crashes or hangs.

    Args:
        to: The last rung.
        seeds: How many seeds of every rung, from 1 on.
        budget_hours: A trial that cannot finish within this time, all rungs together, is not started.
        platform: What to run on.
        lowerer: What turns the programs into something that runs.
        past_suite: Go on after a red suite.
    """
    deadline = time.time() + 3600 * budget_hours
    with Link() as link:
        link.claim()
        link.describe(f"platform:{platform}", f"box:{paths.box()}")

        def run(rung: str) -> Outcome | SuiteOutcome:
            return _rung(link, rung, seeds, deadline, str(platform), str(lowerer))

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
        rows = table(ended) + [{"rung": rung, "verdict": "not climbed", "record": ""} for rung in left]
        link.attempt(lambda: create_table_artifact(rows, key("climb", str(platform)), text))
        link.say(text)
        return final_state(worst(words.values()), text)


def table(ended: Mapping[str, Outcome | SuiteOutcome]) -> list[dict[str, str]]:
    """A row per rung that was climbed."""
    return [{"rung": rung, "verdict": o.word, "record": o.record_path.name} for rung, o in ended.items()]


def _rung(link: Link, rung: str, seeds: int, deadline: float, platform: str, lowerer: str) -> Outcome | SuiteOutcome:
    """A rung's flow, in this process; when Prefect is lost, the rung without it. Raises what the rung refused with."""
    left = max(deadline - time.time(), 1.0)
    options: dict[str, Any] = {"platform": platform, "lowerer": lowerer, "wait_s": left}
    options |= {"budget_hours": max(deadline - time.time(), 1e-9) / 3600}
    options |= {} if rung == SUITE else {"seeds": seeds}
    before = len(ENDED)
    state = link.attempt(lambda: RUNG_FLOWS[rung](**options, return_state=True))
    if len(ENDED) == before:
        if state is not None:
            raise RuntimeError(f"{rung}: {state.message}")
        own = None if lowerer == PROFILES_OWN else lowerer
        every = tuple(range(1, seeds + 1))
        if rung == SUITE:
            request = SuiteRequest(platform=platform, lowerer=own, wait_s=left, deadline=deadline)
            ENDED.append(suite.drive(request, link.say))
        else:
            ENDED.append(drive(Request(rung, (), (), every, platform, own, wait_s=left, deadline=deadline), link.say))
    ended = ENDED[-1]
    if isinstance(ended, LadderError):
        raise ended
    return ended
