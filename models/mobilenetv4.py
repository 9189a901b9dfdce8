"""MobileNetV4-Conv-M (Qin et al., "MobileNetV4: Universal Models for the Mobile Ecosystem", 2024) as the published
ladder has it (reference/recipes.md section 3; LeanMlir/Proofs/Architectures/MobileNetV4FullB.lean @07573a8e): a stride
sits on the first depthwise, ReLU follows that one too, and both head convolutions come before the pooling.
8,447,322 parameters at 10 classes, 9,715,512 at 1000.
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


class Uib(NamedTuple):
    """A universal inverted bottleneck: features, expansion, stride, first and second depthwise kernel (0: none)."""

    features: int
    expand: int
    stride: int
    first: int
    second: int


BLOCKS = (
    Uib(80, 4, 2, 3, 5),
    Uib(80, 2, 1, 3, 3),
    Uib(160, 6, 2, 3, 5),
    Uib(160, 4, 1, 3, 3),
    Uib(160, 4, 1, 3, 3),
    Uib(160, 4, 1, 3, 5),
    Uib(160, 4, 1, 3, 3),
    Uib(160, 4, 1, 3, 0),
    Uib(160, 2, 1, 0, 0),
    Uib(160, 4, 1, 3, 0),
    Uib(256, 6, 2, 5, 5),
    Uib(256, 4, 1, 5, 5),
    Uib(256, 4, 1, 3, 5),
    Uib(256, 4, 1, 3, 5),
    Uib(256, 4, 1, 0, 0),
    Uib(256, 4, 1, 3, 0),
    Uib(256, 2, 1, 3, 5),
    Uib(256, 4, 1, 5, 5),
    Uib(256, 4, 1, 0, 0),
    Uib(256, 4, 1, 0, 0),
    Uib(256, 2, 1, 5, 0),
)


class UniversalBottleneck(nn.Module):
    """Depthwise, 1x1 expansion, depthwise, linear 1x1; a shortcut where the shape stays."""

    spec: Uib
    dtype: DTypeLike
    running: Running = Running()

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        conv = functools.partial(ConvNorm, dtype=self.dtype, running=self.running)
        features, expand, stride, first, second = self.spec
        if stride != 1 and not first:
            raise ValueError(f"{self.spec}: the stride sits on the first depthwise, which is absent")
        c = x.shape[-1]
        y = x
        if first:
            y = nn.relu(conv(c, first, same(first), stride, True, name="depthwise1")(y, train))
        y = nn.relu(conv(c * expand, 1, VALID, name="expand")(y, train))
        if second:
            y = nn.relu(conv(c * expand, second, same(second), 1, True, name="depthwise2")(y, train))
        y = conv(features, 1, VALID, name="project")(y, train)
        return x + y if x.shape == y.shape else y


class FusedBottleneck(nn.Module):
    """3x3 expansion of stride 2 with swish, linear 1x1."""

    features: int
    expand: int
    dtype: DTypeLike
    running: Running = Running()

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        conv = functools.partial(ConvNorm, dtype=self.dtype, running=self.running)
        x = nn.swish(conv(x.shape[-1] * self.expand, 3, same(3), stride=2, name="expand")(x, train))
        return conv(self.features, 1, VALID, name="project")(x, train)


class MobileNetV4(nn.Module):
    """`[n, h, w, 3] f32 -> [n, classes] f32` logits; h and w multiples of 32."""

    blocks: tuple[Uib, ...] = BLOCKS
    stem: int = 32
    fused: int = 48
    last: tuple[int, int] = (960, 1280)
    classes: int = 10
    dtype: DTypeLike = jnp.float32
    keep: float = 0.99
    eps: float = 1e-5
    dropout: float = 0.0

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        running = Running(self.keep, self.eps)
        conv = functools.partial(ConvNorm, dtype=self.dtype, running=running)
        x = nn.relu(conv(self.stem, 3, LATE, stride=2, name="stem")(x, train))
        x = FusedBottleneck(self.fused, 4, self.dtype, running, name="fused")(x, train)
        for number, spec in enumerate(self.blocks, 1):
            x = UniversalBottleneck(spec, self.dtype, running, name=f"block{number}")(x, train)
        for number, width in enumerate(self.last, 1):
            x = nn.relu(conv(width, 1, VALID, name=f"last{number}")(x, train))
        x = dropout(self, global_average_pool(x), self.dropout, train)
        return Dense(self.classes, self.dtype, name="head")(x)


mobilenetv4_conv_m = MobileNetV4
tiny = functools.partial(
    MobileNetV4, (Uib(12, 4, 2, 3, 5), Uib(12, 2, 1, 3, 0), Uib(12, 2, 1, 0, 0)), stem=8, fused=8, last=(24, 32)
)
