"""The overlapping max-pool of the ResNets, and global average pooling."""

import jax
import jax.numpy as jnp

OFFSETS = tuple((i, j) for i in range(3) for j in range(3))  # a window's pixels in order


@jax.custom_vjp
def max_pool3x3(x: jax.Array) -> jax.Array:
    """3x3 max-pool, stride 2, one pixel of padding: `[n, h, w, c] -> [n, h/2, w/2, c]`; h and w even.

    Its gradient goes to the first maximum of a window in row-major order, as XLA's select-and-scatter has it, but from
    shifted slices: IREE takes no select-and-scatter.
    """
    pixels = _window_pixels(x)
    top = pixels[0]
    for pixel in pixels[1:]:
        top = jnp.maximum(top, pixel)
    return top


def global_average_pool(x: jax.Array) -> jax.Array:
    """`[n, h, w, c] -> [n, c]`."""
    return jnp.mean(x, (1, 2))


def _window_pixels(x: jax.Array) -> list[jax.Array]:
    """Every window's nine pixels, each `[n, h/2, w/2, c]`; (i, j) is x at (2·row + i − 1, 2·column + j − 1)."""
    h, w = x.shape[1], x.shape[2]
    if h % 2 or w % 2:
        raise ValueError(f"max_pool3x3 takes even heights and widths, not {h}x{w}")
    padded = jnp.pad(x, ((0, 0), (1, 0), (1, 0), (0, 0)), constant_values=-jnp.inf)
    return [padded[:, i : i + h : 2, j : j + w : 2] for i, j in OFFSETS]


def _forward(x: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    top = max_pool3x3(x)
    return top, (x, top)


def _backward(saved: tuple[jax.Array, jax.Array], g: jax.Array) -> tuple[jax.Array]:
    x, top = saved
    free = jnp.ones(top.shape, bool)
    share: dict[tuple[int, int], jax.Array] = {}
    for offset, pixel in zip(OFFSETS, _window_pixels(x), strict=True):
        first = free & (pixel == top)
        free &= ~first
        share[offset] = jnp.where(first, g, jnp.zeros_like(g))
    # An even row of x is the middle of its window; an odd one is the last of its window and the first of the next.
    below = lambda a: jnp.pad(a[:, 1:], ((0, 0), (0, 1), (0, 0), (0, 0)))  # noqa: E731
    right = lambda a: jnp.pad(a[:, :, 1:], ((0, 0), (0, 0), (0, 1), (0, 0)))  # noqa: E731
    even_even = share[1, 1]
    even_odd = share[1, 2] + right(share[1, 0])
    odd_even = share[2, 1] + below(share[0, 1])
    odd_odd = share[2, 2] + right(share[2, 0]) + below(share[0, 2]) + below(right(share[0, 0]))
    even, odd = jnp.stack([even_even, even_odd], 3), jnp.stack([odd_even, odd_odd], 3)
    return (jnp.stack([even, odd], 2).reshape(x.shape),)


max_pool3x3.defvjp(_forward, _backward)
