"""Augmentation on the host: golden draws, and each operation against its published definition, computed again here."""

import hashlib
import io
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps
from scipy import stats

from ladder.data.augment import crops, rectangles
from ladder.data.augment.draws import WORDS, Draws, of_example
from ladder.data.augment.images import erased_part, evaluated_image, mixture, trained_image
from ladder.data.augment.policies import AUTO, GREY, OPERATIONS, changed, chosen
from ladder.recipes.imagenet import DEIT_POLICY, IMAGENET, recipes
from ladder.recipes.recipe import Mixing, Policy

RECIPES = {r.name: r for r in recipes(replace(IMAGENET, identity="sha256:0"))}
VIT, A3 = RECIPES["vit_tiny-full"], RECIPES["resnet50-rsb-a3"]


def picture(width: int = 90, height: int = 60) -> Image.Image:
    """Smooth in places, with edges, of all levels: every operation changes it."""
    rows, columns = np.mgrid[0:height, 0:width]
    noise = np.random.default_rng(4).integers(0, 40, (height, width, 3))
    waves = np.stack([rows * 255 / height, columns * 255 / width, 127 + 127 * np.sin(rows * columns / 300)], 2)
    return Image.fromarray(np.clip(waves * 0.85 + noise, 5, 245).astype(np.uint8))


def jpeg(image: Image.Image) -> bytes:
    out = io.BytesIO()
    image.save(out, "JPEG", quality=95)
    return out.getvalue()


def streams(count: int) -> list[Draws]:
    return [of_example("test", "sha256:0", 1, example, 0) for example in range(count)]


def test_draws_never_change() -> None:
    draws = of_example("flip", "sha256:0", 1, 7, 0)
    found = [
        draws.uniform(),
        draws.uniform(2, 3),
        draws.below(1000),
        draws.sign(),
        draws.normal(9, 0.5),
        draws.beta(0.8),
    ]
    assert found == GOLDEN_DRAWS
    assert erased_part(VIT, 3, 6) == GOLDEN_ERASED
    assert [mixture(VIT, 2, step) for step in (0, 1)] == GOLDEN_MIXTURES
    assert [chosen(DEIT_POLICY, d) for d in streams(4)] == GOLDEN_CHOSEN


GOLDEN_DRAWS = [0.6385336098286924, 2.6768735771458254, 872, 1, 8.61181640625, 0.8030242919921875]
GOLDEN_ERASED = (14, 132, 9, 129)
GOLDEN_MIXTURES = [(0.8658294677734375, (0, 0, 0, 0)), (0.7922313456632653, (0, 75, 85, 224))]
GOLDEN_CHOSEN = [
    [],
    [("shear-y", -0.27009704589843747)],
    [("translate-x", 0.37950073242187504)],
    [("translate-x", 0.4243283843994141), ("equalize", 0.0)],
]


def test_examples_epochs_copies_and_purposes_have_draws_of_their_own() -> None:
    keys = [("a", "x", 1, 1, 0), ("b", "x", 1, 1, 0), ("a", "y", 1, 1, 0), ("a", "x", 2, 1, 0), ("a", "x", 1, 2, 0),
            ("a", "x", 1, 1, 1)]  # fmt: skip
    assert len({of_example(*key).uniform() for key in keys}) == len(keys)
    assert of_example(*keys[0]).uniform() == of_example(*keys[0]).uniform()


def test_draws_have_their_distributions() -> None:
    for taken, wanted in (
        (lambda d: d.uniform(2, 5), stats.uniform(2, 3)),
        (lambda d: d.normal(9, 0.5), stats.norm(9, 0.5)),
        (lambda d: d.beta(0.8), stats.beta(0.8, 0.8)),
        (lambda d: d.beta(0.1), stats.beta(0.1, 0.1)),
    ):
        found = np.array([taken(d) for d in streams(2000)])
        for share in (0.3, 0.5, 0.7):  # in the middle: a share below 2^-17 is 0 on the grid
            assert (found <= wanted.ppf(share)).mean() == pytest.approx(
                share, abs=4 * math.sqrt(share * (1 - share) / 2000)
            )
    assert sum(d.sign() for d in streams(2000)) == pytest.approx(0, abs=3 * math.sqrt(2000))


def test_a_purpose_takes_fewer_words_than_a_stream_has() -> None:
    for d in streams(300):
        rectangles.erasing(d, 1.0, 2, 2)  # no try fits an image of two pixels a side: all ten are made
        crops.random_box(Draws("long"), 1, 10_000)
    draws = Draws("x")
    for _ in range(WORDS):
        draws.uniform()
    with pytest.raises(StopIteration):
        draws.uniform()


def by_torchvision(draws: Draws, width: int, height: int) -> tuple[int, int, int, int]:
    """RandomResizedCrop.get_params as torchvision documents it: top, left, height, width; in its own words."""
    low, high = math.log(3 / 4), math.log(4 / 3)
    for _ in range(10):
        target = draws.uniform(0.08, 1.0) * (width * height)
        ratio = math.exp(draws.uniform(low, high))
        w, h = round(math.sqrt(target * ratio)), round(math.sqrt(target / ratio))
        if 0 < w <= width and 0 < h <= height:
            top = draws.below(height - h + 1)
            return top, draws.below(width - w + 1), h, w
    if width / height < 3 / 4:
        w, h = width, round(width / (3 / 4))
    elif width / height > 4 / 3:
        w, h = round(height * (4 / 3)), height
    else:
        w, h = width, height
    return (height - h) // 2, (width - w) // 2, h, w


@pytest.mark.parametrize(("width", "height"), [(500, 375), (333, 500), (64, 64), (1000, 20), (20, 1000), (1, 1)])
def test_a_random_crop_is_torchvisions(width: int, height: int) -> None:
    for ours, theirs in zip(streams(200), streams(200), strict=True):
        box, (top, left, h, w) = crops.random_box(ours, width, height), by_torchvision(theirs, width, height)
        assert box == (left, top, left + w, top + h)
        assert 0 <= box.left < box.right <= width
        assert 0 <= box.top < box.bottom <= height


def test_a_crop_is_resized_by_pillow_and_the_centre_is_cut_as_published() -> None:
    image = picture(90, 60)
    found = np.asarray(crops.cropped(image, crops.Box(10, 5, 50, 45), (32, 32), "bicubic"))
    wanted = image.crop((10, 5, 50, 45)).resize((32, 32), Image.Resampling.BICUBIC)
    np.testing.assert_array_equal(found, np.asarray(wanted))
    centre = np.asarray(crops.centred(image, (28, 28), 0.875, "bilinear"))  # the shorter side, 60, becomes 32
    whole = np.asarray(image.resize((48, 32), Image.Resampling.BILINEAR))
    np.testing.assert_array_equal(centre, whole[2:30, 10:38])
    assert np.asarray(crops.centred(picture(3, 200), (8, 8), 1.0, "bicubic")).shape == (8, 8, 3)


def level(name: str, magnitude: float, sign: int, increasing: bool) -> float:
    """timm's level_to_arg functions, from their source's ranges."""
    inc = {"posterize": 4 - int(magnitude / 10 * 4), "solarize": 256 - int(magnitude / 10 * 256)}
    dec = {"posterize": int(magnitude / 10 * 4), "solarize": int(magnitude / 10 * 256)}
    if name in inc:
        return (inc if increasing else dec)[name]
    if name in ("color", "contrast", "brightness", "sharpness"):
        return max(0.1, 1.0 + sign * magnitude / 10 * 0.9) if increasing else magnitude / 10 * 1.8 + 0.1
    signed = {"rotate": 30.0, "shear-x": 0.3, "shear-y": 0.3, "translate-x": 0.45, "translate-y": 0.45}
    if name in signed:
        return sign * magnitude / 10 * signed[name]
    return {"solarize-add": int(magnitude / 10 * 110)}.get(name, 0)


def in_numpy(name: str, image: Image.Image, argument: float) -> np.ndarray:
    """Each operation's definition on pixels, without Pillow where that is short."""
    x = np.asarray(image).astype(np.int64)
    bilinear, (width, height) = Image.Resampling.BILINEAR, image.size

    def affine(*matrix: float) -> np.ndarray:
        moved = image.transform(image.size, Image.Transform.AFFINE, matrix, resample=bilinear, fillcolor=GREY)
        return np.asarray(moved)

    match name:
        case "invert":
            return 255 - x
        case "posterize":
            return x & (255 ^ (2 ** (8 - int(argument)) - 1))
        case "solarize":
            return np.where(x < argument, x, 255 - x)
        case "solarize-add":
            return np.where(x < 128, np.minimum(x + int(argument), 255), x)
        case "autocontrast":
            low, high = x.min((0, 1)), x.max((0, 1))
            return np.floor((x - low) * (255.0 / (high - low)) + 1e-9)
        case "brightness":
            return np.clip(x * argument, 0, 255).astype(np.uint8)
        case "rotate":
            return np.asarray(image.rotate(argument, resample=bilinear, fillcolor=GREY))
        case "shear-x":
            return affine(1, argument, 0, 0, 1, 0)
        case "shear-y":
            return affine(1, 0, 0, argument, 1, 0)
        case "translate-x":
            return affine(1, 0, argument * width, 0, 1, 0)
        case "translate-y":
            return affine(1, 0, 0, 0, 1, argument * height)
        case "equalize":
            return np.asarray(ImageOps.equalize(image))
        case _:
            kinds = {
                "color": ImageEnhance.Color,
                "contrast": ImageEnhance.Contrast,
                "sharpness": ImageEnhance.Sharpness,
            }
            return np.asarray(kinds[name](image).enhance(argument))


@pytest.mark.parametrize("increasing", [False, True])
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_is_its_definition_at_timms_levels(name: str, increasing: bool) -> None:
    image = picture()
    for magnitude in (0, 1, 4.3, 7, 9, 10):
        for sign in (1, -1):
            argument = OPERATIONS[name].argument(magnitude / 10, sign, increasing)
            assert argument == pytest.approx(level(name, magnitude, sign, increasing), abs=1e-12)
            found = np.asarray(changed(image, [(name, argument)])).astype(np.int64)
            rounding = 1 if name in ("autocontrast", "brightness") else 0
            assert abs(found - in_numpy(name, image, argument)).max() <= rounding
    assert (
        np.asarray(changed(image, [(name, OPERATIONS[name].argument(0.7, 1, increasing))])) != np.asarray(image)
    ).any()


def test_the_operations_are_timms_fifteen_in_order() -> None:
    assert list(OPERATIONS) == [
        "autocontrast", "equalize", "invert", "rotate", "posterize", "solarize", "solarize-add", "color", "contrast",
        "brightness", "sharpness", "shear-x", "shear-y", "translate-x", "translate-y",
    ]  # fmt: skip


def test_randaugment_takes_each_operation_as_often_and_applies_half_of_them() -> None:
    policy, count = Policy("rand", 2, 9.0), 3000
    lists = [chosen(policy, d) for d in streams(count)]
    assert Counter(map(len, lists)) == pytest.approx(
        {0: count / 4, 1: count / 2, 2: count / 4}, abs=4 * math.sqrt(count)
    )
    names = Counter(name for found in lists for name, _ in found)
    assert set(names) == set(OPERATIONS)
    assert all(abs(n - count / 15) < 5 * math.sqrt(count / 15) for n in names.values())
    turned = {abs(argument) for found in lists for name, argument in found if name == "rotate"}
    assert list(turned) == [pytest.approx(27.0)]


def test_the_magnitude_is_normal_and_stays_below_ten() -> None:
    """`rand-m9-mstd0.5`: rotations of 30 degrees times a normal around 0.9, cut at 1."""
    lists = [chosen(DEIT_POLICY, d) for d in streams(6000)]
    turned = np.array([argument for found in lists for name, argument in found if name == "rotate"])
    assert abs(turned).max() <= 30
    assert (turned > 0).mean() == pytest.approx(0.5, abs=0.1)
    assert stats.kstest(abs(turned) / 3, lambda x: np.where(x < 10, stats.norm(9, 0.5).cdf(x), 1)).pvalue > 1e-3


def test_autoaugment_is_the_papers_table() -> None:
    """Cubuk et al. 2018, table 9; 25 policies, whose digest was taken from the published trainer's own table."""
    assert len(AUTO) == 25
    text = ";".join(f"{name} {p} {m}" for sub in AUTO for name, p, m in sub)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == AUTO_DIGEST
    lists = [chosen(Policy("auto"), d) for d in streams(3000)]
    shorn = sum(any(name == "shear-x" for name, _ in found) for found in lists)  # one of 25, applied 0.6 of the time
    assert shorn == pytest.approx(3000 * 0.6 / 25, abs=4 * math.sqrt(3000 * 0.6 / 25))
    assert all(1 <= bits <= 4 for found in lists for name, bits in found if name == "posterize")


AUTO_DIGEST = "29169c805e813bbc"


def test_no_policy_changes_nothing() -> None:
    assert chosen(Policy(), Draws("any")) == []


def test_an_erased_rectangle_has_timms_area_aspect_and_frequency() -> None:
    boxes = [rectangles.erasing(d, 0.25, 224, 224) for d in streams(3000)]
    there = [box for box in boxes if box != rectangles.NOTHING]
    assert len(there) == pytest.approx(750, abs=4 * math.sqrt(750))
    area = np.array([(b - t) * (r - left) for t, b, left, r in there]) / 224**2
    aspect = np.array([(b - t) / (r - left) for t, b, left, r in there])
    assert 0.018 < area.min() < 0.03
    assert 0.30 < area.max() < 0.34
    assert 0.28 < aspect.min() < 0.4
    assert 2.5 < aspect.max() < 3.5
    assert all(0 <= t < b <= 224 and 0 <= left < r <= 224 for t, b, left, r in there)
    assert rectangles.erasing(Draws("x"), 0.0, 224, 224) == rectangles.NOTHING


def test_mixup_and_cutmix_alternate_and_cutmix_keeps_the_share_of_its_area() -> None:
    kind = Mixing(0.8, 1.0)
    for step, d in enumerate(streams(400)):
        share, (top, bottom, left, right) = rectangles.mixing(d, kind, step, 160, 224)
        assert 0 <= share <= 1
        assert (top, bottom, left, right) == rectangles.NOTHING or step % 2
        if step % 2:
            assert share == pytest.approx(1 - (bottom - top) * (right - left) / (160 * 224))
            assert 0 <= top <= bottom <= 160
            assert 0 <= left <= right <= 224
    for only, cuts in ((Mixing(mixup=0.2), False), (Mixing(cutmix=1.0), True)):
        found = [
            rectangles.mixing(d, only, step, 32, 32)[1] != rectangles.NOTHING for step, d in enumerate(streams(40))
        ]
        assert (sum(found) > 20) == cuts


def test_cutmixs_rectangle_is_the_papers() -> None:
    """Its sides are √(1 − λ) of the image's, λ uniform, around a uniform centre, cut at the border."""
    for d, again in zip(streams(200), streams(200), strict=True):
        _, box = rectangles.mixing(d, Mixing(cutmix=1.0), 0, 100, 60)
        side = math.sqrt(1 - again.beta(1.0))
        high, wide, y, x = int(100 * side), int(60 * side), again.below(100), again.below(60)
        wanted = np.clip([y - high // 2, y + high // 2, x - wide // 2, x + wide // 2], 0, [100, 100, 60, 60])
        assert box == tuple(wanted)


def test_an_image_is_made_the_same_way_each_time_and_another_way_for_another_copy_or_epoch() -> None:
    content = jpeg(picture(300, 200))
    first = trained_image(VIT, content, 1, 5)
    assert (first.shape, first.dtype) == ((224, 224, 3), np.uint8)
    np.testing.assert_array_equal(first, trained_image(VIT, content, 1, 5))
    for other in (
        trained_image(VIT, content, 2, 5),
        trained_image(VIT, content, 1, 6),
        trained_image(VIT, content, 1, 5, 1),
    ):
        assert (first != other).any()
    assert trained_image(A3, content, 1, 5).shape == (160, 160, 3)
    assert evaluated_image(A3, content).shape == (224, 224, 3)


def test_without_a_policy_an_image_is_its_crop_flipped_or_not() -> None:
    plain, content = RECIPES["resnet34-2018"], jpeg(picture(300, 200))
    decoded, flipped = Image.open(io.BytesIO(content)).convert("RGB"), 0
    for example in range(12):
        box = crops.random_box(of_example("resized-crop", "sha256:0", 1, example, 0), 300, 200)
        wanted = np.asarray(decoded.crop(box).resize((224, 224), Image.Resampling.BICUBIC))
        turned = of_example("flip", "sha256:0", 1, example, 0).chance(0.5)
        flipped += turned
        np.testing.assert_array_equal(trained_image(plain, content, 1, example), wanted[:, ::-1] if turned else wanted)
    assert 0 < flipped < 12


def test_grey_and_transparent_files_become_three_channels_and_a_broken_one_is_refused() -> None:
    out = io.BytesIO()
    picture().convert("L").save(out, "PNG")
    assert evaluated_image(VIT, out.getvalue()).shape == (224, 224, 3)
    with pytest.raises(OSError, match="cannot identify"):
        trained_image(VIT, b"not an image", 1, 0)
