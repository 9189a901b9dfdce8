"""EfficientNet-B0 (Tan and Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks", 2019;
reference/recipes.md section 3). 4,020,358 parameters at 10 classes, 5,288,548 at 1000.
"""

import functools
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from models.convs import LATE, VALID, ConvNorm, Dense, same
from models.dropping import depth_rates, drop_path, dropout
from models.norms import Running
from models.pool import global_average_pool


class Stage(NamedTuple):
    """The paper's t, c, n, s, k: expansion, features, blocks, stride of the first, depthwise kernel."""

    expand: int
    features: int
    blocks: int
    stride: int
    size: int


STAGES = (
    Stage(1, 16, 1, 1, 3),
    Stage(6, 24, 2, 2, 3),
    Stage(6, 40, 2, 2, 5),
    Stage(6, 80, 3, 2, 3),
    Stage(6, 112, 3, 1, 5),
    Stage(6, 192, 4, 2, 5),
    Stage(6, 320, 1, 1, 3),
)


class SqueezeExcite(nn.Module):
    """Scales each channel by a gate from the mean of all: two dense layers, swish between, sigmoid after."""

    squeezed: int
    dtype: DTypeLike

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        gate = nn.swish(Dense(self.squeezed, self.dtype, name="squeeze")(global_average_pool(x)))
        gate = nn.sigmoid(Dense(x.shape[-1], self.dtype, name="excite")(gate))
        return x * gate[:, None, None, :]


class MBConv(nn.Module):
    """1x1 expansion (absent at 1), depthwise, squeeze-excite to a quarter of the input, linear 1x1; a shortcut where
    the shape stays."""

    expand: int
    features: int
    stride: int
    size: int
    dtype: DTypeLike
    running: Running = Running()
    drop_path: float = 0.0

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        conv = functools.partial(ConvNorm, dtype=self.dtype, running=self.running)
        wide = x.shape[-1] * self.expand
        y = x
        if self.expand != 1:
            y = nn.swish(conv(wide, 1, VALID, name="expand")(y, train))
        y = nn.swish(conv(wide, self.size, same(self.size), self.stride, True, name="depthwise")(y, train))
        y = SqueezeExcite(x.shape[-1] // 4, self.dtype, name="squeeze_excite")(y)
        y = conv(self.features, 1, VALID, name="project")(y, train)
        return x + drop_path(self, y, self.drop_path, train) if x.shape == y.shape else y


class EfficientNet(nn.Module):
    """`[n, h, w, 3] f32 -> [n, classes] f32` logits; h and w multiples of 32."""

    stages: tuple[Stage, ...] = STAGES
    stem: int = 32
    last: int = 1280
    classes: int = 10
    dtype: DTypeLike = jnp.float32
    keep: float = 0.99
    eps: float = 1e-5
    drop_path: float = 0.0
    dropout: float = 0.0

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        running = Running(self.keep, self.eps)
        conv = functools.partial(ConvNorm, dtype=self.dtype, running=running)
        rates = iter(depth_rates(self.drop_path, sum(stage.blocks for stage in self.stages)))
        x = nn.swish(conv(self.stem, 3, LATE, stride=2, name="stem")(x, train))
        for number, stage in enumerate(self.stages, 1):
            for at in range(1, stage.blocks + 1):
                stride = stage.stride if at == 1 else 1
                spec = (stage.expand, stage.features, stride, stage.size)
                block = MBConv(*spec, self.dtype, running, next(rates), name=f"stage{number}_block{at}")
                x = block(x, train)
        x = global_average_pool(nn.swish(conv(self.last, 1, VALID, name="last")(x, train)))
        return Dense(self.classes, self.dtype, name="head")(dropout(self, x, self.dropout, train))


efficientnet_b0 = EfficientNet
tiny = functools.partial(
    EfficientNet, (Stage(1, 8, 1, 1, 3), Stage(4, 12, 2, 2, 5), Stage(4, 16, 1, 1, 3)), stem=8, last=32
)
