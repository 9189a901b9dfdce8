"""Every recipe of the imagenet rung takes real steps at reduced size; what is in a step, against its definition."""

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ladder.recipes import Data, Recipe
from ladder.recipes.imagenet import recipes
from ladder.train.artifact import PLAIN
from ladder.train.layout import AVERAGE, averaged_state, initial_state
from ladder.train.losses import per_example
from ladder.train.mixing import CUT, ERASE, SHARE, erased, mixed, partners
from ladder.train.program import build, options
from models import NETS
from tests.models.zoo import ZOO, count, shapes

SIDE, BATCH, CLASSES = 32, 16, 10
DATA = Data("made", "sha256:0", 64, 32, CLASSES, (SIDE, SIDE, 3))
DRAW = np.random.default_rng(6)
IMAGES = DRAW.integers(0, 256, (BATCH, SIDE, SIDE, 3), np.uint8)
LABELS = np.arange(BATCH, dtype=np.int32) % CLASSES
KEYS = DRAW.integers(0, 2**32, (20, 2), np.uint32)
RATES = {"momentum": 0.05, "lamb": 0.05, "rmsprop": 0.01, "adamw": 3e-3}  # for a tiny net and twenty steps

Host = dict[str, Any]


def reduced(recipe: Recipe) -> Recipe:
    """The recipe for a tiny net and batch, its images 32 pixels a side, its averages of tens of steps."""
    parts = min(recipe.accumulate, 2)
    average = 0.9 if recipe.average else 0.0
    parameters = count(shapes(ZOO[recipe.net].tiny(), SIDE)["params"])
    whole = replace(recipe, data=DATA, batch=BATCH, average=average, parameters=parameters, statistics=0, accumulate=1)
    return whole.accumulated(parts)


REDUCED = {r.name: reduced(r) for r in recipes()}


@pytest.fixture(autouse=True)
def tiny_nets() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, entry in ZOO.items():
            patch.setitem(NETS, name, functools.partial(_tiny, entry.tiny))
        yield


def _tiny(net: Any, variant: str, norm: str = "", **asked: Any) -> Any:
    return net(**asked)


def batch_of(recipe: Recipe, share: float = 0.7) -> Host:
    """Sixteen images, mixed where the recipe mixes, with a rectangle of noise in every fourth where it erases."""
    batch: Host = {"image": IMAGES, "label": LABELS, "weight": np.ones(BATCH, np.float32)}
    if recipe.mixing.mixup:
        batch |= {SHARE: np.full(BATCH, share, np.float32), CUT: np.zeros((BATCH, 4), np.int32)}
    if recipe.erasing:
        box = np.zeros((BATCH, 4), np.int32)
        box[::4] = [4, 12, 2, 20]
        batch |= {ERASE: box}
    return batch


@functools.cache
def trained(name: str) -> tuple[Recipe, list[Host], list[float]]:
    """The state before each of twenty steps and after the last, and the losses."""
    recipe = REDUCED[name]
    leaves, functions = build(recipe, PLAIN, BATCH, streamed=True)
    step = jax.jit(functions["step"][0], compiler_options={"xla_backend_optimization_level": 0})
    state: Host = initial_state(leaves, recipe.net, 1)
    states, losses, lr = [state], list[float](), np.float32(RATES[recipe.optimiser.name])
    for key in KEYS:
        state, metrics = step(state, batch_of(recipe), lr, key)
        states.append({k: np.asarray(v) for k, v in state.items()})
        losses.append(float(metrics["loss"]))
    return recipe, states, losses


NAMES = [name for name in REDUCED if name not in ("resnet50-2018", "resnet50-2018-zero-gamma")]  # as resnet34-2018


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_takes_real_steps_and_its_loss_falls(name: str) -> None:
    recipe, states, losses = trained(name)
    assert np.isfinite(losses).all()
    lowest = per_example(recipe, *_best(recipe)).mean() if recipe.loss == "softmax" else 0.0
    assert np.mean(losses[-3:]) - lowest < 0.8 * (losses[0] - lowest)
    assert int(states[-1]["step"]) == len(KEYS)
    still = [k for k, v in states[-1].items() if k.startswith("params/") and np.array_equal(v, states[0][k])]
    assert still == []


def _best(recipe: Recipe) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Logits that meet the mixed and smoothed targets of the batch, and the batch."""
    batch = {k: jnp.asarray(v) for k, v in batch_of(recipe).items()}
    own = optax.smooth_labels(jax.nn.one_hot(batch["label"], CLASSES), recipe.smoothing)
    target = 0.7 * own + 0.3 * partners(own) if SHARE in batch else own
    return jnp.log(jnp.maximum(target, 1e-6)), batch


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if REDUCED[name].average])
def test_the_averages_are_those_of_parameters_and_statistics_and_are_scored_in_their_place(name: str) -> None:
    recipe, states, _ = trained(name)
    averages = [k for k in states[0] if k.startswith(AVERAGE)]
    assert {k.removeprefix(AVERAGE) for k in averages} == {
        k for k in states[0] if k.startswith(("params/", "stats/")) and not k.endswith("/seen")
    }
    for k in averages:
        by_hand = states[0][k].astype(np.float64)
        np.testing.assert_array_equal(by_hand, states[0][k.removeprefix(AVERAGE)])
        for t, state in enumerate(states[1:]):
            d = min(recipe.average, (1 + t) / (10 + t))
            by_hand = d * by_hand + (1 - d) * state[k.removeprefix(AVERAGE)]
        np.testing.assert_allclose(states[-1][k], by_hand, rtol=1e-4, atol=1e-5)
    scored = averaged_state(states[-1])
    assert scored.keys() == states[-1].keys()
    assert all(scored[k.removeprefix(AVERAGE)] is states[-1][k] for k in averages)
    assert scored["step"] is states[-1]["step"]


def test_statistics_of_an_accumulated_batch_keep_the_root() -> None:
    for parts in (1, 2, 8):
        recipe = replace(REDUCED["resnet50-rsb-a3"], accumulate=parts)
        assert options(recipe)["keep"] ** parts == pytest.approx(0.9)
    assert "keep" not in options(REDUCED["efficientnet_b0-full"])


def test_gammas_that_start_at_zero_are_the_last_of_each_branch() -> None:
    for name, branches in (("resnet50-2018-zero-gamma", 3), ("resnet50-2018", 0)):
        leaves, _ = build(REDUCED[name], PLAIN, BATCH, streamed=True)
        gammas = [leaf for leaf in leaves if leaf.name.startswith("params/") and leaf.name.endswith("/gamma")]
        zero = [leaf.name for leaf in gammas if not leaf.fill]
        assert len(zero) == branches
        assert all(leaf.endswith("conv3/norm/gamma") for leaf in zero)


def test_rmsprop_starts_at_one_and_the_small_init_is_of_that_deviation() -> None:
    leaves, _ = build(REDUCED["mobilenetv2-full"], PLAIN, BATCH, streamed=True)
    assert {leaf.fill for leaf in leaves if leaf.name.startswith("opt/square/")} == {1.0}
    for name in ("vit_tiny-full", "convnext_t-full"):
        leaves, _ = build(REDUCED[name], PLAIN, BATCH, streamed=True)
        learned = [leaf for leaf in leaves if leaf.name.startswith("params/")]
        assert {leaf.sigma for leaf in learned if len(leaf.shape) > 1} == {0.02}
        assert {leaf.sigma for leaf in learned if len(leaf.shape) == 1} == {0.0}
        assert {leaf.fill for leaf in learned if leaf.name.endswith("/scale")} <= {1e-6}


def test_mixup_and_cutmix_are_those_of_the_papers() -> None:
    x = DRAW.normal(size=(6, 8, 10, 3)).astype(np.float32)
    share = DRAW.random(6).astype(np.float32)
    cut = np.zeros((6, 4), np.int32)
    cut[2:4] = [2, 7, 3, 9]
    found = np.asarray(mixed(jnp.asarray(x), jnp.asarray(share), jnp.asarray(cut)))
    for i, other in enumerate([1, 0, 3, 2, 5, 4]):
        wanted = share[i] * x[i] + (1 - share[i]) * x[other]
        if i in (2, 3):
            wanted = x[i].copy()
            wanted[2:7, 3:9] = x[other][2:7, 3:9]
        np.testing.assert_allclose(found[i], wanted, rtol=1e-5, atol=1e-6)


def test_mixing_a_batch_in_parts_is_mixing_it_whole() -> None:
    x, share = DRAW.normal(size=(8, 4, 4, 3)).astype(np.float32), DRAW.random(8).astype(np.float32)
    cut = np.zeros((8, 4), np.int32)
    whole = np.asarray(mixed(jnp.asarray(x), jnp.asarray(share), jnp.asarray(cut)))
    parts = [np.asarray(mixed(*(jnp.asarray(a[k : k + 2]) for a in (x, share, cut)))) for k in range(0, 8, 2)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_a_rectangle_is_erased_to_normal_noise_and_the_rest_is_left() -> None:
    x = np.full((4, 60, 60, 3), 7, np.float32)
    box = np.zeros((4, 4), np.int32)
    box[1], box[3] = [10, 50, 5, 55], [0, 60, 0, 60]
    found = np.asarray(erased(jnp.asarray(x), jnp.asarray(box), jax.random.key(1)))
    assert (found[0] == 7).all()
    assert (found[2] == 7).all()
    for i, (top, bottom, left, right) in ((1, box[1]), (3, box[3])):
        noise = found[i, top:bottom, left:right]
        assert abs(noise.mean()) < 5 / np.sqrt(noise.size)
        assert abs(noise.var() - 1) < 5 * np.sqrt(2 / noise.size)
        outside = found[i].copy()
        outside[top:bottom, left:right] = 7
        assert (outside == 7).all()
    assert (found[1, 10:50, 5:55] != found[3, 10:50, 5:55]).any()


def soft_losses(recipe: Recipe, logits: np.ndarray, share: np.ndarray) -> np.ndarray:
    """timm's Mixup targets with SoftTargetCrossEntropy or BinaryCrossEntropy, in float64."""
    off = recipe.smoothing / CLASSES
    own = np.full((len(logits), CLASSES), off)
    own[np.arange(len(logits)), LABELS[: len(logits)]] = 1 - recipe.smoothing + off
    other = own.reshape(-1, 2, CLASSES)[:, ::-1].reshape(own.shape)
    target = share[:, None] * own + (1 - share[:, None]) * other
    if recipe.loss == "softmax":
        shifted = logits - logits.max(1, keepdims=True)
        return -(target * (shifted - np.log(np.exp(shifted).sum(1, keepdims=True)))).sum(1)
    target = (target > recipe.threshold).astype(np.float64) if recipe.threshold else target
    p = 1 / (1 + np.exp(-logits))
    return -(target * np.log(p) + (1 - target) * np.log1p(-p)).mean(1)


@pytest.mark.parametrize("name", ["vit_tiny-full", "resnet50-rsb-a3", "resnet50-rsb-a3-threshold"])
def test_losses_of_mixed_targets_are_those_of_the_definitions(name: str) -> None:
    recipe = REDUCED[name]
    logits = DRAW.normal(0, 3, (6, CLASSES))
    share = np.array([0.9, 0.1, 0.15, 0.5, 1.0, 0.0])
    batch = {"label": jnp.asarray(LABELS[:6]), SHARE: jnp.asarray(share, jnp.float32)}
    found = np.asarray(per_example(recipe, jnp.asarray(logits, jnp.float32), batch))
    np.testing.assert_allclose(found, soft_losses(recipe, logits, share), rtol=2e-5)


def test_a_sigmoid_loss_without_mixing_takes_the_label() -> None:
    recipe = replace(REDUCED["resnet50-rsb-a3"], smoothing=0.0)
    logits = DRAW.normal(0, 3, (6, CLASSES))
    found = np.asarray(per_example(recipe, jnp.asarray(logits, jnp.float32), {"label": jnp.asarray(LABELS[:6])}))
    np.testing.assert_allclose(found, soft_losses(recipe, logits, np.ones(6)), rtol=2e-5)


@pytest.mark.parametrize("name", ["vit_tiny-full", "resnet34-2018", "resnet50-rsb-a3"])
def test_a_batch_carries_the_draws_that_its_step_takes(name: str) -> None:
    recipe = REDUCED[name]
    _, functions = build(recipe, PLAIN, BATCH, streamed=True)
    feed, given = functions["feed"]
    taken = functions["step"][1][1]
    fed = jax.eval_shape(feed, *given)
    assert {k: (v.shape, v.dtype) for k, v in fed.items()} == {k: (v.shape, v.dtype) for k, v in taken.items()}
    assert set(given[3]) == {*((SHARE, CUT) if recipe.mixing.mixup else ()), *((ERASE,) if recipe.erasing else ())}
    assert given[0].shape == (BATCH, *recipe.train_image)


def test_training_images_may_be_the_smaller_ones_where_the_host_makes_them() -> None:
    smaller = replace(DATA, shape=(SIDE, SIDE, 3), test_shape=(2 * SIDE, 2 * SIDE, 3))
    recipe = replace(REDUCED["resnet50-rsb-a3"], data=smaller)
    _, functions = build(recipe, PLAIN, BATCH, streamed=True)
    assert functions["step"][1][1]["image"].shape == (BATCH, SIDE, SIDE, 3)
    assert functions["eval"][1][1]["image"].shape == (BATCH, 2 * SIDE, 2 * SIDE, 3)
    with pytest.raises(ValueError, match="cannot be cropped"):
        build(replace(recipe, augment=("crop",)), PLAIN, BATCH, streamed=True)
