"""Order and augmentation of an epoch: golden for ever, every example once, the same for every seed."""

import hashlib
from dataclasses import replace

import numpy as np

from ladder.recipes.cifar import recipes
from ladder.recipes.recipe import Data, Recipe
from ladder.train.order import epoch_copies, epoch_draws, epoch_order

SMALL = Data("small", "sha256:small", 50, 10, classes=10, shape=(36, 40, 3), test_shape=(32, 32, 3))
RECIPE: Recipe = replace(recipes()[0], data=SMALL, batch=16, augment=("crop", "flip"))
# SHA-256, first 16 digits, of cifar10's first epoch's order and flips as little-endian bytes
ORDER_1, FLIPS_1 = "b27788deb9edd959", "fca88042f5a7d477"


def short(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def test_cifars_first_epoch_never_changes() -> None:
    cifar = recipes()[0]
    order = epoch_order(cifar, 1)
    assert order.shape == (390, 128)
    assert (short(order.astype("<i4")), short(epoch_draws(cifar, 1, order)["flip"])) == (ORDER_1, FLIPS_1)


def test_an_epoch_has_every_example_once_but_the_remainder() -> None:
    order = epoch_order(RECIPE, 1)
    assert (order.shape, order.dtype) == ((3, 16), np.int32)
    assert len(set(order.ravel().tolist())) == 48
    assert set(order.ravel().tolist()) < set(range(50))


def test_epochs_and_datasets_have_orders_of_their_own() -> None:
    other = replace(RECIPE, data=replace(SMALL, identity="sha256:other"))
    orders = [epoch_order(RECIPE, 1), epoch_order(RECIPE, 2), epoch_order(other, 1)]
    assert len({order.tobytes() for order in orders}) == 3
    assert epoch_order(replace(RECIPE, net="x", arm="y", epochs=99), 1).tobytes() == orders[0].tobytes()


def test_a_draw_belongs_to_its_example_wherever_that_stands() -> None:
    order = epoch_order(RECIPE, 1)
    drawn, in_file_order = epoch_draws(RECIPE, 1, order), epoch_draws(RECIPE, 1, np.arange(50)[None])
    for name in ("flip", "crop"):
        np.testing.assert_array_equal(drawn[name], in_file_order[name][0][order])


def test_draws_have_the_feeds_shapes_and_the_right_odds() -> None:
    many = replace(RECIPE, data=replace(SMALL, train=20_000))
    draws = epoch_draws(many, 1, epoch_order(many, 1))
    assert (draws["flip"].dtype, draws["flip"].shape) == (np.bool_, (1250, 16))
    assert (draws["crop"].dtype, draws["crop"].shape) == (np.int32, (1250, 16, 2))
    assert abs(draws["flip"].mean() - 0.5) < 5 * 0.5 / np.sqrt(20_000)
    rows, columns = draws["crop"][..., 0], draws["crop"][..., 1]
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (0, 4, 0, 8)
    counts = np.bincount(columns.ravel())
    assert abs(counts - 20_000 / 9).max() < 5 * np.sqrt(20_000 / 9)


def test_without_augmentation_nothing_is_drawn() -> None:
    assert epoch_draws(replace(RECIPE, augment=()), 1, epoch_order(RECIPE, 1)) == {}


def test_a_repeated_example_stands_in_an_epoch_with_each_of_its_copies_and_never_beside_one() -> None:
    thrice = replace(RECIPE, repeats=3)
    order, copies = epoch_order(thrice, 1), epoch_copies(thrice)
    assert order.shape == copies.shape == (3, 16)
    assert order.dtype == copies.dtype == np.int32
    pairs = list(zip(order.ravel().tolist(), copies.ravel().tolist(), strict=True))
    examples = {example for example, _ in pairs}
    assert len(examples) == 16
    assert sorted(pairs) == sorted((example, copy) for example in examples for copy in range(3))
    assert examples <= set(epoch_order(RECIPE, 1).ravel()[:16].tolist())
    assert (order[:, 0::2] != order[:, 1::2]).all()


def test_without_repeats_every_example_is_its_first_copy() -> None:
    assert not epoch_copies(RECIPE).any()


def test_images_that_the_host_makes_are_not_drawn_for_the_feed() -> None:
    assert epoch_draws(replace(RECIPE, augment=("resized-crop", "flip")), 1, epoch_order(RECIPE, 1)) == {}
