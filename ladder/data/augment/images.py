"""An image of a recipe from its file's bytes: what a net reads of it in training, and in evaluation. Pillow."""

import io

import numpy as np
from PIL import Image

from ladder.data.augment.crops import centred, cropped, random_box
from ladder.data.augment.draws import of_example, of_step
from ladder.data.augment.policies import changed, chosen
from ladder.data.augment.rectangles import Rectangle, erasing, mixing
from ladder.data.identity import Array
from ladder.recipes import Recipe


def trained_image(recipe: Recipe, content: bytes, epoch: int, example: int, copy: int = 0) -> Array:
    """uint8 `recipe.train_image`: cropped and resized, turned left to right or not, changed by the recipe's policy.

    Raises what Pillow does for bytes that are not an image.
    """
    identity = recipe.data.identity
    image = _decoded(content)
    box = random_box(of_example("resized-crop", identity, epoch, example, copy), *image.size)
    image = cropped(image, box, recipe.train_image[:2], recipe.resampling)
    if "flip" in recipe.augment and of_example("flip", identity, epoch, example, copy).chance(0.5):
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    operations = chosen(recipe.policy, of_example("policy", identity, epoch, example, copy))
    return np.asarray(changed(image, operations))


def evaluated_image(recipe: Recipe, content: bytes) -> Array:
    """uint8 `recipe.data.image`: the centre of the resized image."""
    return np.asarray(centred(_decoded(content), recipe.data.image[:2], recipe.test_crop, recipe.resampling))


def erased_part(recipe: Recipe, epoch: int, example: int, copy: int = 0) -> Rectangle:
    """The rectangle of a training image that the step makes noise."""
    height, width, _ = recipe.train_image
    draws = of_example("erase", recipe.data.identity, epoch, example, copy)
    return erasing(draws, recipe.erasing, height, width)


def mixture(recipe: Recipe, epoch: int, step: int) -> tuple[float, Rectangle]:
    """The share and the rectangle of a batch's mixture; `epoch` counts from 1, `step` from 0 in its epoch."""
    height, width, _ = recipe.train_image
    draws = of_step("mix", recipe.data.identity, epoch, step)
    return mixing(draws, recipe.mixing, (epoch - 1) * recipe.steps + step, height, width)


def _decoded(content: bytes) -> Image.Image:
    with Image.open(io.BytesIO(content)) as opened:
        return opened.convert("RGB")
