"""The operators in float64, which tell what is right, against NumPy and SciPy written without jax."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import signal, special

from ladder.suite.operators import functions as f
from ladder.suite.operators import threefry
from ladder.suite.operators.part import integers, normal


def wide(function: object, *given: np.ndarray) -> np.ndarray:
    assert callable(function)
    with jax.enable_x64(True):
        return np.asarray(function(*given))


X = normal("test/x", 6, 40, scale=2.0)


@pytest.mark.parametrize(
    ("function", "right"),
    [
        (f.erf, special.erf(X)),
        (f.silu, X * special.expit(X)),
        (f.gelu, X * special.ndtr(X)),
        (f.cumsum, np.cumsum(X, -1)),
        (f.sort, np.sort(X, -1)),
        (f.argmax, np.argmax(X, -1)),
        (f.total, X.sum(0)),
        (f.mean_square, (X**2).mean(0)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_of_one_array(function: object, right: np.ndarray) -> None:
    assert_allclose(wide(function, X), right, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("stride", "pads"), [(1, ((1, 1), (1, 1))), (2, ((0, 1), (0, 1))), (2, ((2, 0), (0, 1)))])
def test_convolution_is_correlation_on_the_padded_image(stride: int, pads: tuple[tuple[int, int], ...]) -> None:
    x, w = normal("test/image", 2, 9, 9, 3), normal("test/kernel", 3, 3, 3, 4)
    padded = np.pad(x, ((0, 0), *pads, (0, 0)))
    right = np.zeros((2, padded.shape[1] - 2, padded.shape[2] - 2, 4))
    for n, o, c in np.ndindex(2, 4, 3):
        right[n, ..., o] += signal.correlate2d(padded[n, ..., c], w[..., c, o], "valid")
    found = wide(lambda x, w: f.conv(x, w, stride, pads), x, w)
    assert_allclose(found, right[:, ::stride, ::stride], rtol=1e-12, atol=1e-12)


def test_norms_are_over_the_last_axis_or_the_batch() -> None:
    x, gamma, beta = normal("test/norm", 4, 3, 3, 8), normal("test/gamma", 8), normal("test/beta", 8)
    for function, axes in ((f.layer_norm, (-1,)), (f.batch_norm, (0, 1, 2))):
        mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
        right = (x - mean) / np.sqrt(var + 1e-5) * gamma + beta
        assert_allclose(wide(function, x, gamma, beta), right, rtol=1e-10, atol=1e-10)
    assert_allclose(
        wide(f.rms_norm, x, gamma), x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * gamma, rtol=1e-10, atol=1e-10
    )


def test_attention_sees_what_is_before() -> None:
    q, k, v = (normal(f"test/{name}", 1, 1, 5, 4) for name in "qkv")
    right = np.zeros((5, 4))
    for t in range(5):
        right[t] = special.softmax(q[0, 0, t] @ k[0, 0, : t + 1].T / 2) @ v[0, 0, : t + 1]
    assert_allclose(wide(f.causal_attention, q, k, v)[0, 0], right, rtol=1e-10, atol=1e-12)


def test_cross_entropy_is_stable() -> None:
    logits, labels = np.array([[1e4, 0.0], [0.0, 1e4]]), np.array([0, 0], np.int32)
    assert_allclose(wide(f.softmax_cross_entropy, logits, labels), [0, 1e4])


def test_threefry_gives_the_published_words() -> None:
    """Known answers of Random123's kat_vectors: threefry2x32, 20 rounds."""
    zero = np.zeros(1, np.uint32)
    assert [int(w[0]) for w in threefry.block((0, 0), zero, zero)] == [0x6B200159, 0x99BA4EFE]
    ones = np.full(1, 0xFFFFFFFF, np.uint32)
    assert [int(w[0]) for w in threefry.block((0xFFFFFFFF, 0xFFFFFFFF), ones, ones)] == [0x1CB996FC, 0xBB002BE7]


def test_whole_numbers_are_whole_and_draws_repeat() -> None:
    drawn = integers("test/whole", -2, 3, 500)
    assert set(drawn.tolist()) == {-2, -1, 0, 1, 2}
    assert_array_equal(drawn, integers("test/whole", -2, 3, 500))
