"""The product that the first tiers try a side's lowerer on, and how far from float64 it is."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from ladder import lowerers
from ladder.lowerers.stages import K, M, N, Stages, Value
from ladder.suite.case import Side


@lru_cache
def stages(side: Side) -> Stages:
    """The side's lowerer on its devices. Raises LadderError, or what the runtime raises, when it does not start."""
    return lowerers.stages(side.lowerer, side.jax_platform, side.devices, side.virtual)


@lru_cache
def product(side: Side, device: int) -> Callable[[Value, Value], Value]:
    """The compiled product, once a process."""
    return stages(side).compile(device)


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
