"""Layers that several nets share, every padding explicit, in formulations that both lowerers take."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax

MATMUL_GRADIENT = "matmul-gradient"  # the variant in which a convolution's weight gradient is written as matmuls
# ... where that pays: CPU-ms of the gradient alone at batch 128, XLA's own | ours, medians of 3, two AVX2 cores:
# side 28: 1->32 17.4 | 6.1, 32->32 285 | 90; side 32: 3->16 22.7 | 6.8, 16->16 101 | 41;
# side 24: 16->16 20 | 30, side 16: 5.6 | 9.5, side 8: 16->32 2.3 | 3.0, 32->32 4.4 | 5.5, side 4: 1.3 | 2.0.
MATMUL_SIDE = 28


class Conv3x3(nn.Module):
    """3x3 convolution, stride 1, one pixel of zero padding all round, with bias: `[n, h, w, c] -> [n, h, w, features]`.

    NHWC, HWIO, computed in `dtype`; parameters are float32. The `variant` decides how the weight gradient is written.
    """

    features: int
    variant: str
    dtype: str = "float32"

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        kernel = self.param("kernel", nn.initializers.zeros, (3, 3, x.shape[-1], self.features))
        bias = self.param("bias", nn.initializers.zeros, (self.features,))
        dtype = jnp.dtype(self.dtype)
        pays = dtype == jnp.float32 and min(x.shape[1:3]) >= MATMUL_SIDE
        convolve = _convolve_matmul_gradient if self.variant == MATMUL_GRADIENT and pays else _convolve
        return convolve(x.astype(dtype), kernel.astype(dtype)) + bias.astype(dtype)


def _convolve(x: jax.Array, kernel: jax.Array) -> jax.Array:
    return lax.conv_general_dilated(x, kernel, (1, 1), ((1, 1), (1, 1)), dimension_numbers=("NHWC", "HWIO", "NHWC"))


@jax.custom_vjp
def _convolve_matmul_gradient(x: jax.Array, kernel: jax.Array) -> jax.Array:
    return _convolve(x, kernel)


def _forward(x: jax.Array, kernel: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return _convolve(x, kernel), (x, kernel)


def _backward(saved: tuple[jax.Array, jax.Array], g: jax.Array) -> tuple[jax.Array, jax.Array]:
    x, kernel = saved
    (dx,) = jax.vjp(lambda x: _convolve(x, kernel), x)[1](g)
    return dx, _weight_gradient(x, g)


def _weight_gradient(x: jax.Array, g: jax.Array) -> jax.Array:
    """`dW[i, j] = sum over n, h, w of x[n, h+i-1, w+j-1] g[n, h, w]`: a matmul for each kernel row i.

    The three columns j stand side by side on the narrower side of the matmul.
    """
    return _columns_of_input(x, g) if x.shape[-1] < g.shape[-1] else _columns_of_output(x, g)


def _columns_of_input(x: jax.Array, g: jax.Array) -> jax.Array:
    """Matmuls of `[rows, 3·c]` by `[rows, o]`."""
    (_, h, w, c), o = x.shape, g.shape[-1]
    padded, flat = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), g.reshape(-1, o)
    rows = [jnp.concatenate([padded[:, i : i + h, j : j + w] for j in range(3)], axis=-1) for i in range(3)]
    return jnp.stack([row.reshape(-1, 3 * c).T @ flat for row in rows]).reshape(3, 3, c, o)


def _columns_of_output(x: jax.Array, g: jax.Array) -> jax.Array:
    """Matmuls of `[rows, c]` by `[rows, 3·o]`.

    With x padded by one pixel all round and g by two at the far ends, both are flat lists of equally many rows, and a
    kernel tap (i, j) is a shift of i·(w+2)+j rows between them; g's zero padding cancels the rows that wrap around.
    """
    c, o, row = x.shape[-1], g.shape[-1], x.shape[2] + 2
    xs = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))).reshape(-1, c)
    gs = jnp.pad(g, ((0, 0), (0, 2), (0, 2), (0, 0))).reshape(-1, o)
    length = gs.shape[0] - 2 * row  # the last tap's shift is 2·row + 2; the columns' shifts are in `taps`
    gs = gs[: length - 2]
    taps = jnp.concatenate([jnp.pad(gs, ((j, 2 - j), (0, 0))) for j in range(3)], axis=1)
    rows = [xs[i * row : i * row + length].T @ taps for i in range(3)]
    return jnp.stack(rows).reshape(3, c, 3, o).transpose(0, 2, 1, 3)


_convolve_matmul_gradient.defvjp(_forward, _backward)


def max_pool2x2(x: jax.Array) -> jax.Array:
    """Non-overlapping 2x2 max-pool: `[n, h, w, c] -> [n, h/2, w/2, c]`; h and w even.

    Three maxima of strided slices rather than a window reduction: its gradient takes 3.6 CPU-ms on the cnn's
    activations against 9.0 for reshape and max, and needs no select-and-scatter, which IREE does not take. Its gradient
    shares a tie where select-and-scatter gives it to the first; after a ReLU the ties that occur are zeros, where the
    gradient is zero either way.
    """
    rows = jnp.maximum(x[:, ::2], x[:, 1::2])
    return jnp.maximum(rows[:, :, ::2], rows[:, :, 1::2])
