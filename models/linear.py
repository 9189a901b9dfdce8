"""Softmax regression on MNIST pixels: 784 -> 10, 7,850 parameters."""

import flax.linen as nn
import jax


class Linear(nn.Module):
    """`[n, 28, 28, 1] f32 -> [n, 10] f32` logits."""

    classes: int = 10

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        x = x.reshape(x.shape[0], -1)
        return nn.Dense(self.classes, name="fc1")(x)
