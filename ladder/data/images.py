"""Datasets of encoded images of many sizes: one order for every source, and one decoding to uint8, mapped from disk.

The order is by class, then by the SHA-256 of the file's bytes: it needs neither the file names, which TFDS does not
keep, nor a table. The identity is of the files' bytes in that order, so a decoder's build does not change it.
"""

import hashlib
import io
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

from ladder.data.identity import Array, Arrays
from ladder.data.source import SourceError


@dataclass(frozen=True)
class Encoded:
    """An image file: its class, the hex SHA-256 of its bytes, what to call it in an error, and how to read it."""

    label: int
    sha: str
    name: str
    read: Callable[[], bytes]


def encoded(label: int, name: str, read: Callable[[], bytes]) -> Encoded:
    """An image with the SHA-256 of what `read` gives now."""
    return Encoded(label, hashlib.sha256(read()).hexdigest(), name, read)


def ordered(images: Iterable[Encoded]) -> tuple[Encoded, ...]:
    """The images by class, then by SHA-256; equal ones are the same example."""
    return tuple(sorted(images, key=lambda i: (i.label, i.sha)))


def identity(train: Sequence[Encoded], test: Sequence[Encoded]) -> str:
    """`sha256:` + the hex SHA-256 of `ladder files 1\\n`, then for each split a line `train 9469\\n` and for each of
    its images a line of class and SHA-256."""
    digest = hashlib.sha256(b"ladder files 1\n")
    for name, images in (("train", train), ("test", test)):
        digest.update(f"{name} {len(images)}\n".encode())
        digest.update("".join(f"{i.label} {i.sha}\n" for i in images).encode())
    return "sha256:" + digest.hexdigest()


def decoder() -> str:
    """What decodes and resizes, with its version."""
    return f"Pillow {version('pillow')} RGB bilinear"


def decode(
    folder: Path, train: Sequence[Encoded], test: Sequence[Encoded], sides: tuple[int, int], classes: int
) -> Arrays:
    """Write both splits into `folder`, an image at a time, as squares of `sides` (train, test); gives them mapped.

    Raises SourceError naming the image that cannot be decoded.
    """
    images, labels = _split(folder, "train", train, sides[0])
    return Arrays(images, labels, *_split(folder, "test", test, sides[1]), classes=classes)


def _split(folder: Path, name: str, images: Sequence[Encoded], side: int) -> tuple[Array, Array]:
    shape = (len(images), side, side, 3)
    pixels = np.lib.format.open_memmap(folder / f"{name}_images.npy", "w+", np.uint8, shape)

    def one(at: int) -> None:
        pixels[at] = square(images[at], side)

    with ThreadPoolExecutor(os.cpu_count() or 1) as threads:  # Pillow lets go of the interpreter while it decodes
        for _ in threads.map(one, range(len(images))):
            pass
    pixels.flush()
    labels = np.array([i.label for i in images], np.uint8)
    np.save(folder / f"{name}_labels.npy", labels, allow_pickle=False)
    return pixels, labels


def square(image: Encoded, side: int) -> Array:
    """The image as uint8 [side, side, 3], resized bilinearly; its aspect is not kept. Raises SourceError."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(image.read())) as opened:
            return np.asarray(opened.convert("RGB").resize((side, side), Image.Resampling.BILINEAR))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        reason = f"{type(error).__name__}: {error}"[:200]
        raise SourceError(f"{image.name} cannot be decoded: {reason}", "fetch the dataset again") from error
