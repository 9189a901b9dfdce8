"""Real pools with real workers on the tiny programs."""

import os
from collections.abc import Callable, Generator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ladder.pool.events import Event
from ladder.pool.pool import Job, Pool, WorkerSpec
from ladder.pool.slot import Slot
from ladder.recipes import Recipe
from ladder.train.artifact import Program

StartPool = Callable[..., Pool]
MakeJob = Callable[..., Job]


@pytest.fixture
def start() -> Generator[StartPool]:
    """start(fault=, limits=, code=, jax_platform=): a pool of one worker; `code` runs in it before anything else."""
    with ExitStack() as stack:
        made: list[Pool] = []

        def begin(
            fault: str | None = None,
            limits: dict[str, float] | None = None,
            code: Path | None = None,
            jax_platform: str = "cpu",
        ) -> Pool:
            env = {**os.environ, **({"PYTHONPATH": str(code)} if code else {})}
            slot = Slot.acquire("cpu-0", {"run": "a test"}, 0, lambda _: None)
            pool = Pool([(slot, WorkerSpec("xla", jax_platform, 0, env, fault))], limits)
            made.append(pool)
            stack.callback(pool.close)
            stack.callback(pool.cancel)
            return pool

        yield begin


@pytest.fixture
def injected(tmp_path: Path) -> Callable[[str], Path]:
    """injected(code): a folder for `start(code=)`; Python runs the code first in every worker."""

    def write(code: str) -> Path:
        folder = tmp_path / "injected"
        folder.mkdir(exist_ok=True)
        (folder / "sitecustomize.py").write_text(code)
        return folder

    return write


@pytest.fixture
def job(program: Callable[[str], Program], tiny: dict[str, Recipe], dataset: Path, tmp_path: Path) -> MakeJob:
    """job(net, seed, epochs): a trial on the tiny dataset."""

    def make(net: str = "mlp", seed: int = 1, epochs: int = 3, index: int = 0, name: str = "") -> Job:
        recipe, trial = replace(tiny[net], epochs=epochs), name or f"{net}-s{seed}"
        checkpoint = tmp_path / f"{trial}.npz"
        return Job(index, trial, seed, recipe.to_json(), str(program(net).folder), str(dataset), str(checkpoint))

    return make


@pytest.fixture
def heard() -> list[Event]:
    """What `on_event=heard.append` heard."""
    return []


@pytest.fixture(scope="session")
def undisturbed(
    program: Callable[[str], Program],
    compiled: Callable[[str], Any],
    tiny: dict[str, Recipe],
    dataset: Path,
) -> Callable[..., list[dict[str, Any]]]:
    """undisturbed(net, seed, epochs): the epoch lines of the same trial in this process, without their seconds."""
    from ladder.data import open_split
    from ladder.train.loop import put_dataset, train

    def run(net: str, seed: int, epochs: int) -> list[dict[str, Any]]:
        exe = compiled(net)
        data = put_dataset(exe, (*open_split(dataset, "train"), *open_split(dataset, "test")))
        recipe = replace(tiny[net], epochs=epochs)
        lines = train(exe, program(net), recipe, data, seed, lambda type, **_: None, None, lambda *_: None)
        return [{k: v for k, v in line.items() if k != "seconds"} for line in lines]

    return run
