"""The child that runs one side of a tie: `python -m ladder.ties.child`; the request of ladder.ties.side on stdin."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ladder import lowerers
from ladder.data import open_split
from ladder.errors import LadderError
from ladder.lowerers import Executable, Lowerer, Unsupported
from ladder.lowerers.protocol import DroppedState, check_state
from ladder.recipes import Recipe
from ladder.ties.measure import compare, worst
from ladder.ties.side import EXAMPLES, JUDGE, NOT_ASKABLE, UPDATES, Job, Trace
from ladder.train import artifact
from ladder.train.artifact import Program
from ladder.train.layout import initial_state
from ladder.train.loop import Resident, put_dataset
from ladder.train.order import epoch_draws, epoch_order, step_keys, test_order
from ladder.train.schedule import rates

Host = dict[str, np.ndarray]


def make(name: str, jax_platform: str, fault: str | None) -> Lowerer:
    """The lowerer of a side; the judge is one more."""
    if name != JUDGE.lowerer:
        return lowerers.make(name, jax_platform, 0, fault)
    from ladder.ties.judge import Float64

    return Float64()


def inputs(recipe: Recipe, first: int, count: int) -> Iterator[tuple[np.ndarray, Host, np.float32, np.ndarray]]:
    """Examples, augmentation, rate and key of `count` steps of the recipe from step `first` (0-based), over epochs."""
    epoch, at = divmod(first, recipe.steps)
    while count > 0:
        order, lrs, keys = epoch_order(recipe, epoch + 1), rates(recipe, epoch + 1), step_keys(recipe, epoch + 1)
        draws = epoch_draws(recipe, epoch + 1, order)
        for i in range(at, min(recipe.steps, at + count)):
            yield order[i], {name: drawn[i] for name, drawn in draws.items()}, lrs[i], keys[i]
        count, epoch, at = count - (recipe.steps - at), epoch + 1, 0


def trained(exe: Executable, start: Host, recipe: Recipe, data: Resident, first: int, count: int) -> tuple[Host, Any]:
    """States after the first UPDATES steps, `<step>:<leaf>`, and the loss of each of `count` steps."""
    state = {name: exe.put(value) for name, value in start.items()}
    states: Host = {}
    losses: list[float] = []
    for k, (idx, draws, lr, key) in enumerate(inputs(recipe, first, count), 1):
        state, metrics = exe.step(state, exe.feed(data.images, data.labels, idx, draws), lr, key)
        losses.append(float(exe.get(metrics["loss"])))
        if k <= UPDATES:
            states |= {f"{k}:{name}": exe.get(value) for name, value in state.items()}
    return states, np.array(losses)


def scored(exe: Executable, state: Host, program: Program, recipe: Recipe, data: Resident) -> np.ndarray:
    """correct, top5 and loss_sum of the first test batch, then of its first images alone: `[1 + EXAMPLES, 3]`."""
    batch = test_order(recipe, program.test_batch)[0]
    alone = np.full((EXAMPLES, len(batch)), -1, np.int32)
    alone[:, 0] = batch[:EXAMPLES]
    on_device = {name: exe.put(value) for name, value in state.items()}
    rows = [exe.eval(on_device, exe.test_feed(data.test_images, data.test_labels, idx, {})) for idx in (batch, *alone)]
    return np.array([[float(exe.get(value)) for value in row] for row in rows])


def at(states: Host, step: int) -> Host:
    """The state after a step."""
    return {k.partition(":")[2]: v for k, v in states.items() if k.startswith(f"{step}:")}


def run(exe: Executable, program: Program, recipe: Recipe, data: Resident, job: Job) -> Host:
    """A job's arrays, as Trace reads them."""
    start = initial_state(program.leaves, recipe.net, job.seed)
    check_state(program, start)
    first = UPDATES * (job.seed - 1)
    states, losses = trained(exe, start, recipe, data, first, max(job.steps, UPDATES))
    again = trained(exe, start, recipe, data, first, UPDATES)[0] if job.control else states
    end = dict(Trace(Path(job.eval_state)).state(UPDATES)) if job.eval_state else at(states, UPDATES)
    score = {leaf.name: end[leaf.name].astype(leaf.dtype) for leaf in program.leaves}
    return {
        **{f"0:{name}": value for name, value in start.items()},
        **states,
        "losses": losses,
        "evals": scored(exe, score, program, recipe, data),
        "again": np.array(worst(compare(start, at(states, UPDATES), at(again, UPDATES)))),
    }


def main() -> None:
    """Serve the one request on stdin."""
    request = json.load(sys.stdin)
    recipe, program = Recipe.from_json(request["recipe"]), artifact.read(Path(request["program"]))
    folder, out = Path(request["data"]), Path(request["out"])
    compiled: dict[str | None, Executable] = {}
    resident: dict[str | None, Resident] = {}
    for job in (Job(**fields) for fields in request["jobs"]):
        if job.fault not in compiled:
            exe = make(request["lowerer"], request["jax_platform"], job.fault).compile(program)
            compiled[job.fault] = exe
            resident[job.fault] = put_dataset(exe, (*open_split(folder, "train"), *open_split(folder, "test")))
        arrays: dict[str, Any] = dict(run(compiled[job.fault], program, recipe, resident[job.fault], job))
        np.savez(out / f"{job.name}.npz", **arrays)


def told(serve: Callable[[], None]) -> int:
    """Run `serve`; a LadderError is its one line on standard error: code 3 if the program is at fault, else 2."""
    try:
        serve()
    except LadderError as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return NOT_ASKABLE if not isinstance(error, (Unsupported, DroppedState)) else 3
    return 0


if __name__ == "__main__":
    sys.exit(told(main))
