"""RandAugment and AutoAugment: which operations change an image, how strongly, and Pillow's arithmetic for each.

Cubuk et al., "RandAugment", 2019, and "AutoAugment: Learning Augmentation Policies from Data", 2018, with the mappings
of timm's auto_augment.py: its `rand-m9-mstd0.5-inc1` is Policy("rand-increasing", 2, 9.0, 0.5). Policy("auto") is its
`original` with the posterize of its `v0`, as the published trainers have it
(generated_resnet50_imagenet_rsbfaithful.py @45e7317a). Geometry as those have it too: bilinear, grey outside.
"""

from collections.abc import Callable
from typing import NamedTuple

from PIL import Image, ImageEnhance, ImageOps

from ladder.data.augment.draws import Draws
from ladder.recipes.recipe import Policy

MOST = 10.0  # the largest magnitude
APPLIED = 0.5  # probability that an operation of RandAugment is applied
GREY = (128, 128, 128)


class Operation(NamedTuple):
    """What is done to an image with an argument, and the argument at a share of the largest magnitude.

    `argument(share, sign, increasing)`: the sign is drawn, and the increasing mappings grow stronger with the share
    where the others do not.
    """

    apply: Callable[[Image.Image, float], Image.Image]
    argument: Callable[[float, int, bool], float]


def _affine(a: float, b: float, c: float, d: float) -> Callable[[Image.Image, float], Image.Image]:
    """A transform of Pillow that moves x by (a y + b width) and y by (c x + d height), times the argument."""

    def apply(image: Image.Image, by: float) -> Image.Image:
        width, height = image.size
        matrix = (1, a * by, b * by * width, c * by, 1, d * by * height)
        return image.transform(
            image.size, Image.Transform.AFFINE, matrix, resample=Image.Resampling.BILINEAR, fillcolor=GREY
        )

    return apply


def _rotate(image: Image.Image, degrees: float) -> Image.Image:
    return image.rotate(degrees, resample=Image.Resampling.BILINEAR, fillcolor=GREY)


def _add_below_128(image: Image.Image, add: float) -> Image.Image:
    return image.point([min(255, level + int(add)) if level < 128 else level for level in range(256)] * 3)


def _posterize(image: Image.Image, bits: float) -> Image.Image:
    """The highest bits of each level. ImageOps.posterize refuses 0, which the increasing mapping reaches."""
    kept = 256 - 2 ** (8 - int(bits))
    return image.point([level & kept for level in range(256)] * 3)


def _enhance(kind: Callable[[Image.Image], ImageEnhance._Enhance]) -> Operation:  # pyright: ignore[reportPrivateUsage]
    """A blend with the grey, the mean, the black or the smoothed image; 1 is the image itself."""
    return Operation(
        lambda image, factor: kind(image).enhance(factor),
        lambda share, sign, increasing: 1 + sign * 0.9 * share if increasing else 1.8 * share + 0.1,
    )


def _signed(most: float) -> Callable[[float, int, bool], float]:
    return lambda share, sign, increasing: sign * most * share


def _none(share: float, sign: int, increasing: bool) -> float:
    return 0.0


# In the order of timm's lists, from which RandAugment draws.
OPERATIONS: dict[str, Operation] = {
    "autocontrast": Operation(lambda image, _: ImageOps.autocontrast(image), _none),
    "equalize": Operation(lambda image, _: ImageOps.equalize(image), _none),
    "invert": Operation(lambda image, _: ImageOps.invert(image), _none),
    "rotate": Operation(_rotate, _signed(30.0)),
    "posterize": Operation(
        _posterize,
        lambda share, sign, increasing: 4 - int(4 * share) if increasing else int(4 * share),
    ),
    "solarize": Operation(
        lambda image, threshold: ImageOps.solarize(image, int(threshold)),
        lambda share, sign, increasing: 256 - int(256 * share) if increasing else int(256 * share),
    ),
    "solarize-add": Operation(_add_below_128, lambda share, sign, increasing: int(110 * share)),
    "color": _enhance(ImageEnhance.Color),
    "contrast": _enhance(ImageEnhance.Contrast),
    "brightness": _enhance(ImageEnhance.Brightness),
    "sharpness": _enhance(ImageEnhance.Sharpness),
    "shear-x": Operation(_affine(1, 0, 0, 0), _signed(0.3)),
    "shear-y": Operation(_affine(0, 0, 1, 0), _signed(0.3)),
    "translate-x": Operation(_affine(0, 1, 0, 0), _signed(0.45)),
    "translate-y": Operation(_affine(0, 0, 0, 1), _signed(0.45)),
}

# AutoAugment's 25 for ImageNet: two operations each, with probability and magnitude.
AUTO: tuple[tuple[tuple[str, float, int], tuple[str, float, int]], ...] = (
    (("posterize", 0.4, 8), ("rotate", 0.6, 9)),
    (("solarize", 0.6, 5), ("autocontrast", 0.6, 5)),
    (("equalize", 0.8, 8), ("equalize", 0.6, 3)),
    (("posterize", 0.6, 7), ("posterize", 0.6, 6)),
    (("equalize", 0.4, 7), ("solarize", 0.2, 4)),
    (("equalize", 0.4, 4), ("rotate", 0.8, 8)),
    (("solarize", 0.6, 3), ("equalize", 0.6, 7)),
    (("posterize", 0.8, 5), ("equalize", 1.0, 2)),
    (("rotate", 0.2, 3), ("solarize", 0.6, 8)),
    (("equalize", 0.6, 8), ("posterize", 0.4, 6)),
    (("rotate", 0.8, 8), ("color", 0.4, 0)),
    (("rotate", 0.4, 9), ("equalize", 0.6, 2)),
    (("equalize", 0.0, 7), ("equalize", 0.8, 8)),
    (("invert", 0.6, 4), ("equalize", 1.0, 8)),
    (("color", 0.6, 4), ("contrast", 1.0, 8)),
    (("rotate", 0.8, 8), ("color", 1.0, 2)),
    (("color", 0.8, 8), ("solarize", 0.8, 7)),
    (("sharpness", 0.4, 7), ("invert", 0.6, 8)),
    (("shear-x", 0.6, 5), ("equalize", 1.0, 9)),
    (("color", 0.4, 0), ("equalize", 0.6, 3)),
    (("equalize", 0.4, 7), ("solarize", 0.2, 4)),
    (("solarize", 0.6, 5), ("autocontrast", 0.6, 5)),
    (("invert", 0.6, 4), ("equalize", 1.0, 8)),
    (("color", 0.6, 4), ("contrast", 1.0, 8)),
    (("equalize", 0.8, 8), ("equalize", 0.6, 3)),
)


def chosen(policy: Policy, draws: Draws) -> list[tuple[str, float]]:
    """The operations for one image, each with its argument, in order."""
    if policy.name == "none":
        return []
    increasing, names = policy.name == "rand-increasing", list(OPERATIONS)
    if policy.name == "auto":
        wanted = AUTO[draws.below(len(AUTO))]
    else:
        wanted = [(names[draws.below(len(names))], APPLIED, policy.magnitude) for _ in range(policy.layers)]
    found: list[tuple[str, float]] = []
    for name, probability, magnitude in wanted:
        applied, sign = draws.chance(probability), draws.sign()
        if policy.deviation:
            magnitude = min(max(draws.normal(magnitude, policy.deviation), 0.0), MOST)
        if applied:
            found.append((name, OPERATIONS[name].argument(magnitude / MOST, sign, increasing)))
    return found


def changed(image: Image.Image, operations: list[tuple[str, float]]) -> Image.Image:
    """The image after the operations, one after another."""
    for name, argument in operations:
        image = OPERATIONS[name].apply(image, argument)
    return image
