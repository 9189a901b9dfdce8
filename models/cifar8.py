"""The cifar rung's net: eight 3x3 convolutions with a pool after each pair, then 128-512-512-10; 373,626 parameters.

With a norm between convolution and ReLU it has 374,010. The published norm is per example; "batch" is the same net
with true batch statistics.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from models.layers import Conv3x3, max_pool2x2
from models.norms import BatchNorm, ExampleNorm

WIDTHS = (16, 16, 16, 16, 32, 32, 32, 32)


class Cifar8(nn.Module):
    """`[n, 32, 32, 3] f32 -> [n, 10]` logits. `dtype`: of convolutions and dense layers; a norm is float32."""

    variant: str = "plain"
    norm: str = "none"
    width: int = 512
    dtype: str = "float32"
    classes: int = 10

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        for i, features in enumerate(WIDTHS, 1):
            x = Conv3x3(features, self.variant, self.dtype, name=f"conv{i}")(x)
            if self.norm == "example":
                x = ExampleNorm(eps=1e-5, name=f"norm{i}")(x)
            elif self.norm == "batch":
                x = BatchNorm(keep=0.99, eps=1e-5, name=f"norm{i}")(x, train)
            x = nn.relu(x)
            if i % 2 == 0:
                x = max_pool2x2(x)
        x = x.reshape(x.shape[0], -1)
        dtype = jnp.dtype(self.dtype)
        x = nn.relu(nn.Dense(self.width, dtype=dtype, name="fc1")(x))
        x = nn.relu(nn.Dense(self.width, dtype=dtype, name="fc2")(x))
        return nn.Dense(self.classes, dtype=dtype, name="fc3")(x)
