"""What the flows are made of: choices from the recipes, the climb's rules, a parent without jax."""

import inspect
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from flows import climbing
from flows.climbing import climb_through, last_rung, not_climbed, told, worst
from ladder.errors import LadderError
from ladder.recipes import PLANNED, RUNGS, rung_recipes
from ladder.request import Request
from ladder.run import Outcome
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
    rungs.mnist.fn(exact_seeds=[4, 9], nets=["cnn"])
    assert asked == [Request("mnist"), Request("mnist", nets=("cnn",), seeds=(4, 9))]


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
