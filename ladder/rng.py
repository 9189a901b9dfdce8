"""Named random streams, the same bits on every machine and NumPy version.

A stream is named by a canonical string, such as `mnist5k order 1`. Only `Philox.random_raw` is taken from NumPy: the
streams of its bit generators are guaranteed to stay, the methods of `Generator` are not. To reproduce one elsewhere:

1. d = SHA-256(UTF-8 of the string), read as four little-endian 64-bit words d0 d1 d2 d3.
2. Philox-4x64-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) with key (d0, d1) and
   counter (c, 0, d2, d3) for c = 1, 2, 3 ...; each block gives its four words in order.
3. `uniform`: (word >> 11) * 2^-53. `permutation`: Fisher-Yates from the last place down, see there.
"""

import hashlib
from collections.abc import Iterator
from itertools import chain

import numpy as np
from numpy.typing import NDArray

WORD = 1 << 64


def _stream(key: str) -> np.random.Philox:
    words = np.frombuffer(hashlib.sha256(key.encode()).digest(), "<u8").astype(np.uint64)
    return np.random.Philox(key=words[:2], counter=np.array([0, 0, words[2], words[3]], np.uint64))


def raw(key: str, n: int) -> NDArray[np.uint64]:
    """The first `n` 64-bit words of the stream, uint64 [n]. `raw(key, m)` is a prefix of `raw(key, n)` for m < n."""
    return np.asarray(_stream(key).random_raw(n), np.uint64)


def uniform(key: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Uniform draws in [0, 1) with 53 bits, float64 of `shape`, filled in C order from the stream's first words."""
    words = raw(key, int(np.prod(shape, dtype=np.int64)))
    words >>= np.uint64(11)
    draws = words.astype(np.float64)
    draws *= 2.0**-53
    return draws.reshape(shape)


def permutation(key: str, n: int) -> NDArray[np.int64]:
    """A uniformly random order of 0 .. n-1, int64 [n].

    Fisher-Yates: for i = n-1 down to 1, swap the places i and j, with j drawn by `below(i + 1)` from the stream.
    """
    stream = _stream(key)
    words = chain(stream.random_raw(n).tolist(), iter(stream.random_raw, None))  # further words replace rejected ones
    order = list(range(n))
    for i in range(n - 1, 0, -1):
        j = below(i + 1, words)
        order[i], order[j] = order[j], order[i]
    return np.array(order, np.int64)


def below(bound: int, words: Iterator[int]) -> int:
    """An unbiased integer in [0, bound) from 64-bit words; 1 <= bound <= 2^64.

    Lemire, "Fast random integer generation in an interval", 2019: the high word of word * bound, unless the low word
    is below 2^64 mod bound, in which case the next word is taken.
    """
    for word in words:
        product = word * bound
        low = product % WORD
        if low >= bound or low >= WORD % bound:
            return product >> 64
    raise ValueError(f"the words ended before one was accepted for the bound {bound}")
