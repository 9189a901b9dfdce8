"""The rate of a step, computed on the host in float64 so that the number of epochs does not change the program."""

import numpy as np

from ladder.recipes import Recipe


def rates(recipe: Recipe, epoch: int) -> np.ndarray:
    """The rates of an epoch's steps, `[steps] f32`; `epoch` and the step t of the whole training count from 1.

    While warming up, rate · t / warm. Then the rate itself (constant), or half a cosine down to 0 at the last step:
    rate · (1 + cos π (t − warm) / (all − warm)) / 2 (reference/recipes.md section 0, brettkoonce/lean4-mlir @126ab67b).
    """
    s = recipe.schedule
    t = np.arange(1, recipe.steps + 1, dtype=np.float64) + (epoch - 1) * recipe.steps
    warm, every = s.warmup * recipe.steps, recipe.epochs * recipe.steps
    after = np.ones_like(t)
    if s.name == "cosine":
        after = (1 + np.cos(np.pi * (t - warm) / max(every - warm, 1))) / 2
    return (s.rate * np.where(t < warm, t / max(warm, 1), after)).astype(np.float32)
