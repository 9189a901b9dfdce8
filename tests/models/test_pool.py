"""The overlapping max-pool is XLA's, its gradient bit for bit, ties included."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from models.pool import global_average_pool, max_pool3x3


def xla_pool(x: Any) -> jax.Array:
    padding = ((0, 0), (1, 1), (1, 1), (0, 0))
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), padding)


def drawn(shape: tuple[int, ...], levels: int | None) -> np.ndarray:
    draw = np.random.default_rng(3)
    x = draw.normal(size=shape) if levels is None else draw.integers(0, levels, shape)
    return x.astype(np.float32)


@pytest.mark.parametrize("levels", [None, 3, 1], ids=["distinct", "many ties", "all equal"])
@pytest.mark.parametrize("shape", [(2, 8, 12, 3), (1, 2, 2, 1), (2, 112, 112, 2)])
def test_value_and_gradient_are_xlas(shape: tuple[int, ...], levels: int | None) -> None:
    x = drawn(shape, levels)
    ours, pull = jax.vjp(max_pool3x3, x)
    xlas, xla_pull = jax.vjp(xla_pool, x)
    assert np.array_equal(ours, xlas)
    g = drawn(ours.shape, None)
    assert np.array_equal(pull(g)[0], xla_pull(g)[0])


def test_the_comparison_sees_a_gradient_that_ties_share() -> None:
    def sharing(x: jax.Array) -> jax.Array:
        padded = jnp.pad(x, ((0, 0), (1, 0), (1, 0), (0, 0)), constant_values=-jnp.inf)
        pixels = [padded[:, i : i + x.shape[1] : 2, j : j + x.shape[2] : 2] for i in range(3) for j in range(3)]
        return jnp.max(jnp.stack(pixels), axis=0)

    x = drawn((2, 8, 8, 3), 3)
    out, pull = jax.vjp(sharing, x)
    g = drawn(out.shape, None)
    assert np.array_equal(out, xla_pool(x))
    assert not np.array_equal(pull(g)[0], jax.vjp(xla_pool, x)[1](g)[0])


def test_no_select_and_scatter_is_left_for_iree() -> None:
    x = jax.ShapeDtypeStruct((2, 8, 8, 3), jnp.float32)
    text = jax.jit(jax.grad(lambda x: jnp.sum(max_pool3x3(x)))).lower(x).as_text()
    assert "select_and_scatter" not in text
    assert "reduce_window" not in text
    assert "select_and_scatter" in jax.jit(jax.grad(lambda x: jnp.sum(xla_pool(x)))).lower(x).as_text()


def test_odd_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="even heights and widths, not 7x8"):
        max_pool3x3(jnp.zeros((1, 7, 8, 1)))


def test_global_average_pool() -> None:
    x = drawn((2, 3, 5, 4), None)
    np.testing.assert_allclose(global_average_pool(jnp.asarray(x)), x.mean((1, 2)), rtol=1e-6, atol=1e-7)
