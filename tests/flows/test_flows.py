"""What the flows are made of: choices from the recipes, the climb's rules, a parent without jax."""

import inspect
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from flows import climbing
from flows.climbing import NotRun, climb_through, last_rung, not_climbed, told, worst
from ladder.data import prepare
from ladder.data.source import NoData
from ladder.errors import LadderError
from ladder.recipes import PLANNED, RUNGS, rung_recipes
from ladder.request import NotApplicable, Request
from ladder.run import Outcome
from ladder.suite.run import SuiteOutcome
from ladder.verdict import Word, exit_code

LATER = ("suite", "mnist", "cifar", "imagenette", "imagenet")


def outcome(word: Word) -> Outcome:
    return Outcome(word, (), Path("2026-12-01-mnist-testbox-cpu"), exit_code(word))


@pytest.fixture
def every_rung(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if all planned rungs were there."""
    monkeypatch.setattr(climbing, "RUNGS", dict.fromkeys(LATER))


def test_the_ladder_has_an_order_for_every_rung_there_is_and_will_be() -> None:
    assert set(climbing.ORDER) == {*RUNGS, *PLANNED}


@pytest.mark.usefixtures("every_rung")
def test_a_climb_goes_to_cifar_or_to_what_is_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert last_rung() == "cifar"
    monkeypatch.setattr(climbing, "RUNGS", dict.fromkeys(("imagenet", "mnist")))
    assert last_rung() == "mnist"


def test_a_rung_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(LadderError, match="no rung 'imagenet' to climb to; the rungs are: suite, mnist"):
        last_rung("imagenet")


@pytest.mark.usefixtures("every_rung")
@pytest.mark.parametrize("word", [Word.FAIL, Word.DIVERGED, Word.CRASHED, Word.TIMEOUT])
def test_a_climb_stops_at_what_shows_something_wrong(word: Word) -> None:
    ended = climb_through("imagenet", lambda rung: outcome(word if rung == "mnist" else Word.PASS), print)
    assert list(ended) == ["suite", "mnist"]
    assert not_climbed(ended, "imagenet") == ["cifar", "imagenette", "imagenet"]
    assert worst(o.word for o in ended.values()) == word


@pytest.mark.usefixtures("every_rung")
@pytest.mark.parametrize("word", [Word.INCONCLUSIVE, Word.NO_REFERENCE, Word.UNSUPPORTED, Word.NOT_RUN])
def test_a_climb_goes_on_after_the_rest_and_says_so(word: Word) -> None:
    said: list[str] = []
    ended = climb_through("cifar", lambda rung: outcome(word if rung == "mnist" else Word.PASS), said.append)
    assert list(ended) == ["suite", "mnist", "cifar"]
    assert said == [f"mnist is {word}, which shows nothing wrong: the climb goes on"]


@pytest.mark.usefixtures("every_rung")
def test_a_climb_stops_at_a_red_suite_unless_it_is_told_to_go_on() -> None:
    said: list[str] = []

    def run(rung: str) -> Outcome:
        return outcome(Word.FAIL if rung == "suite" else Word.PASS)

    assert list(climb_through("cifar", run, said.append)) == ["suite"]
    assert list(climb_through("cifar", run, said.append, past_suite=True)) == ["suite", "mnist", "cifar"]
    assert said == ["suite is fail; the climb goes on as it was told to, and what follows it stands on that"]


@pytest.mark.usefixtures("every_rung")
@pytest.mark.parametrize(("to", "climbed"), [("mnist", ["suite", "mnist"]), ("cifar", ["suite", "mnist", "cifar"])])
def test_a_rung_without_data_on_this_box_is_not_run_and_the_climb_goes_on(
    to: str, climbed: list[str], tmp_path: Path
) -> None:
    """The library's own answer for an empty folder; also at the climb's last rung."""
    said: list[str] = []

    def run(rung: str) -> Outcome:
        if rung == "mnist":
            prepare("mnist", data_dir=tmp_path, cache=tmp_path / "cache", say=lambda _: None)
        return outcome(Word.PASS)

    ended = climb_through(to, run, said.append)
    assert list(ended) == climbed
    assert isinstance(ended["mnist"], NotRun)
    assert ended["mnist"].reason.startswith(f"--data-dir {tmp_path} holds no mnist")
    assert (worst(o.word for o in ended.values()), ended["mnist"].exit_code) == (Word.NOT_RUN, 3)
    assert said[0].startswith("mnist is not-run: --data-dir")
    assert ("mnist is not-run, which shows nothing wrong: the climb goes on" in said) == (to != "mnist")


@pytest.mark.parametrize(
    "refusal", [NoData("no source has mnist. prepared TFDS: no"), NotApplicable("mnist is n/a on platform cpu: why")]
)
def test_a_climb_on_the_command_line_tells_of_a_rung_that_cannot_run_here_and_exits_3(
    refusal: LadderError, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from flows import cli

    def drive(request: Request, say: Any) -> Outcome:
        assert request.data_dir == str(tmp_path)
        raise refusal

    suite_passed = SuiteOutcome(Word.PASS, (), "", Path("2026-12-01-suite-testbox-cpu"), 0)
    monkeypatch.setattr(climbing, "drive", drive)
    monkeypatch.setattr(climbing.suite, "drive", lambda *_: suite_passed)
    assert cli.climb(to="mnist", data_dir=str(tmp_path), no_server=True) == 3
    assert f"mnist: not-run: {refusal.message}" in capsys.readouterr().out
    assert cli.climb(to="mnist", data_dir=str(tmp_path), no_server=True, as_json=True) == 3
    suite, mnist = json.loads(capsys.readouterr().out)
    assert suite["verdict"] == "pass"
    assert mnist == {
        "rung": "mnist",
        "verdict": "not-run",
        "exit_code": 3,
        "record": None,
        "reason": refusal.message,
    }


def test_a_climb_into_a_folder_that_is_not_there_is_refused_before_it_begins() -> None:
    from flows.command import climb_rungs

    with pytest.raises(LadderError, match="--data-dir /nowhere is not there"):
        climb_rungs("mnist", 1, 1.0, "cpu", None, "/nowhere", False, True, print)


def test_the_suites_flow_asks_for_the_same_as_a_command_line_that_names_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from flows import rungs
    from ladder.suite.run import SuiteRequest

    asked: list[SuiteRequest] = []
    monkeypatch.setattr(rungs, "test", asked.append)
    rungs.suite.fn()
    rungs.suite.fn(tiers=["0"], only=["devices"], devices=4)
    assert asked == [SuiteRequest(), SuiteRequest(tiers=(0,), only=("devices",), devices=4)]


def test_what_a_climb_came_to_is_told_in_a_line() -> None:
    words = {"mnist": Word.PASS, "cifar": Word.FAIL}
    assert told(words, ["imagenet"]) == "mnist pass, cifar fail: stopped; not climbed: imagenet"


def test_every_rung_has_a_flow_that_is_found_by_its_module() -> None:
    from flows import rungs

    assert list(rungs.RUNG_FLOWS) == climbing.rungs()
    assert all(getattr(rungs, name).name == name for name in RUNGS)


@pytest.mark.parametrize("rung", list(RUNGS))
def test_the_forms_choices_are_the_rungs_nets_and_arms(rung: str) -> None:
    from flows.rungs import RUNG_FLOWS

    schema = RUNG_FLOWS[rung].parameters
    recipes = rung_recipes(rung)
    assert schema.definitions is not None
    assert schema.definitions["Net"]["enum"] == list(dict.fromkeys(r.net for r in recipes))
    assert schema.definitions["Arm"]["enum"] == list(dict.fromkeys(r.arm for r in recipes))
    assert schema.properties["platform"]["$ref"].endswith("/Platform")


def test_a_flow_asks_the_library_for_the_same_as_a_command_line_that_names_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from flows import rungs

    asked: list[Request] = []
    monkeypatch.setattr(rungs, "train", asked.append)
    rungs.mnist.fn()
    rungs.mnist.fn(exact_seeds=[4, 9], nets=["cnn"], feed="streamed", accumulate=2)
    named = Request("mnist", nets=("cnn",), seeds=(4, 9), feed="streamed", accumulate=2)
    assert asked == [Request("mnist"), named]


@pytest.mark.parametrize(
    ("option", "told"),
    [
        (("--feed", "wired"), "--feed 'wired': one of auto, resident, streamed"),
        (("--accumulate", "5"), "a batch of 32 cannot be accumulated in 5 equal parts"),
        (("--accumulate", "0"), "a batch of 32 cannot be accumulated in 0 equal parts"),
    ],
)
def test_a_bad_feed_or_accumulation_is_refused_in_one_line(
    option: tuple[str, str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from flows import cli

    assert cli.run_app(cli.app, ["run", "imagenette", "--no-server", *option]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line


def test_feed_and_accumulation_reach_the_library_from_a_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from flows import cli, command

    asked: list[Request] = []

    def drive(request: Request, say: Any) -> Outcome:
        asked.append(request)
        return outcome(Word.PASS)

    monkeypatch.setattr(command, "drive", drive)
    line = "run imagenette --no-server --feed streamed --accumulate 4 --nets resnet34"
    assert cli.run_app(cli.app, line.split()) == 0
    assert [(r.feed, r.accumulate) for r in asked] == [("streamed", 4)]


def test_every_parameter_of_a_flow_is_explained() -> None:
    from flows.climb import climb
    from flows.rungs import RUNG_FLOWS

    for flow in (climb, *RUNG_FLOWS.values()):
        assert all(p.get("description") for p in flow.parameters.properties.values()), flow.name
        assert set(flow.parameters.properties) == set(inspect.signature(flow.fn).parameters)


def imported(statement: str) -> set[str]:
    """The top-level packages that a fresh interpreter has after a statement."""
    code = f"import sys\n{statement}\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


def test_the_flows_process_never_imports_jax() -> None:
    assert not imported("import flows.rungs, flows.climb, flows.deployments, flows.reap") & {"jax", "jaxlib", "flax"}


def test_help_imports_neither_jax_nor_prefect() -> None:
    assert not imported("import flows.cli; flows.cli.run_app(flows.cli.app, ['--help'])") & {"jax", "prefect"}


def run_in(state: str, owner: str | None, minutes_ago: float) -> Any:
    from prefect.client.schemas.objects import FlowRun, State, StateType

    since = datetime.now(UTC) - timedelta(minutes=minutes_ago)
    labels: dict[str, bool | int | float | str] = {"ladder.owner": owner} if owner else {}
    return FlowRun(flow_id=uuid4(), labels=labels, state=State(type=StateType(state), timestamp=since))


@pytest.mark.parametrize(
    ("state", "owner", "minutes_ago", "why"),
    [
        ("RUNNING", "1234567 1 boot", 0, "its process 1234567 is gone"),
        ("RUNNING", "me", 600, ""),  # silent for hours: a compile may be
        ("RUNNING", None, 1, ""),  # being started
        ("PENDING", None, 11, "no process took it within 0:10:00"),
        ("CANCELLING", "1234567 1 boot", 0.5, ""),  # its worker is about to tell
        ("CANCELLING", "1234567 1 boot", 2, "its process 1234567 is gone"),
    ],
)
def test_a_flow_run_is_dead_when_its_process_is(state: str, owner: str | None, minutes_ago: float, why: str) -> None:
    from flows.alive import identity
    from flows.reap import death

    run = run_in(state, identity() if owner == "me" else owner, minutes_ago)
    assert death(run, datetime.now(UTC)) == why
