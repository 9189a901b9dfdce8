"""The pool: a thread per device slot owns that slot's worker process, runs trials on it, and survives its death.

The kernel kills a worker when the *thread* that spawned it ends, so each worker is spawned by its slot's own thread,
which lives as long as the pool. The pool itself is owned by the flow's (or the command's) main thread, never by a task.
"""

import itertools
import json
import os
import queue
import select
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal

import psutil

from ladder.errors import LadderError
from ladder.pool.events import BadEvent, Event, decode
from ladder.pool.slot import Slot

Status = Literal["done", "diverged", "crashed", "timeout", "unsupported", "not-run"]
OnEvent = Callable[[Event], None]

# Seconds that a phase may last (start, compile, data) or be silent (train, eval: an event comes at least every
# second of steps) before the worker is killed.
LIMITS: dict[str, float] = {"start": 120.0, "compile": 1800.0, "data": 300.0, "train": 300.0, "eval": 300.0}
BARREN_ATTEMPTS = 2  # consecutive attempts without a completed epoch before a trial is given up
LAST_LINES = 20


@dataclass(frozen=True)
class WorkerSpec:
    """How a slot's worker is started. `env` is the whole environment, the profile's variables included."""

    lowerer: str
    jax_platform: str
    device: int
    env: Mapping[str, str]
    fault: str | None = None


@dataclass(frozen=True)
class Job:
    """A trial as the worker needs it; `index` orders the queue. Paths are absolute."""

    index: int
    trial: str
    seed: int
    recipe: dict[str, Any]
    program: str
    dataset: str
    checkpoint: str


@dataclass(frozen=True)
class Result:
    """How a trial ended. `final` holds the final event's data when `status` is `done`."""

    status: Status
    message: str
    attempts: int
    epochs: tuple[dict[str, Any], ...]  # each with its `attempt`
    final: dict[str, Any] = field(default_factory=dict)
    compiled: dict[str, Any] = field(default_factory=dict)


class _Lost(Exception):
    """The worker is gone or had to be killed: (status, message)."""


class Cancelled(Exception):
    """The pool was cancelled while the trial ran or waited."""


class Pool:
    """Device workers for a run. Thread-safe; use as a context manager from the main thread."""

    def __init__(self, slots: list[tuple[Slot, WorkerSpec]], limits: Mapping[str, float] | None = None) -> None:
        self._queue: queue.PriorityQueue[tuple[int, int, Any]] = queue.PriorityQueue()
        self._count = itertools.count()
        self.cancelled = threading.Event()
        self._threads = [_SlotThread(self, slot, spec, {**LIMITS, **(limits or {})}) for slot, spec in slots]
        self._slots = [slot for slot, _ in slots]
        for thread in self._threads:
            thread.start()

    def submit(self, job: Job, on_event: OnEvent) -> "Future[Result]":
        """Queue a trial; `on_event` is called from the slot's thread. The future raises Cancelled after `cancel`."""
        future: Future[Result] = Future()
        self._queue.put((job.index, next(self._count), (job, on_event, future)))
        return future

    def take(self) -> tuple[Job, OnEvent, "Future[Result]"] | None:
        """The next job for a slot thread, or None at the end."""
        return self._queue.get()[2]

    def cancel(self) -> None:
        """Kill the workers now; running and waiting trials raise Cancelled."""
        self.cancelled.set()
        for thread in self._threads:
            thread.kill()

    def workers(self) -> list[int]:
        """The workers' process ids."""
        return [t.process.pid for t in self._threads if t.process is not None]

    def close(self) -> None:
        """End the workers after what is queued, and give the slots back."""
        for _ in self._threads:
            self._queue.put((sys.maxsize, next(self._count), None))
        for thread in self._threads:
            thread.join()
        for slot in self._slots:
            slot.close()

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is not None:
            self.cancel()
        self.close()


class _SlotThread(threading.Thread):
    """Owns one slot's worker: spawns it, feeds it, watches it, buries it."""

    def __init__(self, pool: Pool, slot: Slot, spec: WorkerSpec, limits: Mapping[str, float]) -> None:
        super().__init__(name=f"slot {slot.name}", daemon=True)
        self._pool, self._slot, self._spec, self._limits = pool, slot, spec, limits
        self.process: subprocess.Popen[bytes] | None = None
        self._ready: Event | None = None
        self._tail: deque[str] = deque(maxlen=LAST_LINES)

    def run(self) -> None:
        try:
            self._spawn()  # importing jax overlaps with the parent's preparations
            while (item := self._pool.take()) is not None:
                job, on_event, future = item
                try:
                    future.set_result(self._supervise(job, on_event))
                except BaseException as error:
                    future.set_exception(error)
        finally:
            self._bury()

    def _supervise(self, job: Job, on_event: OnEvent) -> Result:
        """Attempts until the trial ends, or BARREN_ATTEMPTS in a row complete no epoch."""
        epochs: dict[int, dict[str, Any]] = {}
        compiled: dict[str, Any] = {}
        barren = 0
        for attempt in itertools.count(1):
            before = len(epochs)
            try:
                last = self._attempt(job, attempt, epochs, compiled, on_event)
            except _Lost as lost:
                self._bury()
                status, message = lost.args
                self._check_cancelled()
                barren = 0 if len(epochs) > before else barren + 1
                on_event(Event("lost", -1, time.time(), job.trial, attempt, {"status": status, "message": message, "attempt_lost": attempt}))
                if barren >= BARREN_ATTEMPTS:
                    return Result(status, message, attempt, tuple(epochs.values()), {}, compiled)
                continue
            lines = tuple(epochs[n] for n in sorted(epochs))
            if last.type == "error":
                return Result(last.data["status"], last.data["message"], attempt, lines, {}, compiled)
            return Result("done", "", attempt, lines, last.data, compiled)
        raise AssertionError("unreachable")

    def _attempt(self, job: Job, attempt: int, epochs: dict[int, dict[str, Any]], compiled: dict[str, Any], on_event: OnEvent) -> Event:
        """One attempt: the trial's last event. Raises _Lost."""
        self._check_cancelled()
        if self.process is None:
            self._spawn()
        if self._ready is None:
            self._ready = self._await_ready(on_event)
        assert self.process is not None
        command = {"trial": job.trial, "attempt": attempt, "seed": job.seed, "recipe": job.recipe, "program": job.program, "dataset": job.dataset, "checkpoint": job.checkpoint}
        try:
            self._commands.write(json.dumps(command).encode() + b"\n")
            self._commands.flush()
        except OSError:
            raise self._gone() from None
        phase = "data"
        while True:
            event = self._next(phase, on_event)
            if event.type == "phase":
                phase = event.data["phase"]
            elif event.type == "compiled":
                compiled.update(event.data)
                phase = "data"
            elif event.type == "resumed":
                for line in event.data["epochs"]:
                    epochs.setdefault(line["epoch"], {**line, "attempt": attempt})
            elif event.type == "epoch":
                epochs[event.data["epoch"]] = {**event.data, "attempt": attempt}
                phase = "train"
            on_event(event)
            if event.type in ("final", "error"):
                return event

    def _await_ready(self, on_event: OnEvent) -> Event:
        event = self._next("start", on_event)
        if event.type == "refused":
            raise LadderError(event.data["message"])
        on_event(event)
        return event

    def _spawn(self) -> None:
        self._check_cancelled()
        command_read, command_write = os.pipe()
        event_read, event_write = os.pipe()
        spec = self._spec
        argv = [sys.executable, "-m", "ladder.pool.worker", "--commands", str(command_read), "--events", str(event_write)]
        argv += ["--parent", str(os.getpid()), "--lowerer", spec.lowerer, "--jax-platform", spec.jax_platform]
        argv += ["--device", str(spec.device), *(["--fault", spec.fault] if spec.fault else [])]
        self.process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(spec.env),
            pass_fds=(command_read, event_write, self._slot.fd),
        )
        os.close(command_read)
        os.close(event_write)
        self._commands = os.fdopen(command_write, "wb")
        assert self.process.stdout is not None
        self._event_fd, self._output_fd = event_read, self.process.stdout.fileno()
        self._buffers = {self._event_fd: b"", self._output_fd: b""}
        self._pending: deque[bytes] = deque()
        self._open = {self._event_fd, self._output_fd}
        self._seq, self._ready = 0, None
        self._tail.clear()

    def _next(self, phase: str, on_event: OnEvent) -> Event:
        """The worker's next event; its output lines on the way become `log` events. Raises _Lost."""
        limit = self._limits[phase]
        deadline = time.monotonic() + limit
        while not self._pending:
            if self._event_fd not in self._open:
                raise self._gone()
            left = deadline - time.monotonic()
            readable, _, _ = select.select(list(self._open), [], [], max(left, 0))
            if not readable:
                raise _Lost("timeout", f"nothing from the worker for {limit:.0f} s in phase '{phase}'")
            for fd in readable:
                self._read(fd, on_event)
        line = self._pending.popleft()
        try:
            event = decode(line, self._seq)
        except BadEvent as error:
            raise _Lost("crashed", str(error)) from None
        self._seq += 1
        return event

    def _read(self, fd: int, on_event: OnEvent) -> None:
        data = os.read(fd, 1 << 16)
        if not data:
            self._open.discard(fd)
            return
        *lines, self._buffers[fd] = (self._buffers[fd] + data).split(b"\n")
        if fd == self._event_fd:
            self._pending.extend(lines)
            return
        for text in (line.decode(errors="replace").rstrip() for line in lines):
            if text:
                self._tail.append(text)
                on_event(Event("log", -1, time.time(), data={"text": text}))

    def _gone(self) -> _Lost:
        """The worker's end in words: its signal or exit status, and its last output line."""
        assert self.process is not None
        try:
            code = self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            return _Lost("crashed", "the worker closed its event pipe without ending")
        how = signal.Signals(-code).name if code < 0 else f"exit {code}"
        last = f"; its last line: {self._tail[-1]}" if self._tail else ""
        return _Lost("crashed", f"the worker died ({how}){last}")

    def kill(self) -> None:
        """Kill the worker and what it started. From any thread."""
        process = self.process
        if process is None:
            return
        try:
            family = psutil.Process(process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            family = []
        process.kill()
        for child in family:
            try:
                child.kill()
            except psutil.NoSuchProcess:
                continue

    def _bury(self) -> None:
        """End the worker: quietly when it is idle, else by force; close its pipes."""
        process, self.process = self.process, None
        if process is None:
            return
        try:
            self._commands.close()  # the worker leaves at the end of this pipe
        except OSError:
            pass  # a dead worker's pipe
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process = process
            self.kill()
            self.process = None
            process.wait(timeout=30)
        os.close(self._event_fd)
        assert process.stdout is not None
        process.stdout.close()
        self._ready = None

    def _check_cancelled(self) -> None:
        if self._pool.cancelled.is_set():
            raise Cancelled
