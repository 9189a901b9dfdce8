"""Datasets: `prepare` finds, decodes and caches one; `open_split` maps it. Importing this imports NumPy only."""

from ladder.data.dataset import Dataset, prepare
from ladder.data.files import open_split
from ladder.data.identity import CIFAR10_IDENTITY, IMAGENETTE_IDENTITY, MNIST5K_IDENTITY, MNIST_IDENTITY

__all__ = [
    "CIFAR10_IDENTITY",
    "IMAGENETTE_IDENTITY",
    "MNIST5K_IDENTITY",
    "MNIST_IDENTITY",
    "Dataset",
    "open_split",
    "prepare",
]
