"""How a batch is made of a dataset on the device, and what a net sees of its pixels. Imported in the export child."""

import jax
import jax.numpy as jnp
from jax import lax

from ladder.recipes import Recipe
from ladder.train.mixing import CUT, ERASE, SHARE

Arrays = dict[str, jax.Array]
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's training pixels, per channel


def feed(images: jax.Array, labels: jax.Array, idx: jax.Array, draws: Arrays, size: tuple[int, int]) -> Arrays:
    """A batch from a resident dataset: images `[n, h, w, c] u8`, labels `[n] i32`, idx `[b] i32`; -1 pads, weight 0.

    `draws["crop"]` i32 `[b, 2]`: the top left corner of each image's crop to `size`. `draws["flip"]` bool `[b]`:
    which images, cropped, are turned left to right. Without `crop`, a larger image is cropped at its centre. Other
    draws are the step's, and stand in the batch under their names.
    """
    at = jnp.maximum(idx, 0)
    rows = images.reshape(len(images), -1)  # a gather of whole rows takes half the time that one of pixels does
    image = jnp.take(rows, at, axis=0, mode="clip").reshape(len(at), *images.shape[1:])
    if "crop" in draws:
        image = jax.vmap(_crop, (0, 0, None))(image, draws["crop"], size)
    elif image.shape[1:3] != size:
        top, left = ((have - want) // 2 for have, want in zip(image.shape[1:3], size, strict=True))
        image = image[:, top : top + size[0], left : left + size[1]]
    if "flip" in draws:
        image = jnp.where(draws["flip"][:, None, None, None], _mirrored(image), image)
    return {
        "image": image,
        "label": jnp.take(labels, at, axis=0, mode="clip"),
        "weight": (idx >= 0).astype(jnp.float32),
        **{name: drawn for name, drawn in draws.items() if name not in ("crop", "flip")},
    }


def _mirrored(image: jax.Array) -> jax.Array:
    """Turned left to right, as signed bytes: IREE 3.13 does not take a reversal of unsigned ones."""
    return lax.bitcast_convert_type(lax.bitcast_convert_type(image, jnp.int8)[:, :, ::-1], jnp.uint8)


def _crop(image: jax.Array, corner: jax.Array, size: tuple[int, int]) -> jax.Array:
    return lax.dynamic_slice(image, (corner[0], corner[1], 0), (*size, image.shape[-1]))


def draw_shapes(recipe: Recipe, batch: int) -> dict[str, jax.ShapeDtypeStruct]:
    """The draws that `feed` takes for a training batch; see ladder.train.order.epoch_draws."""
    shapes = {
        "crop": jax.ShapeDtypeStruct((batch, 2), jnp.int32),
        "flip": jax.ShapeDtypeStruct((batch,), jnp.bool_),
        SHARE: jax.ShapeDtypeStruct((batch,), jnp.float32),
        CUT: jax.ShapeDtypeStruct((batch, 4), jnp.int32),
        ERASE: jax.ShapeDtypeStruct((batch, 4), jnp.int32),
    }
    mixes = recipe.mixing.mixup or recipe.mixing.cutmix
    drawn = (*(() if recipe.made_on_host else recipe.augment), *((SHARE, CUT) if mixes else ()))
    return {name: shapes[name] for name in (*drawn, *((ERASE,) if recipe.erasing else ()))}


def pixels(recipe: Recipe, image: jax.Array) -> jax.Array:
    """What the net reads of `image` u8 `[n, h, w, c]`: float32, x/255, normalised where the recipe says so."""
    x = image.astype(jnp.float32) / 255.0
    if recipe.pixels == "imagenet":
        x = (x - jnp.array(MEAN, jnp.float32)) / jnp.array(DEVIATION, jnp.float32)
    return x
