"""The catalogue of injected faults: each with the test that must go red. `ladder suite faults` runs them all.

A fault is a function that breaks something beneath the tests, in the suite's child or in a process that a test starts:
the tests themselves have no switch. A tier adds its own in a module of MODULES, as a tuple `FAULTS` of Fault.
"""

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

VARIABLE = "LADDER_SUITE_FAULT"  # `module:function`, for the children of a catalogue run; never of a suite run
MODULES = (
    "ladder.suite.faults_platform",
    "ladder.suite.faults_runtime",
    "ladder.suite.faults_runner",
    "ladder.suite.faults_numerics",
)


@dataclass(frozen=True)
class Fault:
    """A fault: what is wrong, the test that catches it, as which state, and what the test's detail must then say.

    `inject` is `module:function`, called with the child's report before any test; or, where `test` is "" and the fault
    is one of the run itself, called here: it returns what the run said, "" if it said nothing. `files` lie in a folder
    that is first on PATH and PYTHONPATH, programs executable; `{folder}` in `environment` stands for it. `side` changes
    the fields of Side; `limit_s` is the test's time limit in place of its own.
    """

    name: str
    what: str
    test: str
    inject: str = ""
    caught_as: tuple[str, ...] = ("fail",)
    says: str = ""
    devices: int = 1
    platform: str = "cpu"
    limit_s: float | None = None
    side: Mapping[str, Any] = field(default_factory=dict[str, Any])
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    files: Mapping[str, str] = field(default_factory=dict[str, str])


def catalogue() -> tuple[Fault, ...]:
    """All faults of all tiers."""
    return tuple(fault for name in MODULES for fault in importlib.import_module(name).FAULTS)


def inject(report: Any = None) -> None:
    """Inject the fault that this process was started with, if any."""
    if named := os.environ.get(VARIABLE):
        call(named, report)


def call(named: str, *given: Any) -> Any:
    """Call `module:function`."""
    module, _, function = named.partition(":")
    return getattr(importlib.import_module(module), function)(*given)
