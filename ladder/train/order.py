"""What the host draws for an epoch: the examples' order, their augmentation, the step keys; the same for every seed.

Each stream is keyed by data identity, purpose and epoch, and is drawn for the whole epoch at once. An augmentation
draw belongs to its example, wherever in the epoch that stands.
"""

import numpy as np

from ladder import rng
from ladder.recipes import Recipe


def epoch_order(recipe: Recipe, epoch: int) -> np.ndarray:
    """The training examples of an epoch, `[steps, batch] i32`, without the remainder.

    Where a recipe repeats examples, an epoch is as long and has fewer of them (Hoffer et al., "Augment your batch",
    2020; timm's RASampler): those of the permutation's beginning, each `repeats` times.
    """
    count = recipe.steps * recipe.batch
    if recipe.order == "file":
        order = np.arange(count)
    else:
        order = rng.permutation(f"order/{recipe.data.identity}/epoch={epoch}", recipe.data.train)[:count]
    return _batches(recipe, order[np.arange(count) // recipe.repeats])


def epoch_copies(recipe: Recipe) -> np.ndarray:
    """Which of its example's copies stands in each place of `epoch_order`, `[steps, batch] i32`: 0 without repeats."""
    return _batches(recipe, np.arange(recipe.steps * recipe.batch) % recipe.repeats)


def _batches(recipe: Recipe, places: np.ndarray) -> np.ndarray:
    """`[steps, batch] i32`. With repeats, the halves of a batch are dealt out in turn, so that no example stands beside
    its own copy, with which it would be mixed (ladder.train.mixing)."""
    shape = (recipe.steps, recipe.batch)
    if recipe.repeats == 1:
        return places.astype(np.int32).reshape(shape)
    return places.astype(np.int32).reshape(recipe.steps, 2, -1).transpose(0, 2, 1).reshape(shape)


def epoch_draws(recipe: Recipe, epoch: int, order: np.ndarray) -> dict[str, np.ndarray]:
    """The augmentation of the examples in `order` [steps, batch], by name, as `feed` takes it.

    `flip`: bool [steps, batch], true with probability 1/2. `crop`: i32 [steps, batch, 2], the top row and left column
    of the crop, every place equally likely (to one part in 2^53). Neither where the host makes the images.
    """
    data, draws = recipe.data, dict[str, np.ndarray]()
    if recipe.made_on_host:
        return draws
    if "crop" in recipe.augment:
        places = np.array(data.shape[:2]) - np.array(data.image[:2]) + 1
        uniform = rng.uniform(f"crop/{data.identity}/epoch={epoch}", (data.train, 2))
        draws["crop"] = (uniform * places).astype(np.int32)[order]
    if "flip" in recipe.augment:
        draws["flip"] = (rng.uniform(f"flip/{data.identity}/epoch={epoch}", (data.train,)) < 0.5)[order]
    return draws


def test_order(recipe: Recipe, batch: int) -> np.ndarray:
    """The test examples, `[batches, batch] i32`, the last batch padded with -1."""
    count = recipe.data.test
    order = np.full((-(-count // batch), batch), -1, np.int32)
    order.flat[:count] = np.arange(count, dtype=np.int32)
    return order


def step_keys(recipe: Recipe, epoch: int) -> np.ndarray:
    """The steps' threefry keys, `[steps, 2] u32`, for randomness in the graph."""
    words = rng.raw(f"key/{recipe.data.identity}/epoch={epoch}", recipe.steps)
    return np.stack([words >> np.uint64(32), words & np.uint64(0xFFFFFFFF)], axis=1).astype(np.uint32)
