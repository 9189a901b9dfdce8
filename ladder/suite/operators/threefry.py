"""Threefry-2x32-20 in NumPy (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), as jax uses it."""

import numpy as np
from numpy.typing import NDArray

U32 = NDArray[np.uint32]
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def block(key: tuple[int, int], x0: U32, x1: U32) -> tuple[U32, U32]:
    """20 rounds on counters u32 [n] twice."""
    with np.errstate(over="ignore"):
        k0, k1 = np.uint32(key[0]), np.uint32(key[1])
        keys = (k0, k1, k0 ^ k1 ^ np.uint32(0x1BD11BDA))
        x0, x1 = x0 + keys[0], x1 + keys[1]
        for five in range(5):
            for r in ROTATIONS[five % 2]:
                x0 = x0 + x1
                x1 = ((x1 << np.uint32(r)) | (x1 >> np.uint32(32 - r))) ^ x0
            x0 = x0 + keys[(five + 1) % 3]
            x1 = x1 + keys[(five + 2) % 3] + np.uint32(five + 1)
    return x0, x1


def bits(key: NDArray[np.uint32], n: int) -> U32:
    """The first n words as `jax_threefry_partitionable` has them: of each 64-bit counter, both halves xored."""
    x0, x1 = block((int(key[0]), int(key[1])), np.zeros(n, np.uint32), np.arange(n, dtype=np.uint32))
    return x0 ^ x1
