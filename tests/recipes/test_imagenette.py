"""The imagenette rung's recipes: seven nets by default, the ablation by name, hashes and margins fixed."""

from dataclasses import replace

import pytest

from ladder.errors import LadderError
from ladder.recipes import Recipe, rung_recipes, select
from ladder.recipes.imagenette import IMAGENETTE, PARAMETERS, recipes
from ladder.recipes.recipe import comparability
from ladder.references import find, load_all
from ladder.train.schedule import rates

NAMED: dict[str, Recipe] = {r.name: r for r in recipes()}
NETS = tuple(PARAMETERS)
CHANGES = ("full", "nowd", "nowarm", "nols", "noadam", "nocos", "noaug", "bare", "sgd10")
# On a made-up identity: the published one is not known yet.
GOLDEN = {
    "resnet34-full": "h1:f731101856c203b3489191fee84323f898f0fac6fd5309b58bcef5e8f6ce4a20",
    "resnet50-full": "h1:45fa6cbc370812d76e8ceaf041113b660cc3dda77d189db944c86884930e1080",
    "mobilenetv2-full": "h1:cc164105b42d0317409114787081426f5299e8e0b917cbe447b6d5f23a0f5c98",
    "efficientnet_b0-full": "h1:7fb843783cb3f719eba2de4aa7c009adc6d4dd42dc101e57cad8477eb6d09b45",
    "mobilenetv4_conv_m-full": "h1:9ae9f0362b4811d5951c0e5eb3d29cc6218729f58e01f9ede7303e5996d5a1b6",
    "convnext_t-full": "h1:253396ad4a818782ddc069ac5fe42abd650589113f49560f504ac7f3364df83f",
    "vit_tiny-full": "h1:915d99f8addd318842f3c8b6d4b0dbcc4014fe34d47cd41bba8a41f79fb75c57",
    "convnext_t-full-scale1e-6": "h1:26051bd19547b921745e332c5b3502499d4e9eb2c4442b81856124f9c5f26361",
    "resnet34-ablation-full": "h1:34ae1af73d4d72ce74068cb018fcba9613c371828b4f3e14d23257bf3e5253c8",
    "resnet34-ablation-nowd": "h1:ecfad1daa45d20faf47a59b83289b9ad9086208bbc43c47d27c03091f0c390df",
    "resnet34-ablation-nowarm": "h1:a3dc252bd53d02c4f696e072df50a3a533626be5e0dd596b5a9a6bd807308078",
    "resnet34-ablation-nols": "h1:53c9b0338ef906eb4ac10fde95261c037aabde569b5ae262b6d6405668243949",
    "resnet34-ablation-noadam": "h1:9671ee158eb1c406323692f4c038c7db9e2fd2d0b8d8891826ed8d09eb47a119",
    "resnet34-ablation-nocos": "h1:9c936b0a4831a7be07c3a1c52cf3d8af9ced304b179fa85f7b0e4d8817bf97dc",
    "resnet34-ablation-noaug": "h1:3cb5641e946c235900d88a74493d2667a4010c08d554a1bf7bd4317fcb970e73",
    "resnet34-ablation-bare": "h1:9285b7538927ae637f460025cec76ccf46a5d9ff3983579312b143a67d6eea70",
    "resnet34-ablation-sgd10": "h1:1291a86a4c104d70220945b6294984c4b8f00d3fea2d072fb5e3b12c08ae2eab",
    "resnet34-ablation-bf16-full": "h1:c0d5dbb31c4e7ff85334e9fce1ae6f443297708909e68d6a30d5f13649e6455c",
    "resnet34-ablation-bf16-nowd": "h1:14a4fb712e77b0a1c22d42ea3c1c48c8e29ec4be1ce9da890ffc8ae1ad4a2201",
    "resnet34-ablation-bf16-nowarm": "h1:e8aee19f43d272bd91e75cf50ddaa93cbf881ae4c9d6ceb2b83bdf13e1dfff46",
    "resnet34-ablation-bf16-nols": "h1:9c4ba7b8960b6aef8cd62c09f3482489c8c2daf1747918a7ff15dfd1e62e8713",
    "resnet34-ablation-bf16-noadam": "h1:53ce38186cba8d36644cee811349d1ef13c1e689b722327cd439002693dd9827",
    "resnet34-ablation-bf16-nocos": "h1:121c5f7878a376b5c267b334f257bedff413402b51b1424eb93a815aab8171ca",
    "resnet34-ablation-bf16-noaug": "h1:232970d0360a74860161f5d0c93ddb931942bfac928b3280824f623e92b4962e",
    "resnet34-ablation-bf16-bare": "h1:960297eb94f1700beba162efd4fbc4807f1d9745f8f46aca00503fbf0d8b8850",
    "resnet34-ablation-bf16-sgd10": "h1:ddc7b445c519cb876b3eab03659332c8c735b76b63f271841bedfb37ca616f30",
}


def test_recipe_hashes_never_change() -> None:
    made_up = replace(IMAGENETTE, identity="sha256:0")
    assert {r.name: r.hash for r in recipes(made_up)} == GOLDEN


def test_two_recipes_never_share_a_hash() -> None:
    every = [r for rung in ("cifar", "imagenette") for r in rung_recipes(rung)]
    assert len({r.hash for r in every}) == len({r.name for r in every}) == len(every)


def test_the_rung_is_the_seven_published_nets() -> None:
    chosen = select(recipes())
    assert tuple(r.name for r in chosen) == tuple(f"{net}-full" for net in NETS)
    assert {(r.batch, r.epochs, r.steps, r.order, r.augment, r.pixels, r.smoothing, r.dtype) for r in chosen} == {
        (32, 80, 295, "shuffled", ("crop", "flip"), "imagenet", 0.1, "float32")
    }
    assert {(r.optimiser.name, r.optimiser.decay, r.layer_scale) for r in chosen} == {("adamw", 1e-4, 1.0)}
    assert {r.net for r in chosen if r.norm != "batch"} == {"convnext_t", "vit_tiny"}


def test_the_rates_are_the_printed_ones() -> None:
    """reference/recipes.md section 0, the last step of epochs 1 to 6; ViT's own after five warm epochs."""
    printed = [0.000333, 0.000667, 0.001, 0.001, 0.000998, 0.000996]
    last = [float(rates(NAMED["resnet34-full"], epoch)[-1]) for epoch in range(1, 7)]
    assert last == pytest.approx(printed, abs=5e-7)
    vit = [float(rates(NAMED["vit_tiny-full"], epoch)[-1]) for epoch in (1, 5, 80)]
    assert vit == pytest.approx([6e-5, 3e-4, 0], abs=1e-9)


@pytest.mark.parametrize(
    ("change", "epoch", "printed"),
    [
        ("nowarm", 79, 0.0), ("noadam", 79, 0.000004), ("nocos", 1, 0.000333), ("nocos", 80, 0.001),
        ("bare", 1, 0.01), ("bare", 80, 0.01), ("sgd10", 76, 0.000664), ("sgd10", 79, 0.000042),
    ],
)  # fmt: skip
def test_an_ablations_rates_are_those_in_its_published_log(change: str, epoch: int, printed: float) -> None:
    recipe = NAMED[f"resnet34-ablation-{change}"]
    assert float(rates(recipe, epoch)[-1]) == pytest.approx(printed, abs=5e-7)


def test_an_ablation_changes_what_its_name_says() -> None:
    arms = {change: comparability(NAMED[f"resnet34-ablation-{change}"]) for change in CHANGES}
    changed = {
        change: {k for k in {**arm, **arms["full"]} if arm.get(k) != arms["full"].get(k)} - {"arm"}
        for change, arm in arms.items()
    }
    assert changed == {
        "full": set(), "nowd": {"optimiser"}, "nowarm": {"schedule"}, "nols": {"smoothing"},
        "noadam": {"optimiser", "schedule"}, "nocos": {"schedule"}, "noaug": {"augment"},
        "bare": {"optimiser", "schedule"}, "sgd10": {"optimiser", "schedule"},
    }  # fmt: skip
    for change in CHANGES:
        half = NAMED[f"resnet34-ablation-bf16-{change}"]
        plain = NAMED[f"resnet34-ablation-{change}"]
        assert replace(half, dtype="float32", arm=plain.arm) == plain


def test_the_others_run_when_they_are_named() -> None:
    assert [r.arm for r in select(recipes(), nets=("convnext_t",))] == ["full"]
    (scaled,) = select(recipes(), arms=("full-scale1e-6",))
    assert (scaled.net, scaled.layer_scale) == ("convnext_t", 1e-6)
    with pytest.raises(LadderError, match="no net 'resnet18'; it has: resnet34, resnet50"):
        select(recipes(), nets=("resnet18",))


def test_margins_are_those_fixed_before_measuring() -> None:
    assert {r.net: r.margin for r in select(recipes())} == {
        net: 1.25 if net in ("mobilenetv4_conv_m", "vit_tiny") else 0.75 for net in NETS
    }
    assert {c for c in CHANGES if NAMED[f"resnet34-ablation-{c}"].margin == 3.5} == {"nocos", "bare"}


def test_what_has_five_published_seeds_is_bound_to_them_and_nothing_else_is() -> None:
    references = load_all()
    for recipe in recipes():
        match = find(recipe, references)
        published = recipe.arm == "full" or recipe.arm in {f"ablation-{c}" for c in CHANGES}
        assert (match is not None) == published, recipe.name
        assert match is None or len(match.part.finals) == 5
        assert match is None or any("not known yet" in difference for difference in match.part.differences)


def test_data_of_another_identity_size_or_count_has_no_reference() -> None:
    references = load_all()
    for other in ({"identity": "sha256:0"}, {"train": 5_500}, {"test": 2_000}, {"shape": (224, 224, 3)}):
        assert not any(find(r, references) for r in recipes(replace(IMAGENETTE, **other)))  # type: ignore[arg-type]


def test_accumulation_is_outside_the_hash_without_batch_statistics_and_inside_with_them() -> None:
    references = load_all()
    for net in NETS:
        full = NAMED[f"{net}-full"]
        for parts in (2, 4):
            split = full.accumulated(parts)
            assert split.accumulate == parts
            assert (split.hash == full.hash) == (full.norm != "batch"), net
            assert (split.stands_in_for is None) == (full.norm != "batch")
            match = find(split, references)
            assert match is not None
            assert match.stand_in == (
                f"batch statistics over {32 // parts} of the 32 examples of a step" if split.hash != full.hash else ""
            )
        assert full.accumulated(1) == full
    with pytest.raises(LadderError, match="a batch of 32 cannot be accumulated in 5 equal parts"):
        NAMED["vit_tiny-full"].accumulated(5)
