"""Seeded weights and inputs by name, and what a golden keeps of an array. NumPy only: shared by the tests and by
scripts/model_goldens.py, which runs where jax is not installed. A golden thus stores no weights.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ladder import rng

F64 = NDArray[np.float64]
SAMPLES = 8


def weight(net: str, name: str, shape: tuple[int, ...]) -> F64:
    """A parameter by our name in our layout; norms, biases and embeddings are away from their initial values too."""
    *_, last = name.split("/")
    center = 1.0 if last in ("gamma", "scale") else 0.0
    sigma = math.prod(shape[:-1]) ** -0.5 if last == "w" else 0.3
    return center + sigma * _draw(f"golden/{net}/{name}", shape)


def images(net: str, batch: int, size: int) -> F64:
    """`[batch, size, size, 3]`, mean 0 and variance 1."""
    return _draw(f"golden/{net}/images", (batch, size, size, 3))


def labels(batch: int) -> NDArray[np.int64]:
    """`[batch]`, of 10 classes."""
    return np.arange(batch) * 3 % 10


def digest(net: str, name: str, array: NDArray[Any]) -> dict[str, Any]:
    """What a golden keeps of an array in our layout: its L2 norm and SAMPLES seeded places."""
    flat = array.astype(np.float64).ravel()
    places = (rng.raw(f"golden/{net}/{name}/places", SAMPLES) % np.uint64(flat.size)).astype(np.int64)
    return {"l2": float(np.linalg.norm(flat)), "samples": flat[places].tolist()}


def _draw(key: str, shape: tuple[int, ...]) -> F64:
    return (rng.uniform(key, shape) - 0.5) * math.sqrt(12)
