"""The mnist rung's CNN: conv 3x3 1->32, conv 3x3 32->32, max-pool 2x2, then 6272-512-512-10; 3,489,130 parameters."""

import flax.linen as nn
import jax

from models.layers import Conv3x3, max_pool2x2


class Cnn(nn.Module):
    """`[n, 28, 28, 1] f32 -> [n, 10] f32` logits. `variant`: how it is written, not what it computes."""

    variant: str = "plain"
    width: int = 512
    channels: int = 32
    classes: int = 10

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        x = nn.relu(Conv3x3(self.channels, self.variant, name="conv1")(x))
        x = nn.relu(Conv3x3(self.channels, self.variant, name="conv2")(x))
        x = max_pool2x2(x)
        x = x.reshape(x.shape[0], -1)
        x = nn.relu(nn.Dense(self.width, name="fc1")(x))
        x = nn.relu(nn.Dense(self.width, name="fc2")(x))
        return nn.Dense(self.classes, name="fc3")(x)
