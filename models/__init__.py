"""The nets: one a file, flax and jax only, `[n, h, w, c] -> logits`. NETS makes each in a variant."""

from collections.abc import Callable

import flax.linen as nn

from models.cnn import Cnn
from models.linear import Linear
from models.mlp import Mlp

NETS: dict[str, Callable[[str], nn.Module]] = {
    "linear": lambda variant: Linear(),
    "mlp": lambda variant: Mlp(),
    "cnn": Cnn,
}

# Dense layers that read a flattened image, by parameter name: the (h, w, c) whose order their rows follow here (NHWC).
# Initial values are drawn in the canonical (c, h, w) order of the published nets and transposed.
FLATTENED: dict[str, dict[str, tuple[int, int, int]]] = {
    "linear": {"fc1/w": (28, 28, 1)},
    "mlp": {"fc1/w": (28, 28, 1)},
    "cnn": {"fc1/w": (14, 14, 32)},
}
