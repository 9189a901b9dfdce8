"""The bounds of the gates: data, each with the clean values that it was set from and the smallest fault above it."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from ladder.errors import LadderError
from ladder.train.artifact import Program

FILE = Path(__file__).parent / "bounds.toml"
AGAIN = "python -m ladder.ties.calibrate"


@dataclass(frozen=True)
class Bound:
    """What a metric of a gate may be at most, and why.

    `clean` is the largest value of `n` healthy ties, `of` whose it is; `fault` the injected fault that moves the metric
    least among those that it is there to catch, to `caught`.
    """

    gate: str
    metric: str
    dtype: str
    family: str  # of the program's operations, see `family`
    bound: float
    clean: float
    of: str
    n: int
    fault: str
    caught: float
    box: str
    date: str
    versions: str


def load(file: Path = FILE) -> tuple[Bound, ...]:
    """All bounds. Raises LadderError for a file that is not whole, or a bound that its own measurements contradict."""
    try:
        return checked(tuple(Bound(**entry) for entry in tomllib.loads(file.read_text("utf-8"))["bound"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LadderError(f"the bounds in {file.name} cannot be read: {error}", AGAIN) from error


def checked(bounds: tuple[Bound, ...]) -> tuple[Bound, ...]:
    """The bounds, each of which lies between what is clean and what the smallest fault moves, or LadderError."""
    if wrong := [b for b in bounds if not b.clean <= b.bound < b.caught]:
        b = wrong[0]
        told = f"{b.gate} {b.metric} of {b.family} {b.dtype}: {b.bound:g} is not between {b.clean:g} and {b.caught:g}"
        raise LadderError(f"a bound must be above what is clean and below what the smallest fault moves: {told}", AGAIN)
    return bounds


def find(bounds: tuple[Bound, ...], gate: str, metric: str, dtype: str, family: str) -> Bound:
    """The bound of a gate's metric for a dtype and an operation family. Raises LadderError where none was measured."""
    for b in bounds:
        if (b.gate, b.metric, b.dtype, b.family) == (gate, metric, dtype, family):
            return b
    raise LadderError(f"no bound was measured for {gate} {metric}, {dtype} {family} programs", AGAIN)


def family(program: Program) -> str:
    """Whose bounds apply: "conv" where the step has a convolution, else "dense", or "affine" for one dense layer alone.

    A hidden value near zero that changes sides moves the update a hundred times as far as rounding does, so that a net
    without hidden layers is held to tighter bounds.
    """
    step = program.stablehlo("step")
    if "stablehlo.convolution" in step:
        return "conv"
    return "dense" if step.count("stablehlo.dot_general") > 2 else "affine"  # forward and weight gradient
