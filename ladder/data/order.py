"""MNIST's file order, for sources that lost it. The table is a permutation: it holds no image data.

`mnist_order.npy`, uint16 [70000], from scripts/mnist_order_table.py: sort the 60,000 training examples by their keys
(`example_keys`); the i-th of them stands at place `table[i]` of the original file. Entries 60,000 onward do the same
for the 10,000 test examples. Examples with equal keys are equal, so their order among themselves does not matter.
"""

import hashlib
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from ladder.data.identity import Array, Arrays
from ladder.data.source import SourceError

TABLE = "mnist_order.npy"
TRAIN = 60_000


def example_keys(images: Array, labels: Array) -> list[bytes]:
    """The SHA-256 of each example's image bytes followed by its label byte."""
    rows = np.concatenate([images.reshape(len(images), -1), labels[:, None]], axis=1)
    return [hashlib.sha256(row).digest() for row in rows]


def by_key(images: Array, labels: Array) -> NDArray[np.int64]:
    """The places of the examples in ascending order of their keys, int64 [N]; equal keys keep their order."""
    keys = example_keys(images, labels)
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)


def table(arrays: Arrays) -> NDArray[np.uint16]:
    """The order table of arrays in file order, uint16 [train + test]."""
    train = by_key(arrays.train_images, arrays.train_labels)
    test = by_key(arrays.test_images, arrays.test_labels)
    return np.concatenate([train, test]).astype(np.uint16)


def load_table() -> tuple[NDArray[np.uint16], NDArray[np.uint16]]:
    """The shipped table, as its training and its test part."""
    with resources.as_file(resources.files("ladder.data").joinpath(TABLE)) as path:
        places = np.load(path, allow_pickle=False)
    return places[:TRAIN], places[TRAIN:]


def restore(arrays: Arrays, train: NDArray[np.uint16], test: NDArray[np.uint16]) -> Arrays:
    """The examples of `arrays`, in any order, put back into file order by the two parts of a table.

    Only the identity of the result proves that they were the table's examples. Raises SourceError for other counts.
    """
    got, wanted = (len(arrays.train_labels), len(arrays.test_labels)), (len(train), len(test))
    if got != wanted:
        raise SourceError(f"has {got[0]} + {got[1]} examples, MNIST has {wanted[0]} + {wanted[1]}")
    return Arrays(
        *_place(arrays.train_images, arrays.train_labels, train),
        *_place(arrays.test_images, arrays.test_labels, test),
        classes=arrays.classes,
    )


def _place(images: Array, labels: Array, places: NDArray[np.uint16]) -> tuple[Array, Array]:
    order = np.empty(len(places), np.int64)
    order[places] = by_key(images, labels)
    return images[order], labels[order]
