"""What a test of the suite is, what it reports, and where it runs: the interface of a tier module.

A tier module has, without importing a runtime when it is imported itself,

    cases(side) -> tuple[Case, ...]             what there is to run on a side; read in the parent
    run(names, side, report) -> None            runs these of them, in a child that has the profile's environment

`run` calls `report.start(name)` before each case and `report(name, Outcome(...))` after it; `run_each` does so for
plain functions. What ends the child costs the case in progress only: the names after it run in a new child.
"""

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

LIMIT_S = 300.0


@dataclass(frozen=True)
class Case:
    """A test: its name (unique in the suite), its tier, the family that its tolerance is of, and its time limit."""

    name: str
    tier: int
    family: str
    limit_s: float = LIMIT_S


@dataclass(frozen=True)
class Outcome:
    """How a case ended by its own account. `measured` is held against `bound`; `detail` says why, in words."""

    status: Literal["pass", "fail", "skip"]
    measured: float | None
    bound: float | None
    detail: str


@dataclass(frozen=True)
class Side:
    """What runs the cases: a platform profile, its lowerer, the jax platform, and how many devices there should be.

    `virtual`: the devices are made of the host's cores and count for no hardware. `accelerator`: the profile says that
    the device is not the host's CPU. `precision`: the profile's word for a float32 matmul.
    """

    platform: str
    lowerer: str
    jax_platform: str
    devices: int
    virtual: bool = False
    accelerator: bool = False
    precision: str = "fp32"


class Report(Protocol):
    """Where a tier module tells what it does; each call is on its way to the parent when it returns."""

    def start(self, name: str) -> None:
        """The case begins, and with it its time limit."""
        ...

    def __call__(self, name: str, outcome: Outcome) -> None:
        """The case ended."""
        ...

    def facts(self, **facts: Any) -> None:
        """What the record should know of the box, e.g. `devices`."""
        ...


Test = Callable[[Side], Outcome]


def ran(measured: float, bound: float, detail: str = "") -> Outcome:
    """A pass when `measured` is at most `bound`; else, and when it is not a number, a failure."""
    return Outcome("pass" if measured <= bound else "fail", measured, bound, detail)


def passed(detail: str = "") -> Outcome:
    """A pass with nothing measured."""
    return Outcome("pass", None, None, detail)


def failed(detail: str) -> Outcome:
    """A failure with nothing measured."""
    return Outcome("fail", None, None, detail)


def skipped(why: str) -> Outcome:
    """Not applicable here, and why."""
    return Outcome("skip", None, None, why)


def run_each(tests: Mapping[str, Test], names: Sequence[str], side: Side, report: Report) -> None:
    """Run these of the tests, one after another; one that raises failed, and its exception is told."""
    for name in names:
        report.start(name)
        try:
            outcome = tests[name](side)
        except Exception as error:
            traceback.print_exc()
            outcome = failed(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
        report(name, outcome)
