"""What the rungs train, IREE takes: every operation of feed, step and eval, draws included."""

import pytest

from ladder.lowerers.iree import compiling, targets
from ladder.recipes import rung_recipes, select
from ladder.recipes.cifar import CIFAR10
from ladder.train.artifact import program_for


@pytest.mark.parametrize("arm", ["nobn-sgd", "bn-adamw"])
def test_iree_takes_the_cifar_rungs_operations(arm: str) -> None:
    (recipe,) = select(rung_recipes("cifar", CIFAR10), [], [arm])
    program, _ = program_for(recipe, "cpu", "matmul-gradient")
    assert "draws:flip" in [a.name for a in program.functions["feed"].inputs]
    compiling.check_operations(program, targets.target({}))  # raises Unsupported, naming the operation
