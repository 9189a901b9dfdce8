"""One run of IREE's compiler, in a child with a deadline; what it says of an operation that it does not take."""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ladder import children
from ladder.lowerers.iree import targets
from ladder.lowerers.protocol import Unsupported
from ladder.train.artifact import Program

COMPILE_LIMIT_S = 120.0
LOCATE_LIMIT_S = 120.0

# What to write in place of an operation that IREE does not take.
SUBSTITUTES = {
    "stablehlo.select_and_scatter": "write the pool as maxima of shifted slices with its own gradient, "
    "as models/layers.py does, in place of a window reduction",
    "stablehlo.custom_call": "write it in plain jax.numpy or lax; IREE takes the export for cpu, "
    "where threefry is plain integer arithmetic",
    "stablehlo.all_reduce": "run on one device: collectives exist on the PJRT path only (lowerer xla)",
    "stablehlo.cholesky": "write the factorisation as matmuls, or train through lowerer xla",
    "stablehlo.rng": "draw from the step's threefry key (jax.random), not from the device's generator",
}

_ILLEGAL = re.compile(r"(?:failed to legalize|failed to legalize unresolved|unsupported)[^']*operation '([\w.]+)'")
_ALIAS = r"(?:tf\.aliasing_output = \d+ : i32|jax\.buffer_donor = true)"
_ALIASES = re.compile(rf" \{{{_ALIAS}\}}|, {_ALIAS}|{_ALIAS}, ")  # alone, or beside another attribute
_PARTITIONS = re.compile(r"mhlo\.num_(?:partitions|replicas) = (\d+)")


@dataclass(frozen=True)
class Compilation:
    """What a run of the compiler came to: `error` is "" when it made the module."""

    seconds: float
    error: str
    operation: str = ""


def without_donation(text: str) -> str:
    """StableHLO text whose arguments are not given up to results.

    IREE 3.13.0 writes a result into the argument that it aliases even where the old value is still to be read: the
    mlp's backward pass then multiplies by weights that are already updated, and 43 % of fc2's update is wrong.
    """
    return _ALIASES.sub("", text)


def compile_text(
    text: str, output: Path | None, target: targets.Target, flags: Sequence[str], limit_s: float = COMPILE_LIMIT_S
) -> Compilation:
    """Compile a StableHLO text to a module; with no output, only as far as IREE's own input dialects."""
    where = ["-o", str(output)] if output else ["--compile-to=input", "-o", os.devnull]
    argv = [targets.compiler(), "--iree-input-type=stablehlo", *target.compile_flags(), *flags, "-", *where]
    ended = children.run(argv, limit_s, os.environ, without_donation(text))
    if ended.code == 0:
        return Compilation(ended.seconds, "")
    illegal = _ILLEGAL.search(ended.errors)
    lines = [line for line in ended.errors.splitlines() if "error:" in line] or ended.errors.strip().splitlines()
    said = f": {_short(lines[0])}" if lines and ended.code is not None else ""
    return Compilation(ended.seconds, f"{ended.how}{said}", illegal[1] if illegal else "")


def _short(line: str) -> str:
    """The compiler's message without its file, line and column."""
    return line.rsplit("error: ", 1)[-1].strip()[:200]


def check_operations(program: Program, target: targets.Target) -> None:
    """That IREE takes every operation of the program. Seconds, and nothing is made.

    Raises Unsupported naming the operation, where in the net it comes from, and what to write instead.
    """
    for name in program.functions:
        if any(int(n) > 1 for n in _PARTITIONS.findall(program.stablehlo(name)[:2000])):
            raise Unsupported(
                f"{name} of program {program.sha[:12]} is for several devices; "
                "data parallel is n/a on lowerer iree: collectives exist on the PJRT path only",
                "train on one device, or through lowerer xla",
            )
        done = compile_text(program.stablehlo(name), None, target, ())
        if done.error:
            raise unsupported(program, name, done)


def unsupported(program: Program, function: str, done: Compilation) -> Unsupported:
    """The error for a failed compilation, in words."""
    what = f"iree cannot compile {function} of program {program.sha[:12]}"
    if not done.operation:
        return Unsupported(f"{what}: {done.error}", "train through lowerer xla")
    places = locate(program, function, done.operation)
    if places:
        where = f" at {', '.join(places)}"
    elif done.operation.startswith("stablehlo."):
        where = ", which the program does not say the place of,"
    else:
        where = ", which IREE makes of the program's own operations,"
    substitute = SUBSTITUTES.get(done.operation, "write it with other operations, or train through lowerer xla")
    return Unsupported(f"{what}: {done.operation}{where} is not supported", substitute)


def locate(program: Program, function: str, operation: str) -> list[str]:
    """Where in the net an operation comes from, e.g. `Cnn/pool`; [] when the export does not tell."""
    request = {"file": str(program.folder / f"{function}.bin"), "operation": operation}
    env = children.environment({**os.environ, "JAX_PLATFORMS": "cpu"})
    argv = children.command("ladder.lowerers.iree.locate")
    ended = children.run(argv, LOCATE_LIMIT_S, env, json.dumps(request))
    try:
        return list(json.loads(ended.output)) if ended.code == 0 else []
    except ValueError:
        return []
