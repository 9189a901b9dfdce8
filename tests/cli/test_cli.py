"""The command line: every answer for people and as JSON, every mistake as two lines and exit code 2."""

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import pytest
from cyclopts import App

from ladder import paths, records, store
from ladder.cli import app, run_app
from tests.store import made

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ladder(capsys: pytest.CaptureFixture[str]) -> Run:
    """ladder("runs", "--json"): exit code, standard output, standard error."""

    def run(*argv: str) -> tuple[int, str, str]:
        code = run_app(app, argv)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def ok(answer: tuple[int, str, str]) -> str:
    code, out, err = answer
    assert (code, err) == (0, "")
    return out


def refused(answer: tuple[int, str, str]) -> str:
    """The error's first line; no traceback, and nothing on standard output."""
    code, out, err = answer
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert len(err.splitlines()) <= 2, err
    assert "Traceback" not in err
    return err.splitlines()[0]


def commands(of: App, words: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every command of an application, as its words."""
    found: list[tuple[str, ...]] = []
    for name in of:
        if not name.startswith("-"):
            deeper = commands(of[name], (*words, name))
            found += deeper or [(*words, name)]
    return found


def test_the_commands_are_those_of_the_design() -> None:
    asked = {"ranges", "runs", "show", "compare", "keep", "export", "import"}
    assert {" ".join(words) for words in commands(app)} >= asked | {f"reference {w}" for w in ("add", "list", "show")}


@pytest.mark.parametrize("words", commands(app), ids=" ".join)
def test_every_command_has_help_and_json(ladder: Run, words: tuple[str, ...]) -> None:
    out = ok(ladder(*words, "--help"))
    assert out.startswith(f"Usage: ladder {' '.join(words)}")
    assert len([line for line in out.splitlines() if line.strip()]) > 4
    assert "--json" in out


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom ladder.cli import app, run_app\nassert run_app(app, ['--help']) == 0\n"
        "heavy = {'jax', 'flax', 'prefect', 'sqlalchemy', 'alembic', 'scipy', 'numpy', 'matplotlib'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_ranges_of_the_published_references(ladder: Run) -> None:
    out = ok(ladder("ranges", "--rung", "mnist", "--net", "mlp"))
    head, published, own, small = (line.split("\t") for line in out.splitlines())
    assert head[:9] == ["reference", "rung", "net", "arm", "n", "min %", "median %", "max %", "mean %"]
    assert published[:10] == ["mnist-n30", "mnist", "mlp", "sgd", "30", "97.49", "97.78", "97.93", "97.76", "0.107"]
    assert published[-1].startswith("h1:")
    assert own[:5] == ["mnist5k-n30", "mnist", "mlp", "sgd", "30"]
    assert small[-1].startswith("waiting: ")
    rows = json.loads(ok(ladder("ranges", "--net", "mlp", "--json")))
    assert [(r["reference"], r["images"]["min"], r["images"]["max"]) for r in rows] == [
        ("mnist-n30", 9749, 9793),
        ("mnist5k-n30", 909, 920),
        ("small-seeds-n5", 9765, 9781),
    ]
    assert rows[0]["differences"]


def test_the_keys_of_ranges_are_stable(ladder: Run) -> None:
    row = json.loads(ok(ladder("ranges", "--json")))[0]
    assert sorted(row) == [
        *(
            "arm",
            "date",
            "differences",
            "diverged",
            "hash",
            "images",
            "kind",
            "lowerer",
            "max",
            "mean",
            "median",
            "min",
        ),
        *("n", "net", "platform", "reference", "rung", "sd", "total", "waiting"),
    ]


def test_runs_are_listed_newest_first_with_their_state(ladder: Run) -> None:
    assert "no runs yet" in ok(ladder("runs"))
    first, second = made.healthy(), made.healthy(shift=-900, box="other")
    writer = made.partial([made.final(made.recipes()[0], 1, 9210)])
    lines = [line.split("\t") for line in ok(ladder("runs")).splitlines()]
    assert [line[:4] for line in lines] == [
        ["name", "state", "verdict", "finals"],
        [writer.manifest["name"], "running", "", "1/2"],
        [second.name, "complete", "fail", "6/6"],
        [first.name, "complete", "pass", "6/6"],
    ]
    writer.close()
    assert [row["state"] for row in json.loads(ok(ladder("runs", "--json")))] == ["interrupted", "complete", "complete"]
    assert [r["name"] for r in json.loads(ok(ladder("runs", "--box", "other", "--json")))] == [second.name]


def test_runs_shows_twenty_and_says_that_there_are_more(ladder: Run) -> None:
    for _ in range(22):
        made.partial([]).close()
    assert ok(ladder("runs")).splitlines()[-1] == "the newest 20 of 22; --all shows the rest"
    assert len(ok(ladder("runs", "--all")).splitlines()) == 23


def test_show_by_name_prefix_uuid_and_last(ladder: Run) -> None:
    path = made.healthy(shift=-900)
    uuid = records.read(path).manifest["uuid"]
    out = ok(ladder("show", path.name))
    assert f"name: {path.name}" in out
    assert "mlp-sgd fail: mean 88.73 %" in out
    assert "mlp\tsgd\t1\tdone\t8871/10000\t88.71\t88.07-89.32" in out
    assert [ok(ladder("show", name)) for name in ("last", uuid, uuid[:8], path.name[:14])] == [out] * 4
    whole = json.loads(ok(ladder("show", "last", "--json")))
    assert [t["curve"][-1]["correct"] for t in whole["trials"]] == [t["correct"] for t in whole["trials"]]
    assert whole["manifest"]["uuid"] == uuid


def test_show_on_a_terminal_is_a_table(ladder: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    made.healthy()
    monkeypatch.setattr("ladder.cli.output.sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "160")
    out = ok(ladder("show", "last"))
    assert "┃" in out or "│" in out
    assert "mnist-n30 (n=30)" in out


def test_compare_says_which_half_changed(ladder: Run) -> None:
    first = made.healthy()
    jax = {"profile": "cpu", "processor": "a CPU", "cores": 2, "packages": {"jax": "0.12.1"}}
    core = {"ladder": "0.1.0", "commit": "d" * 40, "dirty": True}
    other_jax, other_core = made.healthy(shift=-2, platform=jax), made.healthy(core=core)
    both = made.healthy(platform=jax, core=core)

    out = ok(ladder("compare", first.name, other_jax.name))
    assert "core: equal" in out
    assert "  packages.jax: 0.12.0 | 0.12.1" in out
    assert "look at the driver, the plugin or the box" in out
    assert "6 finals of both: 0 equal, mean difference -2.00 images" in out
    assert "look at this repository" in ok(ladder("compare", first.name, other_core.name))
    assert "both changed" in ok(ladder("compare", first.name, both.name))
    assert "core and platform are equal" in ok(ladder("compare", first.name, first.name))
    found = json.loads(ok(ladder("compare", first.name, other_jax.name, "--json")))
    assert found["changed"] == {"core": {}, "platform": {"packages.jax": ["0.12.0", "0.12.1"]}}
    assert found["finals"][0]["first_epoch_apart"] == 1


def test_compare_does_not_subtract_finals_of_another_recipe(ladder: Run) -> None:
    from dataclasses import replace

    mlp = made.recipes(["mlp"])
    short = (replace(mlp[0], epochs=2),)
    first = made.complete([made.final(mlp[0], 1, 9771)], mlp)
    second = made.complete([made.final(short[0], 1, 9500), made.final(short[0], 2, None, "crashed")], short)
    out = ok(ladder("compare", first.name, second.name))
    assert "mlp-sgd: another recipe, so its finals cannot be compared (first | second): epochs 12 | 2" in out
    found = json.loads(ok(ladder("compare", first.name, second.name, "--json")))
    assert [(f["first"], f["second"], f["difference"]) for f in found["finals"]] == [
        (9771, 9500, None),
        (None, "crashed", None),
    ]


def test_keep_moves_the_record_and_the_database_follows(ladder: Run) -> None:
    path = made.healthy()
    ok(ladder("runs"))
    out = ok(ladder("keep", path.name))
    assert f"runs/kept/{path.name}" in out
    assert (paths.runs() / "kept" / path.name / "REPORT.md").exists()
    (row,) = json.loads(ok(ladder("runs", "--json")))
    assert (row["name"], row["folder"]) == (path.name, "kept")


def test_export_csv_json_and_junit(ladder: Run) -> None:
    good, bad = made.healthy(), made.healthy(shift=-900)
    made.partial([]).close()
    rows = list(csv.DictReader(io.StringIO(ok(ladder("export", "--csv")))))
    assert [r["run"] for r in rows] == [good.name] * 6 + [bad.name] * 6
    assert (rows[3]["net"], rows[3]["seed"], rows[3]["correct"], rows[3]["total"]) == ("mlp", "1", "9771", "10000")
    assert [r["name"] for r in json.loads(ok(ladder("export", good.name, "--json")))] == [good.name]
    suites = list(ElementTree.fromstring(ok(ladder("export", "--junit"))))
    counts = [(s.get("tests"), s.get("failures"), s.get("errors"), s.get("skipped")) for s in suites]
    assert counts == [("2", "0", "0", "0"), ("2", "2", "0", "0"), ("1", "0", "1", "0")]
    case = suites[1].findall("testcase")[1]
    assert (case.get("classname"), case.get("name"), case[0].tag) == ("ladder.mnist.cpu", "mlp-sgd", "failure")
    assert "one format at a time" in refused(ladder("export", "--csv", "--junit"))


def test_reference_add_list_and_show(ladder: Run) -> None:
    path = made.healthy()
    out = ok(ladder("reference", "add", "mine", "--from-run", "last", "--note", "of this box"))
    assert "references/mine.toml" in out
    assert "word for word" in ok(ladder("reference", "add", "mine", "--from-run", path.name, "--note", "of this box"))
    names = [row["name"] for row in json.loads(ok(ladder("reference", "list", "--json")))]
    assert names == sorted(names)
    assert {"mine", "mnist-n30"} <= set(names)
    assert "its recipe was not read" in ok(ladder("reference", "list"))
    out = ok(ladder("reference", "show", "mnist-n30"))
    assert "min / median / max %: 97.39 / 98.78 / 98.94" in out
    assert "differs: matmul and convolution precision: TF32" in out
    mine = json.loads(ok(ladder("reference", "show", "mine", "--json")))
    assert mine["facts"]["note"] == "of this box"
    assert [p["hash"] for p in mine["parts"]] == [r.hash for r in made.recipes()]


def test_import_rebuilds_and_tells_what_it_could_not(ladder: Run) -> None:
    good, bad = made.healthy(), made.healthy()
    out = ok(ladder("import", str(paths.runs())))
    assert out == "2 records and 0 references are in the database; 0 could not be imported\n"
    (bad / records.MANIFEST).write_text("{")
    code, out, err = ladder("import", str(paths.runs()))
    assert (code, out) == (2, "1 records and 0 references are in the database; 1 could not be imported\n")
    assert err.startswith(f"not imported: record {bad.name} cannot be read")
    assert good.exists()


def test_mistakes_are_two_lines_and_exit_code_2(ladder: Run) -> None:
    path = made.healthy()
    made.healthy()
    for argv, said in (
        (["rangs"], 'Did you mean "ranges"'),
        (["ranges", "--bogus"], "Unknown option: --bogus"),
        (["ranges", "--net", "cnnn"], "--net 'cnnn': there is none; near: cnn"),
        (["ranges", "--rung", "xyz"], "--rung 'xyz': there is none; there are: cifar, imagenette, mnist"),
        (["runs", "--box", "testbx"], "near: testbox"),
        (["show"], "requires an argument"),
        (["show", path.name + "0"], f"near: {path.name}"),
        (["show", path.name[:10]], "could be any of 2 runs"),
        (["compare", "last"], "requires an argument"),
        (["keep", "nothing"], "there is no run 'nothing'"),
        (["import", "/no/such/folder"], "/no/such/folder is no folder"),
        (["reference", "show", "mnist-n3"], "there is no reference 'mnist-n3'; near: mnist-n30"),
        (["reference", "add", "mnist-n30", "--from-run", "last"], "there is a reference 'mnist-n30' already"),
        (["reference", "add", "No", "--from-run", "last"], "is no name for a reference"),
    ):
        assert said in refused(ladder(*argv)), argv


def test_a_run_that_is_not_complete_or_had_a_fault_is_not_kept(ladder: Run) -> None:
    made.partial([]).close()
    assert "only a complete run can be kept" in refused(ladder("keep", "last"))
    made.healthy(fault="nan-at=3", started="2026-12-02T00:00:00Z")
    assert "had the fault 'nan-at=3' injected" in refused(ladder("keep", "last"))


def test_a_locked_database_is_two_lines(ladder: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    made.healthy()
    made.healthy()
    store.open().close()
    code = "import sqlite3, sys\nc = sqlite3.connect(sys.argv[1], isolation_level=None)\nc.execute('BEGIN IMMEDIATE')\n"
    monkeypatch.setattr(store, "open", partial(store.open, busy_s=0.2))
    with subprocess.Popen(
        [sys.executable, "-c", code + "print(flush=True); sys.stdin.read()", str(paths.runs() / "ladder.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout
        holder.stdout.readline()
        assert "is locked by another process; waited 0.2 s" in refused(ladder("runs"))
        holder.terminate()
    assert len(json.loads(ok(ladder("runs", "--json")))) == 2


def test_folders_that_cannot_be_written_are_two_lines(ladder: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made.healthy()
    for name in ("kept", "references"):
        (paths.runs() / name).write_text("a file in the way")
    assert "cannot be written" in refused(ladder("keep", path.name))
    assert "cannot be written" in refused(ladder("reference", "add", "mine", "--from-run", path.name))
    assert path.exists()
    monkeypatch.setenv("LADDER_RUNS", str(paths.runs() / "kept" / "below"))
    assert "cannot be made" in refused(ladder("runs"))


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere: file modes are not tested here")
def test_a_read_only_records_folder_is_two_lines(ladder: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o555)
    monkeypatch.setenv("LADDER_RUNS", str(tmp_path))
    assert "cannot be opened" in refused(ladder("runs"))


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{sys.executable} -m ladder.cli ranges --json | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[\n", "")


def test_an_interrupt_is_130(monkeypatch: pytest.MonkeyPatch, ladder: Run) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "open", interrupted)
    assert ladder("runs") == (130, "", "interrupted\n")
