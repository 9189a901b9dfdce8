"""The nets: one a file, flax and jax only. NETS makes each in a variant, and with the options that its recipes have.

A net is `(x [n, h, w, c] f32, train: bool = False) -> logits [n, classes]`; its statistics, if any, are the collection
"stats".
"""

from collections.abc import Callable

import flax.linen as nn

from models.cifar8 import Cifar8
from models.cnn import Cnn
from models.linear import Linear
from models.mlp import Mlp

NETS: dict[str, Callable[..., nn.Module]] = {
    "linear": lambda variant: Linear(),
    "mlp": lambda variant, **options: Mlp(**options),
    "cnn": Cnn,
    "cifar8w": Cifar8,
    "cifar8wb_bn": Cifar8,
    "cifar8_bn": Cifar8,
}

# Dense layers that read a flattened image, by parameter name: the (h, w, c) whose order their rows follow here (NHWC).
# Initial values are drawn in the canonical (c, h, w) order of the published nets and transposed.
FLATTENED: dict[str, dict[str, tuple[int, int, int]]] = {
    "linear": {"fc1/w": (28, 28, 1)},
    "mlp": {"fc1/w": (28, 28, 1)},
    "cnn": {"fc1/w": (14, 14, 32)},
    "cifar8w": {"fc1/w": (2, 2, 32)},
    "cifar8wb_bn": {"fc1/w": (2, 2, 32)},
    "cifar8_bn": {"fc1/w": (2, 2, 32)},
}
