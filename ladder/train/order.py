"""What the host draws for an epoch: the examples' order and the step keys, the same for every seed."""

import numpy as np

from ladder import rng
from ladder.recipes import Recipe


def epoch_order(recipe: Recipe, epoch: int) -> np.ndarray:
    """The training examples of an epoch, `[steps, batch] i32`, without the remainder. File order is the only one."""
    del epoch
    return np.arange(recipe.steps * recipe.batch, dtype=np.int32).reshape(recipe.steps, recipe.batch)


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
