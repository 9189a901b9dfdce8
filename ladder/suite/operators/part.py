"""What a test of an operator is made of: parts, each one function of seeded arrays; and how it is traced."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ladder import rng
from ladder.suite.export import Host, Traced


@dataclass(frozen=True)
class Part:
    """One function: floating inputs in the dtype under test, the rest as they are.

    Its outputs are `y` and, where `gradients`, `d:<input>` of the sum of y times a seeded cotangent for each
    floating input; a `whole` part's is of whole numbers. `reference` replaces the function itself where what is right
    is not its own float64 value.
    """

    name: str
    function: Callable[..., Any]
    inputs: Host
    gradients: bool = True
    reference: Callable[..., Any] | None = None
    whole: bool = False


def normal(key: str, *shape: int, scale: float = 1.0) -> np.ndarray:
    """Seeded draws of mean 0 and deviation `scale`, float64 `shape`: sums of three uniforms, bounded by 3 · scale."""
    return scale * 2 * (rng.uniform(f"suite/{key}", (*shape, 3)) - 0.5).sum(-1)


def integers(key: str, low: int, high: int, *shape: int) -> np.ndarray:
    """Seeded whole numbers of [low, high), int32 `shape`."""
    return np.floor(low + rng.uniform(f"suite/{key}", shape) * (high - low)).astype(np.int32)


def rounded(array: np.ndarray, dtype: str) -> np.ndarray:
    """A floating array as float32 with no more bits than `dtype` has; others unchanged."""
    if not np.issubdtype(array.dtype, np.floating):
        return array
    return array.astype(np.float32).astype(jnp.dtype(dtype)).astype(np.float32)


def traced(parts: tuple[Part, ...], dtype: str, right: tuple[Part, ...], seed: int) -> Traced:
    """All parts as one function at `dtype`; `right` are the same without a fault, and tell what is right."""
    inputs: Host = {}
    for part in right:
        inputs |= {f"{part.name}/{k}": rounded(v, dtype) for k, v in part.inputs.items()}
        if part.gradients:
            shape = jax.eval_shape(part.function, *(jnp.asarray(v) for v in _given(part, inputs, dtype))).shape
            inputs[f"{part.name}/cotangent"] = rounded(_cotangent(part, f"{seed}/{part.name}", shape), dtype)
    return Traced(
        lambda values: _all(parts, values, dtype),
        inputs,
        lambda values: {k: v for part in right for k, v in _right(part, values).items()},
    )


def _cotangent(part: Part, key: str, shape: tuple[int, ...]) -> np.ndarray:
    if part.whole:
        return integers(f"{key}/cotangent", -2, 3, *shape).astype(np.float64)
    return normal(f"{key}/cotangent", *shape)


def _all(parts: tuple[Part, ...], values: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    return {k: at_boundary(v) for part in parts for k, v in _one(part, values, dtype).items()}


def _right(part: Part, values: Mapping[str, Any]) -> dict[str, Any]:
    if part.reference is None:
        return _one(part, values, "float64")
    return {f"{part.name}/y": part.reference(*(values[f"{part.name}/{k}"] for k in part.inputs))}


def _given(part: Part, values: Mapping[str, Any], dtype: str) -> list[Any]:
    given = [values[f"{part.name}/{k}"] for k in part.inputs]
    return [v.astype(dtype) if jnp.issubdtype(v.dtype, jnp.floating) else v for v in given]


def _one(part: Part, values: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    given = [jnp.asarray(v) for v in _given(part, values, dtype)]
    if not part.gradients:
        return {f"{part.name}/y": part.function(*given)}
    floats = [i for i, v in enumerate(given) if jnp.issubdtype(v.dtype, jnp.floating)]

    def of_floats(*chosen: Any) -> Any:
        whole = list(given)
        for i, v in zip(floats, chosen, strict=True):
            whole[i] = v
        return part.function(*whole)

    y, back = jax.vjp(of_floats, *(given[i] for i in floats))
    names = list(part.inputs)
    gradients = back(jnp.asarray(values[f"{part.name}/cotangent"]).astype(dtype).astype(y.dtype))
    return {
        f"{part.name}/y": y,
        **{f"{part.name}/d:{names[i]}": g for i, g in zip(floats, gradients, strict=True)},
    }


def at_boundary(value: Any) -> Any:
    """As float32, int32 or uint32, exactly, for what a narrower type holds."""
    if jnp.issubdtype(value.dtype, jnp.floating):
        return value.astype(jnp.float32)
    return value if value.dtype in (jnp.int32, jnp.uint32) else value.astype(jnp.int32)


def fan_in(*shape: int) -> float:
    """1 / sqrt(inputs of one output) of a kernel `[..., in, out]`."""
    return 1 / math.sqrt(math.prod(shape[:-1]))
