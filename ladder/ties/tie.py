"""A tie: one recipe's program on two sides, measured from one state, judged in float64, held against the bounds."""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ladder import paths, rng
from ladder.data import prepare
from ladder.data.identity import PARTS
from ladder.errors import LadderError
from ladder.lowerers import faulty
from ladder.recipes import RUNGS, Data, Recipe, rung_recipes
from ladder.request import profile_for
from ladder.ties import bounds
from ladder.ties.gates import Line, Measured, lines, measure
from ladder.ties.side import CURVE, JUDGE, UPDATES, Job, Refused, Side, Trace, run
from ladder.ties.widen import obstacle
from ladder.train.artifact import FUNCTIONS, Program, program_for

Say = Callable[[str], None]


@dataclass(frozen=True)
class Which:
    """A side as a user names it: a profile, another variant than the profile's, and a fault to inject."""

    platform: str
    variant: str = ""
    fault: str = ""


@dataclass(frozen=True)
class Tie:
    """How a tie ended. `refused` says why a side did not come to its end, or is ""."""

    recipe: str
    a: str
    b: str
    programs: tuple[str, str]
    data: str
    lines: tuple[Line, ...]
    measured: Measured | None
    refused: str = ""

    @property
    def word(self) -> str:
        """`pass`, `fail`, or `not-run` when a gate was not measured and no other failed."""
        if self.refused or not all(line.passed for line in self.lines):
            return "fail"
        return "pass" if any(line.gate == "G3" for line in self.lines) else "not-run"

    @property
    def exit_code(self) -> int:
        """0 pass, 1 fail, 3 not run."""
        return {"pass": 0, "fail": 1, "not-run": 3}[self.word]

    def to_json(self) -> dict[str, Any]:
        """Stable keys; a value that is not finite is null."""
        leaves = self.measured.leaves if self.measured else ()
        return {
            **{k: getattr(self, k) for k in ("recipe", "a", "b", "programs", "data", "word", "refused")},
            "gates": [{**_finite(asdict(line)), "passed": line.passed} for line in self.lines],
            "leaves": [[_finite(asdict(error)) for error in step] for step in leaves],
        }


def _finite(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {k: None if isinstance(v, float) and not np.isfinite(v) else v for k, v in fields.items()}


def recipe_named(name: str, data_dir: Path | None, say: Say) -> tuple[Recipe, Path | None, str]:
    """The recipe `linear-sgd` on the data there is: recipe, the dataset's folder, and what it is.

    Without a data folder (None), synthetic images of the recipe's shape take its place. Raises LadderError for an
    unknown recipe, or a given `data_dir` without the dataset.
    """
    known = {r.name: r for rung in RUNGS for r in rung_recipes(rung)}
    if name not in known:
        raise LadderError(f"there is no recipe '{name}'; the recipes are: {', '.join(known)}", "ladder tie linear-sgd")
    wanted = known[name]
    try:
        d = prepare(wanted.data.name, data_dir=data_dir, cache=paths.cache(), allow_download=False, say=say)
    except LadderError as error:
        if data_dir is not None:
            raise
        say(f"data: SYNTHETIC images of {wanted.data.name}'s shape: {error.message}")
        few = replace(wanted.data, name="synthetic", identity="synthetic", train=8 * wanted.batch, test=256)
        return replace(wanted, data=few), None, f"synthetic images of {wanted.data.name}'s shape"
    data = replace(wanted.data, name=d.name, identity=d.identity, train=d.train, test=d.test)
    return replace(wanted, data=data), d.folder, f"{d.name}, {d.source}"


def synthetic(data: Data, folder: Path) -> Path:
    """Images u8 of a dataset's shape in a folder: a prototype a class under uniform noise, which a net can learn."""
    folder.mkdir()
    prototypes = rng.uniform("tie/prototypes", (data.classes, *data.shape))
    for part, count in (("train", data.train), ("test", data.test)):
        words = rng.raw(f"tie/{part}/labels", count)
        labels = (words % np.uint64(data.classes)).astype(np.uint8)
        noise = rng.uniform(f"tie/{part}/noise", (count, *data.shape))
        np.save(folder / f"{part}_labels.npy", labels)
        np.save(folder / f"{part}_images.npy", (256 * (0.3 * prototypes[labels] + 0.7 * noise)).astype(np.uint8))
    assert {p.stem for p in folder.glob("*.npy")} == set(PARTS)
    return folder


def resolve(which: Which, recipe: Recipe) -> tuple[Side, Program]:
    """A side's profile and its program. Raises LadderError for an unknown platform, variant or fault."""
    if which.fault:
        faulty.parse(which.fault)
    profile = profile_for(which.platform, None)
    program, _ = program_for(recipe, profile.jax_platform, which.variant or profile.variant)
    told = [which.platform, program.variant, *([f"fault {which.fault}"] if which.fault else [])]
    return Side(", ".join(told), profile.lowerer, profile.jax_platform, profile.environment), program


def tie(recipe: Recipe, data: Path | None, source: str, a: Which, b: Which, seed: int, steps: int, say: Say) -> Tie:
    """Run both sides and the judge, each in a child of its own, and hold what they did against the bounds.

    Raises LadderError for what cannot be asked; a side that does not come to its end is a failed tie.
    """
    (side_a, program_a), (side_b, program_b) = resolve(a, recipe), resolve(b, recipe)
    if program_a.leaves != program_b.leaves:
        raise LadderError(f"{side_a.label} and {side_b.label} have no state in common: their leaves differ")
    known = bounds.load()
    what = (recipe.name, side_a.label, side_b.label, (program_a.sha, program_b.sha), source)
    plain, _ = program_for(recipe, "cpu")
    with tempfile.TemporaryDirectory(prefix="ladder-tie-") as scratch:
        out = Path(scratch)
        data = data or synthetic(recipe.data, out / "data")
        try:
            judge = judged(plain, recipe, data, seed, out, say)
            eval_state = str(judge.file) if judge else ""
            traces: list[Trace] = []
            for letter, side, program, which in (("a", side_a, program_a, a), ("b", side_b, program_b, b)):
                say(f"{letter}: {side.label}, {steps} steps")
                job = Job(
                    letter, seed, steps, which.fault or None, eval_state or (str(traces[0].file) if traces else "")
                )
                traces.append(run(side, program, recipe, data, [job], out)[letter])
        except Refused as error:
            return Tie(*what, (), None, error.message)
        measured = measure(traces[0], traces[1], judge)
    return Tie(*what, lines(measured, known, recipe.dtype, bounds.family(plain)), measured)


def judged(program: Program, recipe: Recipe, data: Path, seed: int, out: Path, say: Say) -> Trace | None:
    """The judge's trace of the plain program; None, said aloud, where the program has no float64 form."""
    if why := next((o for f in FUNCTIONS if (o := obstacle(program.stablehlo(f)))), ""):
        say(f"no judge: {why} has no float64 form; the sides are held against each other only")
        return None
    say(f"judge: float64 on the CPU, {UPDATES} steps")
    return run(JUDGE, program, recipe, data, [Job("judge", seed, UPDATES, control=False)], out)["judge"]


__all__ = ["CURVE", "Tie", "Which", "recipe_named", "tie"]
