"""ResNet-34 and ResNet-50 (He et al., "Deep Residual Learning for Image Recognition", 2015; reference/recipes.md
section 3). 21,289,802 and 23,528,522 parameters at 10 classes; 21,797,672 and 25,557,032 at 1000.
"""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from models.convs import VALID, ConvNorm, Dense, same
from models.norms import Running
from models.pool import global_average_pool, max_pool3x3


class Basic(nn.Module):
    """Two 3x3 convolutions; the first has the stride. The shortcut is projected when the shape changes."""

    features: int
    stride: int
    dtype: DTypeLike
    running: Running = Running()

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        conv = functools.partial(ConvNorm, dtype=self.dtype, running=self.running)
        y = nn.relu(conv(self.features, 3, same(3), self.stride, name="conv1")(x, train))
        y = conv(self.features, 3, same(3), name="conv2")(y, train)
        if x.shape != y.shape:
            x = conv(self.features, 1, VALID, self.stride, name="shortcut")(x, train)
        return nn.relu(x + y)


class Bottleneck(nn.Module):
    """1x1, 3x3 with the stride, 1x1 to four times the features."""

    features: int
    stride: int
    dtype: DTypeLike
    running: Running = Running()

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        conv = functools.partial(ConvNorm, dtype=self.dtype, running=self.running)
        y = nn.relu(conv(self.features, 1, VALID, name="conv1")(x, train))
        y = nn.relu(conv(self.features, 3, same(3), self.stride, name="conv2")(y, train))
        y = conv(4 * self.features, 1, VALID, name="conv3")(y, train)
        if x.shape != y.shape:
            x = conv(4 * self.features, 1, VALID, self.stride, name="shortcut")(x, train)
        return nn.relu(x + y)


class ResNet(nn.Module):
    """`[n, h, w, 3] f32 -> [n, classes] f32` logits; h and w multiples of 32."""

    block: type[Basic] | type[Bottleneck]
    depths: tuple[int, ...] = (3, 4, 6, 3)
    widths: tuple[int, ...] = (64, 128, 256, 512)
    classes: int = 10
    dtype: DTypeLike = jnp.float32
    keep: float = 0.99
    eps: float = 1e-5

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        running = Running(self.keep, self.eps)
        conv = functools.partial(ConvNorm, dtype=self.dtype, running=running)
        x = nn.relu(conv(self.widths[0], 7, same(7), stride=2, name="stem")(x, train))
        x = max_pool3x3(x)
        for stage, (depth, width) in enumerate(zip(self.depths, self.widths, strict=True), 1):
            for at in range(1, depth + 1):
                stride = 2 if stage > 1 and at == 1 else 1
                x = self.block(width, stride, self.dtype, running, name=f"stage{stage}_block{at}")(x, train)
        return Dense(self.classes, self.dtype, name="head")(global_average_pool(x))


resnet34 = functools.partial(ResNet, Basic)
resnet50 = functools.partial(ResNet, Bottleneck)
tiny34 = functools.partial(resnet34, depths=(1, 2), widths=(8, 16))
tiny50 = functools.partial(resnet50, depths=(1, 2), widths=(8, 16))
