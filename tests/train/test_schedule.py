"""The rates: the published check, to its printed digits, and what a constant rate is."""

from dataclasses import replace

import numpy as np
import pytest

from ladder.recipes.mnist import recipes
from ladder.recipes.recipe import Data, Recipe, Schedule
from ladder.train.schedule import rates

IMAGENETTE = Data("imagenette", "sha256:0", 9_469, 3_925, classes=10, shape=(256, 256, 3), test_shape=(224, 224, 3))


def recipe(schedule: Schedule, epochs: int = 80) -> Recipe:
    return replace(recipes()[2], data=IMAGENETTE, batch=32, epochs=epochs, schedule=schedule)


def test_warm_up_and_half_cosine_are_those_that_the_published_trainer_printed() -> None:
    """recipes.md section 0: imagenette, 3 of 80 epochs warm, 295 steps each, the rate at the end of epochs 1 to 6."""
    ours = recipe(Schedule(1e-3, "cosine", warmup=3))
    assert ours.steps == 295
    printed = [f"{rates(ours, epoch)[-1]:.6f}" for epoch in range(1, 7)]
    assert printed == ["0.000333", "0.000667", "0.001000", "0.001000", "0.000998", "0.000996"]


def test_the_rate_starts_one_step_above_zero_and_ends_at_zero() -> None:
    ours = recipe(Schedule(1e-3, "cosine", warmup=3))
    assert rates(ours, 1)[0] == np.float32(1e-3 / (3 * 295))
    assert rates(ours, 80)[-1] == 0
    assert (np.diff(np.concatenate([rates(ours, e) for e in (4, 5, 6)])) <= 0).all()


@pytest.mark.parametrize("warmup", [0, 2])
def test_a_constant_rate_stays_after_its_warm_up(warmup: int) -> None:
    ours = recipe(Schedule(0.1, warmup=warmup), epochs=4)
    assert rates(ours, 1)[0] == np.float32(0.1 / (warmup * 295) if warmup else 0.1)
    assert set(rates(ours, 3).tolist()) == {float(np.float32(0.1))}


def test_without_warm_up_the_cosine_starts_at_the_rate() -> None:
    assert rates(recipe(Schedule(1e-3, "cosine")), 1)[0] == pytest.approx(1e-3, rel=1e-6)


def every_rate(schedule: Schedule, epochs: int) -> np.ndarray:
    ours = recipe(schedule, epochs)
    return np.concatenate([rates(ours, epoch) for epoch in range(1, epochs + 1)])


def test_a_staircase_falls_at_once_after_each_epoch() -> None:
    """MobileNetV2's: 0.045, times 0.98 each epoch."""
    found = every_rate(Schedule(0.045, "staircase", factor=0.98), 5).reshape(5, 295)
    for epoch, of_epoch in enumerate(found):
        np.testing.assert_allclose(of_epoch, 0.045 * 0.98**epoch, rtol=1e-6)


def test_steps_of_a_staircase_need_not_be_whole_epochs() -> None:
    found = every_rate(Schedule(1.0, "staircase", factor=0.5, every=2.4), 6)
    falls = np.flatnonzero(np.diff(found)) + 1
    assert falls.tolist() == [708, 1416]  # 2.4 and 4.8 epochs of 295 steps


def test_an_exponential_rate_is_the_published_trainers() -> None:
    """generated_mobilenet_v2_imagenet_full.py @0ccd6ad9, whose step counts from 0: 0.97 in 2.4 epochs (B0)."""
    found = every_rate(Schedule(0.016, "exponential", warmup=5, factor=0.97, every=2.4), 20)
    step, warm = np.arange(len(found)), 5 * 295
    wanted = np.where(step < warm, (step + 1) / warm, 0.97 ** ((step / 295 - 5) / 2.4))
    np.testing.assert_allclose(found, 0.016 * wanted, rtol=1e-6)


def test_a_cosine_may_end_above_zero() -> None:
    """ViT-Tiny's: 5e-4 to 1e-5; halfway it is at their mean."""
    found = every_rate(Schedule(5e-4, "cosine", warmup=2, end=1e-5), 12)
    assert found[-1] == pytest.approx(1e-5, rel=1e-5)
    assert found[2 * 295 - 1] == found.max() == np.float32(5e-4)
    assert found[7 * 295 - 1] == pytest.approx((5e-4 + 1e-5) / 2, rel=1e-5)
    without = every_rate(Schedule(5e-4, "cosine", warmup=2), 12)
    assert (found >= without).all()
