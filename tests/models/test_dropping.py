"""Dropout and stochastic depth: what is kept is scaled, the rates rise with depth, evaluation draws nothing."""

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.dropping import KEYS, depth_rates, drop_path, dropout
from tests.models import seeded
from tests.models.zoo import ZOO, filled, shapes


class Dropping(nn.Module):
    """One of the two functions as a net."""

    function: Callable[..., jax.Array]
    rate: float

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        return self.function(self, x, self.rate, train)


def dropped(function: Callable[..., jax.Array], rate: float, x: np.ndarray, seed: int = 0) -> np.ndarray:
    out: Any = Dropping(function, rate).apply({}, jnp.asarray(x), True, rngs={KEYS: jax.random.key(seed)})
    return np.asarray(out)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_what_is_kept_is_scaled_so_that_the_mean_stays(rate: float) -> None:
    x = np.ones((400, 5, 5, 4), np.float32)
    for function, independent in ((dropout, x.size), (drop_path, len(x))):
        out = dropped(function, rate, x)
        values = np.array([0, np.float32(1) / np.float32(1 - rate)], np.float32)
        assert np.isin(out, values).all()
        error = np.sqrt(rate / (1 - rate) / independent)
        assert abs(out.mean() - 1) < 5 * error
    examples = dropped(drop_path, rate, x).reshape(len(x), -1)
    assert (examples == examples[:, :1]).all()  # a branch goes whole


def test_a_key_decides_and_evaluation_and_rate_zero_draw_nothing() -> None:
    x = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
    np.testing.assert_array_equal(dropped(dropout, 0.5, x), dropped(dropout, 0.5, x))
    assert (dropped(dropout, 0.5, x) != dropped(dropout, 0.5, x, seed=1)).any()
    for rate, train in ((0.5, False), (0.0, True)):
        out: Any = Dropping(dropout, rate).apply({}, jnp.asarray(x), train)  # no key is given
        np.testing.assert_array_equal(np.asarray(out), x)


def test_rates_rise_linearly_to_the_last_block() -> None:
    """As the published ViT-Tiny has them (generated_vit_tiny_imagenet.py @44abf272): 1 - 0.990909 to 0.1."""
    rates = depth_rates(0.1, 12)
    assert [rates[0], rates[1], rates[-1]] == pytest.approx([0, 0.009091, 0.1], abs=1e-6)
    assert depth_rates(0.2, 1) == (0.0,)


OPTIONS = {
    "vit_tiny": {"drop_path": 0.5},
    "convnext_t": {"drop_path": 0.5},
    "efficientnet_b0": {"drop_path": 0.5, "dropout": 0.5},
    "mobilenetv2": {"dropout": 0.5},
    "mobilenetv4_conv_m": {"dropout": 0.5},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_a_net_drops_while_it_trains_and_not_when_it_is_scored(name: str) -> None:
    net = ZOO[name].tiny(**OPTIONS[name])
    tree = shapes(net, 32)
    values = filled(tree, lambda leaf, s: seeded.weight(name, leaf, s).astype(np.float32) if s else np.int32(1))
    if "stats" in values:
        values["stats"] = jax.tree.map(np.ones_like, values["stats"])
    x = seeded.images(name, 4, 32).astype(np.float32)

    def out(train: bool, seed: int) -> np.ndarray:
        keys = {KEYS: jax.random.key(seed)} if train else None
        logits: Any = net.apply(values, x, train=train, mutable=["stats"] if train else False, rngs=keys)
        return np.asarray(logits[0] if train else logits)

    assert (out(True, 0) != out(True, 1)).any()
    np.testing.assert_array_equal(out(True, 0), out(True, 0))
    np.testing.assert_array_equal(out(False, 0), out(False, 1))
