"""The state's layout: every named array of a program, its shape and how its initial value is drawn on the host.

NumPy only: the worker draws the state from the layout that the export wrote, without flax or jax.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from ladder import rng


@dataclass(frozen=True)
class Leaf:
    """One array of the state, e.g. `params/conv1/w`.

    A leaf with `sigma` > 0 is drawn in its canonical shape (OIHW for convolutions, (in, out) for dense layers,
    (c, h, w, out) where the input is a flattened image), transposed by `axes` and reshaped to `shape`, so that layout
    never changes what is drawn. Others are constant at `fill`. One that `copies` another starts as that one does.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    fill: float = 0.0
    sigma: float = 0.0
    canonical: tuple[int, ...] = ()
    axes: tuple[int, ...] = ()
    copies: str = ""

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """The leaf that `dataclasses.asdict` wrote."""
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}
        return cls(**values)


AVERAGE = "ema/"
SMALL, SMALL_SIGMA = "sigma0.02", 0.02  # the init of ConvNeXt and DeiT; theirs is a truncated normal of that deviation
FILLS = {"b": 0.0, "beta": 0.0, "gamma": 1.0, "cls": 0.0, "pos": 0.0}  # by the last part of the name


def parameter(
    name: str,
    shape: tuple[int, ...],
    flattened: tuple[int, int, int] | None = None,
    rule: str = "published",
    layer_scale: float = 1.0,
) -> Leaf:
    """The leaf of a parameter under an init rule of reference/recipes.md section 0 (brettkoonce/lean4-mlir @126ab67b).

    `published`: convolutions (HWIO here, OIHW there; a depthwise one has I = 1) have variance 2 / (O·kH·kW), He with
    fan-*out*; dense weights 2 / (in + out), Glorot; other vectors of n 2 / n. Constant are biases, `beta`, `cls` and
    `pos` (0), `gamma` (1), and `scale`, a layer scale (`layer_scale`). `zero`: all 0. `flattened` is the (h, w, c) that
    a dense layer's rows follow. `sigma0.02`: every weight, `cls` and `pos` at that deviation, the rest as `published`.
    Raises ValueError for another rank.
    """
    full, last = f"params/{name}", name.rpartition("/")[2]
    fills = {**FILLS, "scale": layer_scale}
    if rule == "zero":
        return Leaf(full, shape, "float32")
    small = rule == SMALL and len(shape) > 1
    if last in fills and not small:
        return Leaf(full, shape, "float32", fill=fills[last])
    sigma, canonical, axes = _drawn(name, shape, flattened)
    return Leaf(full, shape, "float32", sigma=SMALL_SIGMA if small else sigma, canonical=canonical, axes=axes)


def _drawn(
    name: str, shape: tuple[int, ...], flattened: tuple[int, int, int] | None
) -> tuple[float, tuple[int, ...], tuple[int, ...]]:
    """Published deviation, canonical shape, and the axes that lead from it."""
    if len(shape) == 1:
        return math.sqrt(2 / shape[0]), shape, (0,)
    if len(shape) == 4:
        h, w, i, o = shape
        return math.sqrt(2 / (o * h * w)), (o, i, h, w), (2, 3, 1, 0)
    if len(shape) == 2:
        sigma = math.sqrt(2 / sum(shape))
        if flattened is None:
            return sigma, shape, (0, 1)
        h, w, c = flattened
        return sigma, (c, h, w, shape[1]), (1, 2, 0, 3)
    raise ValueError(f"no init rule for {name} with shape {shape}: rank 1, 2 or 4")


def average_of(leaf: Leaf) -> Leaf:
    """The moving average of a leaf, `ema/<its name>`, which starts where that does."""
    return replace(leaf, name=AVERAGE + leaf.name, copies=leaf.name)


def averaged_state[Value](state: Mapping[str, Value]) -> dict[str, Value]:
    """The state with each average in the place of what it is of: what `eval` scores as the averaged net."""
    return {name: state.get(AVERAGE + name, value) for name, value in state.items()}


def draw(leaf: Leaf, net: str, seed: int) -> np.ndarray:
    """The leaf's initial value at a seed: `leaf.shape`, `leaf.dtype`.

    Sum of three uniforms on [-1/2, 1/2) times 2·sigma: each has variance 1/12, so twice the sum has variance exactly 1.
    """
    if not leaf.sigma:
        return np.full(leaf.shape, leaf.fill, leaf.dtype)
    u = rng.uniform(f"init/{net}/{leaf.copies or leaf.name}/seed={seed}", (3, *leaf.canonical))
    value = (u.sum(axis=0) - 1.5) * (2 * leaf.sigma)
    return np.ascontiguousarray(value.transpose(leaf.axes).reshape(leaf.shape).astype(leaf.dtype))


def initial_state(leaves: tuple[Leaf, ...], net: str, seed: int) -> dict[str, np.ndarray]:
    """The whole state at step 0, by name."""
    return {leaf.name: draw(leaf, net, seed) for leaf in leaves}
