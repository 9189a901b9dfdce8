"""ConvNeXt-T (Liu et al., "A ConvNet for the 2020s", 2022; reference/recipes.md section 3). 27,827,818 parameters at
10 classes, 28,589,128 at 1000. A block's layer scale is the parameter `scale`.
"""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from models.convs import VALID, Conv, Dense, same
from models.dropping import depth_rates, drop_path
from models.norms import LayerNorm
from models.pool import global_average_pool

EPS = 1e-6


class Block(nn.Module):
    """7x7 depthwise, norm, two 1x1 with a tanh GELU between, layer scale, shortcut."""

    dtype: DTypeLike
    drop_path: float = 0.0

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        c = x.shape[-1]
        conv = functools.partial(Conv, bias=True, dtype=self.dtype)
        y = conv(c, 7, same(7), depthwise=True, name="depthwise")(x)
        y = LayerNorm(EPS, name="norm")(y)
        y = nn.gelu(conv(4 * c, 1, VALID, name="expand")(y), approximate=True)
        y = conv(c, 1, VALID, name="project")(y)
        return x + drop_path(self, self.param("scale", nn.initializers.ones, (c,)) * y, self.drop_path, train)


class ConvNeXt(nn.Module):
    """`[n, h, w, 3] f32 -> [n, classes] f32` logits; h and w multiples of 32."""

    depths: tuple[int, ...] = (3, 3, 9, 3)
    widths: tuple[int, ...] = (96, 192, 384, 768)
    classes: int = 10
    dtype: DTypeLike = jnp.float32
    drop_path: float = 0.0

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        conv = functools.partial(Conv, pad=VALID, bias=True, dtype=self.dtype)
        x = conv(self.widths[0], 4, stride=4, name="stem")(x)
        x = LayerNorm(EPS, name="stem_norm")(x)
        rates = iter(depth_rates(self.drop_path, sum(self.depths)))
        for stage, (depth, width) in enumerate(zip(self.depths, self.widths, strict=True), 1):
            if stage > 1:
                x = LayerNorm(EPS, name=f"down{stage}_norm")(x)
                x = conv(width, 2, stride=2, name=f"down{stage}")(x)
            for at in range(1, depth + 1):
                x = Block(self.dtype, next(rates), name=f"stage{stage}_block{at}")(x, train)
        x = LayerNorm(EPS, name="head_norm")(global_average_pool(x))
        return Dense(self.classes, self.dtype, name="head")(x)


convnext_t = ConvNeXt
tiny = functools.partial(ConvNeXt, (1, 2), (8, 16))
