"""A program tried on made-up inputs, without a dataset: what its functions give, and how long a step takes.

The inputs follow from the program alone, so that what two lowerers give can be compared. As a child:

    python -m ladder.lowerers.probe

with {lowerer, jax_platform, device, program, out} on stdin -> out/told.json, out/outputs.npz
"""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ladder import rng
from ladder.errors import LadderError
from ladder.lowerers.protocol import Arrays, Executable
from ladder.train.artifact import FUNCTIONS, Array, Program, read
from ladder.train.layout import initial_state

Host = dict[str, np.ndarray]

LR, KEY = np.float32(0.1), np.arange(2, dtype=np.uint32)
CLASSES = 3  # few, so that the examples' gradients add up: a sum that cancels tells of rounding only
TIMED_S, TIMED_LEAST, TIMED_MOST = 1.5, 3, 200  # steps are timed for so long, but so many at least and at most
REFUSED = 2  # exit code of a child that says why on standard error


@dataclass(frozen=True)
class Timing:
    """Milliseconds a step, over `n` steps after the first."""

    median: float
    least: float
    n: int


def start(program: Program) -> Host:
    """The state that is tried, by leaf."""
    return initial_state(program.leaves, "probe", 1)


def batch(arrays: Sequence[Array]) -> Host:
    """Made-up values for a step's or eval's `batch:` inputs, without that prefix: every example has weight 1."""
    return {a.name.removeprefix("batch:"): _made_up(a) for a in arrays if a.name.startswith("batch:")}


def _made_up(array: Array) -> np.ndarray:
    name, size = array.name.rpartition(":")[2], int(np.prod(array.shape))
    if name in ("label", "labels"):
        return (np.arange(size) % CLASSES).astype(array.dtype)
    if name == "weight":
        return np.ones(array.shape, array.dtype)
    if array.dtype == "uint8":
        return (rng.uniform(f"probe/{name}", (size,)) * 256).astype(np.uint8).reshape(array.shape)
    if np.issubdtype(np.dtype(array.dtype), np.floating):
        return rng.uniform(f"probe/{name}", array.shape).astype(array.dtype)
    return np.zeros(array.shape, array.dtype)


def outputs(exe: Executable, program: Program, functions: Sequence[str] = FUNCTIONS) -> Host:
    """What the functions give: `step:<leaf>` and `step:loss`, `eval:<count>`, `feed:<array>`, `test_feed:<array>`."""
    found: Host = {}
    for name in functions:
        out: Mapping[str, Any]
        if name == "step":
            state, metrics = exe.step(_on(exe, start(program)), _batch(exe, program, name), LR, KEY)
            out = {**state, **metrics}
        elif name == "eval":
            counts = exe.eval(_on(exe, start(program)), _batch(exe, program, name))
            out = dict(zip(("correct", "top5", "loss_sum"), counts, strict=True))
        else:
            out = getattr(exe, name)(*_fed(exe, program.functions[name].inputs))
        found |= {f"{name}:{key}": exe.get(value) for key, value in out.items()}
    return found


def _fed(exe: Executable, inputs: Sequence[Array]) -> tuple[Any, Any, np.ndarray, Host]:
    """A feed's arguments: a dataset of zeros except for the images that the batch asks for."""
    by_name = {a.name: a for a in inputs}
    images = np.zeros(by_name["images"].shape, np.uint8)  # untouched pages cost no memory on the host
    labels = _made_up(by_name["labels"])
    count = by_name["idx"].shape[0]
    idx = (np.arange(count, dtype=np.int32) * 7) % min(len(images), count)
    idx[-1] = -1  # a padded place
    images[: min(len(images), count)] = _made_up(Array("image", (min(len(images), count), *images.shape[1:]), "uint8"))
    draws = {name.removeprefix("draws:"): _made_up(a) for name, a in by_name.items() if name.startswith("draws:")}
    return exe.put(images), exe.put(labels), idx, draws


def timing(exe: Executable, program: Program) -> Timing:
    """How long a step takes, each waited for."""
    state, given = _on(exe, start(program)), _batch(exe, program, "step")
    took: list[float] = []
    begin = time.perf_counter()
    while len(took) <= TIMED_LEAST or (time.perf_counter() - begin < TIMED_S and len(took) <= TIMED_MOST):
        before = time.perf_counter()
        state, metrics = exe.step(state, given, LR, KEY)
        exe.get(metrics["loss"])
        took.append(1000 * (time.perf_counter() - before))
    return Timing(float(np.median(took[1:])), min(took[1:]), len(took) - 1)


def eval_ms(exe: Executable, program: Program) -> float:
    """Milliseconds of the second eval of a test batch."""
    state, given = _on(exe, start(program)), _batch(exe, program, "eval")
    took = 0.0
    for _ in range(2):
        before = time.perf_counter()
        exe.get(exe.eval(state, given)[2])
        took = 1000 * (time.perf_counter() - before)
    return took


def _on(exe: Executable, host: Host) -> Arrays:
    return {name: exe.put(value) for name, value in host.items()}


def _batch(exe: Executable, program: Program, function: str) -> Arrays:
    return _on(exe, batch(program.functions[function].inputs))


def main() -> int:
    """Serve the one request on stdin."""
    from ladder import lowerers

    request = json.load(sys.stdin)
    out = Path(request["out"])
    try:
        program = read(Path(request["program"]))
        lowerer = lowerers.make(request["lowerer"], request["jax_platform"], request["device"])
        exe = lowerer.compile(program)
    except LadderError as error:
        print(json.dumps([error.message, error.hint]), file=sys.stderr)
        return REFUSED
    np.savez(out / "outputs.npz", allow_pickle=False, **outputs(exe, program))
    told = {
        "device": lowerer.describe(),
        "compiled": {
            "seconds": dict(exe.compiled.seconds),
            "cached": dict(exe.compiled.cached),
            "options": dict(exe.compiled.options),
        },
        "step": asdict(timing(exe, program)),
        "eval_ms": eval_ms(exe, program),
    }
    (out / "told.json").write_text(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
