"""What a worker does with a job: program, dataset and checkpoint from disk, the loop, and the trial's last event."""

import math
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from ladder import lowerers
from ladder.data import open_split
from ladder.errors import LadderError
from ladder.lowerers import Executable, Unsupported
from ladder.recipes import Recipe
from ladder.train import artifact, checkpoint, loop
from ladder.train.batches import Batches, Streamed, put_dataset


class Trials:
    """The worker's device and what stays on it: compiled programs and the dataset, so that K seeds cost one of each."""

    def __init__(self, lowerer: str, jax_platform: str, device: int, fault: str | None, emit: loop.Emit) -> None:
        self._emit = emit
        self._lowerer = lowerers.make(lowerer, jax_platform, device, fault)
        self._compiled: dict[str, tuple[artifact.Program, Executable]] = {}
        self._data: tuple[tuple[str, bool], Batches] | None = None
        emit("ready", pid=os.getpid(), lowerer=self._lowerer.name, **self._lowerer.describe())

    def run(self, job: dict[str, Any], folder: Path) -> None:
        """Run one job to its `final` or `error` event."""
        try:
            self._run(Recipe.from_json(job["recipe"]), job, folder)
        except loop.Diverged as error:
            self._emit("error", status="diverged", message=str(error))
        except Unsupported as error:
            self._emit("error", status="unsupported", message=str(error))
        except (LadderError, OSError, MemoryError) as error:
            self._emit("error", status="crashed", message=f"{type(error).__name__}: {error}")

    def _run(self, recipe: Recipe, job: dict[str, Any], folder: Path) -> None:
        seed, path = job["seed"], Path(job["checkpoint"])
        program, exe = self._program(folder)
        self._emit("phase", phase="data")
        data, majority = self._dataset(exe, Path(job["dataset"]), program.streamed)
        identity = checkpoint.Identity(recipe.hash, program.sha, recipe.data.identity, seed, self._lowerer.name)
        resume, reason = checkpoint.load(path, identity)
        if reason:
            self._emit("checkpoint", reason=reason)
        if resume:
            self._emit("resumed", epoch=resume.epoch, epochs=resume.epochs)
        self._emit("phase", phase="first step")
        start = time.perf_counter()
        first = True

        def emit(type: str, **values: Any) -> None:
            nonlocal first
            if type == "heartbeat" and first:
                first, type = False, "first_step"
            self._emit(type, **values)

        def save(epoch: int, state: dict[str, np.ndarray], lines: list[dict[str, Any]]) -> None:
            try:
                checkpoint.save(path, checkpoint.Checkpoint(identity, epoch, state, lines))
            except OSError as error:  # a full disk costs the resume point, not the trial
                self._emit("checkpoint", reason=f"no checkpoint after epoch {epoch}: {error}; the trial goes on")

        lines = loop.train(exe, program, recipe, data, seed, emit, resume, save)
        last = lines[-1]
        self._emit(
            "final",
            correct=last["correct"],
            total=last["total"],
            top5=last["top5"],
            train_loss=last["train_loss"],
            train_s=round(math.fsum(line["seconds"] for line in lines), 3),
            wall_s=round(time.perf_counter() - start, 3),
            majority=majority,
        )

    def _program(self, folder: Path) -> tuple[artifact.Program, Executable]:
        if folder.name in self._compiled:
            return self._compiled[folder.name]
        self._emit("phase", phase="compile")
        program = artifact.read(folder)
        start = time.perf_counter()
        exe = self._lowerer.compile(program)
        self._compiled[folder.name] = (program, exe)
        self._emit(
            "compiled",
            program_sha=program.sha,
            compile_s=round(time.perf_counter() - start, 4),
            seconds=dict(exe.compiled.seconds),
            cached=dict(exe.compiled.cached),
            options=dict(exe.compiled.options),
        )
        return program, exe

    def _dataset(self, exe: Executable, folder: Path, streamed: bool) -> tuple[Batches, float]:
        """The dataset as the program's feeds take it, and the commonest test class's share."""
        (images, labels), (test_images, test_labels) = open_split(folder, "train"), open_split(folder, "test")
        majority = float(np.bincount(test_labels).max() / len(test_labels))
        wanted, splits = (str(folder), streamed), (images, labels, test_images, test_labels)
        if self._data is None or self._data[0] != wanted:
            self._data = (wanted, Streamed(*splits) if streamed else put_dataset(exe, splits))
        return self._data[1], majority
