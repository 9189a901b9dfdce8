"""Each net has the published layers: its parameters by name and shape, and their count."""

from collections.abc import Callable

import jax
import numpy as np
import pytest

from ladder.recipes import Recipe, rung_recipes
from ladder.train.artifact import Program
from ladder.train.program import layout, options
from models import NETS

PARAMETERS = {
    "linear": {"fc1/b": (10,), "fc1/w": (784, 10)},
    "mlp": {
        "fc1/b": (512,),
        "fc1/w": (784, 512),
        "fc2/b": (512,),
        "fc2/w": (512, 512),
        "fc3/b": (10,),
        "fc3/w": (512, 10),
    },
    "cnn": {
        "conv1/b": (32,),
        "conv1/w": (3, 3, 1, 32),
        "conv2/b": (32,),
        "conv2/w": (3, 3, 32, 32),
        "fc1/b": (512,),
        "fc1/w": (6272, 512),
        "fc2/b": (512,),
        "fc2/w": (512, 512),
        "fc3/b": (10,),
        "fc3/w": (512, 10),
    },
}
COUNTS = {"linear": 7_850, "mlp": 669_706, "cnn": 3_489_130}
CIFAR8 = [f"{layer}{i}/{kind}" for layer, n in (("conv", 8), ("fc", 3)) for i in range(1, n + 1) for kind in "wb"]
NORM8 = [f"norm{i}/{kind}" for i in range(1, 9) for kind in ("gamma", "beta")]


@pytest.mark.parametrize("net", PARAMETERS)
def test_parameters_by_name_and_shape(net: str, program: Callable[[str], Program]) -> None:
    found = {leaf.name: leaf.shape for leaf in program(net).leaves}
    assert found == {**{f"params/{name}": shape for name, shape in PARAMETERS[net].items()}, "step": ()}


@pytest.mark.parametrize("net", COUNTS)
def test_parameter_counts_are_the_published_ones(
    net: str, program: Callable[[str], Program], tiny: dict[str, Recipe]
) -> None:
    assert program(net).parameters == COUNTS[net] == tiny[net].parameters


def test_dense_layers_on_images_are_drawn_in_the_published_order(program: Callable[[str], Program]) -> None:
    canonical = {leaf.name: leaf.canonical for net in ("mlp", "cnn") for leaf in program(net).leaves if leaf.sigma}
    assert canonical["params/fc1/w"] == (32, 14, 14, 512)  # the cnn's; the mlp's has one channel
    assert canonical["params/conv2/w"] == (32, 32, 3, 3)
    assert {leaf.name: leaf.canonical for leaf in program("mlp").leaves}["params/fc1/w"] == (1, 28, 28, 512)


@pytest.mark.parametrize("recipe", rung_recipes("cifar"), ids=lambda r: r.arm)
def test_the_cifar_net_has_its_recipes_leaves_and_count(recipe: Recipe) -> None:
    """22 tensors, 38 with a norm, which adds running statistics only where it is over the batch."""
    net = NETS[recipe.net]("plain", **options(recipe))
    variables = jax.eval_shape(net.init, jax.random.key(0), np.zeros((1, 32, 32, 3), np.float32))
    leaves = layout(recipe, variables)  # raises when the count is not the recipe's
    named = {leaf.name.removeprefix("params/") for leaf in leaves if leaf.name.startswith("params/")}
    assert named == {*CIFAR8, *(NORM8 if recipe.norm != "none" else ())}
    stats = [leaf.name for leaf in leaves if leaf.name.startswith("stats/")]
    assert len(stats) == (24 if recipe.norm == "batch" else 0)
    slots = {"sgd": 0, "nesterov": 1, "adamw": 2}[recipe.optimiser.name]
    assert sum(leaf.name.startswith("opt/") for leaf in leaves) == slots * len(named)
    assert {leaf.canonical for leaf in leaves if leaf.name == "params/fc1/w"} == {(32, 2, 2, recipe.width or 512)}
