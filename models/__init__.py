"""The nets: one a file, flax and jax only. NETS makes each in a variant, and with the options that its recipes have.

A net is `(x [n, h, w, c] f32, train: bool = False) -> logits [n, classes]`; its statistics, if any, are the collection
"stats".
"""

from collections.abc import Callable

import flax.linen as nn

from models.cifar8 import Cifar8
from models.cnn import Cnn
from models.convnext import convnext_t
from models.efficientnet import efficientnet_b0
from models.linear import Linear
from models.mlp import Mlp
from models.mobilenetv2 import mobilenetv2
from models.mobilenetv4 import mobilenetv4_conv_m
from models.resnet import resnet34, resnet50
from models.vit import vit_tiny


def _one(net: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    """A net with one formulation and one norm, whatever variant and norm are asked for."""
    return lambda variant, norm="", **options: net(**options)


NETS: dict[str, Callable[..., nn.Module]] = {
    "linear": lambda variant: Linear(),
    "mlp": lambda variant, **options: Mlp(**options),
    "cnn": Cnn,
    "cifar8w": Cifar8,
    "cifar8wb_bn": Cifar8,
    "cifar8_bn": Cifar8,
    "resnet34": _one(resnet34),
    "resnet50": _one(resnet50),
    "mobilenetv2": _one(mobilenetv2),
    "efficientnet_b0": _one(efficientnet_b0),
    "mobilenetv4_conv_m": _one(mobilenetv4_conv_m),
    "convnext_t": _one(convnext_t),
    "vit_tiny": _one(vit_tiny),
}

# The end of the name of each residual branch's last norm, of the nets whose recipes start it at 0.
LAST_NORMS = {"resnet34": "conv2/norm/gamma", "resnet50": "conv3/norm/gamma"}

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
