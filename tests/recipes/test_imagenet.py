"""The imagenet rung's recipes: eight by default and two by name, as reference/recipes.md section 4 has them."""

import json
from dataclasses import replace
from typing import Any

import pytest

from ladder.recipes import RUNGS, Recipe, rung_recipes, select
from ladder.recipes.imagenet import IMAGENET, PARAMETERS, recipes
from ladder.references import find, load_all

NAMED: dict[str, Recipe] = {r.name: r for r in recipes()}
# On a made-up identity: the published one is not known yet.
GOLDEN = {
    "resnet34-2018": "h1:12d2fb4690aa608ae747ad6e3525fef9d6a3c7fcfa9d16315c1cbdc065147e2a",
    "resnet50-2018": "h1:77f79fe8958c17c275c56466b95bb4fe3580f22702a469d3177358d2be2864ca",
    "resnet50-rsb-a3": "h1:153ec1c31ac6e2c7ff26b037adc9c6d8a7ac202824755c38718662d0e85d7fa3",
    "mobilenetv2-full": "h1:748fc7f5f054c5ec3d114ce2b7344024f740a2057101e271c259e9e453bdeba8",
    "mobilenetv4_conv_m-full": "h1:1d5d4315b299b82dd9579078e41a31396335c3ae5749b77ee66fb9893de0e951",
    "efficientnet_b0-full": "h1:250c4f52ad3e6a2c17506fe8bcb71bdb32af9619563b5f3b40fe28543e7f17a5",
    "convnext_t-full": "h1:25303c5e5c9fd30f20d37dceb9177c80d62dda70abda9ba86830011f7bb6e998",
    "vit_tiny-full": "h1:ca3d01b0d934725493cbaf3fb3ffdb48d12b15c5df756bab3b564c43b0430730",
    "resnet50-2018-zero-gamma": "h1:31a8841622fa069b2fdc2684defdeeb6bdd606d18bba0602b415b34ac632cc1d",
    "resnet50-rsb-a3-threshold": "h1:154897a58c9d664c0508010665d3f8926032d44d4f9a8e4f43f205551ea0a3fb",
}

# reference/recipes.md section 4: optimiser, rate, batch, epochs, warm epochs, decay
TABLE: dict[str, tuple[str, float, int, int, int, float]] = {
    "resnet34-2018": ("momentum", 0.1, 256, 90, 5, 1e-4),
    "resnet50-2018": ("momentum", 0.1, 256, 90, 5, 1e-4),
    "resnet50-rsb-a3": ("lamb", 8e-3, 2048, 100, 5, 0.02),
    "mobilenetv2-full": ("rmsprop", 0.045, 256, 350, 0, 4e-5),
    "mobilenetv4_conv_m-full": ("adamw", 4e-3, 4096, 100, 5, 0.05),
    "efficientnet_b0-full": ("rmsprop", 0.016, 256, 350, 5, 1e-5),
    "convnext_t-full": ("adamw", 2.5e-4, 256, 300, 20, 0.05),
    "vit_tiny-full": ("adamw", 5e-4, 512, 300, 5, 0.05),
}
# ... and its last column: what is not neutral among these fields.
OTHERS: dict[str, dict[str, Any]] = {
    "resnet34-2018": {"smoothing": 0.1, "norm_keep": 0.99},
    "resnet50-2018": {"smoothing": 0.1, "norm_keep": 0.9},
    "resnet50-rsb-a3": {"mixing": (0.1, 1.0), "policy": ("rand-increasing", 2, 6.0, 0.5), "loss": "sigmoid",
                        "norm_keep": 0.9, "clip": 1.0, "statistics": 512},
    "mobilenetv2-full": {"dropout": 0.2, "norm_keep": 0.997, "norm_epsilon": 1e-3},
    "mobilenetv4_conv_m-full": {"smoothing": 0.1, "policy": ("rand", 2, 9.0, 0.0), "dropout": 0.1, "average": 0.9999,
                                "norm_keep": 0.99, "statistics": 512},
    "efficientnet_b0-full": {"smoothing": 0.1, "policy": ("auto", 0, 0.0, 0.0), "drop_path": 0.2, "dropout": 0.2,
                             "average": 0.9999},
    "convnext_t-full": {"smoothing": 0.1, "mixing": (0.8, 1.0), "policy": ("rand-increasing", 2, 9.0, 0.5),
                        "erasing": 0.25, "drop_path": 0.1, "average": 0.9999, "clip": 1.0},
    "vit_tiny-full": {"smoothing": 0.1, "mixing": (0.8, 1.0), "policy": ("rand-increasing", 2, 9.0, 0.5),
                      "erasing": 0.25, "repeats": 3, "drop_path": 0.1, "average": 0.99996, "norm_epsilon": 1e-6,
                      "clip": 1.0},
}  # fmt: skip
NEUTRAL: dict[str, Any] = {
    "smoothing": 0.0, "mixing": (0.0, 0.0), "policy": ("none", 0, 0.0, 0.0), "loss": "softmax", "threshold": 0.0,
    "dropout": 0.0, "drop_path": 0.0, "average": 0.0, "erasing": 0.0, "repeats": 1, "norm_keep": 0.0,
    "norm_epsilon": 0.0, "zero_gamma": False, "clip": 0.0, "statistics": 0,
}  # fmt: skip


def told(recipe: Recipe) -> dict[str, Any]:
    values = {
        **{name: getattr(recipe, name) for name in NEUTRAL if name not in ("mixing", "policy", "clip")},
        "mixing": (recipe.mixing.mixup, recipe.mixing.cutmix),
        "policy": (recipe.policy.name, recipe.policy.layers, recipe.policy.magnitude, recipe.policy.deviation),
        "clip": recipe.optimiser.clip,
    }
    return {name: value for name, value in values.items() if value != NEUTRAL[name]}


def test_recipe_hashes_never_change() -> None:
    made_up = replace(IMAGENET, identity="sha256:0")
    assert {r.name: r.hash for r in recipes(made_up)} == GOLDEN


def test_two_recipes_never_share_a_hash_here_or_with_another_rung() -> None:
    others = {r.hash for rung in RUNGS if rung != "imagenet" for r in rung_recipes(rung)}
    assert len(others | {r.hash for r in recipes()}) == len(others) + len(NAMED)


def test_the_rung_is_the_eight_published_recipes() -> None:
    assert [r.name for r in select(recipes())] == list(TABLE)
    found = {
        name: (r.optimiser.name, r.schedule.rate, r.batch, r.epochs, r.schedule.warmup, r.optimiser.decay)
        for name, r in NAMED.items()
        if name in TABLE
    }
    assert found == TABLE
    assert {name: told(r) for name, r in NAMED.items() if name in TABLE} == OTHERS
    assert {(r.dtype, r.pixels, r.augment, r.order) for r in recipes()} == {
        ("bfloat16", "imagenet", ("resized-crop", "flip"), "shuffled")
    }


def test_where_decay_falls_and_what_the_rates_do() -> None:
    every = {name for name, r in NAMED.items() if r.optimiser.decayed == "all"}
    assert every == {"resnet34-2018", "resnet50-2018", "resnet50-2018-zero-gamma", "efficientnet_b0-full"}
    schedules = {name: r.schedule for name, r in NAMED.items()}
    assert (schedules["mobilenetv2-full"].name, schedules["mobilenetv2-full"].factor) == ("staircase", 0.98)
    b0 = schedules["efficientnet_b0-full"]
    assert (b0.name, b0.factor, b0.every) == ("exponential", 0.97, 2.4)
    assert {name for name, s in schedules.items() if s.end} == {"vit_tiny-full"}
    assert {r.optimiser.epsilon for r in recipes() if r.optimiser.name == "rmsprop"} == {1.0, 1e-3}


def test_the_reruns_are_run_when_they_are_named() -> None:
    (zero,) = select(recipes(), arms=("2018-zero-gamma",))
    assert replace(zero, zero_gamma=False, arm="2018", optional=False) == NAMED["resnet50-2018"]
    (threshold,) = select(recipes(), arms=("rsb-a3-threshold",))
    assert (threshold.threshold, threshold.zero_gamma) == (0.2, True)
    plain = replace(threshold, threshold=0.0, zero_gamma=False, arm="rsb-a3", optional=False)
    assert plain == NAMED["resnet50-rsb-a3"]


def test_rsb_a3_is_trained_smaller_than_it_is_scored() -> None:
    a3 = NAMED["resnet50-rsb-a3"]
    assert (a3.train_image, a3.data.image, a3.test_crop) == ((160, 160, 3), (224, 224, 3), 0.95)
    assert {r.train_image for r in recipes() if "a3" not in r.arm} == {(224, 224, 3)}


def test_accumulation_is_the_published_one() -> None:
    assert {name: r.accumulate for name, r in NAMED.items() if r.accumulate > 1} == {
        "resnet50-rsb-a3": 4, "resnet50-rsb-a3-threshold": 4, "mobilenetv4_conv_m-full": 8,
    }  # fmt: skip
    assert {name: r.steps for name, r in NAMED.items() if r.batch > 512} == {
        "resnet50-rsb-a3": 625, "resnet50-rsb-a3-threshold": 625, "mobilenetv4_conv_m-full": 312,
    }  # fmt: skip


def test_one_published_run_gives_no_reference() -> None:
    references = load_all()
    assert not any(find(r, references) for r in recipes())
    assert {r.margin for r in recipes()} == {0.5}


@pytest.mark.parametrize("recipe", recipes(), ids=lambda r: r.name)
def test_a_recipe_survives_json_and_names_its_nets_count(recipe: Recipe) -> None:
    assert Recipe.from_json(json.loads(json.dumps(recipe.to_json()))) == recipe
    assert recipe.parameters == PARAMETERS[recipe.net]
