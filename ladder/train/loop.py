"""The loop: one trial from its initial state, or its checkpoint, to its final. NumPy and an executable only."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ladder.lowerers import Executable
from ladder.lowerers.protocol import Arrays, Value, check_state
from ladder.recipes import Recipe
from ladder.train import checkpoint
from ladder.train.artifact import Program
from ladder.train.batches import Batches, Resident, Streamed, put_dataset
from ladder.train.layout import initial_state
from ladder.train.order import epoch_draws, epoch_order, step_keys, test_order
from ladder.train.schedule import rates

SYNC_EVERY = 10  # steps; the wait is for the step this many ago: the device never idles and the queue is bounded
SLOW_S = 10.0  # a step that takes so long is waited for one step later: 20 of them would look like a stalled worker
BEAT_S = 1.0  # at most one heartbeat in this many seconds

Emit = Callable[..., None]  # emit(type, **data)

__all__ = [
    "Diverged",
    "Emit",
    "Resident",
    "Score",
    "Streamed",
    "evaluate",
    "put_dataset",
    "run_epoch",
    "steps",
    "train",
]


class Diverged(Exception):
    """A non-finite loss or parameter, and where."""


@dataclass(frozen=True)
class Score:
    """A test score: images correct, in the top five, and the mean loss."""

    correct: int
    top5: int
    loss: float


def steps(exe: Executable, state: Arrays, data: Batches, recipe: Recipe, epoch: int) -> Iterator[tuple[Arrays, Value]]:
    """The steps of an epoch: yields (state, loss on the device) after each, without waiting for it."""
    order, lrs, keys = epoch_order(recipe, epoch), rates(recipe, epoch), step_keys(recipe, epoch)
    draws = epoch_draws(recipe, epoch, order)
    for i, (idx, lr, key) in enumerate(zip(order, lrs, keys, strict=True)):
        batch = data.train(exe, idx, {name: drawn[i] for name, drawn in draws.items()})
        state, metrics = exe.step(state, batch, lr, key)
        yield state, metrics["loss"]


def run_epoch(
    exe: Executable, state: Arrays, data: Batches, recipe: Recipe, epoch: int, beat: Callable[[int, float], None]
) -> tuple[Arrays, float]:
    """Train one epoch (1-based). Returns the new state and the mean training loss over its steps.

    `beat(step, loss)` is called after the first step, then at most every BEAT_S. Raises Diverged within 2·SYNC_EVERY
    steps of a non-finite loss.
    """
    losses: list[Value] = []
    last = waited = time.monotonic()
    known, every = 0, SYNC_EVERY  # the last step waited for, and how far behind the next wait is
    for after, loss in steps(exe, state, data, recipe, epoch):
        state = after
        losses.append(loss)
        done = len(losses)
        if done == 1 or (done % every == 0 and done > every):
            at = max(done - every, 1)
            value = float(exe.get(losses[at - 1]))
            if not np.isfinite(value):
                raise Diverged(f"loss {value} at step {at} of epoch {epoch}")
            now = time.monotonic()
            every = 1 if now - waited >= SLOW_S * max(at - known, 1) else SYNC_EVERY
            known, waited = at, now
            if now - last >= BEAT_S or done == 1:
                last = now
                beat(at, value)
    values = np.array([exe.get(loss) for loss in losses], np.float64)
    if not np.isfinite(values).all():
        at = int(np.argmin(np.isfinite(values))) + 1
        raise Diverged(f"loss {values[at - 1]} at step {at} of epoch {epoch}")
    return state, float(values.mean())


def evaluate(
    exe: Executable, state: Arrays, data: Batches, order: np.ndarray, beat: Callable[[int], None] = lambda done: None
) -> Score:
    """Score every test image once; `order` [batches, batch] i32, -1 pads. `beat(batches done)` at most every BEAT_S."""
    parts = [exe.eval(state, data.test(exe, idx)) for idx in order]
    sums, last = np.zeros(3), time.monotonic()
    for done, part in enumerate(parts, start=1):
        sums += np.array([exe.get(value) for value in part], np.float64)
        if (now := time.monotonic()) - last >= BEAT_S:
            last = now
            beat(done)
    correct, top5, loss = sums
    return Score(int(correct), int(top5), float(loss / (order >= 0).sum()))


def train(
    exe: Executable,
    program: Program,
    recipe: Recipe,
    data: Batches,
    seed: int,
    emit: Emit,
    resume: checkpoint.Checkpoint | None,
    save: Callable[[int, dict[str, np.ndarray], list[dict[str, Any]]], None],
) -> list[dict[str, Any]]:
    """Run a trial to its last epoch; returns its epoch lines (epoch, train_loss, correct, total, top5, lr, seconds).

    `save(epoch, state, lines)` commits a checkpoint. Emits `heartbeat`, `phase` and `epoch`.
    Raises Diverged, or DroppedState for a state that is not the program's.
    """
    host = resume.state if resume else initial_state(program.leaves, recipe.net, seed)
    check_state(program, host)
    lines = list(resume.epochs) if resume else []
    state = {name: exe.put(value) for name, value in host.items()}
    tests = test_order(recipe, program.test_batch)
    for epoch in range(len(lines) + 1, recipe.epochs + 1):
        start = time.perf_counter()

        def beat(step: int, loss: float, epoch: int = epoch) -> None:
            emit("heartbeat", epoch=epoch, step=step, steps=recipe.steps, loss=loss)

        state, loss = run_epoch(exe, state, data, recipe, epoch, beat)
        trained = time.perf_counter() - start
        emit("phase", phase="eval")
        score = evaluate(exe, state, data, tests, lambda done: emit("heartbeat", batch=done, batches=len(tests)))
        host = {name: exe.get(value) for name, value in state.items()}
        if bad := [name for name, value in host.items() if not np.isfinite(value).all()]:
            raise Diverged(f"parameters {', '.join(bad)} are not finite after epoch {epoch}")
        if not np.isfinite(score.loss):
            raise Diverged(f"test loss {score.loss} after epoch {epoch}")
        line = {
            "epoch": epoch,
            "train_loss": loss,
            "correct": score.correct,
            "total": recipe.data.test,
            "top5": score.top5,
            "lr": float(rates(recipe, epoch)[-1]),
            "seconds": round(trained, 4),
        }
        lines.append(line)
        save(epoch, host, lines)
        emit("epoch", **line)
    return lines
