"""Runs the tests of tier 2b, in a child that has the profile's environment."""

from collections.abc import Mapping, Sequence

import numpy as np

from ladder import lowerers
from ladder.lowerers import Functions
from ladder.suite import exported, numerics
from ladder.suite.case import Outcome, Report, Side, run_each
from ladder.suite.exported import Exported
from ladder.suite.nets import goldens
from ladder.suite.nets.cases import FAMILIES, split

TRACER = "ladder.suite.nets.steps"


def run(names: Sequence[str], side: Side, report: Report) -> None:
    """Run these tests; see ladder.suite.case."""
    lowerer = lowerers.functions(side.lowerer, side.jax_platform)
    functions = exported.Batches(TRACER, names, side.jax_platform)
    run_each({name: lambda _, n=name: outcome(n, functions[n], lowerer, side) for name in names}, names, side, report)


def outcome(name: str, function: Exported, lowerer: Functions, side: Side) -> Outcome:
    """One test, compiled, run and held against its golden. Raises Unsupported, or LadderError without a golden."""
    net, dtype = split(name)
    golden = goldens.read(net)
    found = lowerer.function(function.plain)(function.inputs)
    errors = goldens.errors(goldens.summaries(net, function.inputs, found), golden)
    return judge(errors, numerics.bounds("net", FAMILIES[net], dtype, side.platform))


def statistics(errors: Mapping[str, float]) -> dict[str, float]:
    """What is gated of the outputs' errors, and of how many; median and 90th percentile do not see one wrong output."""
    values = list(errors.values())
    return {
        "median": float(np.median(values)),
        "p90": float(np.quantile(values, 0.9, method="higher")),
        "worst": max(values),
        "n": len(values),
    }


def judge(errors: Mapping[str, float], allowed: Mapping[str, float]) -> Outcome:
    """The statistic of the outputs' errors that is furthest over, or nearest to, its bound."""
    found = statistics(errors)
    what = max(allowed, key=lambda k: found[k] / allowed[k])
    worst = max(errors, key=lambda k: errors[k])
    told = f"{what} error of {len(errors)} outputs; the worst is {worst}, {errors[worst]:.2g}"
    return Outcome("pass" if found[what] <= allowed[what] else "fail", found[what], allowed[what], told)
