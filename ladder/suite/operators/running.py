"""Runs the tests of tier 2a, in a child that has the profile's environment."""

from collections.abc import Sequence

from ladder import lowerers
from ladder.lowerers import Functions
from ladder.suite import exported, numerics
from ladder.suite.case import Outcome, Report, Side, failed, run_each
from ladder.suite.exported import Exported
from ladder.suite.operators import precision
from ladder.suite.operators.cases import PRODUCTS, split

TRACER = "ladder.suite.operators.parts"


def run(names: Sequence[str], side: Side, report: Report) -> None:
    """Run these tests; see ladder.suite.case."""
    lowerer = lowerers.functions(side.lowerer, side.jax_platform)
    functions = exported.Batches(TRACER, names, side.jax_platform)
    run_each({name: lambda _, n=name: outcome(n, functions[n], lowerer, side) for name in names}, names, side, report)


def outcome(name: str, function: Exported, lowerer: Functions, side: Side) -> Outcome:
    """One test, compiled, run and judged. Raises Unsupported."""
    found = lowerer.function(function.plain)(function.inputs)
    errors = numerics.compare(found, function.reference)
    if name == "precision":
        return precise(errors, side.precision)
    operator, dtype = split(name)
    known = numerics.differences(side.platform, name)
    as_dtype = product_dtype(operator, dtype, side.precision)
    return numerics.judge(errors, numerics.bounds("operator", operator, as_dtype, side.platform), known)


def product_dtype(operator: str, dtype: str, declared: str) -> str:
    """The dtype whose tolerance holds: TF32 operands have float16's mantissa, where a profile says that it has them."""
    wide = dtype == "float32" and operator in PRODUCTS and declared != "fp32"
    return "float16" if wide else dtype


def precise(errors: Sequence[numerics.OutputError], declared: str) -> Outcome:
    """The measured class of a matmul and a convolution, held against the profile's word."""
    found = {e.output.partition("/")[0]: precision.classify(e.l2) for e in errors}
    told = ", ".join(f"{what} {name}" for what, name in sorted(found.items()))
    worst = max(e.l2 for e in errors)
    if "none" in found.values():
        return failed(f"{told}: less than bfloat16 ({worst:.2g}); the profile declares {declared}")
    if declared == precision.UNKNOWN:
        return Outcome("pass", worst, None, f"{told}; the profile declares nothing")
    status = "pass" if set(found.values()) == {declared} else "fail"
    return Outcome(status, worst, precision.limit(declared), f"{told}; the profile declares {declared}")
