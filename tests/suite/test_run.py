"""A run of the suite, from the command line to its record and to what other programs read of it. Real children."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from flows.cli import app
from ladder import paths, records
from ladder.cli import run_app
from ladder.suite import expectations, runner
from ladder.suite.run import SuiteOutcome, SuiteRequest, drive, parse_tiers, plan
from ladder.support import read as read_page
from ladder.verdict import Word
from tests.suite import endings

SOUND = ("right", "not-here", "last")


@pytest.fixture
def tier(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tier 0 is the module whose tests end in every way."""
    monkeypatch.setitem(runner.MODULES, 0, ("tests.suite.endings",))


def suite(*only: str, devices: int | None = None) -> SuiteOutcome:
    return drive(SuiteRequest(tiers=(0,), only=only, devices=devices), lambda _: None)


@pytest.mark.usefixtures("tier")
def test_a_sound_run_passes_and_its_record_holds_every_test() -> None:
    outcome = suite(*SOUND)
    assert (outcome.word, outcome.exit_code, outcome.diff) == (Word.PASS, 0, "")
    record = records.read(outcome.record_path)
    assert [(r.test, r.tier, r.status) for r in record.results] == [
        ("right", 0, "pass"),
        ("not-here", 0, "skip"),
        ("last", 0, "pass"),
    ]
    assert record.results == outcome.results
    head = (outcome.record_path / "results.tsv").read_text().splitlines()[0].split("\t")
    assert head == ["test", "tier", "status", "measured", "bound", "seconds", "detail"]
    assert record.manifest["rung"] == "suite"
    assert record.manifest["virtual_devices"] == 0
    assert "| right | 0 | pass | 1 | 2 |" in (outcome.record_path / "REPORT.md").read_text()


@pytest.mark.usefixtures("tier")
def test_one_red_test_makes_the_run_red_with_the_lines_to_paste() -> None:
    outcome = suite("right", "wrong", "aborts")
    assert (outcome.word, outcome.exit_code) == (Word.FAIL, 1)
    assert [r.status for r in outcome.results] == ["pass", "crash", "fail"]
    assert "+aborts crash # " in outcome.diff
    assert "```diff" in (outcome.record_path / "REPORT.md").read_text()


@pytest.mark.usefixtures("tier")
def test_expectations_decide_and_are_strict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expectations, "load", lambda platform, device: LOAD(platform, device, tmp_path))
    (tmp_path / "cpu.txt").write_text("wrong fail # known\naborts skip # takes the box down\nright fail # was\n")
    outcome = suite("right", "wrong", "aborts")
    assert [(r.test, r.status) for r in outcome.results] == [("aborts", "skip"), ("right", "xpass"), ("wrong", "xfail")]
    assert outcome.word is Word.FAIL
    assert outcome.diff.splitlines()[2:] == ["-right fail # was"]


LOAD = expectations.load


@pytest.mark.usefixtures("tier")
def test_a_run_of_skips_is_no_pass() -> None:
    assert suite("not-here").word is Word.NOT_RUN


@pytest.mark.usefixtures("tier")
def test_a_run_whose_time_is_over_runs_nothing_and_says_so() -> None:
    outcome = drive(SuiteRequest(tiers=(0,), only=SOUND, deadline=1.0), lambda _: None)
    assert (outcome.word, outcome.exit_code) == (Word.NOT_RUN, 3)
    assert {r.detail for r in outcome.results} == {"not run: the budget was over"}


@pytest.mark.usefixtures("tier")
def test_a_run_that_is_stopped_is_interrupted_and_frees_the_device() -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drive(SuiteRequest(tiers=(0,), only=("hangs",)), lambda _: None, stop)
    (left,) = (paths.runs() / records.PARTIAL).iterdir()
    assert records.read(left).state == "interrupted"
    assert suite("right").word is Word.PASS


@pytest.mark.usefixtures("tier")
def test_virtual_devices_are_told_and_fill_no_cell() -> None:
    outcome = suite("right", devices=4)
    assert records.read(outcome.record_path).manifest["virtual_devices"] == 4
    records.keep(records.read(outcome.record_path), paths.runs())
    page = read_page(paths.runs())
    assert page.last("cpu", "testbox", "suite") is None
    assert page.kept[0].virtual == "4 virtual devices"


@pytest.mark.usefixtures("tier")
def test_show_and_export_tell_the_tests(capsys: pytest.CaptureFixture[str]) -> None:
    suite("right", "wrong", "aborts", "not-here")
    for argv in (["runs"], ["show", "last"], ["export", "last", "--csv"]):
        assert run_app(app, argv) == 0
    shown = capsys.readouterr().out
    assert "wrong\t0\tfail\t3\t2" in shown
    assert run_app(app, ["export", "last", "--json"]) == 0
    assert [t["status"] for t in json.loads(capsys.readouterr().out)[0]["results"]] == ["pass", "crash", "fail", "skip"]
    assert run_app(app, ["export", "last", "--junit"]) == 0
    (told,) = ElementTree.fromstring(capsys.readouterr().out)
    counts = {key: told.get(key) for key in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "4", "failures": "1", "errors": "1", "skipped": "1"}


@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize(
    ("argv", "code", "says"),
    [
        (["run", "suite", "--tier", "0", "--only", "right", "--no-server"], 0, "suite: pass"),
        (["run", "suite", "--tier", "0", "--only", "wrong", "--no-server"], 1, "wrong fail"),
        (["run", "suite", "--tier", "0", "--plan"], 0, "8 tests on cpu, 1 devices; none was run"),
        (["run", "suite", "--tier", "9"], 2, "there is no tier 9"),
        (["run", "suite", "--only", "nonesuch", "--tier", "0"], 2, "there is no such test"),
        (["run", "suite", "--seeds", "1"], 2, "--seeds is not for rung suite"),
        (["run", "suite", "--devices", "0", "--tier", "0"], 2, "at least 1"),
        (["run", "mnist", "--tier", "0"], 2, "--tier is not for rung mnist"),
    ],
)
def test_the_command_line(argv: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(app, argv) == code
    told = capsys.readouterr()
    assert says in told.out + told.err
    assert "Traceback" not in told.err


def test_tiers_are_read_from_a_text() -> None:
    assert parse_tiers("") == (0, 1, 2)
    assert parse_tiers("1, 0,1") == (0, 1)


def test_virtual_devices_are_the_launchers_and_replace_those_of_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2 --xla_dump_to=x")
    assert plan(SuiteRequest(tiers=(0,))).side.devices == 2
    planned = plan(SuiteRequest(tiers=(0,), devices=4))
    assert planned.env["XLA_FLAGS"] == "--xla_dump_to=x --xla_force_host_platform_device_count=4"
    assert (planned.side.devices, planned.side.virtual) == (4, True)
    assert not plan(SuiteRequest(tiers=(0,), devices=1)).side.virtual


def test_a_fault_of_the_shell_reaches_no_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LADDER_SUITE_FAULT", "ladder.suite.faults_runner:aborts")
    assert "LADDER_SUITE_FAULT" not in plan(SuiteRequest(tiers=(0,))).env


def test_endings_has_what_these_tests_name() -> None:
    assert {"right", "wrong", "aborts", "hangs", *SOUND} <= endings.TESTS.keys()
