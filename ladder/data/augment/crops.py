"""Where an image is cropped and how it is resized: at random for training, at the centre for evaluation. Pillow."""

import math
from typing import NamedTuple

from PIL import Image

from ladder.data.augment.draws import Draws

AREA = (0.08, 1.0)  # of the image's
ASPECT = (3 / 4, 4 / 3)  # width / height; drawn on a logarithmic scale
TRIES = 10
FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


class Box(NamedTuple):
    """A rectangle of pixels; `right` and `bottom` are excluded. In Pillow's order."""

    left: int
    top: int
    right: int
    bottom: int


def random_box(draws: Draws, width: int, height: int) -> Box:
    """The crop of torchvision's RandomResizedCrop (Szegedy et al., "Going Deeper with Convolutions", 2015).

    Of ten tries of an area and an aspect the first that fits, anywhere in the image; else the largest centred crop of
    an allowed aspect. The published trainers' TensorFlow op differs in its rounding, takes a tenth of the image at
    least, and falls back to the whole image.
    """
    for _ in range(TRIES):
        area = width * height * draws.uniform(*AREA)
        aspect = math.exp(draws.uniform(math.log(ASPECT[0]), math.log(ASPECT[1])))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            top, left = draws.below(height - h + 1), draws.below(width - w + 1)
            return Box(left, top, left + w, top + h)
    w = min(width, round(height * ASPECT[1]))
    h = min(height, round(width / ASPECT[0]))
    left, top = (width - w) // 2, (height - h) // 2
    return Box(left, top, left + w, top + h)


def cropped(image: Image.Image, box: Box, size: tuple[int, int], resampling: str) -> Image.Image:
    """The box, resized to `size`, height and width; Pillow's filters widen when they shrink."""
    return image.crop(box).resize((size[1], size[0]), FILTERS[resampling])


def centred(image: Image.Image, size: tuple[int, int], share: float, resampling: str) -> Image.Image:
    """The shorter side resized to size / share, its aspect kept, then the centre `size`, height and width.

    As the published trainers do (generated_resnet50_imagenet_rsbfaithful.py @45e7317a).
    """
    scale = round(min(size) / share) / min(image.size)
    width, height = (round(side * scale) for side in image.size)
    resized = image.resize((width, height), FILTERS[resampling])
    left, top = (width - size[1]) // 2, (height - size[0]) // 2
    return resized.crop((left, top, left + size[1], top + size[0]))
