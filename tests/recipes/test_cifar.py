"""The cifar rung's recipes: the published six arms by default, the others by name, hashes and margins fixed."""

from dataclasses import replace

import pytest

from ladder.errors import LadderError
from ladder.recipes import Recipe, rung_recipes, select
from ladder.recipes.cifar import CIFAR10, REFERENCED, parameters, recipes
from ladder.recipes.recipe import comparability
from ladder.references import find, load_all
from ladder.train.schedule import rates

BY_ARM: dict[str, Recipe] = {r.arm: r for r in recipes()}
SIX = ("nobn-sgd", "nobn-momentum", "nobn-adamw", "bn-sgd", "bn-momentum", "bn-adamw")
GOLDEN = {
    "nobn-sgd": "h1:b4b65be7d950c033264288b34b80c38c379c012a1b508329fd8930c93717e4f0",
    "nobn-momentum": "h1:86b5c38a0f5244c79e4a90974374d69e62fc008d016c293d76609d2613e28d34",
    "nobn-adamw": "h1:0e481bfe0d2a8a810d601f80df6e6bf5fd14633ba390d49e0fb3c0545e7d7cab",
    "bn-sgd": "h1:5179e0eec2a70f817064cf0a0069edca4e014162ecccb50b40cda0ba208a9f19",
    "bn-momentum": "h1:b7ca6cdd9aacf0712ca323ce647f7bcd752c950f47ee5eaa9173962624082253",
    "bn-adamw": "h1:2c54b07d325e10c368982559d3e59ac8dd26c2e391119cccb94da5172a60fe6d",
    "bnprec-f32-sgd": "h1:0de28694e81e36168eca147fa9023f80e9aa1a4146cf42fe88b4ee3a390952ee",
    "bnprec-f32-momentum": "h1:8478c7aad4d0234ad4a88d42d4503ca29c191bc415efb6bfdaf539e7b3a46cca",
    "bnprec-f32-adamw": "h1:5d5de12bdafafb4a1ce264abf0f30aeefc29fa2767be450f3ae9e28d817fd37a",
    "bnprec-bf16-sgd": "h1:a57f6c13258776e1e56728a97e1fa28d11f5793b92e47c1ad92d8e875cb5fc4f",
    "bnprec-bf16-momentum": "h1:db143f52210a39ffcd7c0c243fdcb16267affb10860c1bf3621c8245fc2ceace",
    "bnprec-bf16-adamw": "h1:161a46cf2ef0b9d6ad982b21eeecd54ac162a22c9176d17d3499d4f73168864b",
    "batchbn-sgd": "h1:d0ee2173019c6299b7d43e9780d2ec9e11d1cb188369bc7fbf095b3882bd4c20",
    "batchbn-momentum": "h1:5575b1406b0299e8c4def765cb50e9f3f061dda54e083f4674c7095865c0a7af",
    "batchbn-adamw": "h1:3744147794e310ec30ca8e8349326050c52724be4a8fe8b1207fa173689d663a",
    "adamw-head64": "h1:bc2bff0f3ec39fa454fb27158bac4fcb50cbc213e2982e6033aa17f7b74ada56",
}


def test_recipe_hashes_never_change() -> None:
    assert {arm: r.hash for arm, r in BY_ARM.items() if arm in GOLDEN} == GOLDEN


def test_two_recipes_never_share_a_hash() -> None:
    every = [r for rung in ("mnist", "cifar") for r in rung_recipes(rung)]
    assert len({r.hash for r in every}) == len(every)


def test_the_rung_is_the_six_published_arms() -> None:
    chosen = select(recipes())
    assert tuple(r.arm for r in chosen) == SIX
    assert {(r.batch, r.epochs, r.steps, r.order, r.augment, r.pixels, r.smoothing) for r in chosen} == {
        (128, 40, 390, "shuffled", ("flip",), "x/255", 0.0)
    }
    assert [(r.optimiser.name, r.optimiser.momentum, r.optimiser.decay, r.schedule.rate) for r in chosen] == [
        ("sgd", 0.0, 0.0, 0.1),
        ("nesterov", 0.9, 0.0, 0.02),
        ("adamw", 0.0, 1e-4, 1e-3),
    ] * 2
    assert [r.norm for r in chosen] == ["none"] * 3 + ["example"] * 3
    assert [float(rates(r, 40)[-1]) for r in chosen] == pytest.approx([0.1, 0.02, 1e-3] * 2, rel=1e-6)


def test_the_others_run_when_they_are_named() -> None:
    assert [r.arm for r in select(recipes(), arms=("bnprec-bf16-sgd",))] == ["bnprec-bf16-sgd"]
    assert len(select(recipes(), nets=("cifar8wb_bn",))) == 6
    assert len(select(recipes(), nets=("cifar8_bn",))) == 9
    assert tuple(r.arm for r in select(recipes(), nets=("cifar8w",))) == SIX
    assert {r.norm for r in select(recipes(), arms=("batchbn-sgd", "batchbn-adamw"))} == {"batch"}
    with pytest.raises(LadderError, match="no arm 'bn-adam'; it has: nobn-sgd"):
        select(recipes(), arms=("bn-adam",))


def test_parameter_counts_are_the_published_ones() -> None:
    assert (parameters("none"), parameters("example"), parameters("none", 64)) == (373_626, 374_010, 52_858)
    assert BY_ARM["adamw-head64"].parameters == 52_858 + 384


def test_the_mnist_grid_has_the_counts_of_its_widths_and_the_rungs_own_stays_default() -> None:
    every = rung_recipes("mnist")
    assert [r.name for r in select(every)] == ["linear-sgd", "mlp-sgd", "cnn-sgd"]
    grid = {r.name: r for r in every if r.optional}
    assert len(grid) == 18
    assert grid["mlp-sgd-fc8"].parameters == 784 * 8 + 8 + 8 * 8 + 8 + 8 * 10 + 10
    assert grid["cnn-sgd-fc8"].parameters == 320 + 9_248 + 6_272 * 8 + 8 + 8 * 8 + 8 + 8 * 10 + 10


def test_margins_are_those_fixed_before_measuring() -> None:
    assert {arm: BY_ARM[arm].margin for arm in SIX} == dict(zip(SIX, [2.5] * 3 + [1.0] * 3, strict=True))
    assert {r.margin for r in recipes() if r.norm != "none"} == {1.0}


def test_every_referenced_arm_finds_its_five_seeds_and_no_other_does() -> None:
    references = load_all()
    for recipe in recipes():
        match = find(recipe, references)
        assert (match is not None) == (recipe.arm in REFERENCED), recipe.name
        assert match is None or len(match.part.finals) == 5
        assert match is None or any("flip" in difference for difference in match.part.differences)


def test_the_published_data_is_the_published_files() -> None:
    from ladder.data import CIFAR10_IDENTITY

    assert CIFAR10.identity == CIFAR10_IDENTITY


def test_neutral_choices_are_left_out_of_what_is_hashed() -> None:
    hashed = comparability(BY_ARM["nobn-sgd"])
    assert {"norm", "width", "layer_scale", "dtype", "optimiser"}.isdisjoint(hashed)
    assert replace(BY_ARM["nobn-sgd"], optional=True).hash == BY_ARM["nobn-sgd"].hash
