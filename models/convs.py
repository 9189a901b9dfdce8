"""Convolution, dense layer and convolution + batch norm, with padding, stride and compute dtype spelt out.

Both compute in `dtype` and return float32 or wider, so that bfloat16 is confined to the products.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import DTypeLike

from models.norms import BatchNorm, Running, widened

Pad = tuple[int, int]  # zeros before and after, the same for height and width
VALID: Pad = (0, 0)
LATE: Pad = (0, 1)  # what "SAME" means for a 3x3 of stride 2 on an even size


def same(size: int) -> Pad:
    """Symmetric padding of an odd kernel."""
    return size // 2, size // 2


class Conv(nn.Module):
    """`[n, h, w, c] -> [n, h', w', features]`, NHWC, kernel HWIO `[size, size, c, features]`.

    `depthwise`: one filter a channel, kernel `[size, size, 1, c]`; features must be c.
    """

    features: int
    size: int
    pad: Pad
    stride: int = 1
    depthwise: bool = False
    bias: bool = False
    dtype: DTypeLike = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        c = x.shape[-1]
        if self.depthwise and self.features != c:
            raise ValueError(f"a depthwise convolution of {c} channels gives {c}, not {self.features}")
        shape = (self.size, self.size, 1 if self.depthwise else c, self.features)
        kernel = self.param("kernel", nn.initializers.zeros, shape)
        y = lax.conv_general_dilated(
            x.astype(self.dtype),
            kernel.astype(self.dtype),
            window_strides=(self.stride, self.stride),
            padding=(self.pad, self.pad),
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=c if self.depthwise else 1,
        )
        y = widened(y)
        return y + self.param("bias", nn.initializers.zeros, (self.features,)) if self.bias else y


class Dense(nn.Module):
    """`[..., c] -> [..., features]`, kernel `[c, features]`, with bias."""

    features: int
    dtype: DTypeLike = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        kernel = self.param("kernel", nn.initializers.zeros, (x.shape[-1], self.features))
        bias = self.param("bias", nn.initializers.zeros, (self.features,))
        return widened(x.astype(self.dtype) @ kernel.astype(self.dtype)) + bias


class ConvNorm(nn.Module):
    """Convolution without bias, then batch norm: `conv` and `norm`."""

    features: int
    size: int
    pad: Pad
    stride: int = 1
    depthwise: bool = False
    dtype: DTypeLike = jnp.float32
    running: Running = Running()

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        x = Conv(self.features, self.size, self.pad, self.stride, self.depthwise, dtype=self.dtype, name="conv")(x)
        return BatchNorm(*self.running, name="norm")(x, train)
