"""`ladder run` and `ladder climb`: the same flows as the UI's, in this process; or the library path without them."""

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from flows import server
from flows.climbing import SUITE, Climb, NotRun, climb_through, last_rung
from flows.climbing import rungs as rungs_in_order
from ladder.data.source import NoData
from ladder.errors import LadderError
from ladder.report import TERMINAL, told, verdict_table
from ladder.request import Request, check, profile_for
from ladder.run import Outcome, drive
from ladder.suite import report as suite_report
from ladder.suite import run as suite
from ladder.suite.run import SuiteOutcome, SuiteRequest

Say = Callable[[str], None]
AnyOutcome = Outcome | SuiteOutcome | NotRun
NO_SERVER = "--no-server runs it without Prefect"


@dataclass(frozen=True)
class Ended:
    """A rung and how it ended."""

    rung: str
    outcome: AnyOutcome

    def to_json(self) -> dict[str, Any]:
        """The stable keys of `--json`."""
        o = self.outcome
        record = None if isinstance(o, NotRun) else os.path.relpath(o.record_path)
        if isinstance(o, NotRun):
            found = {"reason": o.reason}
        elif isinstance(o, SuiteOutcome):
            found = {"tests": [asdict(row) for row in o.results], "expectations_diff": o.diff}
        else:
            found = {"cells": [asdict(judgement) for judgement in o.judgements], "alarms": o.alarms}
        return {"rung": self.rung, "verdict": str(o.word), "exit_code": o.exit_code, "record": record, **found}

    @property
    def columns(self) -> tuple[str, ...]:
        """Of the table, those for a terminal; all if empty."""
        return () if isinstance(self.outcome, SuiteOutcome) else TERMINAL

    def table(self) -> list[dict[str, str]]:
        """The verdict table, or the suite's results; nothing of a rung that was not run."""
        o = self.outcome
        if isinstance(o, NotRun):
            return []
        return suite_report.table(o.results) if isinstance(o, SuiteOutcome) else verdict_table(o.judgements)

    def lines(self) -> list[str]:
        """What stands under the table."""
        o = self.outcome
        if isinstance(o, NotRun):
            return [f"{self.rung}: {o.word}: {o.reason}"]
        if isinstance(o, SuiteOutcome):
            why = [*suite_report.red(o.results), *o.diff.splitlines(), suite_report.counts(o.results)]
        else:
            why = [f"{j.net} {j.arm}: {told(asdict(j))}" for j in o.judgements]
            why += [f"{o.alarms} early alarms: see the record's REPORT.md"] if o.alarms else []
        return [*why, f"{self.rung}: {o.word}; record: {os.path.relpath(o.record_path)}"]


def run_rung(request: Request, no_server: bool, say: Say) -> Outcome:
    """One rung. Raises LadderError for a wrong request, and for a configured server that does not answer."""
    check(request)  # what is wrong with it is told at once, not after a server has started
    if no_server:
        return drive(request, say)
    connect(say)
    from flows import rungs

    options: dict[str, Any] = {
        "exact_seeds": list(request.seeds),
        "platform": request.platform,
        "lowerer": request.lowerer or rungs.PROFILES_OWN,
        "epochs": request.epochs,
        "data_dir": request.data_dir or "",
        "reference": request.reference or "",
        "fault": request.fault or "",
        "fresh": request.fresh,
        "wait_s": request.wait_s,
        "feed": request.feed,
        "accumulate": request.accumulate,
    }
    options |= {"nets": list(request.nets)} if request.nets else {}
    options |= {"arms": list(request.arms)} if request.arms else {}
    found = _told(_call(lambda: rungs.RUNG_FLOWS[request.rung](**options, return_state=True))[0])
    assert isinstance(found, Outcome)
    return found


def run_suite(request: SuiteRequest, no_server: bool, say: Say) -> SuiteOutcome:
    """The suite rung. Raises LadderError for a wrong request, and for a configured server that does not answer."""
    suite.plan(request)
    if no_server:
        return suite.drive(request, say)
    connect(say)
    from flows import rungs

    options: dict[str, Any] = {
        "tiers": [str(tier) for tier in request.tiers],
        "only": list(request.only),
        "platform": request.platform,
        "lowerer": request.lowerer or rungs.PROFILES_OWN,
        "devices": request.devices,
        "wait_s": request.wait_s,
    }
    found = _told(_call(lambda: rungs.suite(**options, return_state=True))[0])
    assert isinstance(found, SuiteOutcome)
    return found


def climb_rungs(
    to: str,
    seeds: int,
    budget_hours: float,
    platform: str,
    lowerer: str | None,
    data_dir: str | None,
    past_suite: bool,
    no_server: bool,
    say: Say,
) -> list[Ended]:
    """The suite, then the rungs in order up to `to`."""
    to = last_rung(to)
    asked = Climb(seeds, platform, lowerer, data_dir, time.time() + 3600 * budget_hours)
    profile_for(platform, lowerer) if to == SUITE else check(asked.request(to))
    if budget_hours <= 0:
        raise LadderError(f"--budget {budget_hours:g}: more than 0 hours")
    if data_dir and not os.path.isdir(data_dir):
        raise LadderError(f"--data-dir {data_dir} is not there, or no folder")
    if no_server:
        climbed = climb_through(to, lambda rung: asked.drive(rung, say), say, past_suite)
        return [Ended(rung, outcome) for rung, outcome in climbed.items()]
    connect(say)
    from flows import climb, rungs

    options: dict[str, Any] = {
        "platform": platform,
        "lowerer": lowerer or rungs.PROFILES_OWN,
        "budget_hours": budget_hours,
        "data_dir": data_dir or "",
        "past_suite": past_suite,
    }
    ended = _call(lambda: climb.climb(to=to, seeds=seeds, **options, return_state=True))
    outcomes = [NotRun(one.message) if isinstance(one, NoData) else _told(one) for one in ended]
    return [Ended(rung, outcome) for rung, outcome in zip(rungs_in_order(), outcomes, strict=False)]


def connect(say: Say) -> None:
    """Set this process up for the server there is, before Prefect is imported, and end what died on it."""
    chosen = server.choose()
    say(f"Prefect: {chosen.api} ({chosen.why})" if chosen.api else f"Prefect: {chosen.why}")
    if chosen.api and not server.answers(chosen.api):
        raise LadderError(f"the Prefect server at {chosen.api} ({chosen.why}) does not answer", NO_SERVER)
    os.environ.update(server.environment(chosen))
    from flows.reap import reap

    try:
        for line in reap():
            say(line)
    except Exception as error:
        say(f"looking for dead runs: {error!r}")


def _call(flow: Callable[[], Any]) -> list[Outcome | SuiteOutcome | LadderError]:
    """Call a flow for what its rungs came to, or refused with; that does not depend on the server living through it."""
    from flows.live import ENDED

    before = len(ENDED)
    try:
        state = flow()
    except Exception as error:
        if len(ENDED) == before:
            raise LadderError(f"Prefect could not run the flow: {error!r}", NO_SERVER) from error
        state = None
    if len(ENDED) == before:
        raise RuntimeError(f"the flow ended as {state and state.name}: {state and state.message}")
    return ENDED[before:]


def _told(ended: Outcome | SuiteOutcome | LadderError) -> Outcome | SuiteOutcome:
    """How a rung ended. Raises what it refused with."""
    if isinstance(ended, LadderError):
        raise ended
    return ended
