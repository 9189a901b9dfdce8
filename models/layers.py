"""Layers that several nets share, every padding explicit, in formulations that both lowerers take."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax

MATMUL_GRADIENT = "matmul-gradient"  # the variant in which a convolution's weight gradient is written as matmuls
# ... where that pays: CPU-ms of the gradient alone at batch 128, XLA plain | matmuls, IREE plain | matmuls; least of 5,
# two AVX2 cores (jax 0.12.0.1, IREE 3.13.0, 2026-12-01). Side 28: 1->32 12.9 | 5.7, 11.9 | 10.3; 32->32 276 | 57,
# 98 | 68. Side 32: 3->16 11.9 | 7.4, 12.0 | 11.6; 16->16 91 | 34, 72 | 30. Side 16: 16->32 10.0 | 11.0, 13.8 | 10.8;
# 32->32 23.1 | 21.1, 26.3 | 22.3. Side 8: 4.4 | 5.6, 8.9 | 6.0. Side 4: 0.3 | 2.3, 1.1 | 3.2.
MATMUL_SIDE = 16


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
    """`dW[i, j] = sum over n, h, w of x[n, h+i-1, w+j-1] g[n, h, w]`: a matmul for each kernel row i and image.

    The three columns j stand side by side on the narrower side of the matmul. The images are summed last: a compiler
    that adds one term after another (IREE) is 5e-7 off in 100,352 terms so, and 6e-6 in one long sum.
    """
    rows = _columns_of_input(x, g) if x.shape[-1] < g.shape[-1] else _columns_of_output(x, g)
    return jnp.stack(rows)


def _columns_of_input(x: jax.Array, g: jax.Array) -> list[jax.Array]:
    """For each kernel row, `[3, c, o]`: matmuls of `[h·w, 3·c]` by `[h·w, o]`."""
    (n, h, w, c), o = x.shape, g.shape[-1]
    padded, flat = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), g.reshape(n, h * w, o)
    rows = [jnp.concatenate([padded[:, i : i + h, j : j + w] for j in range(3)], axis=-1) for i in range(3)]
    return [_sum_of_products(row.reshape(n, h * w, 3 * c), flat).reshape(3, c, o) for row in rows]


def _columns_of_output(x: jax.Array, g: jax.Array) -> list[jax.Array]:
    """For each kernel row, `[3, c, o]`: matmuls of `[h·(w+2), c]` by `[h·(w+2), 3·o]`.

    With x padded by one pixel all round and g by two on the right, both are flat lists of pixels in rows of w+2, and a
    kernel tap (i, j) is a shift of i·(w+2)+j pixels between them; g's zero padding cancels those that wrap around.
    """
    (n, h, w, c), o = x.shape, g.shape[-1]
    row = w + 2
    xs = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))).reshape(n, (h + 2) * row, c)
    gs = jnp.pad(g, ((0, 0), (0, 0), (0, 2), (0, 0))).reshape(n, h * row, o)
    taps = jnp.concatenate([jnp.pad(gs[:, : h * row - j], ((0, 0), (j, 0), (0, 0))) for j in range(3)], axis=-1)
    rows = [_sum_of_products(xs[:, i * row : (i + h) * row], taps) for i in range(3)]
    return [product.reshape(c, 3, o).transpose(1, 0, 2) for product in rows]


def _sum_of_products(a: jax.Array, b: jax.Array) -> jax.Array:
    """`[n, k, p] , [n, k, q] -> [p, q]`: a matmul an image, then the sum over images."""
    return jnp.einsum("nkp,nkq->npq", a, b).sum(axis=0)


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
