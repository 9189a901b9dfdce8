"""The store is an index: everything in it comes back from the records, and no failure of it is silent."""

import json
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ladder import paths, records, references, store
from ladder.errors import LadderError
from ladder.store import queries
from tests.store import made


def answers(opened: store.Store) -> str:
    """Every query's answer, as the bytes that --json prints."""
    db = opened.database
    rows = queries.runs(db)
    return json.dumps(
        {
            "runs": rows,
            "each": [queries.run(db, row["uuid"]) for row in rows],
            "ranges": queries.ranges(db),
            "references": queries.references(db),
            "reference": [references.to_json(queries.reference(db, r["name"])) for r in queries.references(db)],
            "with_hash": [queries.with_hash(db, r.hash) for r in made.recipes()],
        },
        indent=1,
    )


def test_the_database_can_be_deleted_and_rebuilt_with_nothing_lost() -> None:
    made.healthy()
    records.keep(records.read(made.healthy(shift=-900)), paths.runs())
    made.complete(
        [made.final(made.recipes()[1], 1, None, "crashed"), made.final(made.recipes()[1], 2, 980, "diverged")],
        made.recipes(["mlp"]),
        fault="nan-at=3",
    )
    running = made.partial([made.final(made.recipes()[0], 1, 9210)])
    made.partial([made.final(made.recipes()[0], 1, 9210)], box="other").close()
    add_reference("mine")

    with store.open() as first:
        assert first.refresh() == []
        before = answers(first)
    for file in paths.runs().glob("ladder.db*"):
        file.unlink()
    with store.open() as second:
        assert queries.runs(second.database) == []
        assert second.import_tree(paths.runs()) == (6, 1, [])
        assert second.refresh() == []  # the published references lie in the checkout
        after = answers(second)
    running.close()

    assert after == before
    states = [run["state"] for run in json.loads(after)["runs"]]
    assert sorted(states) == ["complete"] * 4 + ["interrupted", "running"]


def add_reference(name: str) -> None:
    record = records.read(made.healthy())
    references.add(references.from_record(name, record), paths.runs() / "references", references.load_all())


def test_importing_twice_changes_nothing() -> None:
    path = made.healthy()
    with store.open() as opened:
        opened.import_record(path)
        once = answers(opened)
        opened.import_record(path)
        assert answers(opened) == once


def test_trials_inserted_one_by_one_are_what_the_complete_record_says() -> None:
    rows = [made.final(r, seed, 9210) for r in made.recipes(["linear"]) for seed in (2, 1)]
    writer = made.partial(rows, made.recipes(["linear"]))
    with store.open() as opened:
        opened.begin_run(writer.manifest)
        for row in (*rows, rows[0]):  # the same trial again: a resumed run
            opened.insert_trial(writer.manifest["uuid"], row, made.epochs(row))
        inserted = queries.run(opened.database, writer.manifest["uuid"])
        path = writer.complete("")
        opened.import_record(path)
        imported = queries.run(opened.database, writer.manifest["uuid"])
    assert [t["seed"] for t in inserted["trials"]] == [2, 1]
    assert inserted["trials"] == imported["trials"]
    assert (inserted["state"], imported["state"]) == ("running", "complete")


def test_a_trial_of_an_unknown_run_is_refused() -> None:
    with store.open() as opened, pytest.raises(LadderError, match="refused"):
        opened.insert_trial("no-such-uuid", made.final(made.recipes()[0], 1, 9210))


def test_two_runs_of_one_name_are_refused_and_the_others_imported() -> None:
    first = made.healthy(uuid="11111111-0000-0000-0000-000000000000")
    with store.open() as opened:
        opened.import_record(first)
        manifest = json.loads((first / records.MANIFEST).read_text())
        twin = shutil.copytree(first, paths.runs() / "kept" / first.name)
        (twin / records.MANIFEST).write_text(json.dumps({**manifest, "uuid": "2" * 8}))
        made.healthy()
        found, _, errors = opened.import_tree(paths.runs())
    assert (found, [e.message for e in errors]) == (
        2,
        [f"there are two runs named {first.name}: {manifest['uuid']} is in the database, 22222222 is not"],
    )


def test_a_damaged_record_is_told_and_does_not_hide_the_others() -> None:
    good, bad = made.healthy(), made.healthy()
    (bad / records.FINALS).write_text("net\tarm\nmlp\n")
    with store.open() as opened:
        errors = opened.refresh()
        assert [run["name"] for run in queries.runs(opened.database)] == [good.name]
    assert len(errors) == 1
    assert bad.name in errors[0].message


def test_a_reference_with_other_content_is_refused() -> None:
    with store.open() as opened:
        opened.refresh()
        old = queries.reference(opened.database, "mnist-n30")
        with pytest.raises(LadderError, match="'mnist-n30' is in the database with other content"):
            opened.import_reference(replace(old, content="sha256:another"), "x")
        assert references.to_json(queries.reference(opened.database, "mnist-n30")) == references.to_json(old)


def test_a_new_binding_is_indexed_though_the_reference_is_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for file in paths.references().glob("*.toml"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    bindings = tmp_path / references.BINDINGS
    whole = bindings.read_text()
    monkeypatch.setattr(paths, "references", lambda: tmp_path)

    def hashes(opened: store.Store) -> dict[str, Any]:
        rows = queries.ranges(opened.database, net="mlp")
        return {r["reference"]: r["hash"] for r in rows if r["reference"] != "mnist5k-n30"}

    with store.open() as opened:
        bindings.write_text(whole[: whole.index("[[binding]]")])
        opened.refresh()
        assert hashes(opened) == {"mnist-n30": None, "small-seeds-n5": None}
        bindings.write_text(whole)
        opened.refresh()
        assert hashes(opened) == {"mnist-n30": made.recipes()[1].hash, "small-seeds-n5": None}


def test_the_database_gives_back_the_reference_that_the_text_says() -> None:
    with store.open() as opened:
        opened.refresh()
        for reference in references.load_all():
            assert references.to_json(queries.reference(opened.database, reference.name)) == references.to_json(
                reference
            )


LOCK = """
import sqlite3, sys, time
c = sqlite3.connect(sys.argv[1], isolation_level=None)
c.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
time.sleep(float(sys.argv[2]))
"""


def locker(seconds: float) -> "subprocess.Popen[str]":
    """Another process that holds the database's write lock."""
    file = str(paths.runs() / "ladder.db")
    process = subprocess.Popen([sys.executable, "-c", LOCK, file, str(seconds)], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "locked\n"
    return process


def test_a_locked_database_is_told_with_file_and_wait_and_nothing_is_half_written() -> None:
    path = made.healthy()
    store.open().close()
    with locker(60) as process, store.open(busy_s=0.3) as opened:
        start = time.monotonic()
        with pytest.raises(LadderError, match=r"ladder\.db is locked by another process; waited 0\.3 s") as error:
            opened.import_record(path)
        assert 0.2 < time.monotonic() - start < 5
        assert "fuser" in error.value.hint
        assert queries.runs(opened.database) == []  # readers are not blocked
        process.kill()


def test_a_writer_waits_for_a_short_lock() -> None:
    path = made.healthy()
    store.open().close()
    with locker(0.5), store.open(busy_s=10) as opened:
        opened.import_record(path)
        assert len(queries.runs(opened.database)) == 1


def test_eight_threads_write_at_once() -> None:
    recipe = made.recipes(["linear"])[0]
    writer = made.partial([], [recipe])
    rows = [made.final(recipe, seed, 9210) for seed in range(40)]
    failed: list[BaseException] = []

    def insert(some: list[Any]) -> None:
        try:
            for row in some:
                opened.insert_trial(writer.manifest["uuid"], row, made.epochs(row))
        except BaseException as error:
            failed.append(error)

    with store.open() as opened:
        opened.begin_run(writer.manifest)
        threads = [threading.Thread(target=insert, args=(rows[i::8],)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert len(queries.run(opened.database, writer.manifest["uuid"])["trials"]) == 40
    writer.close()


def test_a_file_that_is_no_database_is_told_with_the_way_out() -> None:
    paths.runs().mkdir()
    (paths.runs() / "ladder.db").write_text("this is not a database at all" * 100)
    with pytest.raises(LadderError, match=r"ladder\.db is damaged") as error:
        store.open()
    assert "ladder import" in error.value.hint


@pytest.mark.parametrize("url", ["no url", "mysterysql://here/ladder"])
def test_a_bad_url_is_one_error(url: str) -> None:
    with pytest.raises(LadderError, match="LADDER_DATABASE_URL"):
        store.open(url)


def test_a_folder_that_cannot_hold_the_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LadderError, match="cannot be made"):
        store.open(f"sqlite:///{tmp_path}/file/ladder.db")
    (tmp_path / "ladder.db").mkdir()
    with pytest.raises(LadderError, match="cannot be opened"):
        store.open(f"sqlite:///{tmp_path}/ladder.db")


def test_a_read_only_database_answers_and_refuses_writes_with_one_error() -> None:
    path = made.healthy()
    with store.open() as opened:
        opened.import_record(path)
    url = f"sqlite:///file:{paths.runs()}/ladder.db?mode=ro&uri=true"
    with store.open(url) as opened:
        assert len(queries.runs(opened.database)) == 1
        with pytest.raises(LadderError, match="cannot be written"):
            opened.import_record(path)


def test_settings_of_sqlite() -> None:
    with store.open() as opened, opened.database.read() as connection:
        asked = ("journal_mode", "foreign_keys", "busy_timeout")
        found = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in asked]
    assert found == ["wal", 1, 10_000]


def test_removing_a_run_removes_its_trials_and_epochs() -> None:
    made_at = made.healthy()
    with store.open() as opened:
        opened.import_record(made_at)
    with sqlite3.connect(paths.runs() / "ladder.db") as connection:
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("DELETE FROM run")
        left = [connection.execute(f"SELECT count(*) FROM {t}").fetchone() for t in ("trial", "epoch", "verdict")]
    connection.close()
    assert left == [(0,), (0,), (0,)]


def test_a_record_deleted_by_hand_gives_its_name_to_the_next_run() -> None:
    """Its row would otherwise refuse every new run of the day."""
    gone = made.healthy()
    with store.open() as opened:
        opened.import_record(gone)
        shutil.rmtree(gone)
        again = made.healthy()
        assert again.name == gone.name
        opened.import_record(again)
        assert [run["uuid"] for run in queries.runs(opened.database)] == [records.read(again).manifest["uuid"]]
