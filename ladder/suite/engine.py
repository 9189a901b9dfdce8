"""The smallest thing that a lowerer can be asked for, stage by stage: copy in, compile a product, run it, copy out."""

import os
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ladder.errors import LadderError
from ladder.suite.case import Side

M, K, N = 256, 128, 64
PRODUCT = f"""func.func @main(%a: tensor<{M}x{K}xf32>, %b: tensor<{K}x{N}xf32>) -> tensor<{M}x{N}xf32> {{
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST]
    : (tensor<{M}x{K}xf32>, tensor<{K}x{N}xf32>) -> tensor<{M}x{N}xf32>
  return %0 : tensor<{M}x{N}xf32>
}}
"""
COUNT = f"""func.func @main() -> tensor<{N}xf32> {{
  %0 = stablehlo.iota dim = 0 : tensor<{N}xf32>
  return %0 : tensor<{N}xf32>
}}
"""
Value = Any


class Engine(Protocol):
    """A lowerer on a box, without programs."""

    devices: list[str]

    def put(self, array: np.ndarray, device: int) -> Value:
        """Copy to a device."""
        ...

    def get(self, value: Value) -> np.ndarray:
        """Wait, and copy to the host."""
        ...

    def compile(self, device: int) -> Callable[[Value, Value], Value]:
        """The product of f32 [M, K] and [K, N] in full precision, compiled for one device."""
        ...

    def count(self, device: int) -> Value:
        """f32 0, 1, ... N - 1, made on the device of nothing that was copied in."""
        ...

    def ran_on(self, value: Value) -> list[str]:
        """The devices that hold a value."""
        ...


class XlaEngine:
    """jax on one platform."""

    def __init__(self, side: Side) -> None:
        import jax

        self._devices = jax.devices(side.jax_platform)
        self.devices = [_name(d) for d in self._devices]

    def put(self, array: np.ndarray, device: int) -> Value:
        """Copy to a device."""
        import jax

        return jax.device_put(array, self._devices[device])

    def get(self, value: Value) -> np.ndarray:
        """Wait, and copy to the host."""
        return np.array(value)

    def compile(self, device: int) -> Callable[[Value, Value], Value]:
        """The product, ahead of time, for one device of those there are."""
        import jax
        from jax.sharding import SingleDeviceSharding

        where = SingleDeviceSharding(self._devices[device])
        shapes = (jax.ShapeDtypeStruct(shape, np.float32, sharding=where) for shape in ((M, K), (K, N)))
        with jax.default_matmul_precision("highest"):
            return jax.jit(lambda a, b: a @ b).lower(*shapes).compile()

    def count(self, device: int) -> Value:
        """Made on the device."""
        import jax
        import jax.numpy as jnp
        from jax.sharding import SingleDeviceSharding

        where = SingleDeviceSharding(self._devices[device])
        return jax.jit(lambda: jnp.arange(N, dtype=jnp.float32), out_shardings=where)()

    def ran_on(self, value: Value) -> list[str]:
        """The devices that hold a value."""
        return sorted(_name(d) for d in value.devices())


class IreeEngine:
    """IREE on the target that the profile's environment names: as many logical devices of its driver as asked for."""

    def __init__(self, side: Side) -> None:
        from ladder.lowerers.iree import targets
        from ladder.lowerers.iree.executable import Device

        self._target = targets.target(os.environ)
        self._devices = [Device(self._target, 0 if side.virtual else n) for n in range(side.devices)]
        self.devices = [f"{self._target.driver}:{n}" for n in range(side.devices)]

    def put(self, array: np.ndarray, device: int) -> Value:
        """Copy to a device."""
        return self._devices[device].put(array), device

    def get(self, value: Value) -> np.ndarray:
        """Copy to the host."""
        return self._devices[value[1]].get(value[0])

    def compile(self, device: int) -> Callable[[Value, Value], Value]:
        """The product as a module of one device."""
        call = self._module(PRODUCT, device, {"a": (M, K), "b": (K, N)}, (M, N))
        return lambda a, b: (call({"a": a[0], "b": b[0]})["out"], device)

    def count(self, device: int) -> Value:
        """Made on the device."""
        return self._module(COUNT, device, {}, (N,))({})["out"], device

    def _module(
        self, text: str, device: int, inputs: dict[str, tuple[int, ...]], output: tuple[int, ...]
    ) -> Callable[[dict[str, Value]], dict[str, Value]]:
        from ladder.lowerers.iree.compiling import compile_text
        from ladder.lowerers.iree.executable import Call
        from ladder.train.artifact import Array

        with tempfile.TemporaryDirectory() as folder:
            module = Path(folder) / "module.vmfb"
            done = compile_text(text, module, self._target, ())
            if done.error:
                raise LadderError(f"iree cannot compile it: {done.error}")
            given = [Array(name, shape, "float32") for name, shape in inputs.items()]
            return Call(self._devices[device], module, given, [Array("out", output, "float32")])

    def ran_on(self, value: Value) -> list[str]:
        """The device that holds a value."""
        return [self.devices[value[1]]]


@lru_cache
def engine(side: Side) -> Engine:
    """The side's lowerer on its devices. Raises LadderError, or what the runtime raises, when it does not start."""
    return XlaEngine(side) if side.lowerer == "xla" else IreeEngine(side)


@lru_cache
def product(side: Side, device: int) -> Callable[[Value, Value], Value]:
    """The compiled product, once a process."""
    return engine(side).compile(device)


def operands() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """f32 [M, K] and [K, N], and their product in float64."""
    draw = np.random.RandomState(7)
    a, b = (draw.standard_normal(shape).astype(np.float32) for shape in ((M, K), (K, N)))
    return a, b, a.astype(np.float64) @ b.astype(np.float64)


def error(found: np.ndarray, exact: np.ndarray) -> float:
    """The largest difference over the largest value; infinite for the wrong shape, NaN for one that is not finite."""
    if found.shape != exact.shape:
        return float("inf")
    return float(np.abs(found.astype(np.float64) - exact).max() / np.abs(exact).max())


def _name(device: Any) -> str:
    return f"{device.platform}:{device.id}"
