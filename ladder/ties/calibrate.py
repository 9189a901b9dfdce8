"""Makes bounds.toml: clean ties over 5 seeds, and every fault, on this box.

    python -m ladder.ties.calibrate [--check] [--nets linear,mlp,cnn] [--platforms cpu,iree-cpu] [--curves 5]

A bound is three times the largest clean value, of healthy pairs and of either side's own error, and must be below what
the smallest fault moves that the metric is there to catch. `--check` measures again and writes nothing: it fails when a
clean value is above its bound or a fault below. `--curves`: of how many seeds the loss curve is run to its end. Half
an hour on two cores, most of it the cnn's; a cached IREE program saves up to ten minutes.
"""

import argparse
import math
import os
import platform
import sys
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from ladder import paths
from ladder.data import prepare
from ladder.errors import LadderError
from ladder.recipes import Data, Recipe
from ladder.recipes.mnist import recipes
from ladder.ties.bounds import FILE, Bound, checked, family, load
from ladder.ties.gates import measure
from ladder.ties.side import CURVE, JUDGE, UPDATES, Job, Trace, run
from ladder.ties.tie import Which, resolve
from ladder.train.artifact import PLAIN, VARIANTS, program_for

SEEDS = range(1, 6)
TIMES = 3.0  # a bound over the largest clean value
FALL = 0.75  # G3's stated factor
LAST = {"linear": "fc1/w", "mlp": "fc3/w", "cnn": "fc3/w"}
# What each metric is there to catch. Rounded operands hide in the sum of a batch's losses,
# a gradient 1 % too large in a loss curve of 100 steps (the cnn's variants come apart by 0.12), one ulp everywhere.
CATCHES: dict[tuple[str, str], tuple[str, ...]] = {
    ("G1", "example"): ("tf32", "bf16"),
    ("G1", "loss"): ("bf16",),
    ("G2", "update"): ("scaled-gradient=1.01", "tf32", "bf16", "bf16-state", "stale", "swapped"),
    ("G2", "curve"): ("scaled-gradient=0.01",),
    ("G3", "fall"): ("scaled-gradient=0.01",),
}
LONG = ("scaled-gradient=0.01",)  # faults whose whole loss curve is measured
NAMED = tuple(dict.fromkeys(f for group in CATCHES.values() for f in group))
Values = dict[tuple[str, str], list[tuple[float, str]]]


def sides(platforms: list[str]) -> list[Which]:
    """The healthy sides: XLA on the CPU in each variant, and each other platform in its own."""
    return [*(Which("cpu", variant) for variant in VARIANTS), *(Which(p) for p in platforms if p != "cpu")]


def spelt(fault: str, recipe: Recipe) -> str:
    """A fault with the parameter it needs: the last layer's weight."""
    return f"{fault}={LAST[recipe.net]}" if fault in ("stale", "swapped") else fault


def measured(recipe: Recipe, data: Path, platforms: list[str], curves: int, out: Path) -> tuple[str, Values, Values]:
    """A recipe's family; its clean values and its faults', each with whose it is, by metric."""
    plain, _ = program_for(recipe, "cpu", PLAIN)
    judges = run(JUDGE, plain, recipe, data, [Job(f"judge{s}", s, UPDATES, control=False) for s in SEEDS], out)
    by_seed = [judges[f"judge{s}"] for s in SEEDS]
    traces: dict[str, list[Trace]] = {}
    programs: set[tuple[str, str]] = set()
    for which in sides(platforms):
        side, program = resolve(which, recipe)
        if (which.platform, program.sha) in programs:
            continue  # the variant changes nothing here
        programs.add((which.platform, program.sha))
        tell(f"{recipe.name}: {side.label}")
        jobs = [
            Job(f"{side.lowerer}{which.variant}{s}", s, CURVE if s <= curves else UPDATES, None, str(j.file))
            for s, j in zip(SEEDS, by_seed, strict=True)
        ]
        traces[side.label] = list(run(side, program, recipe, data, jobs, out).values())
    (base, first), *others = traces.items()
    clean: Values = {}
    for label, own in [(base, first), *others]:
        for a, b, judge in zip(first, own, by_seed, strict=True):
            for key, value in measure(a, b, judge).values.items():
                if key == ("G2", "curve") and len(b.losses) < CURVE:
                    continue
                clean.setdefault(key, []).append((value, f"{recipe.net} {label}"))
    tell(f"{recipe.name}: faults")
    faults: Values = {}
    side, program = resolve(Which("cpu", PLAIN), recipe)
    jobs = [
        Job(
            f"fault{i}",
            1,
            CURVE if named in LONG else UPDATES,
            spelt(named, recipe),
            str(by_seed[0].file),
            control=False,
        )
        for i, named in enumerate(NAMED)
    ]
    for named, trace in zip(NAMED, run(side, program, recipe, data, jobs, out).values(), strict=True):
        for key, value in measure(first[0], trace, by_seed[0]).values.items():
            if named in CATCHES.get(key, ()):
                faults.setdefault(key, []).append((value, f"{spelt(named, recipe)} on {recipe.net}"))
    return family(plain), clean, faults


def merged(parts: Iterable[Values]) -> Values:
    """The values of several recipes by metric."""
    all_: Values = {}
    for part in parts:
        for key, values in part.items():
            all_.setdefault(key, []).extend(values)
    return all_


def bound(key: tuple[str, str], fam: str, clean: list[tuple[float, str]], faults: list[tuple[float, str]]) -> Bound:
    """The bound of a metric from its measurements."""
    worst, caught = max(clean), min(faults)
    limit = FALL if key == ("G3", "fall") else rounded(TIMES * worst[0])
    where = f"{platform.machine()}, {os.cpu_count()} cores"
    versions = ", ".join(f"{name} {version(name)}" for name in ("jax", "iree-base-compiler"))
    date = datetime.now(UTC).date().isoformat()
    return Bound(
        *key,
        dtype="float32",
        family=fam,
        bound=limit,
        clean=float(f"{worst[0]:.3g}"),
        of=worst[1],
        n=len(clean),
        fault=caught[1],
        caught=float(f"{caught[0]:.3g}"),
        box=f"{paths.box()} ({where})",
        date=date,
        versions=versions,
    )


def rounded(value: float) -> float:
    """To two digits, upwards."""
    scale = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / scale) * scale:.2g}")


def text(bounds: Iterable[Bound]) -> str:
    """bounds.toml."""
    lines = ["# Made by `python -m ladder.ties.calibrate`; see there. Not edited by hand."]
    for b in bounds:
        lines += ["", "[[bound]]", *(f"{k} = {v!r}".replace("'", '"') for k, v in vars(b).items())]
    return "\n".join(lines) + "\n"


def tell(line: str) -> None:
    """A line on standard error."""
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    """See the module."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--check", action="store_true")
    p.add_argument("--nets", default="linear,mlp,cnn")
    p.add_argument("--platforms", default="cpu,iree-cpu")
    p.add_argument("--curves", type=int, default=len(SEEDS))
    args = p.parse_args()
    d = prepare("mnist5k", data_dir=None, cache=paths.cache(), allow_download=False, say=tell)
    data = Data(d.name, d.identity, d.train, d.test, d.classes, (28, 28, 1))
    by_family: dict[str, list[tuple[Values, Values]]] = {}
    for recipe in recipes(data):
        if recipe.net in args.nets.split(","):
            with tempfile.TemporaryDirectory(prefix="ladder-tie-") as scratch:
                fam, clean, faults = measured(recipe, d.folder, args.platforms.split(","), args.curves, Path(scratch))
            by_family.setdefault(fam, []).append((clean, faults))
    made: list[Bound] = []
    for fam, parts in by_family.items():
        clean, faults = merged(c for c, _ in parts), merged(f for _, f in parts)
        made += [bound(key, fam, clean[key], faults[key]) for key in CATCHES if key in clean]
    for b in made:
        tell(f"{b.family} {b.gate} {b.metric}: clean {b.clean:g} ({b.of}), bound {b.bound:g}, {b.fault} {b.caught:g}")
    kept = load() if FILE.exists() else ()
    if args.check:
        sys.exit(check(made, kept))
    others = [b for b in kept if b.family not in by_family]
    FILE.write_text(text(checked((*others, *made))))


def check(made: list[Bound], kept: tuple[Bound, ...]) -> int:
    """Whether what was measured now agrees with the bounds there are; 1 when one is wrong, each told."""
    wrong = 0
    for b in made:
        old = next((k for k in kept if (k.gate, k.metric, k.family) == (b.gate, b.metric, b.family)), None)
        if old is None or not b.clean <= old.bound < b.caught:
            tell(f"{b.family} {b.gate} {b.metric}: the bound {old and old.bound} does not hold")
            wrong = 1
    return wrong


if __name__ == "__main__":
    try:
        main()
    except LadderError as error:
        sys.exit(str(error))
