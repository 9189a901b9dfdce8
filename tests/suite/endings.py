"""A tier module whose tests end in every way; no runtime is loaded. Run in the runner's child."""

import os
import time
from collections.abc import Sequence

from ladder.suite.case import Case, Outcome, Report, Side, Test, passed, ran, run_each, skipped


def _abort(side: Side) -> Outcome:
    os.abort()


def _hang(side: Side) -> Outcome:
    time.sleep(60)
    return passed()


def _raise(side: Side) -> Outcome:
    raise ValueError("no such thing")


TESTS: dict[str, Test] = {
    "right": lambda side: ran(1.0, 2.0, "near enough"),
    "aborts": _abort,
    "wrong": lambda side: ran(3.0, 2.0),
    "hangs": _hang,
    "not-a-number": lambda side: ran(float("nan"), 2.0),
    "raises": _raise,
    "not-here": lambda side: skipped("there is one device"),
    "last": lambda side: passed(side.platform),
}


def cases(side: Side) -> tuple[Case, ...]:
    return tuple(Case(name, 0, "endings", 1.0 if name == "hangs" else 30.0) for name in TESTS)


def run(names: Sequence[str], side: Side, report: Report) -> None:
    run_each(TESTS, names, side, report)
