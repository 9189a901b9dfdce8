"""The catalogue of injected faults: each with the test that must go red. `ladder suite faults` runs them all.

A fault is a function that breaks something beneath the tests, in the suite's child or in a process that a test starts:
the tests themselves have no switch. A tier adds its own in a module of FAULTS, as a tuple `FAULTS` of Fault.
"""

import importlib
import os
from dataclasses import dataclass
from typing import Any

VARIABLE = "LADDER_SUITE_FAULT"  # `module:function`, for the children of a catalogue run; never of a suite run
MODULES = ("ladder.suite.faults_runner", "ladder.suite.faults_runtime", "ladder.suite.faults_numerics")


@dataclass(frozen=True)
class Fault:
    """A fault: what it is, the test that catches it, and as which state.

    `inject` is `module:function`, called with the child's report before any test. `limit_s` shortens the test's limit.
    """

    name: str
    what: str
    test: str
    inject: str
    caught_as: tuple[str, ...] = ("fail",)
    devices: int = 1
    platform: str = "cpu"
    limit_s: float = 0.0
    environment: tuple[tuple[str, str], ...] = ()
    says: str = ""  # what the test's detail must hold


def inject(report: Any = None) -> None:
    """Inject the fault that this process was started with, if any."""
    if named := os.environ.get(VARIABLE):
        module, _, function = named.partition(":")
        getattr(importlib.import_module(module), function)(report)
