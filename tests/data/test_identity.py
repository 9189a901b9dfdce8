"""The identity is of the ordered bytes and their shapes, and of nothing else."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from ladder.data.identity import PARTS, Arrays, identity


def test_identity_follows_its_documented_formula() -> None:
    images, labels = np.arange(8, dtype=np.uint8).reshape(2, 2, 2, 1), np.array([3, 4], np.uint8)
    text = b"ladder dataset 1\n"
    for split in ("train", "test"):
        text += f"{split}_images uint8 2,2,2,1\n".encode() + bytes(range(8))
        text += f"{split}_labels uint8 2\n".encode() + b"\x03\x04"
    assert identity(Arrays(images, labels, images, labels, 10)) == "sha256:" + hashlib.sha256(text).hexdigest()


def test_identity_ignores_the_memory_layout(tiny: Arrays) -> None:
    assert identity(replace(tiny, train_images=np.asfortranarray(tiny.train_images))) == identity(tiny)


@pytest.mark.parametrize("part", PARTS)
def test_identity_changes_with_every_part(tiny: Arrays, part: str) -> None:
    changed = tiny.parts()[part].copy()
    changed.flat[-1] ^= 1
    assert identity(replace(tiny, **{part: changed})) != identity(tiny)


def test_identity_changes_with_the_order(tiny: Arrays) -> None:
    reverse = replace(tiny, train_images=tiny.train_images[::-1], train_labels=tiny.train_labels[::-1])
    assert identity(reverse) != identity(tiny)


def test_identity_changes_with_the_shape(tiny: Arrays) -> None:
    assert identity(replace(tiny, train_images=tiny.train_images.reshape(-1, 14, 56, 1))) != identity(tiny)
