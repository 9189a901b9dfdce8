"""A box that is up, as its owner uses it: runs from the UI and from the command line, on one server."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.flows.conftest import Box

pytestmark = pytest.mark.server
Finished = tuple["Box", dict[str, Any]]


def test_a_run_from_the_ui_makes_a_record_and_is_named_after_it(finished: Finished) -> None:
    box, run = finished
    manifest, finals = box.record(run["name"])
    assert manifest["state"] == "complete"
    assert [(f["net"], f["seed"]) for f in finals] == [(net, seed) for net in ("linear", "mlp") for seed in "12"]


def test_the_state_of_a_run_is_the_verdicts_word(finished: Finished) -> None:
    box, run = finished
    assert run["state"]["name"] == box.record(run["name"])[0]["word"]
    assert run["name"] in run["state"]["message"]


def test_a_run_is_tagged_with_what_it_ran(finished: Finished) -> None:
    assert {"rung:mnist", "platform:cpu", "lowerer:xla", "box:testbox"} <= set(finished[1]["tags"])


def test_a_task_per_seed_and_recipe_is_named_after_its_score(finished: Finished) -> None:
    box, run = finished
    tasks = box.api("/task_runs/filter", {"flow_runs": {"id": {"any_": [run["id"]]}}})
    scores = {
        f"{f['net']}-{f['arm']} seed {f['seed']}": f"{f['correct']}/{f['total']}"
        for f in box.record(run["name"])[1]
        if f["status"] == "done"
    }
    assert len(tasks) == 4
    assert scores
    assert scores.items() <= {task["name"]: task["state_name"] for task in tasks}.items()


def test_the_workers_lines_are_in_the_runs_log(finished: Finished) -> None:
    log = finished[0].logs(finished[1]["id"])
    assert "worker " in log
    assert "linear-sgd-s1: epoch 1: train loss" in log
    assert "Traceback" not in log


def test_a_run_shows_verdict_curves_and_progress(finished: Finished) -> None:
    box, run = finished
    artifacts = box.artifacts(run["id"])
    assert {key: a["type"] for key, a in artifacts.items()} == {
        "verdict-mnist-cpu-testbox": "table",
        "curves-mnist-cpu-testbox": "markdown",
        "progress-mnist-cpu-testbox": "progress",
    }
    assert artifacts["progress-mnist-cpu-testbox"]["data"] == 100
    assert "| mlp | sgd | 2 |" in artifacts["curves-mnist-cpu-testbox"]["data"]


def test_the_form_refuses_what_is_not_a_choice(box: "Box") -> None:
    for wrong in ({"nets": ["resnet"]}, {"seeds": 0}, {"platform": "abacus"}, {"epochs": 0}):
        with pytest.raises(ValueError, match=r"409: .*Validation failed"):
            box.start_mnist(**wrong)


def test_the_nightly_is_on_climb_with_its_zone(box: "Box") -> None:
    (schedule,) = box.api("/deployments/name/climb/testbox")["schedules"]
    assert schedule["active"]
    assert (schedule["schedule"]["cron"], schedule["schedule"]["timezone"]) == ("30 22 * * *", "Europe/Berlin")
    assert schedule["parameters"] == {"to": "cifar", "budget_hours": 8.0}


def test_a_second_up_says_where_the_first_is(box: "Box") -> None:
    second = box.ladder("up", "--port", str(box.port))
    assert second.communicate(timeout=30)[0].strip() == f"already up: {box.url}"
    assert second.returncode == 0


def test_the_command_line_runs_the_same_flow_on_the_same_server(box: "Box") -> None:
    output = box.run_mnist("--nets", "linear", "--seeds", "7", "--epochs", "1").communicate(timeout=120)[0]
    run = box.newest()
    manifest, finals = box.record(run["name"])
    assert output.startswith(f"Prefect: {box.url}/api (`ladder up` on this box)")
    assert run["state"]["name"] == manifest["word"]
    assert [(f["net"], f["seed"]) for f in finals] == [("linear", "7")]
    assert run["name"] in output


def test_a_climb_without_time_has_every_trial_not_run_and_says_so(box: "Box") -> None:
    climb = box.ladder("climb", "--to", "mnist", "--seeds", "1", "--budget", "0.000001")
    output = climb.communicate(timeout=120)[0]
    rung, suite, whole = box.flow_runs("COMPLETED")[:3]
    assert climb.returncode == 3, output
    assert suite["state"]["name"] == "not-run"
    assert {f["status"] for f in box.record(rung["name"])[1]} == {"not-run"}
    assert rung["parent_task_run_id"]
    assert whole["state"]["name"] == "not-run"
    assert box.artifacts(whole["id"])["climb-cpu-testbox"]["type"] == "table"


def test_a_climb_without_data_is_not_run_and_its_table_says_why(box: "Box", tmp_path: Path) -> None:
    climb = box.ladder("climb", "--to", "mnist", "--seeds", "1", "--budget", "0.000001", "--data-dir", str(tmp_path))
    output = climb.communicate(timeout=120)[0]
    assert climb.returncode == 3, output
    assert f"mnist: not-run: --data-dir {tmp_path} holds no mnist" in output
    _suite, whole = box.flow_runs("COMPLETED")[:2]
    assert whole["state"]["name"] == "not-run"
    _, mnist = json.loads(box.artifacts(whole["id"])["climb-cpu-testbox"]["data"])
    assert (mnist["verdict"], mnist["record"]) == ("not-run", "")
    assert "holds no mnist" in mnist["why"]


def test_the_suite_is_a_rung_whose_results_are_a_table(box: "Box") -> None:
    suite = box.ladder("run", "suite", "--tier", "0", "--only", "devices,not-a-cpu")
    output = suite.communicate(timeout=120)[0]
    assert suite.returncode == 0, output
    run = box.newest("COMPLETED")
    assert run["state"]["name"] == "pass"
    assert {"rung:suite", "platform:cpu", "verdict:pass"} <= set(run["tags"])
    table = json.loads(box.artifacts(run["id"])["results-suite-cpu-testbox"]["data"])
    assert [(row["test"], row["status"]) for row in table] == [("devices", "pass"), ("not-a-cpu", "skip")]
    assert (box.runs / run["name"] / "results.tsv").read_text().count("\n") == 3
