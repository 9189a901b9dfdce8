"""Resident and streamed: the same bytes reach the step, and the choice is made by size, said and forcible."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ladder.data.identity import Arrays
from ladder.lowerers import Executable
from ladder.lowerers.xla import Xla
from ladder.recipes import Recipe
from ladder.recipes.cifar import CIFAR10
from ladder.recipes.imagenette import IMAGENETTE, recipes
from ladder.train import artifact
from ladder.train.artifact import Program
from ladder.train.batches import Batches, Resident, Streamed, put_dataset, streams
from ladder.train.export import export
from ladder.train.loop import train
from ladder.train.order import epoch_draws, epoch_order
from ladder.train.order import test_order as padded_order
from models import NETS, vit
from tests.models.zoo import count, shapes

TEST_BATCH = 6


@pytest.fixture(scope="module")
def arrays() -> Arrays:
    """20 training images of 40 pixels a side and 8 test images of 32, of three classes."""
    draw = np.random.default_rng(5).integers
    images = [draw(0, 256, (n, side, side, 3), np.uint8) for n, side in ((20, 40), (8, 32))]
    labels = [draw(0, 3, n, np.uint8) for n in (20, 8)]
    return Arrays(images[0], labels[0], images[1], labels[1], classes=10)


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    """A tiny ViT's: two steps of eight, with crop and flip."""
    data = replace(IMAGENETTE, train=20, test=8, shape=(40, 40, 3), test_shape=(32, 32, 3))
    full = next(r for r in recipes(data) if r.net == "vit_tiny")
    return replace(full, batch=8, epochs=2, parameters=count(shapes(vit.tiny(), 32)["params"]))


@pytest.fixture(scope="module")
def programs(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Program]:
    """By whether it is streamed."""
    folder = tmp_path_factory.mktemp("programs")
    made: dict[bool, Program] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(NETS, "vit_tiny", lambda variant, **options: vit.tiny(**options))
        for streamed in (False, True):
            export(recipe, "cpu", artifact.PLAIN, folder / str(streamed), TEST_BATCH, streamed)
            made[streamed] = artifact.read(folder / str(streamed))
    return made


@pytest.fixture(scope="module")
def sides(programs: dict[bool, Program], arrays: Arrays) -> dict[bool, tuple[Executable, Batches]]:
    """Executable and dataset, by whether it is streamed."""
    lowerer = Xla("cpu")
    splits = tuple(arrays.parts().values())
    resident, streamed = lowerer.compile(programs[False]), lowerer.compile(programs[True])
    return {False: (resident, put_dataset(resident, splits)), True: (streamed, Streamed(*splits))}


def test_a_program_says_which_it_is_for(programs: dict[bool, Program], arrays: Arrays) -> None:
    assert {streamed: p.streamed for streamed, p in programs.items()} == {False: False, True: True}
    given = {k: next(a.shape[0] for a in p.functions["feed"].inputs if a.name == "images") for k, p in programs.items()}
    assert given == {False: len(arrays.train_labels), True: 8}
    assert programs[True].stablehlo("step") == programs[False].stablehlo("step")
    assert programs[True].stablehlo("eval") == programs[False].stablehlo("eval")


def test_both_give_the_same_bytes(sides: dict[bool, tuple[Executable, Batches]], recipe: Recipe) -> None:
    order = epoch_order(recipe, 1)
    draws = {name: drawn[0] for name, drawn in epoch_draws(recipe, 1, order).items()}
    assert set(draws) == {"crop", "flip"}
    for ask in (
        lambda exe, data: data.train(exe, order[0], draws),
        lambda exe, data: data.test(exe, padded_order(recipe, TEST_BATCH)[1]),  # padded
    ):
        resident, streamed = ({k: exe.get(v) for k, v in ask(exe, data).items()} for exe, data in sides.values())
        assert resident.keys() == {"image", "label", "weight"}
        counted = resident["weight"] == 1
        np.testing.assert_array_equal(streamed["weight"], resident["weight"])
        for name, value in resident.items():
            np.testing.assert_array_equal(streamed[name][counted], value[counted])
            assert streamed[name].dtype == value.dtype


def trained(exe: Executable, data: Batches, program: Program, recipe: Recipe) -> tuple[list[Any], dict[str, Any]]:
    """Every epoch's line without its seconds, and the last state."""
    kept: dict[str, Any] = {}
    lines = train(exe, program, recipe, data, 1, lambda *_, **__: None, None, lambda _, state, __: kept.update(state))
    return [{k: v for k, v in line.items() if k != "seconds"} for line in lines], kept


def test_both_train_to_the_same_state_bit_for_bit(
    sides: dict[bool, tuple[Executable, Batches]], programs: dict[bool, Program], recipe: Recipe
) -> None:
    (lines, state), (streamed_lines, streamed) = (trained(*sides[k], programs[k], recipe) for k in (False, True))
    assert lines == streamed_lines
    assert len(lines) == 2
    for name, value in state.items():
        np.testing.assert_array_equal(streamed[name], value)


def test_a_batch_gathered_in_another_order_is_seen(
    sides: dict[bool, tuple[Executable, Batches]], programs: dict[bool, Program], recipe: Recipe, arrays: Arrays
) -> None:
    """The red test of the one above."""
    exe = sides[True][0]
    wrong = Streamed(arrays.train_images[::-1], *list(arrays.parts().values())[1:])
    assert trained(exe, wrong, programs[True], recipe)[0] != trained(*sides[False], programs[False], recipe)[0]


def test_the_choice_is_by_size_said_and_forcible() -> None:
    assert streams(CIFAR10, "cpu", "any") == (False, "resident: cifar10's images take 0.17 GiB, cpu keeps up to 1")
    assert streams(IMAGENETTE, "cpu", "any") == (True, "streamed: imagenette's images take 2.28 GiB, cpu keeps up to 1")
    assert not streams(IMAGENETTE, "cuda", "desktop")[0]
    assert streams(IMAGENETTE, "cuda", "tegra")[0]
    assert streams(CIFAR10, "cpu", "any", "streamed")[0]
    forced, said = streams(IMAGENETTE, "cpu", "any", "resident")
    assert not forced
    assert said.startswith("resident, as asked; ")


def test_resident_is_a_dataset_on_the_device(sides: dict[bool, tuple[Executable, Batches]], arrays: Arrays) -> None:
    exe, data = sides[False]
    assert isinstance(data, Resident)
    np.testing.assert_array_equal(exe.get(data.images), arrays.train_images)
