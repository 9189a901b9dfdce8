"""The export child of tier 2: traces functions on CPU jax, and works out what float64 arithmetic gives.

`python -m ladder.suite.export`, with a list of ladder.suite.exported.Request and their folders on stdin. A tracer
module has `trace(name, seed, fault) -> Traced`.
"""

import importlib
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.export
import numpy as np

from ladder.lowerers.functions import PlainFunction
from ladder.suite.exported import write
from ladder.train.artifact import Array
from ladder.train.export import text_without_locations

Host = dict[str, np.ndarray]


@dataclass(frozen=True)
class Traced:
    """A function of named arrays, the arrays, and the function of the float64 arrays that tells what is right.

    At the boundary float32, int32 and uint32 only. `reference` runs with jax's 64-bit types; None: it has none.
    """

    function: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    inputs: Host
    reference: Callable[[Host], Mapping[str, Any]] | None


def exported(name: str, platform: str, traced: Traced) -> PlainFunction:
    """The function as a lowerer takes it."""
    names = tuple(traced.inputs)
    shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in traced.inputs.values()]
    outputs: list[str] = []

    def flat(*values: jax.Array) -> tuple[jax.Array, ...]:
        found = traced.function(dict(zip(names, values, strict=True)))
        outputs[:] = found
        return tuple(found.values())

    # keep_unused: the StableHLO signature is the boundary, whole, for a runtime that knows nothing of jax.
    done = jax.export.export(jax.jit(flat, keep_unused=True), platforms=[platform])(*shapes)
    return PlainFunction(
        name,
        platform,
        bytes(done.serialize()),
        text_without_locations(done),
        tuple(Array(k, a.shape, str(a.dtype)) for k, a in traced.inputs.items()),
        tuple(Array(k, tuple(a.shape), str(a.dtype)) for k, a in zip(outputs, done.out_avals, strict=True)),
    )


def referenced(traced: Traced) -> Host:
    """What float64 arithmetic gives for the same inputs."""
    if traced.reference is None:
        return {}
    wide = {k: a.astype(np.float64) if a.dtype == np.float32 else a for k, a in traced.inputs.items()}
    with jax.enable_x64(True):
        return {k: np.asarray(v) for k, v in traced.reference(wide).items()}


def main() -> None:
    """Serve the requests on stdin."""
    jax.config.update("jax_threefry_partitionable", True)  # recorded by being fixed here
    jax.config.update("jax_default_prng_impl", "threefry2x32")
    for request in json.load(sys.stdin):
        traced = importlib.import_module(request["tracer"]).trace(request["name"], request["seed"], request["fault"])
        plain = exported(request["name"], request["platform"], traced)
        write(Path(request["folder"]), plain, traced.inputs, referenced(traced))


if __name__ == "__main__":
    main()
