"""A test of tier 2 traced, exported and run in this process, as a child of the suite does it."""

import functools

from ladder import lowerers
from ladder.suite import nets, operators
from ladder.suite.case import Outcome, Side, run_each
from ladder.suite.export import exported, referenced
from ladder.suite.exported import Exported
from ladder.suite.nets import running as net_running
from ladder.suite.nets import steps
from ladder.suite.operators import parts, running

XLA = Side("cpu", "xla", "cpu", 1)
IREE = Side("iree-cpu", "iree", "cpu", 1)


@functools.cache
def lowerer(side: Side) -> lowerers.Functions:
    """One of a side for all tests."""
    return lowerers.functions(side.lowerer, side.jax_platform)


def outcome(name: str, fault: str = "", side: Side = XLA) -> Outcome:
    """The test `name` with a fault traced into it, or "" for none."""
    net = name.startswith("net-")

    def test(side: Side) -> Outcome:
        traced = (steps if net else parts).trace(name, 1, fault)
        function = Exported(exported(name, "cpu", traced), traced.inputs, referenced(traced))
        return (net_running if net else running).outcome(name, function, lowerer(side), side)

    told = Told()
    run_each({name: test}, [name], side, told)
    return told.outcomes[name]


class Told:
    """A report that keeps what it is told."""

    def __init__(self) -> None:
        self.outcomes: dict[str, Outcome] = {}

    def start(self, name: str) -> None:
        """A test begins."""

    def __call__(self, name: str, outcome: Outcome) -> None:
        """A test ended."""
        self.outcomes[name] = outcome

    def facts(self, **facts: object) -> None:
        """Of the box."""


def names() -> list[str]:
    """Every test of tier 2."""
    return [case.name for case in (*operators.cases(XLA), *nets.cases(XLA))]
