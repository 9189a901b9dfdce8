"""The loop: resumed is the same as undisturbed to the bit, the device is not waited for, divergence is found early."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ladder.data.identity import Arrays as Images
from ladder.lowerers import Executable, Lowerer
from ladder.lowerers.faulty import Faulty
from ladder.lowerers.protocol import Arrays, DroppedState
from ladder.recipes import Recipe
from ladder.train import loop
from ladder.train import order as orders
from ladder.train.artifact import Program
from ladder.train.checkpoint import Checkpoint, Identity
from ladder.train.loop import SYNC_EVERY, Diverged, Resident, put_dataset, train
from ladder.train.order import epoch_order, step_keys
from ladder.train.schedule import rates

Saved = list[tuple[int, dict[str, np.ndarray], list[dict[str, Any]]]]


def resident(exe: Executable, arrays: Images) -> Resident:
    return put_dataset(exe, tuple(arrays.parts().values()))


def trial(
    exe: Executable, program: Program, recipe: Recipe, data: Resident, resume: Checkpoint | None = None, seed: int = 1
) -> tuple[list[dict[str, Any]], Saved, list[tuple[str, dict[str, Any]]]]:
    """(lines, what was saved, what was emitted) of a trial."""
    saved: Saved = []
    emitted: list[tuple[str, dict[str, Any]]] = []
    lines = train(
        exe,
        program,
        recipe,
        data,
        seed,
        lambda type, **values: emitted.append((type, values)),
        resume,
        lambda epoch, state, lines: saved.append((epoch, state, list(lines))),
    )
    return lines, saved, emitted


def untimed(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in line.items() if k != "seconds"} for line in lines]


@pytest.mark.parametrize("net", ["linear", "mlp", "cnn"])
def test_resumed_after_any_epoch_equals_undisturbed_bit_for_bit(
    net: str,
    program: Callable[[str], Program],
    compiled: Callable[[str], Executable],
    tiny: dict[str, Recipe],
    learnable: Images,
) -> None:
    exe, recipe = compiled(net), replace(tiny[net], epochs=2)
    data = resident(exe, learnable)
    lines, saved, _ = trial(exe, program(net), recipe, data)
    for epoch, state, so_far in saved:
        identity = Identity(recipe.hash, program(net).sha, recipe.data.identity, 1, "xla")
        again, resaved, _ = trial(exe, program(net), recipe, data, Checkpoint(identity, epoch, state, so_far))
        assert untimed(again) == untimed(lines)
        assert again[:epoch] == lines[:epoch]
        if resaved:
            assert {k: v.tobytes() for k, v in resaved[-1][1].items()} == {
                k: v.tobytes() for k, v in saved[-1][1].items()
            }


def test_a_trial_learns_and_reports_every_epoch(
    program: Callable[[str], Program],
    compiled: Callable[[str], Executable],
    tiny: dict[str, Recipe],
    learnable: Images,
) -> None:
    exe = compiled("mlp")
    lines, saved, emitted = trial(exe, program("mlp"), tiny["mlp"], resident(exe, learnable))
    assert [line["epoch"] for line in lines] == [1, 2, 3]
    assert lines[-1]["train_loss"] < 0.9 * lines[0]["train_loss"]
    assert all(line["correct"] <= line["top5"] <= line["total"] == 100 for line in lines)
    assert lines[-1]["lr"] == pytest.approx(0.1)
    assert [epoch for epoch, _, _ in saved] == [1, 2, 3]
    assert saved[-1][1]["step"] == 3 * 16
    assert [values for type, values in emitted if type == "epoch"] == lines


def test_an_epoch_is_committed_before_it_is_told(
    program: Callable[[str], Program],
    compiled: Callable[[str], Executable],
    tiny: dict[str, Recipe],
    learnable: Images,
) -> None:
    exe, order = compiled("linear"), list[str]()
    train(
        exe,
        program("linear"),
        replace(tiny["linear"], epochs=2),
        resident(exe, learnable),
        1,
        lambda type, **_: order.append(type) if type == "epoch" else None,
        None,
        lambda *_: order.append("saved"),
    )
    assert order == ["saved", "epoch", "saved", "epoch"]


class Counting:
    """An executable that notes the order of steps and waits."""

    def __init__(self, inner: Executable) -> None:
        self.inner, self.log = inner, list[str]()
        self.compiled, self.put, self.feed = inner.compiled, inner.put, inner.feed
        self.test_feed, self.eval = inner.test_feed, inner.eval

    def step(self, state: Arrays, batch: Arrays, lr: np.float32, key: np.ndarray) -> tuple[Arrays, Arrays]:
        self.log.append("step")
        return self.inner.step(state, batch, lr, key)

    def get(self, value: Any) -> np.ndarray:
        self.log.append("get")
        return self.inner.get(value)


def test_the_device_is_waited_for_once_in_ten_steps(
    compiled: Callable[[str], Executable],
    program: Callable[[str], Program],
    tiny: dict[str, Recipe],
    learnable: Images,
) -> None:
    from ladder.train.layout import initial_state

    exe = Counting(compiled("linear"))
    recipe = replace(tiny["linear"], data=replace(tiny["linear"].data, train=16 * 100))  # 100 steps, indices clipped
    state = {k: exe.put(v) for k, v in initial_state(program("linear").leaves, "linear", 1).items()}
    loop.run_epoch(exe, state, resident(exe, learnable), recipe, 1, lambda step, loss: None)
    during = "".join(word[0] for word in exe.log).rstrip("g")
    assert during.count("s") == 100
    assert during.count("g") == 1 + 100 // SYNC_EVERY - 2  # after the first step, then at 20, 30 … 90 (100 ends it)
    waits = [len(run) for run in during.split("g")[1:]]
    assert min(waits) == SYNC_EVERY


def test_a_slow_step_is_waited_for_one_step_later(
    compiled: Callable[[str], Executable],
    program: Callable[[str], Program],
    tiny: dict[str, Recipe],
    learnable: Images,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else twenty of them pass without a sign of life."""
    from ladder.train.layout import initial_state

    monkeypatch.setattr(loop, "SLOW_S", 0.0)
    monkeypatch.setattr(loop, "BEAT_S", 0.0)
    exe, beats = compiled("linear"), list[int]()
    state = {k: exe.put(v) for k, v in initial_state(program("linear").leaves, "linear", 1).items()}
    recipe, data = tiny["linear"], resident(exe, learnable)
    loop.run_epoch(exe, state, data, recipe, 1, lambda step, loss: beats.append(step))
    assert beats == [1, *range(1, recipe.steps)]


@pytest.mark.parametrize("at", [1, 2, 9, 10, 11, 30])
def test_a_nan_is_found_within_twenty_steps(
    at: int,
    xla: Lowerer,
    program: Callable[[str], Program],
    tiny: dict[str, Recipe],
    learnable: Images,
) -> None:
    exe = Counting(Faulty(xla, f"nan={at}").compile(program("linear")))
    recipe = replace(tiny["linear"], data=replace(tiny["linear"].data, train=16 * 200))
    with pytest.raises(Diverged, match=r"loss nan at step \d+ of epoch 1"):
        trial(exe, program("linear"), recipe, resident(exe, learnable))
    assert exe.log.count("step") <= at + 2 * SYNC_EVERY


def test_a_nan_in_the_last_steps_is_found_at_the_epochs_end(
    xla: Lowerer, program: Callable[[str], Program], tiny: dict[str, Recipe], learnable: Images
) -> None:
    exe = Faulty(xla, "nan=14").compile(program("linear"))
    with pytest.raises(Diverged, match="loss nan at step 15 of epoch 1"):
        trial(exe, program("linear"), tiny["linear"], resident(exe, learnable))


def test_a_nan_that_no_loss_shows_is_found_in_the_parameters(
    xla: Lowerer, program: Callable[[str], Program], tiny: dict[str, Recipe], learnable: Images
) -> None:
    exe = Faulty(xla, "nan=16").compile(program("linear"))  # after the epoch's last loss
    with pytest.raises(Diverged, match="params/fc1/b are not finite after epoch 1"):
        trial(exe, program("linear"), tiny["linear"], resident(exe, learnable))


def test_a_test_loss_that_is_not_finite_is_divergence(
    program: Callable[[str], Program],
    compiled: Callable[[str], Executable],
    tiny: dict[str, Recipe],
    learnable: Images,
) -> None:
    """Finite parameters and training losses; one test image has logits that overflow."""
    exe = compiled("linear")
    state = {leaf.name: np.zeros(leaf.shape, leaf.dtype) for leaf in program("linear").leaves}
    state["params/fc1/w"][:, 0] = 1e37
    dark, light = np.zeros_like(learnable.train_images), learnable.test_images.copy()
    light[99] = 255
    still = replace(tiny["linear"], epochs=1, schedule=replace(tiny["linear"].schedule, rate=0.0))
    data = resident(exe, replace(learnable, train_images=dark, test_images=light))
    with pytest.raises(Diverged, match=r"test loss \S+ after epoch 1"):
        trial(exe, program("linear"), still, data, Checkpoint(Identity("", "", "", 1, "xla"), 0, state, []))


def test_a_resumed_state_that_is_not_the_programs_is_refused(
    program: Callable[[str], Program],
    compiled: Callable[[str], Executable],
    tiny: dict[str, Recipe],
    learnable: Images,
) -> None:
    exe = compiled("linear")
    foreign = Checkpoint(Identity("", "", "", 1, "xla"), 1, {"step": np.array(1, np.int32)}, [{"epoch": 1}])
    with pytest.raises(DroppedState, match="params/fc1/w is missing"):
        trial(exe, program("linear"), tiny["linear"], resident(exe, learnable), foreign)


def test_seeds_differ_in_their_initial_parameters_only(tiny: dict[str, Recipe]) -> None:
    """Order, keys and rates take no seed at all."""
    recipe = tiny["mlp"]
    np.testing.assert_array_equal(epoch_order(recipe, 1), epoch_order(recipe, 2))
    np.testing.assert_array_equal(epoch_order(recipe, 1), np.arange(256).reshape(16, 16))
    assert not np.array_equal(step_keys(recipe, 1), step_keys(recipe, 2))
    assert step_keys(recipe, 1).dtype == np.uint32
    assert rates(recipe, 1).tolist() == [np.float32(0.1)] * 16


def test_the_short_training_batch_is_dropped_and_the_short_test_batch_padded(tiny: dict[str, Recipe]) -> None:
    recipe = replace(tiny["mlp"], data=replace(tiny["mlp"].data, train=47, test=130))
    assert epoch_order(recipe, 1).shape == (2, 16)
    order = orders.test_order(recipe, 64)
    assert order.shape == (3, 64)
    assert sorted(order[order >= 0].tolist()) == list(range(130))
    assert (order[2, 2:] == -1).all()
    assert orders.test_order(replace(recipe, data=replace(recipe.data, test=128)), 64).min() == 0


def test_a_test_batch_of_another_size_changes_no_score(
    program: Callable[[str], Program], compiled: Callable[[str], Executable], tiny: dict[str, Recipe], learnable: Images
) -> None:
    exe = compiled("mlp")
    lines, saved, _ = trial(exe, program("mlp"), replace(tiny["mlp"], epochs=1), resident(exe, learnable))
    state = {k: exe.put(v) for k, v in saved[0][1].items()}
    backwards = np.full((4, 64), -1, np.int32)  # the same hundred images, in four part-filled batches
    for row in range(4):
        backwards[row, 5:30] = np.arange(25) + 25 * row
    score = loop.evaluate(exe, state, resident(exe, learnable), backwards)
    assert (score.correct, score.top5) == (lines[0]["correct"], lines[0]["top5"])
