"""The rate of a step, computed on the host in float64 so that the number of epochs does not change the program."""

import numpy as np

from ladder.recipes import Recipe


def rates(recipe: Recipe, epoch: int) -> np.ndarray:
    """The rates of an epoch's steps, `[steps] f32`; `epoch` and the step t of the whole training count from 1.

    While warming up, rate · t / warm. Then, with n the steps since,

    - constant: the rate itself.
    - cosine: half a cosine down to `end` at the last step, end + (rate − end) · (1 + cos π n / (all − warm)) / 2
      (reference/recipes.md section 0, brettkoonce/lean4-mlir @126ab67b).
    - staircase: rate · factor^⌊(n − 1) / every⌋, `every` in steps: the first so many steps are at the rate itself.
    - exponential: rate · factor^((n − 1) / every) (generated_mobilenet_v2_imagenet_full.py @0ccd6ad9).
    """
    s = recipe.schedule
    t = np.arange(1, recipe.steps + 1, dtype=np.float64) + (epoch - 1) * recipe.steps
    warm, every = s.warmup * recipe.steps, recipe.epochs * recipe.steps
    after = np.ones_like(t)
    if s.name == "cosine":
        after = (1 + np.cos(np.pi * (t - warm) / max(every - warm, 1))) / 2
        after = after * (1 - s.end / s.rate) + s.end / s.rate if s.end else after
    elif s.name in ("staircase", "exponential"):
        gone = (t - warm - 1) / (s.every * recipe.steps)
        after = s.factor ** (np.floor(gone) if s.name == "staircase" else gone)
    return (s.rate * np.where(t <= warm, t / max(warm, 1), after)).astype(np.float32)
