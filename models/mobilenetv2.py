"""MobileNetV2 (Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", 2018; reference/recipes.md
section 3). 2,236,682 parameters at 10 classes, 3,504,872 at 1000.
"""

import functools
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from models.convs import LATE, VALID, ConvNorm, Dense, same
from models.dropping import dropout
from models.norms import Running
from models.pool import global_average_pool


class Stage(NamedTuple):
    """The paper's t, c, n, s: expansion, features, blocks, stride of the first."""

    expand: int
    features: int
    blocks: int
    stride: int


STAGES = (
    Stage(1, 16, 1, 1),
    Stage(6, 24, 2, 2),
    Stage(6, 32, 3, 2),
    Stage(6, 64, 4, 2),
    Stage(6, 96, 3, 1),
    Stage(6, 160, 3, 2),
    Stage(6, 320, 1, 1),
)


class InvertedResidual(nn.Module):
    """1x1 expansion (absent at 1), 3x3 depthwise, linear 1x1; a shortcut where the shape stays."""

    expand: int
    features: int
    stride: int
    dtype: DTypeLike
    running: Running = Running()

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        conv = functools.partial(ConvNorm, dtype=self.dtype, running=self.running)
        wide = x.shape[-1] * self.expand
        y = x
        if self.expand != 1:
            y = relu6(conv(wide, 1, VALID, name="expand")(y, train))
        pad = LATE if self.stride == 2 else same(3)
        y = relu6(conv(wide, 3, pad, self.stride, depthwise=True, name="depthwise")(y, train))
        y = conv(self.features, 1, VALID, name="project")(y, train)
        return x + y if x.shape == y.shape else y


class MobileNetV2(nn.Module):
    """`[n, h, w, 3] f32 -> [n, classes] f32` logits; h and w multiples of 32."""

    stages: tuple[Stage, ...] = STAGES
    stem: int = 32
    last: int = 1280
    classes: int = 10
    dtype: DTypeLike = jnp.float32
    keep: float = 0.99
    eps: float = 1e-5
    dropout: float = 0.0

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        running = Running(self.keep, self.eps)
        conv = functools.partial(ConvNorm, dtype=self.dtype, running=running)
        x = relu6(conv(self.stem, 3, LATE, stride=2, name="stem")(x, train))
        for number, stage in enumerate(self.stages, 1):
            for at in range(1, stage.blocks + 1):
                stride = stage.stride if at == 1 else 1
                name = f"stage{number}_block{at}"
                x = InvertedResidual(stage.expand, stage.features, stride, self.dtype, running, name=name)(x, train)
        x = global_average_pool(relu6(conv(self.last, 1, VALID, name="last")(x, train)))
        return Dense(self.classes, self.dtype, name="head")(dropout(self, x, self.dropout, train))


def relu6(x: jax.Array) -> jax.Array:
    """min(max(x, 0), 6); no gradient at either bend."""
    return jnp.where(x < 6, nn.relu(x), jnp.full_like(x, 6))


mobilenetv2 = MobileNetV2
tiny = functools.partial(MobileNetV2, (Stage(1, 8, 1, 1), Stage(4, 12, 2, 2), Stage(4, 16, 1, 2)), stem=8, last=32)
