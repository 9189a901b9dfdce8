"""Functions of tier 2 on disk: exported in a child, with their inputs and their float64 references. No jax here."""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache as once
from importlib.metadata import version
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout

from ladder import children, paths
from ladder.errors import LadderError
from ladder.lowerers.functions import PlainFunction
from ladder.train.artifact import TRACED_WITH, Array

Host = dict[str, np.ndarray]
EXPORT_LIMIT_S = 600.0
META = "function.json"
TOGETHER = 8  # functions that one child exports
MUTANT = "LADDER_SUITE_MUTANT"  # a fault to trace into the functions; set by the catalogue of faults only
# What a function is traced from, by its tracer: how it is run and judged is not among it.
SOURCES = {
    "ladder.suite.operators.parts": (
        "models/layers.py",
        "models/norms.py",
        "models/pool.py",
        "ladder/suite/export.py",
        "ladder/suite/operators/part.py",
        "ladder/suite/operators/parts.py",
        "ladder/suite/operators/functions.py",
        "ladder/suite/operators/threefry.py",
    ),
    "ladder.suite.nets.steps": (
        "models/*.py",
        "ladder/suite/export.py",
        "ladder/suite/nets/steps.py",
        "ladder/train/program.py",
        "ladder/train/optimiser.py",
    ),
}
INJECTED_FROM = ("ladder/suite/operators/injections.py", "ladder/suite/nets/injections.py")


@dataclass(frozen=True)
class Request:
    """What to export: `tracer` is the module whose `trace(name, seed, fault)` gives the function, see its child."""

    tracer: str
    name: str
    platform: str
    seed: int = 1
    fault: str = ""


@dataclass(frozen=True)
class Exported:
    """A function to be run, what it is run on, and what float64 arithmetic gives, by output (none: see goldens)."""

    plain: PlainFunction
    inputs: Host
    reference: Host


def functions_for(requests: Sequence[Request]) -> dict[str, Exported]:
    """Each request's function by name, exported now, all in one child, or cached.

    Raises LadderError when the child fails, takes longer than EXPORT_LIMIT_S, or the cache cannot be written.
    """
    folders = {request.name: folder_for(request) for request in requests}
    root = paths.cache() / "suite"
    try:
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(root / ".lock", timeout=EXPORT_LIMIT_S):
            missing = [r for r in requests if not (folders[r.name] / META).exists()]
            if missing:
                _export([{**asdict(r), "folder": str(folders[r.name])} for r in missing])
    except Timeout:
        told = f"waited {EXPORT_LIMIT_S:.0f} s for another process to export the suite's functions"
        raise LadderError(told, f"wait for the process that holds {root / '.lock'}, or end it") from None
    except OSError as error:
        told = f"the cache {root} cannot be written: {error.strerror}"
        raise LadderError(told, "set LADDER_CACHE to a folder that can") from error
    return {name: read(folder) for name, folder in folders.items()}


class Batches:
    """Functions by name, exported when they are asked for, several at a time: a child's start costs more than one."""

    def __init__(self, tracer: str, names: Sequence[str], platform: str) -> None:
        self._requests = [Request(tracer, name, platform, fault=os.environ.get(MUTANT, "")) for name in names]
        self._found: dict[str, Exported] = {}

    def __getitem__(self, name: str) -> Exported:
        if name not in self._found:
            at = [r.name for r in self._requests].index(name)
            self._found |= functions_for(self._requests[at : at + TOGETHER])
        return self._found[name]


def folder_for(request: Request) -> Path:
    """Where a request's function lies, or would: by the request, the sources and the tracing versions."""
    decides = [
        asdict(request),
        source_sha(request.tracer, bool(request.fault)),
        {name: version(name) for name in TRACED_WITH},
    ]
    key = hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:24]
    return paths.cache() / "suite" / f"{request.name}-{request.platform}-{key}"


@once
def source_sha(tracer: str, mutant: bool) -> str:
    """SHA-256 of the sources that a tracer's functions, or mutants of them, are traced from."""
    root = Path(__file__).resolve().parents[2]
    patterns = (*SOURCES[tracer], *(INJECTED_FROM if mutant else ()))
    digest = hashlib.sha256()
    for path in sorted(path for pattern in patterns for path in root.glob(pattern)):
        digest.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def write(folder: Path, plain: PlainFunction, inputs: Host, reference: Host) -> None:
    """Put a function into its folder, whole or not at all."""
    scratch = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    (scratch / "function.bin").write_bytes(plain.serialised)
    (scratch / "function.mlir").write_text(plain.stablehlo)
    np.savez(scratch / "inputs.npz", allow_pickle=False, **inputs)
    np.savez(scratch / "reference.npz", allow_pickle=False, **reference)
    signature = {"inputs": [asdict(a) for a in plain.inputs], "outputs": [asdict(a) for a in plain.outputs]}
    (scratch / META).write_text(json.dumps({"name": plain.name, "platform": plain.platform, **signature}))
    with contextlib.suppress(OSError):
        shutil.rmtree(folder)
    os.rename(scratch, folder)


def read(folder: Path) -> Exported:
    """The function in a folder. Raises LadderError when it is not whole."""
    try:
        meta = json.loads((folder / META).read_text())
        inputs, outputs = (
            tuple(Array(a["name"], tuple(a["shape"]), a["dtype"]) for a in meta[k]) for k in ("inputs", "outputs")
        )
        plain = PlainFunction(
            meta["name"],
            meta["platform"],
            (folder / "function.bin").read_bytes(),
            (folder / "function.mlir").read_text(),
            inputs,
            outputs,
        )
        return Exported(plain, _arrays(folder / "inputs.npz"), _arrays(folder / "reference.npz"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LadderError(f"function {folder.name} in the cache is not whole: {error!r}", f"rm -r {folder}") from error


def _arrays(file: Path) -> Host:
    with np.load(file, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _export(requests: list[dict[str, object]]) -> None:
    # jax reads its settings from JAX_*, and some of them change what is traced.
    plain = {k: v for k, v in os.environ.items() if not k.startswith("JAX_") and k != "XLA_FLAGS"}
    env = children.environment({**plain, "JAX_PLATFORMS": "cpu"})
    ended = children.run(children.command("ladder.suite.export"), EXPORT_LIMIT_S, env, json.dumps(requests))
    if ended.code != 0:
        last = (ended.errors.strip().splitlines() or ["no output"])[-1]
        raise LadderError(f"export of the suite's functions failed ({ended.how}): {last}")
