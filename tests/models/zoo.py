"""The imagenette rung's nets by name: full and tiny, their published counts, and their flat parameter names."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from models import convnext, efficientnet, mobilenetv4, resnet, vit
from models.mobilenetv2 import MobileNetV2
from models.mobilenetv2 import tiny as tiny_mobilenetv2


@dataclass(frozen=True)
class Entry:
    """A net's constructor, its tiny one, and its published parameter counts at 10 and 1000 classes."""

    full: Callable[..., nn.Module]
    tiny: Callable[..., nn.Module]
    ten: int
    thousand: int


ZOO = {
    "resnet34": Entry(resnet.resnet34, resnet.tiny34, 21_289_802, 21_797_672),
    "resnet50": Entry(resnet.resnet50, resnet.tiny50, 23_528_522, 25_557_032),
    "mobilenetv2": Entry(MobileNetV2, tiny_mobilenetv2, 2_236_682, 3_504_872),
    "efficientnet_b0": Entry(efficientnet.efficientnet_b0, efficientnet.tiny, 4_020_358, 5_288_548),
    "mobilenetv4_conv_m": Entry(mobilenetv4.mobilenetv4_conv_m, mobilenetv4.tiny, 8_447_322, 9_715_512),
    "convnext_t": Entry(convnext.convnext_t, convnext.tiny, 27_827_818, 28_589_128),
    "vit_tiny": Entry(vit.vit_tiny, vit.tiny, 5_526_346, 5_717_416),
}
Tree = dict[str, Any]
RENAMED = {"kernel": "w", "bias": "b"}


def shapes(net: nn.Module, size: int) -> Tree:
    """The net's collections as shapes, for images of `size`."""
    return jax.eval_shape(net.init, jax.random.key(0), jax.ShapeDtypeStruct((1, size, size, 3), jnp.float32))


def name(path: Any) -> str:
    """`stem/conv/w` for the flax path stem -> conv -> kernel."""
    *scope, last = (str(p.key) for p in path)
    return "/".join([*scope, RENAMED.get(last, last)])


def flat(tree: Tree) -> Tree:
    """The leaves by name."""
    return {name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def filled(tree: Tree, value: Callable[[str, tuple[int, ...]], Any]) -> Tree:
    """The tree with `value(name, shape)` in each place."""
    return jax.tree_util.tree_map_with_path(lambda path, leaf: value(name(path), leaf.shape), tree)


def count(tree: Tree) -> int:
    """Numbers in the tree."""
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree))
