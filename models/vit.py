"""ViT-Tiny/16 (Dosovitskiy et al., "An Image is Worth 16x16 Words", 2021; Touvron et al. for the size;
reference/recipes.md section 3). 5,526,346 parameters at 10 classes, 5,717,416 at 1000. The class token is `cls`, the
position embedding `pos`.
"""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from models.convs import VALID, Conv, Dense
from models.dropping import depth_rates, drop_path
from models.norms import LayerNorm, widened


class Attention(nn.Module):
    """Multi-head self-attention: `[n, t, c] -> [n, t, c]`; softmax in float32."""

    heads: int
    dtype: DTypeLike

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        n, t, c = x.shape
        dense = functools.partial(Dense, c, self.dtype)
        split = (n, t, self.heads, c // self.heads)
        q, k, v = (dense(name=name)(x).reshape(split).transpose(0, 2, 1, 3) for name in ("query", "key", "value"))
        scores = self._matmul(q, k.transpose(0, 1, 3, 2)) * (c // self.heads) ** -0.5
        mixed = self._matmul(nn.softmax(scores), v)
        return dense(name="out")(mixed.transpose(0, 2, 1, 3).reshape(n, t, c))

    def _matmul(self, a: jax.Array, b: jax.Array) -> jax.Array:
        return widened(a.astype(self.dtype) @ b.astype(self.dtype))


class Block(nn.Module):
    """Pre-norm attention and MLP, each with a shortcut."""

    heads: int
    hidden: int
    dtype: DTypeLike
    eps: float
    drop_path: float = 0.0

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        y = Attention(self.heads, self.dtype, name="attention")(LayerNorm(self.eps, name="norm1")(x))
        x = x + drop_path(self, y, self.drop_path, train)
        y = Dense(self.hidden, self.dtype, name="fc1")(LayerNorm(self.eps, name="norm2")(x))
        y = Dense(x.shape[-1], self.dtype, name="fc2")(nn.gelu(y, approximate=True))
        return x + drop_path(self, y, self.drop_path, train)


class ViT(nn.Module):
    """`[n, h, w, 3] f32 -> [n, classes] f32` logits; h and w multiples of the patch. The position embedding is for the
    size it was made with."""

    depth: int = 12
    width: int = 192
    heads: int = 3
    hidden: int = 768
    patch: int = 16
    classes: int = 10
    dtype: DTypeLike = jnp.float32
    eps: float = 1e-5
    drop_path: float = 0.0

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        x = Conv(self.width, self.patch, VALID, stride=self.patch, bias=True, dtype=self.dtype, name="patches")(x)
        x = x.reshape(x.shape[0], -1, self.width)
        cls = self.param("cls", nn.initializers.zeros, (1, self.width))
        x = jnp.concatenate([jnp.broadcast_to(cls, (x.shape[0], 1, self.width)).astype(x.dtype), x], axis=1)
        x = x + self.param("pos", nn.initializers.zeros, x.shape[1:])
        for number, rate in enumerate(depth_rates(self.drop_path, self.depth), 1):
            x = Block(self.heads, self.hidden, self.dtype, self.eps, rate, name=f"block{number}")(x, train)
        x = LayerNorm(self.eps, name="norm")(x[:, 0])
        return Dense(self.classes, self.dtype, name="head")(x)


vit_tiny = ViT
tiny = functools.partial(ViT, depth=2, width=16, heads=2, hidden=32, patch=8)
