"""Parts of a net left out at random while it trains; the draws come from the key that the step is given ("drop")."""

import flax.linen as nn
import jax
import jax.numpy as jnp

KEYS = "drop"  # the name of the nets' stream of keys


def dropout(module: nn.Module, x: jax.Array, rate: float, train: bool) -> jax.Array:
    """Each number of `x` is 0 with probability `rate`, else divided by 1 − rate; `x` itself in evaluation.

    Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from Overfitting", 2014.
    """
    return _dropped(module, x, rate, train, x.shape)


def drop_path(module: nn.Module, branch: jax.Array, rate: float, train: bool) -> jax.Array:
    """The same for each example's whole residual branch: `[n, ...] -> the same`.

    Huang et al., "Deep Networks with Stochastic Depth", 2016; divided as in timm.
    """
    return _dropped(module, branch, rate, train, (len(branch),) + (1,) * (branch.ndim - 1))


def depth_rates(last: float, blocks: int) -> tuple[float, ...]:
    """The rates of a net's blocks, rising linearly from 0 to `last`."""
    return tuple(last * at / max(blocks - 1, 1) for at in range(blocks))


def _dropped(module: nn.Module, x: jax.Array, rate: float, train: bool, shape: tuple[int, ...]) -> jax.Array:
    if not rate or not train:
        return x
    kept = jax.random.bernoulli(module.make_rng(KEYS), 1 - rate, shape)
    return jnp.where(kept, x / (1 - rate), jnp.zeros_like(x))
