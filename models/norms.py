"""Norm layers with the recipes' rules: two-pass variance, statistics in float32 or wider, biased.

flax's own take E[x²] − E[x]² by default and none has "the first step takes the batch value"
(reference/recipes.md sections 2 and 3, brettkoonce/lean4-mlir @126ab67b). Parameters `gamma` (1) and `beta` (0), `[c]`.
"""

from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax


class ExampleNorm(nn.Module):
    """Per example and channel, over height and width; no running statistics: `[n, h, w, c] -> the same`, float32.

    The `bn` of the published cifar arms; the same in training and evaluation.
    """

    eps: float = 1e-5

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = widened(x)
        return _affine(self, _normalise(x, *_moments(x, (1, 2)), self.eps))


class Running(NamedTuple):
    """What a step keeps of a batch norm's running statistics, and its epsilon."""

    keep: float = 0.99
    eps: float = 1e-5


class BatchNorm(nn.Module):
    """Per channel, over examples, height and width: `[n, h, w, c] -> the same`, float32.

    `train`: normalises by the batch's statistics and moves the collection "stats", `mean` and `var` `[c]`:
    running = keep·old + (1 − keep)·batch, and the batch's own at the first step, when `seen` is 0. Otherwise
    normalises by the running ones.
    """

    keep: float = 0.99
    eps: float = 1e-5

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        x, c = widened(x), x.shape[-1]
        running_mean = self.variable("stats", "mean", jnp.zeros, (c,), jnp.float32)
        running_var = self.variable("stats", "var", jnp.zeros, (c,), jnp.float32)
        seen = self.variable("stats", "seen", jnp.zeros, (), jnp.int32)
        mean, var = _moments(x, (0, 1, 2)) if train else (running_mean.value, running_var.value)
        if train:
            for running, batch in ((running_mean, mean), (running_var, var)):
                moved = self.keep * running.value + (1 - self.keep) * batch
                running.value = lax.stop_gradient(jnp.where(seen.value > 0, moved, batch))
            seen.value = jnp.ones_like(seen.value)
        return _affine(self, _normalise(x, mean, var, self.eps))


class LayerNorm(nn.Module):
    """Per example and position, over the channels: `[..., c] -> the same`, float32."""

    eps: float

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = widened(x)
        return _affine(self, _normalise(x, *_moments(x, (-1,)), self.eps))


def widened(x: jax.Array) -> jax.Array:
    """In float32, or float64 where it is so already."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def _moments(x: jax.Array, axes: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    mean = jnp.mean(x, axes, keepdims=True)
    var = jnp.mean(jnp.square(x - mean), axes, keepdims=True)
    if axes == (0, 1, 2):
        return mean.reshape(-1), var.reshape(-1)
    return mean, var


def _normalise(x: jax.Array, mean: jax.Array, var: jax.Array, eps: float) -> jax.Array:
    return (x - mean) * lax.rsqrt(var + eps)


def _affine(module: nn.Module, x: jax.Array) -> jax.Array:
    gamma = module.param("gamma", nn.initializers.ones, (x.shape[-1],))
    beta = module.param("beta", nn.initializers.zeros, (x.shape[-1],))
    return x * gamma + beta
