"""The walk over a program's flag sets: compile, try in a child, keep the fastest that agrees with XLA on the CPU."""

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from ladder import children
from ladder.errors import LadderError
from ladder.lowerers import probe
from ladder.lowerers.iree import compiling
from ladder.lowerers.iree.flags import FlagSet
from ladder.lowerers.iree.targets import Target
from ladder.lowerers.protocol import Unsupported
from ladder.ties import bounds
from ladder.ties.measure import compare
from ladder.train.artifact import FUNCTIONS, Program

TUNE_LIMIT_S = 600.0  # of a whole walk; what is not tried by then is not
TRY_LIMIT_S = 120.0  # of the child that runs one candidate, or XLA
REFERENCE = {"JAX_PLATFORMS": "cpu"}

# How far what a candidate gives may be from XLA's, as a share of it; an update by the ties' measured bound of one step,
# G2. With donated arguments, see compiling.py, a convolution's update is 9e-2 to 1.1 apart (bench2, 2026-12-01).
LOSS = 1e-4
COUNT = 0.005  # of a test batch's images, for correct and top5, where two logits may tie

KEPT, RIGHT, FAILED = "kept", "right", "failed to compile"


@dataclass(frozen=True)
class Tried:
    """What came of a flag set: `outcome` is kept, right (but slower), the same code, or why it cannot be used."""

    flag_set: str
    outcome: str
    detail: str = ""
    ms: float | None = None  # the fastest step
    median_ms: float | None = None
    compile_s: float = 0.0

    def told(self) -> str:
        """One line."""
        ms = f", {self.ms:.3g} ms a step" if self.ms is not None else ""
        return f"{self.flag_set}: {self.outcome}{ms}" + (f" ({self.detail})" if self.detail else "")


@dataclass(frozen=True)
class Choice:
    """The flag set of a program, why, and what else was tried."""

    flag_set: str
    flags: tuple[str, ...]
    reason: str
    tried: tuple[Tried, ...]
    seconds: float
    compile_seconds: dict[str, float] = field(default_factory=dict[str, float])

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """The choice that `dataclasses.asdict` wrote. Raises KeyError or TypeError for another."""
        values: dict[str, Any] = {**fields, "flags": tuple(fields["flags"])}
        values["tried"] = tuple(Tried(**one) for one in fields["tried"])
        return cls(**values)

    @property
    def kept(self) -> Tried:
        """The line of the flag set that was kept."""
        return next(one for one in self.tried if one.flag_set == self.flag_set)


Say = Callable[[str], None]


def tune(program: Program, target: Target, device: int, sets: Sequence[FlagSet], scratch: Path, say: Say) -> Choice:
    """Choose a flag set; the chosen modules are left in `scratch` as `<function>.vmfb`.

    Raises Unsupported when no flag set can be used, LadderError when XLA cannot say what is right, or time runs out
    before any was found.
    """
    walk = _Walk(program, target, device, scratch)
    return walk.choose(sets, say)


class _Walk:
    def __init__(self, program: Program, target: Target, device: int, scratch: Path) -> None:
        self._program, self._target, self._device, self._scratch = program, target, device, scratch
        self._begun = time.monotonic()
        self._failed: compiling.Compilation | None = None

    def _left(self) -> float:
        return TUNE_LIMIT_S - (time.monotonic() - self._begun)

    def choose(self, sets: Sequence[FlagSet], say: Say) -> Choice:
        compiling.check_operations(self._program, self._target)
        self._right = _xla(self._program, self._scratch)
        tried: dict[str, Tried] = {}
        codes: dict[str, str] = {}
        for one in sets:
            tried[one.name] = self._step(one, codes)
            say(f"iree: {tried[one.name].told()}")
        by_name = {one.name: one for one in sets}
        for candidate in sorted((t for t in tried.values() if t.outcome == RIGHT), key=lambda t: t.ms or 0.0):
            chosen = by_name[candidate.flag_set]
            told, seconds = self._rest(chosen)
            if told.outcome == KEPT:
                tried[chosen.name] = replace(candidate, outcome=KEPT)
                agreeing = sum(t.outcome in (KEPT, RIGHT) for t in tried.values())
                reason = f"the fastest of {agreeing} that agree with XLA on the CPU, of {len(sets)} flag sets"
                took = time.monotonic() - self._begun
                seconds["step"] = candidate.compile_s
                return Choice(chosen.name, chosen.flags, reason, tuple(tried.values()), round(took, 1), seconds)
            tried[chosen.name] = told
            say(f"iree: {told.told()}")
        raise self._nothing(tuple(tried.values()))

    def _step(self, one: FlagSet, codes: dict[str, str]) -> Tried:
        """Compile and try the step with a flag set. `right`, where it is, until it is known to be the fastest."""
        if self._left() <= 0:
            return Tried(one.name, "not tried", f"the walk's {TUNE_LIMIT_S:.0f} s were over")
        module = self._folder(one) / "step.vmfb"
        done = self._compile(one, "step")
        if done.error:
            return Tried(one.name, FAILED, done.error, compile_s=done.seconds)
        code = hashlib.sha256(module.read_bytes()).hexdigest()
        if code in codes:
            return Tried(one.name, "the same code", f"as {codes[code]}", compile_s=done.seconds)
        codes[code] = one.name
        error, told = self._try(one, ("step",))
        if error:
            return replace(error, compile_s=done.seconds)
        ms, median = told["step"]["least"], told["step"]["median"]
        return Tried(one.name, RIGHT, ms=ms, median_ms=median, compile_s=done.seconds)

    def _rest(self, one: FlagSet) -> tuple[Tried, dict[str, float]]:
        """Compile and try the other functions with the flag set that was fastest for the step."""
        seconds: dict[str, float] = {}
        for name in (f for f in FUNCTIONS if f != "step"):
            done = self._compile(one, name)
            if done.error:
                return Tried(one.name, FAILED, f"{name}: {done.error}", compile_s=done.seconds), seconds
            seconds[name] = done.seconds
        error, _ = self._try(one, FUNCTIONS)
        if error:
            return error, seconds
        for name in FUNCTIONS:
            os.replace(self._folder(one) / f"{name}.vmfb", self._scratch / f"{name}.vmfb")
        return Tried(one.name, KEPT), seconds

    def _folder(self, one: FlagSet) -> Path:
        folder = self._scratch / one.name
        folder.mkdir(exist_ok=True)
        return folder

    def _compile(self, one: FlagSet, name: str) -> compiling.Compilation:
        module = self._folder(one) / f"{name}.vmfb"
        limit = min(compiling.COMPILE_LIMIT_S, max(self._left(), 10.0))
        done = compiling.compile_text(self._program.stablehlo(name), module, self._target, one.flags, limit)
        if done.operation:
            self._failed = done
        return done

    def _try(self, one: FlagSet, functions: Sequence[str]) -> tuple[Tried | None, dict[str, dict[str, float]]]:
        """Run the functions' modules in a child: what is wrong with them, if anything, and the step's times."""
        folder = self._folder(one)
        request = {
            "program": str(self._program.folder),
            "modules": {name: str(folder / f"{name}.vmfb") for name in functions},
            "device": self._device,
            "timed": list(functions) == ["step"],
            "out": str(folder),
        }
        argv = children.command("ladder.lowerers.iree.candidate")
        ended = children.run(argv, TRY_LIMIT_S, children.environment(os.environ), json.dumps(request))
        if ended.code is None:
            return Tried(one.name, "ran past its deadline", ended.how), {}
        if ended.code:
            last = (ended.errors.strip().splitlines() or ["no output"])[-1]
            return Tried(one.name, "crashed", f"{ended.how}: {last[:200]}" if ended.code > 0 else ended.how), {}
        if wrong := disagreement(self._program, self._right, _load(folder / "outputs.npz")):
            return Tried(one.name, "wrong", wrong), {}
        return None, json.loads((folder / "told.json").read_text())

    def _nothing(self, tried: Sequence[Tried]) -> LadderError:
        if self._failed and all(t.outcome == FAILED for t in tried):
            return compiling.unsupported(self._program, "step", self._failed)
        told = "; ".join(t.told() for t in tried)
        return Unsupported(
            f"iree has no usable code for program {self._program.sha[:12]} on {self._target.name}: {told}",
            "train through lowerer xla",
        )


def _xla(program: Program, scratch: Path) -> probe.Host:
    """What every function gives through XLA on the CPU, computed in a child."""
    folder = scratch / "xla"
    folder.mkdir()
    request = {"lowerer": "xla", "jax_platform": "cpu", "device": 0, "program": str(program.folder), "out": str(folder)}
    argv = children.command("ladder.lowerers.probe")
    env = children.environment({**os.environ, **REFERENCE})
    ended = children.run(argv, TRY_LIMIT_S, env, json.dumps(request))
    if ended.code != 0:
        last = (ended.errors.strip().splitlines() or ["no output"])[-1]
        raise LadderError(f"XLA on the CPU, which iree's code is held against, did not run: {ended.how}: {last}")
    return _load(folder / "outputs.npz")


def _load(path: Path) -> probe.Host:
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def disagreement(program: Program, right: probe.Host, found: probe.Host) -> str:
    """What of the functions' results is further from XLA's than it may be, in words, or "".

    The state is compared by its update, leaf by leaf, as the ties do; the float32 bound is for every program, so that
    one which computes in fewer bits is taken only if it is as near. A batch
    is compared by its bytes; counts and losses by their size.
    """
    names = {key: key.removeprefix("step:") for key in found if key.startswith("step:") and key != "step:loss"}
    if names:
        after = [{leaf: side[key] for key, leaf in names.items()} for side in (right, found)]
        worst = compare(probe.start(program), after[0], after[1])[0]
        limit = bounds.find(bounds.load(), "G2", "update", "float32", bounds.family(program)).bound
        if worst.non_finite or not worst.relative <= limit:
            return f"the update of {worst.name} is {worst.relative:.2g} of itself apart; at most {limit:g}"
    for key in found:
        name, expected, got = key.partition(":")[2], right[key], found[key]
        if "feed" in key and not np.array_equal(expected, got):
            return f"{key} has other values"
        if name in ("loss", "loss_sum") and not abs(float(got) - float(expected)) <= LOSS * abs(float(expected)):
            return f"{key} is {float(got):.8g}, not {float(expected):.8g}"
        if name in ("correct", "top5") and abs(int(got) - int(expected)) > max(1, COUNT * program.test_batch):
            return f"{key} is {int(got)}, not {int(expected)}"
    return ""
