"""The operators, written for any float dtype. The nets' own norms and pools; the rest in plain jax."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from models.layers import max_pool2x2
from models.norms import BatchNorm, LayerNorm
from models.pool import max_pool3x3

__all__ = ["max_pool2x2", "max_pool3x3"]

Pads = Sequence[tuple[int, int]]
EPS = 1e-5


def silu(x: Any) -> Any:
    """x · sigmoid(x)."""
    return jax.nn.silu(x)


def gelu(x: Any) -> Any:
    """The exact one, by the error function."""
    return jax.nn.gelu(x, approximate=False)


def gelu_tanh(x: Any) -> Any:
    """The approximate one, of the nets."""
    return jax.nn.gelu(x, approximate=True)


def erf(x: Any) -> Any:
    """The error function."""
    return lax.erf(x)


def linear(x: Any, w: Any, b: Any) -> Any:
    """`[n, k] [k, m] [m] -> [n, m]`."""
    return x @ w + b


def scaled_linear(x: Any, w: Any, b: Any) -> Any:
    """0.1 · (x w + b): jax-ml/jax#39336 scaled the product and not the bias."""
    return 0.1 * (x @ w + b)


def rms_norm(x: Any, gamma: Any) -> Any:
    """Over the last axis, the mean square in float32 or wider."""
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    scale = lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + EPS)
    return (wide * scale).astype(x.dtype) * gamma


def layer_norm(x: Any, gamma: Any, beta: Any) -> Any:
    """Over the last axis: models.norms.LayerNorm."""
    return LayerNorm(EPS).apply({"params": {"gamma": gamma, "beta": beta}}, x)


def batch_norm(x: Any, gamma: Any, beta: Any) -> Any:
    """In training: models.norms.BatchNorm."""
    return _batch_norm(x, gamma, beta)[0]


def batch_statistics(x: Any, mean: Any, var: Any) -> Any:
    """The running mean and variance after a batch, `[2, c]`, from those before it."""
    c = x.shape[-1]
    seen = {"mean": mean, "var": var, "seen": jnp.ones((), jnp.int32)}
    _, after = _batch_norm(x, jnp.ones(c, x.dtype), jnp.zeros(c, x.dtype), seen)
    return jnp.stack([after["mean"], after["var"]])


def _batch_norm(x: Any, gamma: Any, beta: Any, before: Any = None) -> tuple[Any, Any]:
    zeros = jnp.zeros(x.shape[-1], x.dtype)
    stats = before or {"mean": zeros, "var": zeros, "seen": jnp.zeros((), jnp.int32)}
    variables = {"params": {"gamma": gamma, "beta": beta}, "stats": stats}
    y, after = BatchNorm(keep=0.9).apply(variables, x, True, mutable="stats")
    return y, after["stats"]


def softmax_cross_entropy(logits: Any, labels: Any) -> Any:
    """Each example's, `[n, k] i32[n] -> [n]`, by log-sum-exp."""
    own = jnp.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
    return jax.nn.logsumexp(logits, axis=1) - own


def causal_attention(q: Any, k: Any, v: Any) -> Any:
    """`[b, heads, t, d]` thrice; a position sees itself and what is before it."""
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / jnp.sqrt(jnp.asarray(q.shape[-1], q.dtype))
    seen = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    scores = jnp.where(seen, scores, jnp.asarray(-1e4, scores.dtype))
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), v)


def conv(x: Any, w: Any, stride: int = 1, pads: Pads = ((0, 0), (0, 0)), groups: int = 1) -> Any:
    """NHWC, HWIO."""
    return lax.conv_general_dilated(
        x, w, (stride, stride), pads, dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups
    )


def scaled_conv(x: Any, w: Any, b: Any) -> Any:
    """0.1 · (conv(x) + b), the same fusion with a convolution."""
    return 0.1 * (conv(x, w, pads=((1, 1), (1, 1))) + b)


def gather(table: Any, index: Any) -> Any:
    """Rows of a table."""
    return table[index]


def scatter_add(base: Any, index: Any, rows: Any) -> Any:
    """Rows added where the index says, some places several times."""
    return base.at[index].add(rows)


def argmax(x: Any) -> Any:
    """Of each row, the first of equal ones."""
    return jnp.argmax(x, axis=-1)


def cumsum(x: Any) -> Any:
    """Along the last axis."""
    return jnp.cumsum(x, axis=-1)


def sort(x: Any) -> Any:
    """Each row, ascending."""
    return jnp.sort(x, axis=-1)


def stable_order(keys: Any) -> Any:
    """The places of each row's keys in ascending order; equal keys stay in order."""
    return jnp.argsort(keys, axis=-1, stable=True)


def mean_square(x: Any) -> Any:
    """Over the first axis."""
    return jnp.mean(x * x, axis=0)


def total(x: Any) -> Any:
    """Over the first axis."""
    return jnp.sum(x, axis=0)


def largest(x: Any) -> Any:
    """Over the first axis."""
    return jnp.max(x, axis=0)


def long_dot_gradient(ys: Any, w: Any) -> Any:
    """openxla/xla#13054: the gradient by x of mean((y - x)·w + (y - x)·0·(y - x)) over a million y, whose second term
    is zero; compiled, it was wrong on CPUs with oneDNN."""

    def at(x: Any) -> Any:
        diff = ys - x
        return jnp.mean(diff @ w + jnp.sum(diff @ jnp.zeros((3, 3), ys.dtype) * diff, axis=1))

    return jax.grad(at)(jnp.ones(3, ys.dtype))


def threefry(key: Any) -> Any:
    """The first 1000 words of a key, u32."""
    wrapped = jax.random.wrap_key_data(key, impl="threefry2x32")
    return jax.random.bits(wrapped, (1000,), jnp.uint32)
