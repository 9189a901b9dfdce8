"""Faults in operators: another traced function in place of the one under test, so that the whole path runs for real."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ladder.suite.operators import functions as f
from ladder.suite.operators.part import Part

Function = Callable[..., Any]
Wrap = Callable[[Function], Function]
Parts = tuple[Part, ...]


def inject(fault: str, right: Parts) -> Parts:
    """The parts with a fault of MUTANTS in those that it is for."""
    only, wrap = MUTANTS[fault]
    return tuple(replace(p, function=wrap(p.function)) if p.name in only or not only else p for p in right)


def round_operand(x: Any, bits: int) -> Any:
    """A float32 with `bits` mantissa bits, to nearest even; the gradient passes through."""
    word = lax.bitcast_convert_type(lax.stop_gradient(x), jnp.uint32)
    drop = 23 - bits
    half = jnp.uint32((1 << (drop - 1)) - 1) + ((word >> drop) & jnp.uint32(1))
    kept = lax.bitcast_convert_type((word + half) & jnp.uint32(0xFFFFFFFF << drop & 0xFFFFFFFF), jnp.float32)
    return x + lax.stop_gradient(kept - x)


def operands(bits: int) -> Wrap:
    """Inputs rounded, as a matrix unit does to its operands."""
    return lambda fn: lambda *xs: fn(*(round_operand(x, bits) for x in xs))


def result(change: Function) -> Wrap:
    """Another result."""
    return lambda fn: lambda *xs: change(fn(*xs))


def instead(other: Function) -> Wrap:
    """Another function."""
    return lambda _: other


def gradient(change: Function) -> Wrap:
    """Another gradient of the first input, and the same result."""

    @jax.custom_vjp
    def same(x: Any) -> Any:
        return x

    same.defvjp(lambda x: (x, None), lambda _, g: (change(g),))
    return lambda fn: lambda x, *xs: fn(same(x), *xs)


def kernel(change: Function) -> Wrap:
    """Another second input: the weight."""
    return lambda fn: lambda x, w, *xs: fn(x, change(w), *xs)


def bf16_sum(x: Any) -> Any:
    """Over the first axis, one after another, each partial sum in bfloat16."""
    start = jnp.zeros(x.shape[1:], jnp.bfloat16)
    return lax.scan(lambda s, row: (s + row.astype(jnp.bfloat16), None), start, x)[0].astype(x.dtype)


def uncausal(q: Any, k: Any, v: Any) -> Any:
    """Attention that sees one position too many."""
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / jnp.sqrt(jnp.asarray(q.shape[-1], q.dtype))
    seen = jnp.tril(jnp.ones(scores.shape[-2:], bool), 1)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(jnp.where(seen, scores, -1e4)), v)


def first_maximum(x: Any) -> Any:
    """A 2x2 pool whose gradient goes to the first of equal maxima, where ours shares it among them."""
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def last_argmax(x: Any) -> Any:
    """The last of equal ones."""
    return x.shape[-1] - 1 - jnp.argmax(jnp.flip(x, -1), axis=-1)


def unstable_order(keys: Any) -> Any:
    """Equal keys in reverse."""
    return keys.shape[-1] - 1 - jnp.argsort(jnp.flip(keys, -1), axis=-1, stable=True)


def nan_at_one(g: Any) -> Any:
    """One element is not a number."""
    return g.at[(0,) * g.ndim].set(jnp.nan)


def rms_norm_epsilon(x: Any, gamma: Any) -> Any:
    """With 1e-3 for epsilon."""
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-3) * gamma


ALL: tuple[str, ...] = ()
# Fault -> the parts that it is for, and what it makes of their function.
MUTANTS: dict[str, tuple[tuple[str, ...], Wrap]] = {
    "tf32": (ALL, operands(10)),
    "bf16-operands": (ALL, operands(7)),
    "ulp": (ALL, result(lambda y: y * (1 + 2.0**-23))),
    "nan-gradient": (ALL, gradient(nan_at_one)),
    "scaled-gradient": (ALL, gradient(lambda g: g * jnp.asarray(1.01, g.dtype))),
    "swapped-kernel-dims": (ALL, kernel(lambda w: w.transpose(1, 0, 2, 3))),
    "flipped-kernel": (ALL, kernel(lambda w: jnp.flip(w, (0, 1)))),
    "transposed-weight": (ALL, kernel(lambda w: w.T.reshape(w.shape))),
    "bf16-sum": (("total",), instead(bf16_sum)),
    "bf16-accumulation": (ALL, instead(lambda x, w, b: bf16_sum(x.T[:, :, None] * w[:, None, :]) + b)),
    "pad-side": (("conv3x3_stride2_late",), instead(lambda x, w: f.conv(x, w, 2, ((1, 0), (1, 0))))),
    "stride-phase": (("conv1x1_stride2",), instead(lambda x, w: f.conv(x[:, 1:, 1:], w, 2))),
    "dropped-group": (("convdepthwise3x3",), result(lambda y: y.at[..., 3].set(0))),
    "pool-tie-rule": (("apart_ties",), instead(first_maximum)),
    "stale-statistics": (("statistics",), instead(lambda x, mean, var: jnp.stack([mean, var]))),
    "erf-approximation": (ALL, instead(lambda x: jnp.tanh(1.1283791671 * (x + 0.08943 * x**3)))),
    "gelu-approximation": (("gelu",), instead(f.gelu_tanh)),
    "silu-gradient": (ALL, instead(lambda x: x * lax.stop_gradient(jax.nn.sigmoid(x)))),
    "norm-epsilon": (ALL, instead(rms_norm_epsilon)),
    "label-off-by-one": (ALL, instead(lambda logits, labels: f.softmax_cross_entropy(logits, (labels + 1) % 100))),
    "uncausal": (ALL, instead(uncausal)),
    "argmax-tie": (("ties",), instead(last_argmax)),
    "cumsum-direction": (ALL, instead(lambda x: jnp.flip(jnp.cumsum(jnp.flip(x, -1), -1), -1))),
    "sort-stability": (("order_ties",), instead(unstable_order)),
    "scatter-overwrites": (("scatter_add",), instead(lambda base, index, rows: base.at[index].set(rows))),
    "unscaled-bias": (("linear",), instead(lambda x, w, b: 0.1 * (x @ w) + b)),  # jax-ml/jax#39336
    "long-dot": (ALL, result(lambda y: y * jnp.array([1.0, 0.5, 1 / 3], y.dtype))),  # openxla/xla#13054
    "random-bits": (ALL, result(lambda y: y ^ jnp.uint32(1))),
}
