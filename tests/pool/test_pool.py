"""The pool survives its workers' deaths: what a kill costs, what is told, and that nothing waits for ever."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil
import pytest

from ladder.errors import LadderError
from ladder.pool.events import Event
from ladder.pool.pool import BARREN_ATTEMPTS, LIMITS, Cancelled, Job, Pool, Result
from ladder.pool.slot import Busy, Slot

REPO = Path(__file__).resolve().parents[2]
WAIT = 60.0
StartPool = Callable[..., Pool]
MakeJob = Callable[..., Job]
Undisturbed = Callable[..., list[dict[str, Any]]]


def lines(result: Result) -> list[dict[str, Any]]:
    return [{k: v for k, v in line.items() if k not in ("seconds", "attempt")} for line in result.epochs]


def quiet(event: Event) -> None:
    del event


def killer(pool: Pool, number: int, when: Callable[[Event], bool], heard: list[Event]) -> Callable[[Event], None]:
    """on_event that sends a signal to the worker at each event for which `when` holds."""

    def on_event(event: Event) -> None:
        heard.append(event)
        if when(event):
            os.kill(pool.workers()[0], number)

    return on_event


def test_seeds_share_one_worker_and_one_compilation(
    start: StartPool, job: MakeJob, heard: list[Event], undisturbed: Undisturbed
) -> None:
    with start() as pool:
        futures = [pool.submit(job(seed=seed, index=seed), heard.append) for seed in (1, 2, 3)]
        results = [future.result(WAIT) for future in futures]
    assert [result.status for result in results] == ["done"] * 3
    assert [lines(result) for result in results] == [undisturbed("mlp", seed, 3) for seed in (1, 2, 3)]
    assert [event.type for event in heard].count("compiled") == 1
    assert [event.type for event in heard].count("ready") == 1
    assert [event.seq for event in heard if event.seq >= 0] == sorted({e.seq for e in heard if e.seq >= 0})
    assert [e.trial for e in heard if e.type == "final"] == ["mlp-s1", "mlp-s2", "mlp-s3"]
    assert all(event.line() is not None for event in heard)


def test_a_killed_worker_costs_one_attempt_and_no_bit_of_the_result(
    start: StartPool, job: MakeJob, heard: list[Event], undisturbed: Undisturbed
) -> None:
    """Killed in its first epoch; the next worker after the third, mid-epoch both times."""
    pool = start()

    def when(event: Event) -> bool:
        return (event.attempt, event.type, event.data.get("epoch")) in ((1, "first_step", 1), (2, "epoch", 3))

    result = pool.submit(job(epochs=20), killer(pool, signal.SIGKILL, when, heard)).result(WAIT)
    assert (result.status, result.attempts) == ("done", 3)
    assert lines(result) == undisturbed("mlp", 1, 20)
    assert [line["attempt"] for line in result.epochs][:3] == [2, 2, 2]
    assert result.epochs[-1]["attempt"] == 3
    assert [e.line() for e in heard if e.type == "lost"] == [
        f"mlp-s1: attempt {n} crashed: the worker died (SIGKILL)" for n in (1, 2)
    ]


def test_a_worker_that_always_dies_is_given_up_after_two_barren_attempts_naming_the_signal(
    start: StartPool, job: MakeJob, heard: list[Event]
) -> None:
    pool = start()
    killed = killer(pool, signal.SIGSEGV, lambda event: event.type == "first_step", heard)
    result = pool.submit(job(epochs=500), killed).result(WAIT)
    assert (result.status, result.attempts) == ("crashed", BARREN_ATTEMPTS)
    assert "SIGSEGV" in result.message


def test_an_abort_after_an_epoch_is_retried_from_its_checkpoint_and_then_given_up(
    start: StartPool, job: MakeJob, heard: list[Event]
) -> None:
    """It aborts at step 20, in the second epoch, whenever it gets there: one fruitful attempt, then two barren ones."""
    result = start(fault="abort=20").submit(job(), heard.append).result(WAIT)
    assert (result.status, result.attempts) == ("crashed", 3)
    assert "SIGABRT" in result.message
    assert [line["epoch"] for line in result.epochs] == [1]
    assert [e.attempt for e in heard if e.type == "resumed"] == [2, 3]


def test_an_earlier_runs_epochs_do_not_count_as_this_attempts(
    start: StartPool, job: MakeJob, heard: list[Event]
) -> None:
    first = start()
    third = Future[None]()
    cut = first.submit(
        job("linear", epochs=300),
        lambda e: third.set_result(None) if e.type == "epoch" and e.data["epoch"] == 3 else None,
    )
    third.result(WAIT)
    first.cancel()
    with pytest.raises(Cancelled):
        cut.result(WAIT)
    first.close()
    pool = start()
    killed = killer(pool, signal.SIGKILL, lambda event: event.type == "resumed", heard)
    result = pool.submit(job("linear", epochs=300), killed).result(WAIT)
    assert (result.status, result.attempts) == ("crashed", BARREN_ATTEMPTS)
    assert len(result.epochs) >= 3


def test_a_hang_times_out_naming_the_phase_even_while_the_worker_chatters(
    start: StartPool, job: MakeJob, heard: list[Event], injected: Callable[[str], Path]
) -> None:
    chatter = injected(
        "import os, threading, time\n"
        "def chatter():\n"
        "    while True: os.write(1, b'noise without end '); os.write(1, b'{\"v\": 1}\\n'); time.sleep(0.001)\n"
        "threading.Thread(target=chatter, daemon=True).start()\n"
    )
    began = time.monotonic()
    pool = start(fault="hang=20", limits={"train": 1.0}, code=chatter)
    result = pool.submit(job(), heard.append).result(WAIT)
    assert (result.status, result.attempts) == ("timeout", 3)
    assert result.message == "nothing from the worker for 1 s in phase 'train'"
    assert [line["epoch"] for line in result.epochs] == [1]
    assert time.monotonic() - began < WAIT


SLOW_START = """
import time
from ladder.train import loop
made = loop.initial_state
def initial_state(*arguments):
    time.sleep(2.5)
    return made(*arguments)
loop.initial_state = initial_state
"""


def test_the_first_step_may_take_longer_than_a_stall_and_has_its_own_deadline(
    start: StartPool, job: MakeJob, injected: Callable[[str], Path]
) -> None:
    """A runtime that compiles within its first step; then one that never comes back from it."""
    assert LIMITS["first step"] == LIMITS["compile"]
    pool = start(limits={"train": 1.0}, code=injected(SLOW_START))
    assert pool.submit(job(), quiet).result(WAIT).status == "done"
    pool.close()
    hung = start(fault="hang=1", limits={"first step": 1.0}).submit(job(), quiet).result(WAIT)
    assert (hung.status, hung.attempts) == ("timeout", BARREN_ATTEMPTS)
    assert hung.message == "nothing from the worker for 1 s in phase 'first step'"


def test_a_disk_too_full_for_a_checkpoint_costs_the_resume_point_and_not_the_trial(
    start: StartPool, job: MakeJob, heard: list[Event], injected: Callable[[str], Path], undisturbed: Undisturbed
) -> None:
    """A real limit on the size of the worker's files, under the checkpoint's."""
    full = injected("import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))")
    result = start(code=full).submit(job("linear"), heard.append).result(WAIT)
    assert (result.status, lines(result)) == ("done", undisturbed("linear", 1, 3))
    assert [e.line() for e in heard if e.type == "checkpoint"] == [
        f"linear-s1: no checkpoint after epoch {n}: [Errno 27] File too large; the trial goes on" for n in (1, 2, 3)
    ]


def test_a_stale_checkpoint_in_a_trials_place_is_not_resumed_and_what_differs_is_told(
    start: StartPool, job: MakeJob, heard: list[Event], undisturbed: Undisturbed
) -> None:
    """That of another seed, then of another recipe, whole and under the name that the trial's own would have."""
    pool = start()
    pool.submit(job("linear", seed=1), quiet).result(WAIT)
    [stale] = Path(job().checkpoint).parent.glob("linear-s1.npz")
    other_seed = job("linear", seed=2, name="linear-s1", index=1)
    other_recipe = job("linear", seed=2, name="linear-s1", index=2, epochs=5)
    assert {other_seed.checkpoint, other_recipe.checkpoint} == {str(stale)}
    for wanted, epochs in ((other_seed, 3), (other_recipe, 5)):
        result = pool.submit(wanted, heard.append).result(WAIT)
        assert lines(result) == undisturbed("linear", 2, epochs)
    first, second = [e.line() for e in heard if e.type == "checkpoint"]
    assert "is of another trial (seed 1 is not 2)" in first
    assert "is of another trial (recipe_hash h1:" in second
    assert not [e for e in heard if e.type == "resumed"]


def test_garbage_on_stdout_is_a_log_and_disturbs_no_event(
    start: StartPool, job: MakeJob, heard: list[Event], injected: Callable[[str], Path], undisturbed: Undisturbed
) -> None:
    garbage = injected(
        "import os, atexit\n"
        "for fd in (1, 2): os.write(fd, b'\\xff\\xfe\\x00{\"v\":1,\"seq\":0}\\n' + b'x' * 300_000 + b'\\nlast')\n"
    )
    result = start(code=garbage).submit(job(), heard.append).result(WAIT)
    assert lines(result) == undisturbed("mlp", 1, 3)
    told = [event.data["text"] for event in heard if event.type == "log"]
    assert any('{"v":1,"seq":0}' in text for text in told)
    assert max(map(len, told)) <= 2000  # a log, not a dump


@pytest.mark.parametrize(
    ("instead", "told"),
    [
        ("b''", "events were lost"),
        ("old(dataclasses.replace(self, trial='another'))", "an event of trial 'another'"),
        ("old(dataclasses.replace(self, type='phase', data={'phase': 'lunch'}))", "phase 'lunch'"),
    ],
)
def test_a_bad_event_ends_the_attempt_in_words(
    start: StartPool, job: MakeJob, injected: Callable[[str], Path], instead: str, told: str
) -> None:
    """An event of every attempt is lost or replaced."""
    bad = injected(
        "import dataclasses\n"
        "from ladder.pool.events import Event\n"
        "old = Event.encode\n"
        f"def encode(self): return {instead} if self.type == 'compiled' else old(self)\n"
        "Event.encode = encode\n"
    )
    result = start(code=bad).submit(job("linear", epochs=1), quiet).result(WAIT)
    assert result.status == "crashed"
    assert told in result.message


def test_a_listener_that_fails_ends_its_own_trial_and_no_other(
    start: StartPool, job: MakeJob, undisturbed: Undisturbed
) -> None:
    """The worker still runs the first trial then: its events must not be taken for the second's."""
    pool = start()

    def full(event: Event) -> None:
        if event.type == "first_step":
            raise OSError(28, "No space left on device")

    first = pool.submit(job(seed=1, index=0, epochs=50), full)
    second = pool.submit(job(seed=2, index=1), quiet)
    with pytest.raises(OSError, match="No space left"):
        first.result(WAIT)
    assert lines(second.result(WAIT)) == undisturbed("mlp", 2, 3)


def test_cancel_ends_everything_within_two_seconds(start: StartPool, job: MakeJob) -> None:
    pool = start(fault="hang=3")
    running = Future[None]()
    futures = [
        pool.submit(job(index=0), lambda e: running.set_result(None) if e.type == "first_step" else None),
        pool.submit(job(index=1, seed=2), quiet),
    ]
    running.result(WAIT)
    [worker] = pool.workers()
    began = time.monotonic()
    pool.cancel()
    for future in futures:
        with pytest.raises(Cancelled):
            future.result(WAIT)
    pool.close()
    assert time.monotonic() - began < 2
    assert not psutil.pid_exists(worker)
    Slot.acquire("cpu-0", {}, 0, quiet).close()  # type: ignore[arg-type]


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.3])
def test_cancel_while_the_worker_starts_ends_too(start: StartPool, job: MakeJob, delay: float) -> None:
    pool = start()
    future = pool.submit(job(epochs=1000), quiet)
    time.sleep(delay)
    began = time.monotonic()
    pool.cancel()
    with pytest.raises(Cancelled):
        future.result(WAIT)
    pool.close()
    assert time.monotonic() - began < 2


def test_a_future_that_its_caller_cancels_is_skipped(start: StartPool, job: MakeJob) -> None:
    pool = start()
    first = pool.submit(job("linear", index=0, epochs=1), quiet)
    skipped = pool.submit(job("linear", index=1, seed=2), quiet)
    last = pool.submit(job("linear", index=2, seed=3, epochs=1), quiet)
    assert skipped.cancel()
    assert first.result(WAIT).status == last.result(WAIT).status == "done"


def test_a_job_after_close_is_told_so_and_closing_twice_is_harmless(start: StartPool, job: MakeJob) -> None:
    pool = start()
    pool.cancel()
    pool.close()
    marker = os.open(os.devnull, os.O_RDONLY)  # likely the slot's old number: a second close must not take it
    pool.close()
    os.fstat(marker)
    os.close(marker)
    with pytest.raises(Cancelled, match="closed"):
        pool.submit(job(), quiet).result(1)


def test_a_platform_that_is_not_there_is_one_clear_error_for_every_job(start: StartPool, job: MakeJob) -> None:
    pool = start(jax_platform="nonsense")
    for future in [pool.submit(job(index=i), quiet) for i in range(2)]:
        with pytest.raises(LadderError, match="jax platform 'nonsense' did not start"):
            future.result(WAIT)


def test_a_worker_that_cannot_be_started_at_all_is_an_error_for_every_job(
    start: StartPool, job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    before = len(os.listdir("/proc/self/fd"))
    pool = start()
    for future in [pool.submit(job(index=i), quiet) for i in range(3)]:
        with pytest.raises(LadderError, match="the worker cannot be started"):
            future.result(WAIT)
    pool.close()
    assert len(os.listdir("/proc/self/fd")) <= before


def test_workers_that_die_at_once_are_given_up_and_leak_no_descriptor(
    start: StartPool, job: MakeJob, injected: Callable[[str], Path]
) -> None:
    """Twenty spawns: ten jobs, two attempts each."""
    dying = injected("import os, sys; print('no such library: libgpu.so', flush=True); os._exit(3)")
    before = len(os.listdir("/proc/self/fd"))
    pool = start(code=dying)
    futures = [pool.submit(job(index=i), quiet) for i in range(10)]
    results = [future.result(WAIT) for future in futures]
    pool.close()
    assert {(r.status, r.attempts) for r in results} == {("crashed", 2)}
    assert {r.message for r in results} == {"the worker died (exit 3); its last line: no such library: libgpu.so"}
    assert len(os.listdir("/proc/self/fd")) <= before


def test_a_killed_parent_takes_its_worker_along_and_frees_the_slot(job: MakeJob, tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "import json, os, sys, time\n"
        "from ladder.pool.pool import Job, Pool, WorkerSpec\n"
        "from ladder.pool.slot import Slot\n"
        "slot = Slot.acquire('cpu-0', {'run': 'doomed'}, 0, print)\n"
        "pool = Pool([(slot, WorkerSpec('xla', 'cpu', 0, dict(os.environ), 'hang=2'))])\n"
        "tell = lambda e: print(e.type, pool.workers()[0], flush=True)\n"
        "pool.submit(Job(**json.loads(sys.argv[1])), tell).result()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, str(script), json.dumps(asdict(job()))],
        env={**os.environ, "PYTHONPATH": str(REPO)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    with parent:
        worker = next(int(line.split()[1]) for line in parent.stdout if line.startswith("first_step"))
        with pytest.raises(Busy, match=rf"device slot cpu-0 is taken by process {parent.pid} \(doomed\) since 2"):
            Slot.acquire("cpu-0", {}, 0, lambda _: None)
        parent.kill()
        began = time.monotonic()
        Slot.acquire("cpu-0", {}, 2, lambda _: None).close()  # free only when parent and worker are gone
        while psutil.pid_exists(worker) and psutil.Process(worker).status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() - began < 2
            time.sleep(0.01)
