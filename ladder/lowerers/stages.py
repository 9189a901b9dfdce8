"""The smallest thing that a lowerer can be asked for, stage by stage: copy in, compile a product, run it, copy out.

What the suite's first tiers look at: no program, no recipe, and each stage alone, so that the one that breaks is named.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

M, K, N = 256, 128, 64  # of the product: small, and no two alike
Value = Any


class Stages(Protocol):
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
