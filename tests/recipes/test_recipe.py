"""A recipe's hash says which finals may be compared: golden values, and exactly the right fields in it."""

import json
from dataclasses import dataclass, fields, replace
from typing import Any

import pytest

from ladder.errors import LadderError
from ladder.recipes import RUNGS, Data, Recipe, rung_recipes, select
from ladder.recipes.mnist import MNIST, MNIST5K, recipes
from ladder.recipes.recipe import Mixing, Optimiser, Policy, Schedule, comparability

GOLDEN = {
    ("mnist", "linear"): "h1:fe6564bf00ddc7068366c53946acbb4106f70c8350aab1edd955458506b28f81",
    ("mnist", "mlp"): "h1:e927a018c5c32699c788621582d17218e46b6cb75786fe6c8938c57a7109cc3a",
    ("mnist", "cnn"): "h1:7f2ac517a0b6a46a095e5a76581ae09487f809494f3f499266f07e6c13daca57",
    ("mnist5k", "linear"): "h1:67b55ef8b99eeffa530ef2a4b81c6e18a9bab1a9d1556cff5753a6ee4a74a91b",
    ("mnist5k", "mlp"): "h1:2b50f26398760a6c8f2bbc5db3e903c39ef61841dd24e14ed69975ddf740764d",
    ("mnist5k", "cnn"): "h1:c32c2dd3684961ae13bde5f4555363065ab815098cde2da2386195bdfdcefeed",
}
LINEAR, MLP, CNN = recipes(MNIST)
OUTSIDE = {"rung": "other", "margin": 9.0, "parameters": 1, "optional": True, "accumulate": 2}
INSIDE: dict[str, Any] = {
    "net": "other",
    "arm": "other",
    "data": replace(MNIST, identity="sha256:0"),
    "optimiser": Optimiser("adamw", decay=1e-4),
    "schedule": Schedule(0.2),
    "batch": 64,
    "epochs": 11,
    "init": "zero",
    "norm": "batch",
    "width": 64,
    "layer_scale": 1e-6,
    "statistics": 16,
    "order": "shuffled",
    "remainder": "pad",
    "pixels": "x",
    "augment": ("flip",),
    "smoothing": 0.1,
    "score": "other",
    "dtype": "bfloat16",
    "seed_scope": "all",
    "policy": Policy("rand", 2, 9.0),
    "mixing": Mixing(mixup=0.8),
    "erasing": 0.25,
    "repeats": 3,
    "resampling": "bicubic",
    "test_crop": 0.875,
    "loss": "sigmoid",
    "threshold": 0.2,
    "drop_path": 0.1,
    "dropout": 0.2,
    "average": 0.9999,
    "norm_keep": 0.9,
    "norm_epsilon": 1e-3,
    "zero_gamma": True,
}
PARTS: dict[str, list[Any]] = {
    "optimiser": [Optimiser(clip=1.0), Optimiser(epsilon=1e-3), Optimiser(decayed="weights")],
    "schedule": [replace(CNN.schedule, **change) for change in ({"end": 1e-5}, {"factor": 0.98}, {"every": 2.4})],
    "policy": [Policy(magnitude=9.0), Policy(deviation=0.5), Policy(layers=2)],
    "mixing": [Mixing(cutmix=1.0)],
}


@pytest.mark.parametrize("data", [MNIST, MNIST5K], ids=lambda d: d.name)
def test_recipe_hashes_never_change(data: Data) -> None:
    assert {(data.name, r.net): r.hash for r in recipes(data)} == {k: v for k, v in GOLDEN.items() if k[0] == data.name}


def test_every_field_is_declared_inside_or_outside_the_hash() -> None:
    assert {f.name for f in fields(Recipe)} == INSIDE.keys() | OUTSIDE.keys()


@pytest.mark.parametrize("name", INSIDE)
def test_a_comparability_field_changes_the_hash(name: str) -> None:
    assert replace(CNN, **{name: INSIDE[name]}).hash != CNN.hash


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in PARTS.items() for value in values])
def test_a_field_of_a_part_changes_the_hash(name: str, value: Any) -> None:
    changed = replace(CNN, **{name: value})
    assert changed.hash != CNN.hash
    assert Recipe.from_json(json.loads(json.dumps(changed.to_json()))) == changed


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_field_outside_does_not_change_the_hash(name: str) -> None:
    assert replace(CNN, **{name: OUTSIDE[name]}).hash == CNN.hash


CHANGES = [
    {"train": 1},
    {"test": 1},
    {"classes": 2},
    {"shape": (28, 28, 3)},
    {"test_shape": (24, 24, 1)},
    {"identity": "x"},
]


@pytest.mark.parametrize("change", CHANGES)
def test_the_ordered_bytes_and_sizes_of_the_data_change_the_hash(change: dict[str, Any]) -> None:
    assert replace(CNN, data=replace(MNIST, **change)).hash != CNN.hash


def test_a_datasets_name_is_only_a_label() -> None:
    assert replace(CNN, data=replace(MNIST, name="my copy")).hash == CNN.hash


def test_two_recipes_never_share_a_hash() -> None:
    every = [*recipes(MNIST), *recipes(MNIST5K)]
    assert len({r.hash for r in every}) == len(every)


def test_a_new_field_with_a_neutral_default_keeps_old_hashes() -> None:
    @dataclass(frozen=True)
    class Newer(Recipe):
        warmup: int = 0

    newer = Newer(**{f.name: getattr(CNN, f.name) for f in fields(CNN)})
    assert newer.hash == CNN.hash
    assert replace(newer, warmup=1).hash != CNN.hash


def test_the_same_rate_written_as_an_integer_is_the_same_recipe() -> None:
    assert replace(CNN, schedule=Schedule(1)).hash == replace(CNN, schedule=Schedule(1.0)).hash


def test_neutral_values_are_left_out_of_what_is_hashed() -> None:
    assert comparability(CNN) == {
        "net": "cnn",
        "arm": "sgd",
        "data": {"identity": MNIST.identity, "train": 60_000, "test": 10_000, "classes": 10, "shape": (28, 28, 1)},
        "schedule": {"rate": 0.1},
        "batch": 128,
        "epochs": 12,
        "init": "published",
    }


@pytest.mark.parametrize("recipe", recipes(MNIST), ids=lambda r: r.name)
def test_a_recipe_survives_json(recipe: Recipe) -> None:
    back = Recipe.from_json(json.loads(json.dumps(recipe.to_json())))
    assert back == recipe
    assert back.hash == recipe.hash
    assert hash(back) == hash(recipe)


def test_a_recipe_written_before_a_field_was_added_is_read() -> None:
    old = {k: v for k, v in CNN.to_json().items() if k not in ("augment", "smoothing", "policy", "mixing")}
    assert Recipe.from_json(old) == CNN


def test_the_mnist_rung_is_the_published_recipe() -> None:
    assert [r.name for r in recipes()] == ["linear-sgd", "mlp-sgd", "cnn-sgd"]
    assert {(r.batch, r.epochs, r.steps, r.schedule.rate) for r in recipes()} == {(128, 12, 468, 0.1)}
    assert [r.parameters for r in recipes()] == [7_850, 669_706, 3_489_130]
    assert [r.init for r in recipes()] == ["zero", "published", "published"]


def test_margins_are_those_fixed_before_measuring() -> None:
    assert [r.margin for r in recipes(MNIST)] == [0.0, 0.25, 0.5]
    assert [r.margin for r in recipes(MNIST5K)] == [0.0, 1.0, 2.0]


def test_select_keeps_the_rungs_order() -> None:
    assert select(recipes()) == (LINEAR, MLP, CNN)
    assert select(recipes(), nets=("cnn", "linear")) == (LINEAR, CNN)
    assert select(recipes(), nets=("mlp", "mlp"), arms=("sgd",)) == (MLP,)


def test_an_unknown_net_is_told_the_nets() -> None:
    with pytest.raises(LadderError, match="rung mnist has no net 'resnet'; it has: linear, mlp, cnn"):
        select(recipes(), nets=("mlp", "resnet"))


def test_an_unknown_arm_is_told_the_arms() -> None:
    with pytest.raises(LadderError, match="rung mnist has no arm 'adam'; it has: sgd"):
        select(recipes(), arms=("adam",))


def test_nets_and_arms_that_exist_but_not_together_are_an_error() -> None:
    with pytest.raises(LadderError, match="no recipe with nets mlp and arms bn"):
        select((*recipes(), replace(CNN, arm="bn")), nets=("mlp",), arms=("bn",))


def test_an_unknown_rung_is_told_the_rungs() -> None:
    with pytest.raises(LadderError, match=r"no rung 'mnits'; the rungs are: " + ", ".join(RUNGS)):
        rung_recipes("mnits", MNIST)
    with pytest.raises(LadderError, match=r"no rung 'imagenet' \(planned, not built yet\)"):
        rung_recipes("imagenet", MNIST)
