"""A run: one rung on one box, from a request to a record and its verdicts. The flow and the CLI are thin over this."""

import hashlib
import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

from ladder import alarm, lowerers, manifests, paths, records, references, store
from ladder.data import Dataset, prepare
from ladder.errors import LadderError
from ladder.judging import cells
from ladder.lowerers import faulty
from ladder.pool.events import Event
from ladder.pool.pool import Cancelled, Job, OnEvent, Pool, Result, WorkerSpec
from ladder.pool.slot import Slot
from ladder.recipes import RUNGS, Data, Recipe, rung_recipes, select
from ladder.records import EpochRow, FinalRow
from ladder.references import Match
from ladder.report import report_markdown
from ladder.request import Request, check, parse_seeds
from ladder.train import checkpoint
from ladder.train.artifact import Program, program_for
from ladder.train.batches import streams
from ladder.verdict import Judgement, Word, at_chance, exit_code, judge, run_word

Say = Callable[[str], None]
REINDEX = "ladder import runs/"


@dataclass(frozen=True)
class Trial:
    """One recipe at one seed."""

    id: str
    index: int
    recipe: Recipe
    seed: int


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    word: Word
    judgements: tuple[Judgement, ...]
    record_path: Path
    exit_code: int
    alarms: int = 0  # early ones: they are no part of the word


class Run:
    """A run in progress: owns the worker pool, the record and the store. A context manager, opened in the main thread.

    Left by an exception, or without `finish`, it stays in `runs/.partial/` as interrupted and is resumed by the same
    request.
    """

    def __init__(self, request: Request, say: Say) -> None:
        self._request, self._say = request, say
        self._lock = threading.Lock()
        self._pool: Pool | None = None
        self._writer: records.Writer | None = None
        self._store: store.Store | None = None

    @classmethod
    def open(cls, request: Request, say: Say) -> Self:
        """Check the request, take the slots, start the workers, find data, programs and references, open the record.

        Raises LadderError before anything is recorded when any of it is wrong or missing.
        """
        run = cls(request, say)
        try:
            run._open()
        except BaseException:
            run.close()
            raise
        return run

    def _open(self) -> None:
        request, say = self._request, self._say
        self.profile = check(request)
        if request.fault:
            faulty.parse(request.fault)
            say(f"fault '{request.fault}' is injected: this run's record can be neither kept nor made a reference")
        self._store = store.open()
        self.uuid = str(uuid.uuid4())
        self._pool = self._start_pool()
        lowerers.preflight(self.profile.lowerer, self.profile.environment, self._expected_programs)
        data_dir = Path(request.data_dir) if request.data_dir else None
        self.dataset = prepare(RUNGS[request.rung].data.name, data_dir=data_dir, cache=paths.cache(), say=say)
        self.recipes = self._recipes(self.dataset)
        say(f"feed: {streams(self.recipes[0].data, self.profile.device, self.profile.kind, request.feed)[1]}")
        self.programs = {r.hash: self._program(r) for r in self.recipes}
        self.trials = tuple(
            Trial(f"{r.name}-s{seed}", i * len(request.seeds) + k, r, seed)
            for i, r in enumerate(self.recipes)
            for k, seed in enumerate(request.seeds)
        )
        self._references = references.load_all()
        self.matches = self._find_references()
        self._bands = alarm.bands(self.recipes, self._references, len(request.seeds))
        for recipe in self.recipes:
            say(f"early alarm {recipe.name}: {alarm.told(recipe, self._bands)}")
        self._done: dict[str, FinalRow] = {}
        self._told: set[tuple[str, int]] = set()  # the epochs that have their line
        resumed = self._resume()
        self._writer = resumed or records.Writer.create(paths.runs(), self._manifest())
        self.uuid, self.name = self._writer.manifest["uuid"], self._writer.manifest["name"]
        try:
            self._store.begin_run(self._writer.manifest)
        except LadderError:
            if not resumed:
                self._writer.discard()
            raise
        say(f"run {self.name} ({self.uuid[:8]}): {len(self.trials)} trials, {len(self._done)} already done")

    def _start_pool(self) -> Pool:
        profile, request = self.profile, self._request
        env = {**os.environ, **profile.environment, "LADDER_CACHE": str(paths.cache())}
        holder = {"run": f"{request.rung} on {paths.box()}, run {self.uuid[:8]}"}
        slots: list[tuple[Slot, WorkerSpec]] = []
        try:
            for device in range(profile.slots):
                slot = Slot.acquire(f"{profile.device}-{device}", holder, request.wait_s, self._say)
                slots.append((slot, WorkerSpec(profile.lowerer, profile.jax_platform, device, env, request.fault)))
        except BaseException:
            for slot, _ in slots:
                slot.close()
            raise
        return Pool(slots)

    def _recipes(self, dataset: Dataset) -> tuple[Recipe, ...]:
        data = Data(dataset.name, dataset.identity, dataset.train, dataset.test, dataset.classes, dataset.shape)
        if dataset.test_shape != dataset.shape:
            data = replace(data, test_shape=dataset.test_shape)
        chosen = select(rung_recipes(self._request.rung, data), self._request.nets, self._request.arms)
        return tuple(self._asked(r) for r in chosen)

    def _asked(self, recipe: Recipe) -> Recipe:
        return replace(recipe, epochs=self._request.epochs or recipe.epochs).accumulated(self._request.accumulate)

    def _expected_programs(self) -> list[Program]:
        """The programs on the rung's own dataset, not looked for yet: on another they have the same operations."""
        chosen = select(rung_recipes(self._request.rung), self._request.nets, self._request.arms)
        return [self._program(self._asked(recipe)) for recipe in chosen]

    def _program(self, recipe: Recipe) -> Program:
        start = time.perf_counter()
        streamed, _ = streams(recipe.data, self.profile.device, self.profile.kind, self._request.feed)
        program, cached = program_for(recipe, self.profile.jax_platform, self.profile.variant, streamed)
        how = "from the cache" if cached else f"exported in {time.perf_counter() - start:.1f} s"
        self._say(f"program {recipe.name}: {program.sha[:12]}, variant {program.variant}, {how}")
        return program

    def _find_references(self) -> dict[str, Match]:
        """What each recipe is held against, by its hash; said aloud, also where there is nothing."""
        matches: dict[str, Match] = {}
        for recipe in self.recipes:
            if match := references.find(recipe, self._references, self._request.reference):
                matches[recipe.hash] = match
                stand_in = f"; a stand-in: {match.stand_in}" if match.stand_in else ""
                self._say(f"reference {recipe.name}: {match.reference.name}, {len(match.part.finals)} finals{stand_in}")
            else:
                self._say(f"reference {recipe.name}: none has recipe hash {recipe.hash[:15]}; there can be no verdict")
        return matches

    def _manifest(self) -> dict[str, Any]:
        manifest = manifests.build(
            self.uuid, self._request, self.profile, self.recipes, self.programs, self.matches, self.dataset
        )
        watched = {h: {"reference": band.reference, "curves": band.curves} for h, band in self._bands.items()}
        return {**manifest, "alarm": {"rate": alarm.RATE, "watched": watched}, "alarms": []}

    def _resume(self) -> records.Writer | None:
        """The interrupted run of the same request, recipes, programs and data on this box, taken over; else None."""
        for path in manifests.resumable(self._manifest(), self._request.fresh, self._say):
            if writer := records.Writer.reopen(paths.runs(), path):
                found = records.read(path)
                self._done = {f"{f.net}-{f.arm}-s{f.seed}": f for f in found.finals}
                self._told = {(f"{e.net}-{e.arm}-s{e.seed}", e.epoch) for e in found.epochs}
                self._say(f"resuming interrupted run {writer.manifest['name']} of {writer.manifest['started']}")
                return writer
        return None

    @property
    def _lowerer(self) -> str:
        """As the worker's lowerer names itself."""
        plain, fault = self.profile.lowerer, self._request.fault
        return f"faulty({plain}, {fault})" if fault else plain

    @property
    def record_path(self) -> Path:
        """The partial directory while the run is in progress."""
        assert self._writer is not None
        return self._writer.path

    @property
    def done(self) -> Mapping[str, FinalRow]:
        """The trials that have their line, by id."""
        return dict(self._done)

    def submit(self, trial_id: str, on_event: OnEvent) -> "Future[FinalRow]":
        """Queue a trial; the future gives its line, recorded. Raises through the future Cancelled, or LadderError."""
        future: Future[FinalRow] = Future()
        trial = next(t for t in self.trials if t.id == trial_id)
        if trial_id in self._done:
            future.set_result(self._done[trial_id])
            return future
        assert self._pool is not None

        def listen(event: Event) -> None:
            alarms = self._take_in(trial, event)
            on_event(event)
            for raised in alarms:
                on_event(Event("alarm", -1, time.time(), trial.id, event.attempt, raised))

        job = Job(
            index=trial.index,
            trial=trial.id,
            seed=trial.seed,
            recipe=trial.recipe.to_json(),
            program=str(self.programs[trial.recipe.hash].folder),
            dataset=str(self.dataset.folder),
            checkpoint=str(self._checkpoint(trial)),
        )

        def settle(result: "Future[Result]") -> None:
            if error := result.exception():
                future.set_exception(error)
                return
            try:
                future.set_result(self._record(trial, result.result()))
            except BaseException as error:
                future.set_exception(error)

        self._pool.submit(job, listen, lambda: self._out_of_time(trial)).add_done_callback(settle)
        return future

    def execute(self, trial_id: str, on_event: OnEvent) -> FinalRow:
        """Run a trial to its recorded line, and wait. Thread-safe; a trial that crashed has a line that says so."""
        return self.submit(trial_id, on_event).result()

    def _out_of_time(self, trial: Trial) -> str:
        """Why a trial is not started under the request's deadline, or ""."""
        if self._request.deadline is None:
            return ""
        left = self._request.deadline - time.time()
        took = max((f.train_s for f in self._done.values() if f.recipe_hash == trial.recipe.hash), default=0.0)
        if left > took:
            return ""
        return f"the budget has {max(left, 0):.0f} s left; a trial of {trial.recipe.name} takes {took:.0f} s"

    def _checkpoint(self, trial: Trial) -> Path:
        """The checkpoint's name carries recipe and seed, its folder the run: a stale one is never resumed."""
        short = hashlib.sha256(trial.recipe.hash.encode()).hexdigest()[:12]
        return paths.cache() / "checkpoints" / self.uuid / f"{trial.recipe.name}-{short}-s{trial.seed}.npz"

    def _take_in(self, trial: Trial, event: Event) -> list[dict[str, Any]]:
        """Record what an event tells; the early alarms that its epochs raise."""
        if event.type == "epoch":
            return self._record_epochs(trial, event.attempt, [event.data])
        if event.type == "resumed":  # an epoch may have been committed by a worker that died before it told
            untold = [line for line in event.data["epochs"] if (trial.id, line["epoch"]) not in self._told]
            return self._record_epochs(trial, max(event.attempt - 1, 1), untold)
        if event.type == "ready":
            self._note_device(event)
        elif event.type == "compiled" and (options := event.data.get("options")):
            self._note_options(trial.recipe, options)
        return []

    def _record_epochs(self, trial: Trial, attempt: int, lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The epochs' lines in the record; the early alarms that they raise, recorded too."""
        assert self._writer is not None
        with self._lock:
            for line in lines:
                self._writer.epoch(_epoch_row(trial, attempt, line))
                self._told.add((trial.id, line["epoch"]))
            known = self._writer.manifest.get("alarms", [])  # those of epochs that are trained again after a resume
            found = [alarm.raised(self._bands, trial.recipe, trial.seed, line) for line in lines]
            new = [raised for raised in found if raised and raised not in known]
            if new:
                self._writer.update(alarms=[*known, *new])
        return new

    def _note_device(self, event: Event) -> None:
        assert self._writer is not None
        device = {k: event.data[k] for k in ("device", "device_kind", "runtime", "platform_version", "lowerer")}
        with self._lock:
            if device not in self._writer.manifest["devices"]:
                self._writer.update(devices=[*self._writer.manifest["devices"], device])

    def _note_options(self, recipe: Recipe, options: Mapping[str, str]) -> None:
        """What the lowerer chose for a program, beside that program."""
        assert self._writer is not None
        told = {name: records.without_paths(value) for name, value in options.items()}
        with self._lock:
            programs = self._writer.manifest["programs"]
            self._writer.update(programs={**programs, recipe.hash: {**programs[recipe.hash], "options": told}})

    def _record(self, trial: Trial, result: Result) -> FinalRow:
        """The trial's line: in the record on disk, then in the store."""
        r, final = trial.recipe, result.final
        status, note = result.status, result.message
        if status == "done" and at_chance(final["correct"], final["total"], final["majority"]):
            status, note = "diverged", f"the final {final['correct']}/{final['total']} is at chance"
        assert self._writer is not None
        row = FinalRow(
            net=r.net,
            arm=r.arm,
            seed=trial.seed,
            status=status,
            correct=final.get("correct"),
            total=r.data.test,
            top5=final.get("top5"),
            train_loss=final.get("train_loss"),
            epochs=len(result.epochs),
            lowerer=self._lowerer,
            recipe_hash=r.hash,
            program_sha=self.programs[r.hash].sha,
            data_identity=r.data.identity,
            attempts=result.attempts,
            compile_s=result.compiled.get("compile_s", 0.0),
            train_s=round(sum(e["seconds"] for e in result.epochs), 3),
            finished=_now(),
            note=records.without_paths(note),
        )
        with self._lock:
            self._writer.final(row)
            self._done[trial.id] = row
        for file in checkpoint.files(self._checkpoint(trial)):
            file.unlink(missing_ok=True)
        self._index(row, [_epoch_row(trial, line["attempt"], line) for line in result.epochs])
        return row

    def _index(self, row: FinalRow, epochs: list[EpochRow]) -> None:
        """The store is an index: when it cannot be written, the record still holds the trial."""
        assert self._store is not None
        try:
            self._store.insert_trial(self.uuid, row, epochs)
        except LadderError as error:
            self._say(f"not indexed, the record holds it: {error.message}; later: {REINDEX}")

    def cancel(self) -> None:
        """Kill the workers now. What is recorded stays, as an interrupted run."""
        if self._pool:
            self._pool.cancel()

    def finish(self) -> Outcome:
        """Judge what is there, write REPORT.md and rename the record. Trials without a line become `not-run`."""
        assert self._writer is not None
        for trial in self.trials:
            if trial.id not in self._done:
                self._record(trial, Result("not-run", "not started", 0, ()))
        rows = [self._done[trial.id] for trial in self.trials]
        judgements = judge(cells(self.recipes, rows, self.matches))
        word = run_word(judgements)
        self._writer.update(finished=_now(), word=str(word), verdicts=[asdict(j) for j in judgements])
        shutil.rmtree(paths.cache() / "checkpoints" / self.uuid, ignore_errors=True)
        path = self._writer.complete(report_markdown(records.read(self._writer.path), self._references))
        self.name = self._writer.manifest["name"]
        assert self._store is not None
        try:
            self._store.import_record(path)
        except LadderError as error:
            self._say(f"not indexed, the record holds it: {error.message}; later: {REINDEX}")
        return Outcome(word, judgements, path, exit_code(word), len(self._writer.manifest.get("alarms", ())))

    def close(self) -> None:
        """End the workers and let go of the record; kills what still runs."""
        if self._pool:
            self._pool.cancel()
            self._pool.close()
        if self._writer:
            self._writer.close()
        if self._store:
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def drive(request: Request, say: Say) -> Outcome:
    """The run without a flow: the same trials through the same pool, in order."""
    with Run.open(request, say) as run:

        def on_event(event: Event) -> None:
            if line := event.line():
                say(line)

        for future in [run.submit(trial.id, on_event) for trial in run.trials]:
            future.result()
        return run.finish()


def _epoch_row(trial: Trial, attempt: int, line: Mapping[str, Any]) -> EpochRow:
    known = {f.name for f in fields(EpochRow)} - {"attempt"}
    values = {k: v for k, v in line.items() if k in known}
    return EpochRow(net=trial.recipe.net, arm=trial.recipe.arm, seed=trial.seed, attempt=attempt, **values)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


__all__ = ["Cancelled", "Outcome", "Request", "Run", "Trial", "drive", "parse_seeds"]
