"""The real MNIST: one identity from TFDS's own order, from IDX and from gzipped IDX."""

import gzip
import time
from pathlib import Path

import pytest

from ladder.data import MNIST_IDENTITY, Dataset, open_split, prepare


def prepared(cache: Path, *, data_dir: Path | None = None, tfds_dir: Path | None = None) -> Dataset:
    return prepare("mnist", data_dir=data_dir, tfds_dir=tfds_dir, cache=cache, say=lambda _: None)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def test_gzipped_idx_is_the_published_mnist(mnist_gz: Path, cache: Path) -> None:
    dataset = prepared(cache, data_dir=mnist_gz)
    assert (dataset.identity, dataset.train, dataset.test) == (MNIST_IDENTITY, 60_000, 10_000)
    _, labels = open_split(dataset.folder, "train")
    assert labels[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]  # as every MNIST tutorial prints them


def test_plain_idx_is_the_published_mnist(mnist_gz: Path, tmp_path: Path) -> None:
    (tmp_path / "idx").mkdir()
    for path in mnist_gz.iterdir():
        (tmp_path / "idx" / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
    assert prepared(tmp_path / "cache", data_dir=tmp_path / "idx").identity == MNIST_IDENTITY


def test_a_second_preparation_is_fast(mnist_gz: Path, cache: Path) -> None:
    """0.06 to 0.12 s of CPU with SHA instructions, all of it hashing; the limit leaves room for a CPU without them."""
    prepared(cache, data_dir=mnist_gz)
    start = time.process_time()
    prepared(cache, data_dir=mnist_gz)
    assert time.process_time() - start < 0.5


@pytest.mark.slow
def test_tfds_in_its_own_order_is_the_published_mnist(real_tfds: Path, tmp_path: Path, mnist_gz: Path) -> None:
    dataset = prepared(tmp_path / "cache", tfds_dir=real_tfds)
    assert dataset.identity == MNIST_IDENTITY
    assert dataset.source == "TFDS mnist 3.0.1 in the given TFDS folder"
    assert prepared(tmp_path / "cache", data_dir=mnist_gz).folder == dataset.folder
