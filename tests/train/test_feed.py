"""A batch by hand: gathered, cropped, then turned left to right; and what a net reads of its pixels."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ladder.recipes.cifar import recipes
from ladder.train.feed import DEVIATION, MEAN, feed, pixels
from ladder.train.program import cross_entropy

IMAGES = np.random.default_rng(0).integers(0, 256, (20, 9, 8, 3), np.uint8)
LABELS = np.arange(20, dtype=np.int32)
IDX = np.array([3, 19, 3, 0], np.int32)


def test_crop_then_flip_is_what_numpy_does() -> None:
    corners = np.array([[0, 0], [3, 2], [1, 0], [2, 1]], np.int32)
    turned = np.array([False, True, True, False])
    batch = jax.jit(feed, static_argnums=4)(IMAGES, LABELS, IDX, {"crop": corners, "flip": turned}, (6, 6))
    for got, i, (row, column), turn in zip(np.asarray(batch["image"]), IDX, corners, turned, strict=True):
        wanted = IMAGES[i, row : row + 6, column : column + 6]
        np.testing.assert_array_equal(got, wanted[:, ::-1] if turn else wanted)
    np.testing.assert_array_equal(batch["label"], IDX)
    np.testing.assert_array_equal(batch["weight"], np.ones(4))
    assert batch["image"].dtype == np.uint8


def test_without_draws_the_images_are_as_they_lie() -> None:
    batch = feed(IMAGES, LABELS, np.array([5, -1], np.int32), {}, (9, 8))  # type: ignore[arg-type]
    np.testing.assert_array_equal(batch["image"][0], IMAGES[5])
    np.testing.assert_array_equal(batch["weight"], [1, 0])


@pytest.mark.parametrize("kind", ["x/255", "imagenet"])
def test_pixels_are_scaled_and_normalised(kind: str) -> None:
    recipe = replace(recipes()[0], pixels=kind)  # type: ignore[arg-type]
    wanted = IMAGES / 255.0
    if kind == "imagenet":
        wanted = (wanted - np.array(MEAN)) / np.array(DEVIATION)
    np.testing.assert_allclose(pixels(recipe, IMAGES), wanted, rtol=1e-6, atol=1e-6)  # type: ignore[arg-type]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_smoothed_cross_entropy_is_the_formula(smoothing: float) -> None:
    """The target is .9 one-hot + .01 at ten classes (reference/recipes.md section 3)."""
    logits, labels = np.random.default_rng(0).normal(size=(6, 10)) * 5, np.arange(6)
    target = (1 - smoothing) * np.eye(10)[labels] + smoothing / 10
    wanted = -(target * (logits - np.log(np.exp(logits).sum(1, keepdims=True)))).sum(1)
    found = cross_entropy(jnp.float32(logits), jnp.int32(labels), smoothing)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
