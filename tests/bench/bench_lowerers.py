"""A step through IREE against the same step through XLA, per net, alternating in one process.

Both run on this CPU in their profile's own variant; `plain` is XLA on the plain program. Goals, of the plain program's
time: at most 1.0 for linear, mlp, depthwise and ViT, 1.5 for nets of convolutions. The last three nets are a few blocks
of an imagenette net at 64x64, batch 32.
"""

import dataclasses
import functools
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ladder import children
from ladder.lowerers import make
from ladder.recipes import Data, Recipe, rung_recipes, select
from ladder.recipes.cifar import CIFAR10
from ladder.recipes.mnist import MNIST
from ladder.recipes.recipe import Optimiser, Schedule
from ladder.train import artifact
from ladder.train.layout import initial_state
from tests.bench.measure import spread

ROUNDS = 15
SECONDS = 0.3  # of steps, a round and a lowerer
TINY = Data("blocks", "drawn", 64, 64, classes=10, shape=(64, 64, 3))
GOALS = {
    "linear": 1.0,
    "mlp": 1.0,
    "cnn": 1.5,
    "8-conv": 1.5,
    "8-conv norm": 1.5,
    "resnet": 1.5,
    "depthwise": 1.0,
    "vit": 1.0,
}


def blocks() -> dict[str, Callable[..., Any]]:
    """The nets of a few blocks, by name."""
    from models.mobilenetv2 import MobileNetV2, Stage
    from models.resnet import Basic, ResNet
    from models.vit import ViT

    stages = (Stage(1, 16, 1, 1), Stage(6, 24, 2, 2), Stage(6, 32, 1, 2))
    return {
        "resnet": functools.partial(ResNet, Basic, depths=(1, 1), widths=(32, 64)),
        "depthwise": functools.partial(MobileNetV2, stages, stem=16, last=128),
        "vit": functools.partial(ViT, depth=2, patch=8),
    }


def recipe_of(name: str, parameters: int = 0) -> Recipe:
    """The recipe of a benchmark's net; a rung's own where it has one."""
    if name in ("linear", "mlp", "cnn"):
        (recipe,) = select(rung_recipes("mnist", MNIST), [name])
        return recipe
    if name.startswith("8-conv"):
        (recipe,) = select(rung_recipes("cifar", CIFAR10), [], ["bn-sgd" if "norm" in name else "nobn-sgd"])
        return recipe
    return Recipe(
        rung="bench", net=name, arm="sgd", data=TINY, optimiser=Optimiser(), schedule=Schedule(0.01), batch=32,
        epochs=1, init="published", margin=0, parameters=parameters,
    )  # fmt: skip


def export(name: str, variant: str, folder: Path) -> None:
    """In a child: write the net's program."""
    import jax
    import jax.numpy as jnp

    from ladder.train.export import export as write
    from models import NETS

    recipe = recipe_of(name)
    if (net := blocks().get(name)) is not None:
        NETS[name] = lambda variant, net=net: net()
        shapes = jax.eval_shape(net().init, jax.random.key(0), jax.ShapeDtypeStruct((1, *TINY.shape), jnp.float32))
        count = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes["params"]))
        recipe = dataclasses.replace(recipe, parameters=count)
    write(recipe, "cpu", variant, folder, 64)


def stepper(lowerer: str, program: artifact.Program, recipe: Recipe) -> Callable[[int], float]:
    """`run(n)`: milliseconds a step over n steps, the state resident and the batch fed from the resident dataset."""
    exe = make(lowerer, "cpu").compile(program)
    draw = np.random.Generator(np.random.Philox(1))
    images = exe.put(draw.integers(0, 256, (recipe.data.train, *recipe.data.shape), dtype=np.uint8))
    labels = exe.put(draw.integers(0, 10, recipe.data.train, dtype=np.int32))
    draws = {
        a.name.removeprefix("draws:"): np.zeros(a.shape, a.dtype)
        for a in program.functions["feed"].inputs
        if a.name.startswith("draws:")
    }
    idx, lr, key = np.arange(recipe.batch, dtype=np.int32), np.float32(1e-3), np.zeros(2, np.uint32)
    state = {name: exe.put(value) for name, value in initial_state(program.leaves, recipe.net, 1).items()}

    def run(count: int) -> float:
        nonlocal state
        start, loss = time.perf_counter(), exe.put(np.array(lr))
        for _ in range(count):
            state, metrics = exe.step(state, exe.feed(images, labels, idx, draws), lr, key)
            loss = metrics["loss"]
        if not math.isfinite(float(exe.get(loss))):
            raise SystemExit(f"{recipe.net} through {lowerer}: the loss is not finite")
        return (time.perf_counter() - start) / count * 1e3

    return run


def main() -> None:
    """Print, per net, both times and IREE's share of XLA's."""
    with TemporaryDirectory() as scratch:
        for name, goal in GOALS.items():
            recipe, programs = recipe_of(name), dict[str, artifact.Program]()
            for variant in ("plain", "matmul-gradient"):
                folder = Path(scratch) / f"{name}-{variant}".replace(" ", "-")
                child = children.command("tests.bench.bench_lowerers")
                env = children.environment({**os.environ, "JAX_PLATFORMS": "cpu"})
                subprocess.run([*child, name, variant, str(folder)], check=True, env=env, timeout=600)
                programs[variant] = artifact.read(folder)
            runs = {
                "plain xla": stepper("xla", programs["plain"], recipe),
                "xla": stepper("xla", programs["matmul-gradient"], recipe),
                "iree": stepper("iree", programs["matmul-gradient"], recipe),
            }
            count = {side: max(1, round(SECONDS * 1e3 / min(run(1) for _ in range(3)))) for side, run in runs.items()}
            ms: dict[str, list[float]] = {side: [] for side in runs}
            for _ in range(ROUNDS):
                for side, run in runs.items():
                    ms[side].append(run(count[side]))
            for other in ("plain xla", "xla"):
                ratio = [a / b for a, b in zip(ms["iree"], ms[other], strict=True)]
                print(f"  {name}: iree {spread(ms['iree'], ' ms')}, {other} {spread(ms[other], ' ms')}: "
                      f"{spread(ratio, digits=2)}; goal {goal}", flush=True)  # fmt: skip


if __name__ == "__main__":
    export(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
