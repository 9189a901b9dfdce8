"""The judge: the very same program with every float widened to float64, through XLA on the CPU.

A lowerer like the others; only a child with JAX_ENABLE_X64 makes one. The StableHLO text is widened rather than the
recipe traced again: what is judged is then the program, its variant and its constants, and not a second reading of it.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.export
import numpy as np
from jaxlib.mlir.dialects import stablehlo

from ladder.lowerers.protocol import Arrays, Compiled, Value
from ladder.ties.side import JUDGE
from ladder.ties.widen import widen
from ladder.train.artifact import FUNCTIONS, Program


class Float64:
    """The judge on the CPU; see ladder.lowerers.protocol.Lowerer."""

    name = JUDGE.lowerer

    def __init__(self) -> None:
        assert jax.config.jax_enable_x64, "the judge's process needs JAX_ENABLE_X64=1"

    def describe(self) -> dict[str, str]:
        """What it runs on."""
        return {"device": "cpu:0", "device_kind": "cpu", "runtime": f"jax {jax.__version__}", "platform_version": ""}

    def compile(self, program: Program) -> "Float64Executable":
        """Every function widened and compiled."""
        return Float64Executable({name: _call(program, name) for name in FUNCTIONS})


def _call(program: Program, function: str) -> Any:
    exported = jax.export.deserialize(bytearray(program.exported(function)))
    wide = stablehlo.serialize_portable_artifact_str(
        widen(program.stablehlo(function)).encode(), stablehlo.get_current_version()
    )
    return jax.jit(
        dataclasses.replace(
            exported,
            mlir_module_serialized=wide,
            in_avals=tuple(map(_wide_aval, exported.in_avals)),
            out_avals=tuple(map(_wide_aval, exported.out_avals)),
        ).call
    )


def _wide_aval(aval: Any) -> Any:
    return aval.update(dtype=np.dtype(np.float64)) if jax.numpy.issubdtype(aval.dtype, np.floating) else aval


class Float64Executable:
    """The widened functions; see ladder.lowerers.protocol.Executable. State and loss come back as float64."""

    def __init__(self, calls: Mapping[str, Any]) -> None:
        self.compiled = Compiled({}, {})
        self.feed, self.test_feed = calls["feed"], calls["test_feed"]
        self._step, self.eval = calls["step"], calls["eval"]

    def put(self, array: np.ndarray) -> Value:
        """Copy to the device, floats as float64."""
        wide = jax.numpy.issubdtype(array.dtype, np.floating)
        return jax.device_put(array.astype(np.float64) if wide else array)

    def get(self, value: Value) -> np.ndarray:
        """Wait, then copy to the host."""
        return np.array(value)

    def step(self, state: Arrays, batch: Arrays, lr: np.float32, key: np.ndarray) -> tuple[Arrays, Arrays]:
        """One training step with the sides' own rate, a float32, widened."""
        return self._step(state, batch, np.float64(lr), key)
