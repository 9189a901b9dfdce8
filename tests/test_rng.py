"""Random streams are the same bits for ever: golden values, and a second implementation of Philox."""

import hashlib
import time

import numpy as np
import pytest

from ladder import rng

GOLDEN_RAW = [0x9ED6383FAFBA2931, 0x281789252FBA4E7C, 0x229097D7A71BA4CC, 0x874EEAD6D99F9309, 0xD6DCBE52441BE7E7]
GOLDEN_UNIFORM = [[0.6204562335476359, 0.1566091266429136], [0.13501881613693323, 0.5285479330574374]]
GOLDEN_ORDER = [0, 9, 4, 7, 2, 5, 3, 8, 1, 6]
GOLDEN_ORDER_60000 = "fc445517c235c28af396aa875836ce6f82a8c008b674f064fd7b5bb2a66a9fda"


def philox_by_the_paper(key: str, n: int) -> list[int]:
    """Philox-4x64-10 in plain integers, keyed as ladder.rng documents it."""
    digest, mask = hashlib.sha256(key.encode()).digest(), rng.WORD - 1
    d = [int.from_bytes(digest[i : i + 8], "little") for i in range(0, 32, 8)]
    words: list[int] = []
    while len(words) < n:
        c, k = [len(words) // 4 + 1, 0, d[2], d[3]], d[:2]
        for _ in range(10):
            a, b = 0xD2E7470EE14C6C93 * c[0], 0xCA5A826395121157 * c[2]
            c = [(b >> 64) ^ c[1] ^ k[0], b & mask, (a >> 64) ^ c[3] ^ k[1], a & mask]
            k = [(k[0] + 0x9E3779B97F4A7C15) & mask, (k[1] + 0xBB67AE8584CAA73B) & mask]
        words += c
    return words[:n]


def test_raw_words_are_golden() -> None:
    assert rng.raw("golden", 5).tolist() == GOLDEN_RAW


@pytest.mark.parametrize("key", ["golden", "", "mnist5k order 1", "Ω"])
def test_raw_words_are_philox_as_documented(key: str) -> None:
    assert rng.raw(key, 11).tolist() == philox_by_the_paper(key, 11)


def test_a_shorter_request_is_a_prefix_of_a_longer_one() -> None:
    np.testing.assert_array_equal(rng.raw("prefix", 3), rng.raw("prefix", 100)[:3])


def test_streams_differ_by_their_key() -> None:
    assert not set(rng.raw("a 1", 1000).tolist()) & set(rng.raw("a 2", 1000).tolist())


def test_uniform_draws_are_golden() -> None:
    assert rng.uniform("golden", (2, 2)).tolist() == GOLDEN_UNIFORM


def test_uniform_draws_have_53_bits_and_stay_below_one() -> None:
    draws = rng.uniform("range", (100_000,))
    assert draws.dtype == np.float64
    assert draws.min() >= 0.0
    assert draws.max() < 1.0
    assert abs(draws.mean() - 0.5) < 4 / np.sqrt(12 * draws.size)
    np.testing.assert_array_equal(draws * 2**53 % 1, 0)


def test_uniform_takes_any_shape() -> None:
    assert rng.uniform("shape", ()).shape == ()
    assert rng.uniform("shape", (0, 3)).shape == (0, 3)
    np.testing.assert_array_equal(rng.uniform("shape", (2, 3)).ravel(), rng.uniform("shape", (6,)))


def test_permutations_are_golden() -> None:
    assert rng.permutation("golden", 10).tolist() == GOLDEN_ORDER
    order = rng.permutation("golden", 60_000)
    assert hashlib.sha256(order.astype("<i8").tobytes()).hexdigest() == GOLDEN_ORDER_60000


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_a_permutation_holds_every_place_once(n: int) -> None:
    order = rng.permutation("complete", n)
    assert order.dtype == np.int64
    assert sorted(order.tolist()) == list(range(n))


def test_permutations_are_unbiased() -> None:
    """All 6 orders of 3 within 5 standard deviations of their share of 6,000."""
    orders = [tuple(rng.permutation(f"bias {i}", 3).tolist()) for i in range(6000)]
    counts = [orders.count(order) for order in set(orders)]
    assert len(counts) == 6
    assert max(abs(count - 1000) for count in counts) < 5 * np.sqrt(6000 * (1 / 6) * (5 / 6))


def test_a_word_that_would_bias_the_draw_is_replaced() -> None:
    """2^64 mod 6 = 4: a word whose product with 6 has a low word below 4 is one too many."""
    assert rng.below(6, iter([0, 7])) == 0  # word 0 (low word 0 < 4) is rejected; 7 * 6 = 42 is kept
    assert rng.below(6, iter([0, rng.WORD - 1])) == 5
    assert rng.below(8, iter([0])) == 0  # a power of two rejects nothing
    with pytest.raises(ValueError, match="bound 6"):
        rng.below(6, iter([0]))


def test_draws_are_fast() -> None:
    """3.5 million uniforms and a permutation of 60,000 take about 0.05 s each on an idle core."""
    start = time.process_time()
    rng.uniform("speed", (3_500_000,))
    assert time.process_time() - start < 0.5
    start = time.process_time()
    rng.permutation("speed", 60_000)
    assert time.process_time() - start < 0.3
