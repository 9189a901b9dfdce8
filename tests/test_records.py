"""Records are evidence: whole lines, never lost to a kill, never two under one name, and nothing private in them."""

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from ladder import records
from ladder.errors import LadderError
from ladder.records import EPOCHS, FINALS, MANIFEST, OWNER, EpochRow, FinalRow, TrialStatus, Writer

REPO = Path(__file__).resolve().parents[1]
FINAL = FinalRow(
    net="cnn",
    arm="sgd",
    seed=1,
    status="done",
    correct=9867,
    total=10_000,
    top5=9998,
    train_loss=0.1 + 0.2,
    epochs=12,
    lowerer="faulty(xla, scaled-gradient=1.05)",
    recipe_hash="h1:a",
    program_sha="b",
    data_identity="sha256:c",
    attempts=2,
    compile_s=0.25,
    train_s=600.125,
    finished="2026-12-01T00:00:00Z",
    note="μ ≥ 3σ",
)
EPOCH = EpochRow("cnn", "sgd", 1, 1, 0.1, 9470, 10_000, 9990, 0.1, 50.25, 1)


def manifest(uuid: str = "u-1", **facts: Any) -> dict[str, Any]:
    started = {"started": "2026-12-01T10:00:00Z", "rung": "mnist", "box": "testbox", "profile": "cpu"}
    return {"uuid": uuid, **started, **facts}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def writer(root: Path) -> Writer:
    return Writer.create(root, manifest())


def in_a_process(code: str, *args: str, **popen: Any) -> "subprocess.Popen[str]":
    head = "import sys; from pathlib import Path; from ladder import records; from ladder.records import *\n"
    return subprocess.Popen(
        [sys.executable, "-c", head + code, *args],
        cwd=REPO,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        **popen,
    )


def test_what_is_written_is_read(root: Path, writer: Writer) -> None:
    other = replace(FINAL, seed=2, status="crashed", correct=None, top5=None, train_loss=None, note="")
    writer.final(FINAL)
    writer.final(other)
    writer.epoch(EPOCH)
    writer.epoch(replace(EPOCH, epoch=2, train_loss=None))
    path = writer.complete("# report\n")
    assert path == root / "2026-12-01-mnist-testbox-cpu"
    assert sorted(p.name for p in path.iterdir()) == ["REPORT.md", "epochs.jsonl", "finals.tsv", "manifest.json"]
    found = records.read(path)
    assert found.state == "complete"
    assert found.finals == (FINAL, other)
    assert found.epochs == (EPOCH, replace(EPOCH, epoch=2, train_loss=None))
    assert found.manifest["state"] == "complete"


@pytest.mark.parametrize("status", get_args(TrialStatus))
def test_every_status_survives(writer: Writer, status: TrialStatus) -> None:
    writer.final(replace(FINAL, status=status))
    assert records.read(writer.path).finals == (replace(FINAL, status=status),)
    writer.close()


@pytest.mark.parametrize("note", ["a\ttab", "two\nlines", "carriage\rreturn", "\x1cseparated\x85\u2028", " - ", "None"])
def test_a_note_stays_in_its_cell(writer: Writer, note: str) -> None:
    writer.final(replace(FINAL, note=note))
    writer.final(FINAL)
    found = records.read(writer.path).finals
    assert found == (replace(FINAL, note=" ".join(note.split())), FINAL)
    writer.close()


@pytest.mark.parametrize("file", [FINALS, EPOCHS])
def test_a_torn_last_line_is_not_there_and_is_cut_before_the_next(root: Path, file: str) -> None:
    """At every byte where a kill may tear it, the first line of a new file included."""
    writer = Writer.create(root, manifest())
    for row in (FINAL, replace(FINAL, seed=2)):
        writer.final(row)
    for line in (EPOCH, replace(EPOCH, epoch=2)):
        writer.epoch(line)
    whole = (writer.path / file).read_bytes()
    writer.close()
    for length in range(len(whole)):
        (writer.path / file).write_bytes(whole[:length])
        before = records.read(writer.path)
        again = Writer.reopen(root, writer.path)
        assert again is not None
        again.final(replace(FINAL, seed=3)) if file == FINALS else again.epoch(replace(EPOCH, epoch=3))
        again.close()
        after = records.read(writer.path)
        if file == FINALS:
            assert after.finals == (*before.finals, replace(FINAL, seed=3)), length
        else:
            assert after.epochs == (*before.epochs, replace(EPOCH, epoch=3)), length


def test_an_epoch_run_again_replaces_the_one_before(writer: Writer) -> None:
    writer.epoch(EPOCH)
    writer.epoch(replace(EPOCH, attempt=2))
    assert records.read(writer.path).epochs == (replace(EPOCH, attempt=2),)
    writer.close()


def test_a_run_is_running_while_its_process_lives_and_interrupted_after(root: Path) -> None:
    code = f"w = Writer.create(Path(sys.argv[1]), {manifest()!r}); print(w.path, flush=True); sys.stdin.read()"
    with in_a_process(code, str(root)) as process:
        assert process.stdout is not None
        path = Path(process.stdout.readline().strip())
        assert records.read(path).state == "running"
        assert Writer.reopen(root, path) is None
        process.kill()
    assert records.read(path).state == "interrupted"
    writer = Writer.reopen(root, path)
    assert writer is not None
    assert records.read(path).state == "running"
    writer.close()


def test_readers_never_keep_a_run_from_being_taken_over(root: Path, writer: Writer) -> None:
    """`ladder runs` in a loop beside it: its look at the owner lock is no owner."""
    path = writer.path
    writer.close()
    look = "print('looking', flush=True)\nwhile True: records.read(Path(sys.argv[1]))"
    with in_a_process(look, str(path)) as reader:
        assert reader.stdout is not None
        reader.stdout.readline()
        for _ in range(200):
            again = Writer.reopen(root, path)
            assert again is not None
            again.close()
        reader.kill()


def test_names_count_up_beside_complete_kept_and_partial_records(root: Path) -> None:
    stem = "2026-12-01-mnist-testbox-cpu"
    first = Writer.create(root, manifest("u-1"))
    second = Writer.create(root, manifest("u-2"))
    assert [first.manifest["name"], second.manifest["name"]] == [stem, f"{stem}-2"]
    kept = records.keep(records.read(second.complete("")), root)
    assert kept == root / "kept" / f"{stem}-2"
    assert Writer.create(root, manifest("u-3")).manifest["name"] == f"{stem}-3"
    assert first.complete("").name == stem


def test_runs_completing_at_once_under_one_name_all_stay(root: Path) -> None:
    """Eight processes that chose the same name: each gets one of its own, and the manifest says which."""
    code = (
        f"m = {manifest()!r} | {{'uuid': sys.argv[2]}}\n"
        "w = Writer.create(Path(sys.argv[1]), m); w.update(name='2026-12-01-mnist-testbox-cpu')\n"
        "print('ready', flush=True); sys.stdin.readline(); print(w.complete('').name, flush=True)"
    )
    processes = [in_a_process(code, str(root), f"u-{i}") for i in range(8)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    names = [process.communicate()[0].strip() for process in processes]
    assert [process.returncode for process in processes] == [0] * 8
    assert len(set(names)) == 8
    assert {json.loads((root / name / MANIFEST).read_text())["name"] for name in names} == set(names)


KILLED = """
import json, os
from ladder.records import FinalRow
writes = int(sys.argv[2])
def killing(real):
    def call(*args, **kwargs):
        global writes
        if writes == 0: os.kill(os.getpid(), 9)
        writes -= 1
        return real(*args, **kwargs)
    return call
writer = Writer.create(Path(sys.argv[1]), json.loads(sys.argv[3]))
writer.final(FinalRow(**json.loads(sys.argv[4])))
for name in ("replace", "rename", "fsync", "unlink", "open", "write"):
    setattr(os, name, killing(getattr(os, name)))
writer.complete("# report")
os._exit(0)
"""


def test_a_kill_at_any_moment_of_completion_leaves_a_partial_or_a_complete_record(tmp_path: Path) -> None:
    """SIGKILL before each system call of `complete` in turn; what is left can be read, and completed by the next."""
    from dataclasses import asdict

    states: list[str] = []
    for calls in range(100):
        root = tmp_path / str(calls)
        args = (str(root), str(calls), json.dumps(manifest()), json.dumps(asdict(FINAL)))
        with in_a_process(KILLED, *args) as process:
            process.wait()
        [path] = records.find_all(root)
        found = records.read(path)
        assert found.finals == (FINAL,)
        states.append(found.state)
        if found.state == "interrupted":
            writer = Writer.reopen(root, path)
            assert writer is not None
            path = writer.complete("# report")
        assert records.read(path).state == "complete"
        assert (path / "REPORT.md").read_text() == "# report"
        assert path.name == json.loads((path / MANIFEST).read_text())["name"]
        assert [p.name for p in records.find_all(root)] == [path.name]
        if process.returncode == 0:
            break
    assert set(states) == {"interrupted", "complete"}
    assert 5 < len(states) < 100


def test_a_records_folder_that_cannot_be_written_is_an_error_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LadderError, match=r"the records folder \S+file cannot be written") as told:
        Writer.create(tmp_path / "file", manifest())
    assert "LADDER_RUNS" in told.value.hint


def test_a_disk_that_fills_up_is_an_error_in_words_and_leaves_whole_lines(root: Path) -> None:
    """A real limit on the size of files: the write is cut short, as on a full disk."""
    code = (
        "import json, resource\n"
        "from ladder.errors import LadderError\n"
        f"w = Writer.create(Path(sys.argv[1]), {manifest()!r})\n"
        "e = EpochRow('cnn', 'sgd', 1, 1, 0.1, 9470, 10_000, 9990, 0.1, 50.25, 1)\n"
        "w.epoch(e); size = (w.path / 'epochs.jsonl').stat().st_size\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, resource.RLIM_INFINITY))\n"
        "for act in (lambda: w.epoch(e), lambda: w.update(big='x' * 10_000)):\n"
        "    try: act()\n"
        "    except LadderError as error: print(error.message)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\n"
        "from dataclasses import replace\n"
        "w.epoch(replace(e, epoch=2))\n"
    )
    process = in_a_process(code, str(root))
    said, _ = process.communicate()
    assert process.returncode == 0
    assert said.splitlines() == [
        "the record 2026-12-01-mnist-testbox-cpu cannot be written: epochs.jsonl: File too large",
        "the record 2026-12-01-mnist-testbox-cpu cannot be written: manifest.json: File too large",
    ]
    [path] = records.find_all(root)
    assert [e.epoch for e in records.read(path).epochs] == [1, 2]


def test_no_absolute_path_reaches_a_finals_line(writer: Writer) -> None:
    """A crash's message names files; the record names them without where they lie."""
    writer.final(
        replace(
            FINAL,
            status="crashed",
            note="OSError: [Errno 28] No space left on device: '/home/ada/.cache/ladder/xla/a-b_c.d'; "
            'File "/opt/x.py", line 3; '
            "see https://docs.example.org/a/b; 3/10 done, 5 s/epoch, ~/secret/place",
        )
    )
    text = (writer.path / FINALS).read_text()
    assert "'a-b_c.d'" in text
    assert '"x.py"' in text
    assert "https://docs.example.org/a/b; 3/10 done, 5 s/epoch, place" in text
    assert not any(part in text for part in ("/home", "ada", "/opt", "secret"))
    writer.close()


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        (MANIFEST, "{", "cannot be read"),
        (MANIFEST, "[]", "cannot be read"),
        (MANIFEST, '{"schema": 99}', "has schema 99; this Ladder reads 1"),
        (FINALS, "net\tarm\ncnn\tsgd\textra\n", "cannot be read"),
        (EPOCHS, "{}\n", "cannot be read"),
        (EPOCHS, "\xff\n", "cannot be read"),
    ],
)
def test_a_damaged_record_is_told_by_name(writer: Writer, file: str, content: str, told: str) -> None:
    writer.final(FINAL)
    path = writer.complete("")
    (path / file).write_text(content, encoding="latin-1")
    with pytest.raises(LadderError, match=f"record {path.name} .*{told.split()[-1]}"):
        records.read(path)


def test_one_damaged_record_keeps_no_other_run_from_starting_or_being_found(root: Path, writer: Writer) -> None:
    good = writer.complete("")
    for where in (root / "torn", root / records.PARTIAL / "torn"):
        where.mkdir(parents=True)
        (where / MANIFEST).write_text('{"name": ')
    (root / "list").mkdir()
    (root / "list" / MANIFEST).write_text("[]")
    assert records.find(good.name, root) == good
    assert records.find("last", root) == good
    assert Writer.create(root, manifest("u-2")).complete("").name == f"{good.name}-2"


def test_a_run_is_found_by_name_uuid_or_their_beginning(root: Path) -> None:
    older = Writer.create(root, manifest("aaaa-1")).complete("")
    newer = Writer.create(root, manifest("bbbb-2", started="2026-12-02T00:00:00Z")).complete("")
    assert records.find(older.name, root) == older
    assert records.find("bbbb", root) == newer
    assert records.find("last", root) == newer
    with pytest.raises(LadderError, match=r"'2026-12-0' could be any of 2 runs: 2026-12-01-\S+, 2026-12-02-"):
        records.find("2026-12-0", root)
    with pytest.raises(LadderError, match="there is no run '2026-12-01-mnits-testbox-cpu'; near: 2026-12-01-mnist"):
        records.find("2026-12-01-mnits-testbox-cpu", root)
    with pytest.raises(LadderError, match="there is no run 'last'"):
        records.find("last", root / "empty")


def test_only_a_complete_and_clean_run_is_kept(root: Path) -> None:
    running = Writer.create(root, manifest("u-1"))
    with pytest.raises(LadderError, match="is running; only a complete run can be kept"):
        records.keep(records.read(running.path), root)
    running.close()
    with pytest.raises(LadderError, match="is interrupted; only a complete run can be kept"):
        records.keep(records.read(running.path), root)
    faulty = Writer.create(root, manifest("u-2", fault="ulp")).complete("")
    with pytest.raises(LadderError, match="had the fault 'ulp' injected; it is no evidence"):
        records.keep(records.read(faulty), root)


def test_a_run_that_completed_meanwhile_is_not_taken_over(root: Path, writer: Writer) -> None:
    path = writer.path
    writer.complete("")
    assert Writer.reopen(root, path) is None
    assert not path.exists()


def test_taking_over_a_run_in_the_moment_of_its_completion_takes_nothing(root: Path) -> None:
    """Processes that grab at a run while it is renamed: whoever gets it has it where it says."""
    grab = (
        "root = Path(sys.argv[1]); path = root / '.partial' / 'u-1'\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "while path.exists():\n"
        "    if w := Writer.reopen(root, path): assert w.path.exists(); w.complete(''); print('completed')\n"
    )
    for _ in range(3):
        writer = Writer.create(root, manifest())
        processes = [in_a_process(grab, str(root)) for _ in range(3)]
        for process in processes:
            assert process.stdout is not None
            assert process.stdin is not None
            process.stdout.readline()
            process.stdin.write("\n")
            process.stdin.flush()
        time.sleep(0.02)
        path = writer.complete("")
        assert [process.communicate()[0] for process in processes] == [""] * 3
        assert [process.returncode for process in processes] == [0] * 3
        assert records.read(path).state == "complete"


def test_an_owner_file_beside_a_complete_record_means_nothing(writer: Writer) -> None:
    path = writer.complete("")
    (path / OWNER).touch()
    assert records.read(path).state == "complete"
