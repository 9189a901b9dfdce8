"""ladder.lowerers.stages through XLA."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import SingleDeviceSharding

from ladder.lowerers.stages import K, M, N, Value


class XlaStages:
    """jax on one platform."""

    def __init__(self, jax_platform: str) -> None:
        self._devices = jax.devices(jax_platform)
        self.devices = [_name(d) for d in self._devices]

    def put(self, array: np.ndarray, device: int) -> Value:
        """Copy to a device."""
        return jax.device_put(array, self._devices[device])

    def get(self, value: Value) -> np.ndarray:
        """Wait, and copy to the host."""
        return np.array(value)

    def compile(self, device: int) -> Callable[[Value, Value], Value]:
        """The product, ahead of time, for one device of those there are."""
        where = SingleDeviceSharding(self._devices[device])
        shapes = (jax.ShapeDtypeStruct(shape, np.float32, sharding=where) for shape in ((M, K), (K, N)))
        with jax.default_matmul_precision("highest"):
            return jax.jit(lambda a, b: a @ b).lower(*shapes).compile()

    def count(self, device: int) -> Value:
        """Made on the device."""
        where = SingleDeviceSharding(self._devices[device])
        return jax.jit(lambda: jnp.arange(N, dtype=jnp.float32), out_shardings=where)()

    def ran_on(self, value: Value) -> list[str]:
        """The devices that hold a value."""
        return sorted(_name(d) for d in value.devices())


def _name(device: Any) -> str:
    return f"{device.platform}:{device.id}"
