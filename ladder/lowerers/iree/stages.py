"""ladder.lowerers.stages through IREE."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ladder.errors import LadderError
from ladder.lowerers.iree import targets
from ladder.lowerers.iree.compiling import compile_text
from ladder.lowerers.iree.executable import Call, Device
from ladder.lowerers.stages import K, M, N, Value
from ladder.train.artifact import Array

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


class IreeStages:
    """IREE on the target that the profile's environment names: as many logical devices of its driver as asked for."""

    def __init__(self, devices: int, virtual: bool) -> None:
        self._target = targets.target(os.environ)
        self._devices = [Device(self._target, 0 if virtual else n) for n in range(devices)]
        self.devices = [f"{self._target.driver}:{n}" for n in range(devices)]

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
