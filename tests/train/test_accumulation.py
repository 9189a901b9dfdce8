"""A batch in parts: the step of the whole batch up to rounding, or, with batch statistics, the declared other one."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ladder.recipes import Recipe
from ladder.recipes.imagenette import IMAGENETTE, SGD, recipes
from ladder.train.artifact import PLAIN
from ladder.train.feed import pixels
from ladder.train.layout import initial_state
from ladder.train.program import build
from models import NETS, convnext, resnet, vit
from tests.models.zoo import count, shapes

TINY: dict[str, Callable[..., nn.Module]] = {
    "convnext_t": convnext.tiny,
    "vit_tiny": vit.tiny,
    "resnet34": resnet.tiny34,
}
BATCH, SIDE = 8, 32
IMAGES = np.random.default_rng(2).integers(0, 256, (BATCH, SIDE, SIDE, 3), np.uint8)
LR, KEY = jnp.float32(0.1), jnp.zeros(2, jnp.uint32)

Host = dict[str, Any]


def recipe_of(net: str) -> Recipe:
    """A tiny net's under plain SGD, whose update is the gradient itself."""
    data = replace(IMAGENETTE, train=16, test=8, shape=(SIDE, SIDE, 3), test_shape=None)
    full = next(r for r in recipes(data) if r.net == net)
    small = count(shapes(TINY[net](), SIDE)["params"])
    return replace(full, batch=BATCH, augment=(), optimiser=SGD, parameters=small)


def stepped(recipe: Recipe, weight: np.ndarray) -> tuple[Host, Host, float]:
    """The state before and after a step, and the loss."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(NETS, recipe.net, lambda variant, norm="", **options: TINY[recipe.net](**options))
        leaves, functions = build(recipe, PLAIN, BATCH)
        state = initial_state(leaves, recipe.net, 1)
        batch = {
            "image": IMAGES,
            "label": np.arange(BATCH, dtype=np.int32),
            "weight": weight.astype(np.float32),
        }
        after, metrics = jax.jit(functions["step"][0])(state, batch, LR, KEY)
    return state, {k: np.asarray(v) for k, v in after.items()}, float(metrics["loss"])


def moved(before: Host, after: Host) -> np.ndarray:
    """The update of every parameter, in one vector."""
    names = sorted(n for n in before if n.startswith("params/"))
    return np.concatenate([(after[n].astype(np.float64) - before[n]).ravel() for n in names])


@pytest.mark.parametrize("net", ["convnext_t", "vit_tiny"])
@pytest.mark.parametrize("parts", [2, 4])
def test_without_batch_statistics_the_step_is_that_of_the_whole_batch(net: str, parts: int) -> None:
    """Also where the parts hold unequal weights."""
    recipe, weight = recipe_of(net), np.array([1, 1, 1, 0, 1, 1, 1, 1])
    before, whole, loss = stepped(recipe, weight)
    _, split, own = stepped(recipe.accumulated(parts), weight)
    assert own == pytest.approx(loss, rel=2e-6)
    update, difference = moved(before, whole), moved(before, split) - moved(before, whole)
    assert np.linalg.norm(difference) < 1e-5 * np.linalg.norm(update)
    assert split["step"] == 1


@pytest.mark.parametrize("net", ["convnext_t", "vit_tiny"])
def test_a_part_left_out_is_seen(net: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The red test of the one above: the last part's gradient does not arrive."""
    recipe, weight = recipe_of(net), np.ones(BATCH)
    before, whole, _ = stepped(recipe, weight)
    scan = jax.lax.scan
    monkeypatch.setattr(jax.lax, "scan", lambda f, start, xs: scan(f, start, jax.tree.map(lambda v: v[:-1], xs)))
    _, split, _ = stepped(recipe.accumulated(4), weight)
    update, difference = moved(before, whole), moved(before, split) - moved(before, whole)
    assert np.linalg.norm(difference) > 0.05 * np.linalg.norm(update)


def test_with_batch_statistics_they_are_each_parts_and_the_running_ones_move_part_by_part() -> None:
    """Its gradient is another one, which is why it stands in and is not the same recipe."""
    recipe, weight = recipe_of("resnet34"), np.ones(BATCH)
    before, whole, _ = stepped(recipe, weight)
    split_recipe = recipe.accumulated(2)
    assert (split_recipe.statistics, split_recipe.hash == recipe.hash) == (BATCH // 2, False)
    _, split, _ = stepped(split_recipe, weight)
    update, difference = moved(before, whole), moved(before, split) - moved(before, whole)
    assert np.linalg.norm(difference) > 1e-3 * np.linalg.norm(update)
    # The first step takes the first part's own mean; the second part moves it by a hundredth.
    first, second = (stem_mean(recipe, before, half) for half in (slice(0, 4), slice(4, 8)))
    np.testing.assert_allclose(split["stats/stem/norm/mean"], 0.99 * first + 0.01 * second, rtol=1e-4, atol=1e-6)


def stem_mean(recipe: Recipe, state: Host, half: slice) -> np.ndarray:
    """The mean that the stem's norm sees over some of the batch."""
    x = pixels(recipe, jnp.asarray(IMAGES[half]))
    w = jnp.asarray(state["params/stem/conv/w"])
    axes = ("NHWC", "HWIO", "NHWC")
    return np.asarray(jax.lax.conv_general_dilated(x, w, (2, 2), ((3, 3), (3, 3)), dimension_numbers=axes)).mean(
        (0, 1, 2)
    )
