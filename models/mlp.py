"""The mnist rung's MLP: 784-512-512-10 with ReLU, 669,706 parameters."""

import flax.linen as nn
import jax


class Mlp(nn.Module):
    """`[n, 28, 28, 1] f32 -> [n, 10] f32` logits."""

    width: int = 512
    classes: int = 10

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        x = x.reshape(x.shape[0], -1)
        x = nn.relu(nn.Dense(self.width, name="fc1")(x))
        x = nn.relu(nn.Dense(self.width, name="fc2")(x))
        return nn.Dense(self.classes, name="fc3")(x)
