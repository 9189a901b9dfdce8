"""Each net has the published layers: its parameters by name and shape, and their count."""

from collections.abc import Callable

import pytest

from ladder.recipes import Recipe
from ladder.train.artifact import Program

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
