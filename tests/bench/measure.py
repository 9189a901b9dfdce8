"""What the benchmarks share: medians with their spread, and the rung's programs on data of the right shapes."""

import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from ladder.lowerers import Executable, make
from ladder.recipes import Recipe, rung_recipes, select
from ladder.recipes.mnist import MNIST
from ladder.train.artifact import Program, program_for
from ladder.train.layout import initial_state
from ladder.train.loop import Resident, put_dataset


def spread(values: Sequence[float], unit: str = "", digits: int = 3) -> str:
    """`0.987 (0.981-0.990, n=5)`: median, least, greatest."""
    return f"{median(values):.{digits}f}{unit} ({min(values):.{digits}f}-{max(values):.{digits}f}, n={len(values)})"


def first_step(command: Sequence[str], env: dict[str, str]) -> float:
    """Seconds until the command says that the first step is done; then it is left to finish."""
    start = time.perf_counter()
    child = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert child.stdout is not None
    seconds, lines = 0.0, list[str]()
    for line in child.stdout:
        lines.append(line)
        if "first step done" in line and not seconds:
            seconds = time.perf_counter() - start
    child.wait(timeout=120)
    if not seconds:
        raise SystemExit("no first step:\n" + "".join(lines))
    return seconds


@dataclass
class Bench:
    """A compiled recipe with its dataset resident. Pixels are drawn: a step's time does not depend on them."""

    recipe: Recipe
    program: Program
    exe: Executable
    data: Resident

    def state(self, seed: int = 1) -> dict[str, Any]:
        """A fresh state on the device."""
        host = initial_state(self.program.leaves, self.recipe.net, seed)
        return {name: self.exe.put(value) for name, value in host.items()}


def compiled(net: str) -> Bench:
    """The mnist rung's `net` through xla on this CPU."""
    (recipe,) = select(rung_recipes("mnist", MNIST), [net])
    program, _ = program_for(recipe, "cpu", "matmul-gradient")
    exe = make("xla", "cpu").compile(program)
    draw = np.random.Generator(np.random.Philox(1))
    sizes = (recipe.data.train, recipe.data.test)
    splits = [
        array
        for n in sizes
        for array in (
            draw.integers(0, 256, (n, *recipe.data.shape), dtype=np.uint8),
            draw.integers(0, 10, n, dtype=np.uint8),
        )
    ]
    return Bench(recipe, program, exe, put_dataset(exe, splits))
