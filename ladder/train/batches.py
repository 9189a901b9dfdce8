"""Where a trial's batches come from: a dataset on the device, or one mapped from disk, put there a batch at a time.

Both give the same bytes wherever the weight is 1; a padded place holds some image, which counts for nothing. And
which of the two a device gets. NumPy only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from ladder.lowerers.protocol import Arrays, Executable, Value
from ladder.recipes import Data

Draws = Mapping[str, np.ndarray]
Feed = Literal["auto", "resident", "streamed"]

GIB = 1 << 30
# Bytes of decoded images that a device keeps. On `cpu` the mapped file is in the same memory already, and a board
# shares its memory with the host; a card of 8 GB keeps room for the largest net here at batch 32.
BUDGET = {"cpu": GIB, "tegra": GIB}
CARD_BUDGET = 4 * GIB


class Batches(Protocol):
    """A dataset that a compiled program is fed from."""

    def train(self, exe: Executable, idx: np.ndarray, draws: Draws) -> Arrays:
        """A training batch; `idx` [batch] i32, -1 pads."""
        ...

    def test(self, exe: Executable, idx: np.ndarray) -> Arrays:
        """A test batch; `idx` [test_batch] i32, -1 pads."""
        ...


@dataclass(frozen=True)
class Resident:
    """The dataset on the device: images u8 `[n, h, w, c]`, labels i32 `[n]`."""

    images: Value
    labels: Value
    test_images: Value
    test_labels: Value

    def train(self, exe: Executable, idx: np.ndarray, draws: Draws) -> Arrays:
        """Gathered on the device."""
        return exe.feed(self.images, self.labels, idx, draws)

    def test(self, exe: Executable, idx: np.ndarray) -> Arrays:
        """Gathered on the device."""
        return exe.test_feed(self.test_images, self.test_labels, idx, {})


@dataclass(frozen=True)
class Streamed:
    """The dataset mapped from disk: images u8 `[n, h, w, c]`, labels u8 `[n]`.

    A batch is gathered on the host while the device computes: it is a small resident dataset, read in its order.
    """

    images: np.ndarray
    labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray

    def train(self, exe: Executable, idx: np.ndarray, draws: Draws) -> Arrays:
        """Gathered on the host."""
        return exe.feed(*_put(exe, self.images, self.labels, idx), _places(idx), draws)

    def test(self, exe: Executable, idx: np.ndarray) -> Arrays:
        """Gathered on the host."""
        return exe.test_feed(*_put(exe, self.test_images, self.test_labels, idx), _places(idx), {})


def _put(exe: Executable, images: np.ndarray, labels: np.ndarray, idx: np.ndarray) -> tuple[Value, Value]:
    at = np.maximum(idx, 0)
    return exe.put(images[at]), exe.put(labels[at].astype(np.int32))


def _places(idx: np.ndarray) -> np.ndarray:
    return np.where(idx < 0, np.int32(-1), np.arange(len(idx), dtype=np.int32))


def put_dataset(exe: Executable, splits: Sequence[np.ndarray]) -> Resident:
    """Copy (images, labels, test images, test labels) to the device; labels as i32."""
    images, labels, test_images, test_labels = splits
    return Resident(
        exe.put(images), exe.put(labels.astype(np.int32)), exe.put(test_images), exe.put(test_labels.astype(np.int32))
    )


def streams(data: Data, device: str, kind: str, asked: Feed = "auto") -> tuple[bool, str]:
    """Whether a dataset is streamed to a profile's device rather than kept on it, and the words for that and why."""
    budget = BUDGET.get(kind, BUDGET.get(device, CARD_BUDGET))
    sizes = f"{data.name}'s images take {data.bytes / GIB:.2f} GiB, {device} keeps up to {budget / GIB:g}"
    if asked != "auto":
        return asked == "streamed", f"{asked}, as asked; {sizes}"
    streamed = data.bytes > budget
    return streamed, f"{'streamed' if streamed else 'resident'}: {sizes}"
