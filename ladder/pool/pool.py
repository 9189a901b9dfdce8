"""The pool: a thread per device slot owns that slot's worker process, runs trials on it, and survives its death.

The kernel kills a worker when the *thread* that spawned it ends, so each worker is spawned by its slot's own thread,
which lives as long as the pool. The pool itself is owned by the flow's (or the command's) main thread, never by a task.
"""

import contextlib
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
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import psutil

from ladder import children
from ladder.errors import LadderError
from ladder.pool.events import BadEvent, Event, decode
from ladder.pool.slot import Slot

Status = Literal["done", "diverged", "crashed", "timeout", "unsupported", "not-run"]
OnEvent = Callable[[Event], None]

# Seconds that a phase may last (start, compile, data, first step) or be silent (train, eval: an event comes with every
# step or test batch that takes longer than a second) before the worker is killed. A runtime may compile, choose its
# kernels and map its memory within the first step: it has the compiler's time.
LIMITS: dict[str, float] = {
    "start": 120.0,
    "compile": 1800.0,
    "data": 300.0,
    "first step": 1800.0,
    "train": 300.0,
    "eval": 300.0,
}
BARREN_ATTEMPTS = 2  # consecutive attempts without a completed epoch before a trial is given up
LAST_LINES = 20
LINE_BYTES = 2000  # of a line of output: what is longer is cut
POLL_S = 0.5  # how soon a cancel or a silent death is noticed, at the latest

_NEXT_PHASE = {"compiled": "data", "first_step": "train", "epoch": "train"}


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

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(status, message)
        self.status: Status = status
        self.message = message


class Cancelled(Exception):
    """The pool was cancelled, or closed, while the trial ran or waited."""


Item = tuple[Job, OnEvent, Callable[[], str], "Future[Result]"]


class Pool:
    """Device workers for a run. Thread-safe; use as a context manager from the main thread."""

    def __init__(self, slots: list[tuple[Slot, WorkerSpec]], limits: Mapping[str, float] | None = None) -> None:
        self._queue: queue.PriorityQueue[tuple[int, int, Item | None]] = queue.PriorityQueue()
        self._count = itertools.count()
        self._lock, self._closed = threading.Lock(), False
        self.cancelled = threading.Event()
        self._threads = [_SlotThread(self, slot, spec, {**LIMITS, **(limits or {})}) for slot, spec in slots]
        self._slots = [slot for slot, _ in slots]
        for thread in self._threads:
            thread.start()

    def submit(self, job: Job, on_event: OnEvent, refuse: Callable[[], str] = lambda: "") -> "Future[Result]":
        """Queue a trial; `on_event` is called from the slot's thread.

        `refuse` is asked when the trial's turn comes: a reason it gives makes the trial `not-run`. The future raises
        Cancelled after `cancel` or `close`, LadderError when the worker cannot work at all, and what `on_event` raised.
        """
        future: Future[Result] = Future()
        with self._lock:
            if self._closed:
                future.set_exception(Cancelled("the pool is closed"))
            else:
                self._queue.put((job.index, next(self._count), (job, on_event, refuse, future)))
        return future

    def take(self) -> Item | None:
        """The next job for a slot thread, or None at the end."""
        return self._queue.get()[2]

    def cancel(self) -> None:
        """Kill the workers now; running and waiting trials raise Cancelled."""
        self.cancelled.set()
        for thread in self._threads:
            thread.kill()

    def workers(self) -> list[int]:
        """The workers' process ids."""
        return [process.pid for t in self._threads if (process := t.process) is not None]

    def close(self) -> None:
        """End the workers after what is queued, and give the slots back."""
        with self._lock:
            if not self._closed:
                self._closed = True
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


class _Trial:
    """What is known of a running trial, over its attempts."""

    def __init__(self, job: Job, on_event: OnEvent) -> None:
        self.job, self.on_event = job, on_event
        self.epochs: dict[int, dict[str, Any]] = {}
        self.compiled: dict[str, Any] = {}
        self.progress = 0  # epochs completed by this trial's attempts, not those of an earlier run

    def note(self, event: Event, attempt: int) -> None:
        """Keep an event's epochs and compile times. Raises KeyError or TypeError for one without its data."""
        if event.type == "compiled":
            self.compiled.update(event.data)
        elif event.type == "epoch":
            self._add(event.data, attempt, counts=True)
        elif event.type == "resumed":
            for line in event.data["epochs"]:
                if line["epoch"] not in self.epochs:  # committed by an attempt that died before it could tell
                    self._add(line, max(attempt - 1, 1), counts=attempt > 1)

    def _add(self, line: dict[str, Any], attempt: int, *, counts: bool) -> None:
        self.progress += counts and line["epoch"] not in self.epochs
        self.epochs[line["epoch"]] = {**line, "attempt": attempt}

    def result(self, status: Status, message: str, attempts: int, final: dict[str, Any] | None = None) -> Result:
        lines = tuple(self.epochs[n] for n in sorted(self.epochs))
        return Result(status, message, attempts, lines, final or {}, self.compiled)


class _SlotThread(threading.Thread):
    """Owns one slot's worker: spawns it, feeds it, watches it, buries it."""

    def __init__(self, pool: Pool, slot: Slot, spec: WorkerSpec, limits: Mapping[str, float]) -> None:
        super().__init__(name=f"slot {slot.name}", daemon=True)
        self._pool, self._slot, self._spec, self._limits = pool, slot, spec, limits
        self.process: subprocess.Popen[bytes] | None = None
        self._ready: Event | None = None
        self._tail: deque[str] = deque(maxlen=LAST_LINES)

    def run(self) -> None:
        """Take trials to the end of the queue. Nothing ends this thread before: a waiting trial would wait for ever."""
        with contextlib.suppress(LadderError, Cancelled):  # told to the first job, which tries again
            self._spawn()  # importing jax overlaps with the parent's preparations
        while (item := self._pool.take()) is not None:
            job, on_event, refuse, future = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                reason = refuse()
                result = Result("not-run", reason, 0, ()) if reason else self._supervise(_Trial(job, on_event))
            except BaseException as error:
                self._bury(by_force=True)  # whatever it still does belongs to this trial
                future.set_exception(error)
            else:
                future.set_result(result)
        self._bury()

    def _supervise(self, trial: _Trial) -> Result:
        """Attempts until the trial ends, or BARREN_ATTEMPTS in a row complete no epoch."""
        barren = 0
        for attempt in itertools.count(1):
            before = trial.progress
            try:
                last = self._attempt(trial, attempt)
            except _Lost as lost:
                self._bury(by_force=True)
                self._check_cancelled()
                barren = 0 if trial.progress > before else barren + 1
                told = {"status": lost.status, "message": lost.message, "attempt_lost": attempt}
                trial.on_event(Event("lost", -1, time.time(), trial.job.trial, attempt, told))
                if barren >= BARREN_ATTEMPTS:
                    return trial.result(lost.status, lost.message, attempt)
                continue
            if last.type == "error":
                return trial.result(last.data["status"], last.data["message"], attempt)
            return trial.result("done", "", attempt, last.data)
        raise AssertionError("unreachable")

    def _attempt(self, trial: _Trial, attempt: int) -> Event:
        """One attempt: the trial's last event. Raises _Lost."""
        job, on_event = trial.job, trial.on_event
        if self.process is None:
            self._spawn()
        if self._ready is None:
            self._ready = self._await_ready(on_event)
        self._send({**{k: v for k, v in asdict(job).items() if k != "index"}, "attempt": attempt})
        phase = "data"
        while True:
            event = self._next(phase, on_event)
            if (event.trial, event.attempt) != (job.trial, attempt):
                raise _Lost("crashed", f"an event of trial '{event.trial}', attempt {event.attempt}")
            try:
                trial.note(event, attempt)
                phase = event.data["phase"] if event.type == "phase" else _NEXT_PHASE.get(event.type, phase)
            except (KeyError, TypeError) as error:
                raise _Lost("crashed", f"a broken {event.type} event: {error!r}") from None
            if phase not in self._limits:
                raise _Lost("crashed", f"there is no phase '{phase}'")
            on_event(event)
            if event.type in ("final", "error"):
                return event

    def _send(self, command: dict[str, Any]) -> None:
        try:
            self._commands.write(json.dumps(command).encode() + b"\n")
            self._commands.flush()
        except OSError:
            raise self._gone() from None

    def _await_ready(self, on_event: OnEvent) -> Event:
        event = self._next("start", on_event)
        if event.type == "refused":
            raise LadderError(event.data["message"])
        on_event(event)
        return event

    def _spawn(self) -> None:
        self._check_cancelled()
        spec, slot = self._spec, self._slot.fd
        command_read, command_write = os.pipe()
        event_read, event_write = os.pipe()
        argv = children.command("ladder.pool.worker")
        argv += ["--commands", str(command_read), "--events", str(event_write), "--slot", str(slot)]
        argv += ["--parent", str(os.getpid()), "--lowerer", spec.lowerer, "--jax-platform", spec.jax_platform]
        argv += ["--device", str(spec.device), *(["--fault", spec.fault] if spec.fault else [])]
        try:
            self.process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=children.environment(spec.env),
                pass_fds=(command_read, event_write, slot),
            )
        except OSError as error:
            os.close(command_write)
            os.close(event_read)
            raise LadderError(f"the worker cannot be started: {error}", "free -h; ulimit -u") from error
        finally:
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
        self._check_cancelled()  # a cancel that came before there was a process to kill

    def _next(self, phase: str, on_event: OnEvent) -> Event:
        """The worker's next event; its output lines on the way become `log` events. Raises _Lost or Cancelled."""
        limit = self._limits[phase]
        deadline = time.monotonic() + limit
        while not self._pending:
            self._check_cancelled()
            if self._event_fd not in self._open:
                raise self._gone()
            left = deadline - time.monotonic()
            if left <= 0:  # output alone is no sign of life
                raise _Lost("timeout", f"nothing from the worker for {limit:.0f} s in phase '{phase}'")
            readable = self._readable(min(left, POLL_S))
            if not readable and self.process is not None and self.process.poll() is not None:
                raise self._gone()  # a child of its own may hold its pipes open
            for fd in readable:
                self._read(fd, on_event)
        line = self._pending.popleft()
        try:
            event = decode(line, self._seq)
        except BadEvent as error:
            raise _Lost("crashed", str(error)) from None
        self._seq += 1
        return event

    def _readable(self, wait_s: float) -> list[int]:
        poller = select.poll()  # select.select takes no descriptor above 1023
        for fd in self._open:
            poller.register(fd, select.POLLIN)
        return [fd for fd, _ in poller.poll(1000 * wait_s)]

    def _read(self, fd: int, on_event: OnEvent) -> None:
        data = os.read(fd, 1 << 16)
        if not data:
            self._open.discard(fd)
            data = b"\n" if self._buffers[fd] and fd == self._output_fd else b""  # the last words of a dying worker
        *lines, self._buffers[fd] = (self._buffers[fd] + data).split(b"\n")
        if fd == self._event_fd:
            self._pending.extend(lines)
            return
        if len(self._buffers[fd]) > LINE_BYTES:
            lines, self._buffers[fd] = [*lines, self._buffers[fd]], b""
        for text in (line[:LINE_BYTES].decode(errors="replace").rstrip() for line in lines):
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
        while self._output_fd in self._open and self._readable(0):
            self._read(self._output_fd, lambda _: None)
        how = signal.Signals(-code).name if code < 0 else f"exit {code}"
        last = f"; its last line: {self._tail[-1]}" if self._tail else ""
        return _Lost("crashed", f"the worker died ({how}){last}")

    def kill(self) -> None:
        """Kill the worker and what it started. From any thread."""
        process = self.process
        if process is None or process.poll() is not None:
            return
        try:
            family = psutil.Process(process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            family = []
        process.kill()
        for child in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()

    def _bury(self, *, by_force: bool = False) -> None:
        """End the worker, quietly when it is idle, else by force, and close its pipes."""
        if (process := self.process) is None:
            return
        if by_force:
            self.kill()
        with contextlib.suppress(OSError):  # a dead worker's pipe
            self._commands.close()  # the worker leaves at the end of this pipe
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):  # stuck in the kernel; the next one will say so
                process.wait(timeout=30)
        self.process = self._ready = None
        os.close(self._event_fd)
        assert process.stdout is not None
        process.stdout.close()

    def _check_cancelled(self) -> None:
        if self._pool.cancelled.is_set():
            raise Cancelled("the pool was cancelled")
