"""One side of a tie: what its program does from a given state, run in a child of its own and read back."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ladder import children, paths
from ladder.errors import LadderError
from ladder.recipes import Recipe
from ladder.ties.measure import State
from ladder.train.artifact import Program

LIMIT_S = 1800.0
UPDATES = 5  # steps whose update is compared
CURVE = 100  # steps whose loss is
NOT_ASKABLE = 2  # the child's exit code when what is asked cannot be, such as a device that is not there
EXAMPLES = 2  # test images whose loss is compared one by one; each costs a whole test batch


@dataclass(frozen=True)
class Side:
    """Who runs a program: `lowerer` on device 0 of a jax platform, in `environment`; `label` is what a reader sees."""

    label: str
    lowerer: str
    jax_platform: str
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


JUDGE = Side("float64", "float64", "cpu", {"JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1"})


@dataclass(frozen=True)
class Job:
    """A run of the recipe's first `steps` steps from its initial state at `seed`, perhaps with a fault.

    Each seed starts 5 batches after the one before, since a net whose initial state is constant has but one.
    `eval_state` is the trace file whose state after the updates is scored; this job's own, if "".
    `control`: repeat the updates.
    """

    name: str
    seed: int
    steps: int
    fault: str | None = None
    eval_state: str = ""
    control: bool = True


class Trace:
    """What a job left behind; states are read from disk when asked for.

    `losses` [steps] f64. `evals` [1 + EXAMPLES, 3] f64: correct, top5 and loss_sum of the first test batch, then of
    its first images one by one. `again`: the worst relative difference of the update after UPDATES steps between the
    job and its repetition in the same process, 0.0 when all bits are the same.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._arrays: Any = np.load(file)
        self.losses: np.ndarray = self._arrays["losses"]
        self.evals: np.ndarray = self._arrays["evals"]
        self.again = float(self._arrays["again"])

    def state(self, step: int) -> State:
        """The state after a step, by leaf; 0 is where the job started."""
        prefix = f"{step}:"
        return {k.removeprefix(prefix): self._arrays[k] for k in self._arrays.files if k.startswith(prefix)}


class Refused(LadderError):
    """A side did not come to its end: it dropped state, could not compile, crashed or hung. The tie fails."""

    exit_code = 1


def run(
    side: Side, program: Program, recipe: Recipe, data: Path, jobs: Sequence[Job], out: Path, limit_s: float = LIMIT_S
) -> dict[str, Trace]:
    """Run jobs one after another in one child of a side, `data` being a dataset's folder; their traces by name.

    Raises Refused with the child's reason, its signal, or the limit it ran past; LadderError for an absent device.
    """
    out.mkdir(parents=True, exist_ok=True)
    request = {
        "lowerer": side.lowerer,
        "jax_platform": side.jax_platform,
        "program": str(program.folder),
        "recipe": recipe.to_json(),
        "data": str(data),
        "jobs": [asdict(job) for job in jobs],
        "out": str(out),
    }
    env = {**os.environ, **side.environment, "LADDER_CACHE": str(paths.cache())}
    try:
        child = subprocess.run(
            children.command("ladder.ties.child"),
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=limit_s,
            env=children.environment(env),
        )
    except subprocess.TimeoutExpired:
        raise Refused(f"{side.label} did not end within {limit_s:.0f} s") from None
    if child.returncode:
        how = f"was ended by signal {-child.returncode}" if child.returncode < 0 else "failed"
        last = (child.stderr.strip().splitlines() or ["no output"])[-1]
        if child.returncode == NOT_ASKABLE:
            raise LadderError(f"{side.label}: {last}")
        raise Refused(f"{side.label} {how}: {last}")
    return {job.name: Trace(out / f"{job.name}.npz") for job in jobs}
