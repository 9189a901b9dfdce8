"""A run from request to record: refused before anything is recorded, resumed with nothing lost, honest on budgets."""

import errno
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ladder import paths, records, store
from ladder.errors import LadderError
from ladder.pool.events import Event
from ladder.records import FinalRow
from ladder.request import NotApplicable, Request, parse_seeds
from ladder.run import Run, drive
from ladder.train import checkpoint
from platforms import profile as profiles

Ask = Callable[..., Request]


@pytest.fixture
def ask(idx_folder: Path) -> Ask:
    """ask(**changes): a request for linear at two seeds, 30 epochs of two steps, on the learnable dataset."""

    def make(**changes: Any) -> Request:
        plain = Request("mnist", nets=("linear",), seeds=(1, 2), epochs=30, data_dir=str(idx_folder))
        return replace(plain, **changes)

    return make


def run(request: Request) -> tuple[list[str], records.Record]:
    said: list[str] = []
    outcome = drive(request, said.append)
    return said, records.read(outcome.record_path)


def partial() -> list[Path]:
    return list((paths.runs() / records.PARTIAL).glob("*"))


def scores(record: records.Record) -> dict[tuple[str, int], Any]:
    return {(f.net, f.seed): (f.status, f.correct, f.train_loss) for f in record.finals}


def test_a_run_leaves_a_complete_record_and_the_store_knows_it(ask: Ask) -> None:
    said, record = run(ask())
    assert record.state == "complete"
    assert [(f.net, f.seed, f.status) for f in record.finals] == [("linear", 1, "done"), ("linear", 2, "done")]
    assert record.manifest["word"] == "no-reference"
    assert {p.name for p in record.path.iterdir()} == {"manifest.json", "finals.tsv", "epochs.jsonl", "REPORT.md"}
    assert any("there can be no verdict" in line for line in said)
    with store.open() as opened:
        assert opened.refresh() == []
    assert partial() == []


def test_no_record_tells_a_path_of_this_machine(ask: Ask, idx_folder: Path) -> None:
    _, record = run(ask())
    told = "".join(p.read_text() for p in record.path.iterdir())
    for path in (idx_folder, paths.cache(), paths.runs(), Path.home(), Path(__file__).parents[1]):
        assert str(path) not in told


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rung": "mnisty"}, "there is no rung 'mnisty'"),
        ({"rung": "imagenet"}, "planned, not built yet"),
        ({"nets": ("vgg",)}, "no net 'vgg'; it has: linear, mlp, cnn"),
        ({"arms": ("adam",)}, "no arm 'adam'; it has: sgd"),
        ({"seeds": (1, 2, 1)}, "seed 1 is given twice"),
        ({"seeds": ()}, "no seed was given"),
        ({"epochs": 0}, "--epochs 0: at least 1"),
        ({"feed": "wired"}, "--feed 'wired': one of auto, resident, streamed"),
        ({"accumulate": 3}, "a batch of 128 cannot be accumulated in 3 equal parts"),
        ({"accumulate": 0}, "a batch of 128 cannot be accumulated in 0 equal parts"),
        ({"platform": "cuda-desktop-9"}, "no platform 'cuda-desktop-9'"),
        ({"lowerer": "tvm"}, "no lowerer 'tvm'"),
        ({"fault": "gremlin"}, "no fault 'gremlin'"),
        ({"fault": "stale"}, "write stale=PARAMETER"),
        ({"data_dir": "/nowhere"}, "/nowhere is not there"),
        ({"reference": "mnist-n31"}, "no reference 'mnist-n31'; near: mnist-n30"),
        ({"reference": "mnist-n30"}, "has another recipe than linear-sgd"),
    ],
)
def test_bad_input_is_one_error_and_no_half_record(ask: Ask, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(LadderError, match=message):
        drive(ask(**changes), lambda _: None)
    assert partial() == []


def test_a_rung_that_a_platform_cannot_run_is_refused_with_the_profiles_reason(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = replace(profiles.load("cpu"), not_applicable={"mnist": "one 8 GB board"})
    monkeypatch.setattr(profiles, "load", lambda name: board)
    with pytest.raises(NotApplicable, match="mnist is n/a on platform cpu: one 8 GB board"):
        drive(ask(), lambda _: None)
    assert partial() == []


def test_a_records_folder_that_cannot_be_written_is_one_error(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LADDER_DATABASE_URL", f"sqlite:///{paths.cache()}/ladder.db")
    monkeypatch.setenv("LADDER_RUNS", "/proc/ladder")
    with pytest.raises(LadderError, match="records folder /proc/ladder cannot be written"):
        drive(ask(), lambda _: None)


def test_streamed_and_resident_runs_end_the_same_to_the_bit(ask: Ask) -> None:
    said, streamed = run(ask(feed="streamed", epochs=3))
    assert any(line.startswith("feed: streamed, as asked") for line in said)
    assert [p["streamed"] for p in streamed.manifest["programs"].values()] == [True]
    assert scores(streamed) == scores(run(ask(epochs=3))[1])


def test_a_run_in_parts_says_so_in_its_recipe_and_in_the_command_that_runs_it_again(ask: Ask) -> None:
    _, record = run(ask(accumulate=4, epochs=2, seeds=(1,)))
    assert [r["accumulate"] for r in record.manifest["recipes"]] == [4]
    assert "--accumulate 4`" in (record.path / records.REPORT).read_text()


def test_a_fault_is_named_in_every_line_and_cannot_be_kept(ask: Ask) -> None:
    _, record = run(ask(fault="scaled-gradient=2"))
    assert {f.lowerer for f in record.finals} == {"faulty(xla, scaled-gradient=2)"}
    with pytest.raises(LadderError, match="had the fault 'scaled-gradient=2' injected"):
        records.keep(record, paths.runs())


def test_a_nan_is_diverged_says_where_and_stops_no_other_trial(ask: Ask) -> None:
    _, record = run(ask(fault="nan=3"))
    assert [(f.status, f.correct) for f in record.finals] == [("diverged", None), ("diverged", None)]
    assert "epoch" in record.finals[0].note
    assert record.manifest["word"] == "diverged"


def test_a_trial_that_cannot_finish_in_the_budget_is_not_run(ask: Ask) -> None:
    said, record = run(ask(deadline=time.time() - 1))
    assert {f.status for f in record.finals} == {"not-run"}
    assert "the budget has 0 s left" in record.finals[0].note
    assert record.manifest["word"] == "not-run"
    assert not any("first step" in line for line in said)


def test_the_budget_is_looked_at_when_a_trials_turn_comes_and_not_when_it_is_queued(ask: Ask) -> None:
    """All trials are queued at once; the budget ends while the first one runs."""
    request = ask(seeds=(1, 2, 3), deadline=time.time() + 3600)

    def end_the_budget(event: Event) -> None:
        if event.type == "first_step":
            object.__setattr__(request, "deadline", time.time() - 1)  # time passes

    with Run.open(request, lambda _: None) as opened:
        rows = [future.result(60) for future in [opened.submit(t.id, end_the_budget) for t in opened.trials]]
    assert [row.status for row in rows] == ["done", "not-run", "not-run"]
    assert "the budget has 0 s left; a trial of linear-sgd takes" in rows[1].note


INTERRUPTED = """
import sys, time
from ladder.request import Request
from ladder.run import drive
request = Request("mnist", nets=("linear",), seeds=(1, 2, 3), epochs=30, data_dir=sys.argv[1])
drive(request, lambda line: print(line, flush=True))
"""


def killed_in_the_second_trial(idx_folder: Path) -> str:
    """Start a run in a process of its own and kill -9 it when the second trial has an epoch; what it said."""
    child = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(idx_folder)], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    assert child.stdout is not None
    said = ""
    for line in child.stdout:
        said += line
        if "linear-sgd-s2: epoch" in line:
            child.send_signal(signal.SIGKILL)
            break
    child.stdout.close()
    child.wait(timeout=30)
    return said


def test_a_killed_run_goes_on_from_where_it_was_and_ends_the_same(ask: Ask, idx_folder: Path) -> None:
    request = ask(seeds=(1, 2, 3))
    _, undisturbed = run(request)
    killed_in_the_second_trial(idx_folder)
    (left,) = partial()
    assert records.read(left).state == "interrupted"
    assert [f.seed for f in records.read(left).finals] == [1]
    said, record = run(replace(request, wait_s=30))
    assert any("resuming interrupted run" in line for line in said)
    assert any("3 trials, 1 already done" in line for line in said)
    assert any("linear-sgd-s2: resumed after epoch" in line for line in said)
    assert scores(record) == scores(undisturbed)
    assert [(e.seed, e.epoch) for e in sorted(record.epochs, key=lambda e: (e.seed, e.epoch))] == [
        (seed, epoch) for seed in (1, 2, 3) for epoch in range(1, 31)
    ]
    assert record.manifest["uuid"] == left.name


def test_an_epoch_that_was_committed_and_never_told_gets_its_line(ask: Ask, idx_folder: Path) -> None:
    """Killed between the checkpoint and the record: as if the second trial's lines had not been written."""
    killed_in_the_second_trial(idx_folder)
    (left,) = partial()
    lines = (left / records.EPOCHS).read_text().splitlines(keepends=True)
    told = [line for line in lines if '"seed": 1' in line]
    assert len(told) < len(lines)
    (left / records.EPOCHS).write_text("".join(told))
    said, record = run(ask(seeds=(1, 2, 3), wait_s=30))
    assert any("linear-sgd-s2: resumed after epoch" in line for line in said)
    assert sorted(e.epoch for e in record.epochs if e.seed == 2) == list(range(1, 31))


@pytest.mark.parametrize("damage", [lambda whole: whole[:-500], lambda whole: b""], ids=["truncated", "empty"])
def test_a_damaged_checkpoint_costs_an_epoch_is_told_and_changes_nothing(
    ask: Ask, idx_folder: Path, damage: Callable[[bytes], bytes]
) -> None:
    request = ask(seeds=(1, 2, 3), wait_s=30)
    _, undisturbed = run(request)
    killed_in_the_second_trial(idx_folder)
    newest, _ = checkpoint.files(next((paths.cache() / "checkpoints").glob("*/*-s2.npz")))
    newest.write_bytes(damage(newest.read_bytes()))
    said, record = run(request)
    (told,) = [line for line in said if "is damaged" in line]
    assert told.startswith(f"linear-sgd-s2: checkpoint {newest.name} is damaged")
    assert re.search(r"going on from the one before it, of epoch \d+$|starting anew$", told)
    assert scores(record) == scores(undisturbed)
    assert not list((paths.cache() / "checkpoints").glob("*/*"))


def test_a_disk_too_full_for_the_record_ends_the_run_in_words_and_the_same_command_goes_on(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, undisturbed = run(ask())
    append, written = vars(records)["_append"], list[str]()

    def full(path: Path, text: str) -> None:
        if len(written) == 40:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written.append(text)
        append(path, text)

    with monkeypatch.context() as patch:
        patch.setattr(records, "_append", full)
        with pytest.raises(LadderError, match=r"cannot be written: .*: No space left on device") as told:
            drive(ask(), lambda _: None)
    assert told.value.hint == "make room, then run the same command again: finished trials are kept"
    said, record = run(ask(wait_s=30))
    assert any("2 trials, 1 already done" in line for line in said)
    assert scores(record) == scores(undisturbed)


def test_a_damaged_partial_record_keeps_no_run_from_starting(ask: Ask) -> None:
    damaged = {"torn": "{", "foreign": "[]", "old": '{"schema": 1, "name": "x", "uuid": "y", "started": "2026"}'}
    for name, content in damaged.items():
        folder = paths.runs() / records.PARTIAL / name
        folder.mkdir(parents=True)
        (folder / records.MANIFEST).write_text(content)
    said, record = run(ask(seeds=(1,)))
    assert record.state == "complete"
    assert sum("is not resumed: it is damaged" in line for line in said) == 3


def test_fresh_leaves_the_interrupted_run_as_it_is(ask: Ask, idx_folder: Path) -> None:
    killed_in_the_second_trial(idx_folder)
    (left,) = partial()
    said, record = run(ask(seeds=(1, 2, 3), fresh=True, wait_s=30))
    assert any("is left as it is (--fresh)" in line for line in said)
    assert (record.manifest["uuid"] != left.name, left.is_dir()) == (True, True)


def test_another_program_starts_anew_and_says_why(ask: Ask, idx_folder: Path) -> None:
    killed_in_the_second_trial(idx_folder)
    (left,) = partial()
    manifest = (left / records.MANIFEST).read_text()
    sha = next(iter(records.read(left).manifest["programs"].values()))["sha"]
    (left / records.MANIFEST).write_text(manifest.replace(sha, "0" * 64))
    said, record = run(ask(seeds=(1, 2, 3), wait_s=30))
    assert any("is not resumed: its programs differ" in line for line in said)
    assert record.manifest["uuid"] != left.name


def test_a_run_left_without_finish_is_interrupted(ask: Ask) -> None:
    with Run.open(ask(), lambda _: None) as opened:
        row = opened.execute("linear-sgd-s1", lambda _: None)
        assert records.read(opened.record_path).state == "running"
    assert isinstance(row, FinalRow)
    assert records.read(partial()[0]).state == "interrupted"


@pytest.mark.parametrize(("text", "seeds"), [("1-3", (1, 2, 3)), ("1,2,9", (1, 2, 9)), ("3-4, 1", (3, 4, 1))])
def test_seeds_are_read(text: str, seeds: tuple[int, ...]) -> None:
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "a", "3-1", "1,,2", "1-2-3", "-1", "1-99999", "1-3,2"])
def test_bad_seeds_are_refused_in_words(text: str) -> None:
    with pytest.raises(LadderError, match="seed"):
        parse_seeds(text)
