"""Golden summaries of a net's step, made in float64 on the CPU, committed as text under ladder/suite/goldens.

    ladder suite goldens [--check] [--only NET,NET]

The format is that of reference/recipes.md section 5 (brettkoonce/lean4-mlir, scripts/platform @35eb1c94): for each
output its count, L2 norm, largest element, how many values are not finite, and up to 128 seeded samples. Of what the
step updates it is the *update*, out − in, that is kept. `--check` makes them again and changes nothing.
"""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ladder import children, rng
from ladder.errors import LadderError

FOLDER = Path(__file__).parents[1] / "goldens"
SAMPLES = 128
LIMIT_S = 900.0  # of the child that makes all: 40 s on two cores
NOTHING = 1e-9  # of the median rms: what float64 leaves of an update that is zero, e.g. of a bias before a norm
NOISE = 10.0  # times the median rms: what may be there instead; bf16 leaves 2.6 of such a bias's gradient (cifar8-bn)
AGREE = 1e-6  # of what is made again with what is committed, relative; the text has nine digits
MAKE = "ladder suite goldens"
Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Summary:
    """What a golden keeps of an output."""

    count: int
    l2: float
    largest: float
    non_finite: int
    samples: NDArray[np.float64]

    @property
    def rms(self) -> float:
        """Root mean square of all elements."""
        return self.l2 / np.sqrt(self.count)


def updates(inputs: Arrays, outputs: Arrays) -> dict[str, NDArray[np.float64]]:
    """out − in of what a step updates, and the others as they are, in float64."""
    return {k: np.asarray(v, np.float64) - np.asarray(inputs.get(k, 0.0), np.float64) for k, v in outputs.items()}


def summary(net: str, output: str, value: NDArray[np.float64]) -> Summary:
    """Of one output: its samples are at places of the stream `golden/<net>/<output>`."""
    flat = value.ravel()
    places = np.arange(flat.size)
    if flat.size > SAMPLES:
        places = (rng.raw(f"suite/golden/{net}/{output}", SAMPLES) % np.uint64(flat.size)).astype(np.int64)
    finite = np.isfinite(flat)
    with np.errstate(all="ignore"):
        l2, largest = float(np.linalg.norm(flat)), float(np.abs(flat).max())
    return Summary(flat.size, l2, largest, int((~finite).sum()), flat[places])


def summaries(net: str, inputs: Arrays, outputs: Arrays) -> dict[str, Summary]:
    """Of every output of a step."""
    return {k: summary(net, k, v) for k, v in updates(inputs, outputs).items()}


def errors(found: Mapping[str, Summary], golden: Mapping[str, Summary]) -> dict[str, float]:
    """Each output's error: the larger of the samples' rms difference and the difference of rms, over the golden's rms.

    An output whose rms is below a hundredth of the median one is measured against that; one that is zero but for
    float64's rounding has no right size in another type: 0 up to NOISE, infinite beyond. Infinite where a value is not
    finite. Raises ValueError for outputs or counts that differ.
    """
    if found.keys() != golden.keys():
        raise ValueError(f"outputs {', '.join(sorted(found.keys() ^ golden.keys()))} are on one side only")
    if uneven := [k for k, g in golden.items() if found[k].count != g.count]:
        raise ValueError(
            f"output {uneven[0]} has {found[uneven[0]].count} values, its golden {golden[uneven[0]].count}"
        )
    median = float(np.median([g.rms for g in golden.values()]))
    return {k: _error(found[k], g, median) for k, g in golden.items()}


def _error(found: Summary, golden: Summary, median: float) -> float:
    if found.non_finite or golden.non_finite:
        return float("inf")
    if golden.rms < NOTHING * median:
        return 0.0 if found.rms < NOISE * median else float("inf")
    apart = max(float(np.sqrt(np.mean((found.samples - golden.samples) ** 2))), abs(found.rms - golden.rms))
    return apart / max(golden.rms, 0.01 * median)


def text(golden: Mapping[str, Summary]) -> str:
    """A golden file: a line an output, tab-separated."""
    lines = [f"# {MAKE}: output, count, l2, largest, non-finite, samples; float64 on the CPU"]
    for name, s in golden.items():
        told = [name, str(s.count), f"{s.l2:.9g}", f"{s.largest:.9g}", str(s.non_finite)]
        lines.append("\t".join([*told, *(f"{v:.9g}" for v in s.samples)]))
    return "\n".join(lines) + "\n"


def read(net: str) -> dict[str, Summary]:
    """A net's golden. Raises LadderError when it is missing, empty or not whole: no baseline is no pass."""
    file = FOLDER / f"{net}.tsv"
    try:
        rows = [line.split("\t") for line in file.read_text("utf-8").splitlines() if not line.startswith("#")]
        golden = {
            name: Summary(int(count), float(l2), float(largest), int(bad), np.array(samples, np.float64))
            for name, count, l2, largest, bad, *samples in rows
        }
        if not golden or any(len(g.samples) != min(g.count, SAMPLES) for g in golden.values()):
            raise ValueError("it is empty, or a line of it is cut short")
        return golden
    except (OSError, ValueError) as error:
        raise LadderError(f"the golden {file.name} cannot be read: {error}", MAKE) from error


def made(net: str) -> dict[str, Summary]:
    """A net's golden made now. In a process of jax's 64-bit types on the CPU only."""
    import jax

    from ladder.suite.nets.steps import inputs, step_of

    start = inputs(net)
    wide = {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in start.items()}
    outputs = {k: np.asarray(v) for k, v in jax.jit(step_of(net, "float64"))(wide).items()}
    if narrow := [k for k, v in outputs.items() if v.dtype != np.float64]:
        raise LadderError(f"golden {net}: {narrow[0]} is {outputs[narrow[0]].dtype}, not float64")
    return summaries(net, start, outputs)


def stale(nets: Iterable[str]) -> list[str]:
    """The nets whose committed golden is not what is made now."""
    wrong: list[str] = []
    for net in nets:
        new, old = made(net), read(net)
        if new.keys() != old.keys() or max(errors(new, old).values()) > AGREE:
            wrong.append(net)
    return wrong


def main() -> None:
    """The child: makes the goldens of the nets on its command line, or with --check tells which are stale."""
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    nets = sys.argv[-1].split(",")
    if "--check" in sys.argv:
        print(" ".join(stale(nets)))
        return
    FOLDER.mkdir(exist_ok=True)
    for net in nets:
        (FOLDER / f"{net}.tsv").write_text(text(made(net)), "utf-8")


def remake(nets: Sequence[str], check: bool) -> list[str]:
    """Make these nets' goldens in a child, or with `check` the stale ones of them. Raises LadderError."""
    argv = [*children.command("ladder.suite.nets.goldens"), *(["--check"] if check else []), ",".join(nets)]
    ended = children.run(argv, LIMIT_S, children.environment(os.environ))
    if ended.code != 0:
        said = ended.errors.strip().splitlines() or ["it said nothing"]
        raise LadderError(f"making the goldens of {', '.join(nets)} failed ({ended.how}): {said[-1]}")
    return ended.output.split()


if __name__ == "__main__":
    try:
        main()
    except LadderError as error:
        sys.exit(str(error))
