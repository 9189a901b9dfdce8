"""One training step of a small net of each family, as a function of named arrays: what tier 2b runs.

The nets, optimisers and loss are the rungs' own. Parameters are drawn, statistics are as after some steps, and an Adam
`square` is 1, so that the update goes with the gradient; at the usual 0 it is the gradient's sign.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from ladder import rng
from ladder.recipes.recipe import Optimiser
from ladder.suite.export import Host, Traced
from ladder.suite.nets.cases import split
from ladder.train.optimiser import SLOTS, UPDATES
from ladder.train.program import cross_entropy
from models.cifar8 import Cifar8
from models.convnext import tiny as tiny_convnext
from models.efficientnet import tiny as tiny_efficientnet
from models.linear import Linear
from models.mlp import Mlp
from models.mobilenetv2 import tiny as tiny_mobilenetv2
from models.mobilenetv4 import tiny as tiny_mobilenetv4
from models.resnet import tiny34
from models.vit import tiny as tiny_vit

SGD, NESTEROV, ADAMW = Optimiser(), Optimiser("nesterov", momentum=0.9), Optimiser("adamw", decay=1e-4)
CLASSES = 10
STATS = "stats/"


@dataclass(frozen=True)
class Net:
    """How a family's net is made for a dtype, its images, its batch and optimiser.

    `cast`: it has no dtype of its own; parameters and images are cast instead.
    """

    make: Callable[[Any], nn.Module]
    image: tuple[int, int, int]
    batch: int
    optimiser: Optimiser
    cast: bool = False


COLOUR, GREY = (32, 32, 3), (28, 28, 1)
NETS = {
    "linear": Net(lambda dtype: Linear(), GREY, 32, SGD, cast=True),
    "mlp": Net(lambda dtype: Mlp(width=64), GREY, 32, SGD, cast=True),
    "cifar8": Net(lambda dtype: Cifar8(width=32, dtype=str(dtype)), COLOUR, 8, SGD),
    "cifar8-bn": Net(lambda dtype: Cifar8(norm="batch", width=32, dtype=str(dtype)), COLOUR, 16, NESTEROV),
    "mobilenetv2": Net(lambda dtype: tiny_mobilenetv2(dtype=dtype), COLOUR, 16, NESTEROV),
    "mobilenetv4": Net(lambda dtype: tiny_mobilenetv4(dtype=dtype), COLOUR, 16, NESTEROV),
    "efficientnet": Net(lambda dtype: tiny_efficientnet(dtype=dtype), COLOUR, 16, ADAMW),
    "vit": Net(lambda dtype: tiny_vit(dtype=dtype), COLOUR, 8, ADAMW),
    "resnet": Net(lambda dtype: tiny34(dtype=dtype), COLOUR, 16, NESTEROV),
    "convnext": Net(lambda dtype: tiny_convnext(dtype=dtype), COLOUR, 8, ADAMW),
}


def trace(name: str, seed: int, fault: str) -> Traced:
    """The step of the test `name`, perhaps with a fault of nets.injections; its right result is a golden."""
    del seed
    net, dtype = split(name)
    step = step_of(net, dtype)
    if fault:
        from ladder.suite.nets.injections import inject

        step = inject(fault, step)
    return Traced(step, inputs(net), None)


def step_of(name: str, dtype: str) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """The step of a net computed in a dtype; float64 needs jax's 64-bit types."""
    net = NETS[name]
    module = net.make(jnp.dtype(dtype))
    variables = _shapes(net, module)
    names = {path: _name(path) for path, _ in jax.tree_util.tree_leaves_with_path(variables)}
    update = UPDATES[net.optimiser.name]

    def tree(values: Mapping[str, Any]) -> Any:
        return jax.tree_util.tree_map_with_path(lambda path, _: values[names[path]], variables)

    def loss(params: Mapping[str, Any], values: Mapping[str, Any]) -> tuple[Any, Any]:
        image = values["image"]
        if net.cast:
            params, image = jax.tree.map(lambda a: a.astype(dtype), (dict(params), image))
        logits, after = module.apply(tree({**values, **params}), image, True, mutable=["stats"])
        logits = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
        return jnp.mean(cross_entropy(logits, values["label"])), after

    def step(values: Mapping[str, Any]) -> dict[str, Any]:
        params = {k: v for k, v in values.items() if k.startswith("params/")}
        (value, after), gradient = jax.value_and_grad(loss, has_aux=True)(params, values)
        out: dict[str, Any] = {"loss": value}
        lr = jnp.ones((), params[min(params)].dtype)
        for k, p in params.items():
            slots = {s: values[f"opt/{s}/{k}"] for s in SLOTS[net.optimiser.name]}
            out[k], slots = update(net.optimiser, p, gradient[k], slots, lr, jnp.zeros((), jnp.int32))
            out |= {f"opt/{s}/{k}": v for s, v in slots.items()}
        moved = {_name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(after)}
        return out | {k: v for k, v in moved.items() if not k.endswith("/seen")}

    return step


def inputs(name: str) -> Host:
    """The state before the step, images and labels: float32, i32."""
    net = NETS[name]
    leaves = jax.tree_util.tree_leaves_with_path(_shapes(net, net.make(jnp.dtype("float32"))))
    shapes = {_name(path): leaf for path, leaf in leaves}
    host: Host = {k: _drawn(name, k, v.shape, v.dtype) for k, v in shapes.items()}
    for slot in SLOTS[net.optimiser.name]:
        start = 1.0 if slot == "square" else 0.0
        host |= {f"opt/{slot}/{k}": np.full(v.shape, start, np.float32) for k, v in shapes.items() if k[0] == "p"}
    host["image"] = _normal(f"{name}/image", (net.batch, *net.image)).astype(np.float32)
    host["label"] = (np.arange(net.batch) * 3 % CLASSES).astype(np.int32)
    return host


def _shapes(net: Net, module: nn.Module) -> Any:
    image = jax.ShapeDtypeStruct((1, *net.image), jnp.float32)
    return jax.eval_shape(lambda x: module.init(jax.random.key(0), x), image)


def _drawn(net: str, name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    if name.startswith(STATS):  # as after some steps
        return np.ones(shape, dtype)
    last = name.rpartition("/")[2]
    center = 1.0 if last in ("gamma", "scale") else 0.0
    sigma = math.sqrt(2 / math.prod(shape[:-1])) if last == "kernel" else 0.1
    return (center + sigma * _normal(f"{net}/{name}", shape)).astype(np.float32)


def _normal(key: str, shape: tuple[int, ...]) -> np.ndarray:
    return 2 * (rng.uniform(f"suite/net/{key}", (*shape, 3)) - 0.5).sum(-1)


def _name(path: Any) -> str:
    return "/".join(str(p.key) for p in path)
