"""A plain function through a lowerer: exported once, compiled for the device, called with host arrays.

A program is a recipe's four functions with a state that stays on the device; this is what the suite's operators need.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ladder.train.artifact import Array

Call = Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]


@dataclass(frozen=True)
class PlainFunction:
    """An exported function of flat arrays that returns a tuple; names in the order of the StableHLO signature.

    `serialised` is the `jax.export.Exported`, `stablehlo` its text without locations, `platform` the jax platform that
    it was exported for. The dtypes at the boundary are float32, int32 and uint32.
    """

    name: str
    platform: str
    serialised: bytes
    stablehlo: str
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]


class Functions(Protocol):
    """A lowerer, as far as plain functions go."""

    def function(self, plain: PlainFunction) -> Call:
        """Compile: host arrays by name in, host arrays by name out. Raises Unsupported, naming the operation."""
        ...
