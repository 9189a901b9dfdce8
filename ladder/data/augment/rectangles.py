"""The parameters of erasing and mixing, which are done in the step (ladder.train.mixing).

A rectangle is `top, bottom, left, right`, the second and the last excluded, as that module takes it.
"""

import math

from ladder.data.augment.draws import Draws
from ladder.recipes.recipe import Mixing

Rectangle = tuple[int, int, int, int]
NOTHING: Rectangle = (0, 0, 0, 0)
AREA = (0.02, 1 / 3)  # of what is erased, as a share of the image's
ASPECT = (0.3, 1 / 0.3)  # height / width; drawn on a logarithmic scale
TRIES = 10


def erasing(draws: Draws, probability: float, height: int, width: int) -> Rectangle:
    """What is erased of an image, with this probability (Zhong et al., "Random Erasing Data Augmentation", 2017).

    Of ten tries of an area and an aspect the first that is smaller than the image, anywhere in it; as in timm.
    """
    if not draws.chance(probability):
        return NOTHING
    for _ in range(TRIES):
        area = height * width * draws.uniform(*AREA)
        aspect = math.exp(draws.uniform(math.log(ASPECT[0]), math.log(ASPECT[1])))
        h, w = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if h < height and w < width:
            top, left = draws.below(height - h + 1), draws.below(width - w + 1)
            return top, top + h, left, left + w
    return NOTHING


def mixing(draws: Draws, kind: Mixing, step: int, height: int, width: int) -> tuple[float, Rectangle]:
    """The share that an example keeps in its batch's mixture, and the rectangle that is its partner's.

    `step` counts from 0 over the whole training. Mixup on the even ones, without a rectangle; cutmix on the odd ones,
    its share the area that is kept, for the rectangle may lie over the border (Yun et al., 2019). With one of them
    only, every step is its.
    """
    if kind.mixup and (step % 2 == 0 or not kind.cutmix):
        return draws.beta(kind.mixup), NOTHING
    side = math.sqrt(1 - draws.beta(kind.cutmix))
    high, wide = int(height * side), int(width * side)
    middle, centre = draws.below(height), draws.below(width)
    top, bottom = max(middle - high // 2, 0), min(middle + high // 2, height)
    left, right = max(centre - wide // 2, 0), min(centre + wide // 2, width)
    return 1 - (bottom - top) * (right - left) / (height * width), (top, bottom, left, right)
