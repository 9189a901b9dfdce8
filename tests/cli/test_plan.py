"""`ladder plan` tells what would run and trains nothing."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ladder import paths
from ladder.cli import app, run_app
from ladder.pool.slot import Slot
from platforms import profile as profiles


def test_the_plan_of_a_rung_through_xla(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(app, ["plan", "mnist", "--nets", "linear", "--seeds", "1-2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (linear,) = told["recipes"]
    assert (told["platform"], told["seeds"]) == ("cpu", 2)
    assert (linear["recipe"], linear["parameters"], linear["steps"]) == ("linear-sgd", 7850, 12 * 468)
    assert linear["support"] in ("compiled", "from the cache")
    epoch_ms = 468 * linear["step_ms"] + 10 * linear["eval_ms"]
    assert linear["trial_s"] == pytest.approx(12 * epoch_ms / 1000)
    assert linear["total_s"] == pytest.approx(2 * linear["trial_s"])
    assert linear["disk_bytes"] > 70_000 * 785
    assert not paths.runs().exists()


def test_a_plan_on_an_absent_card_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(app, ["plan", "mnist", "--nets", "linear", "--platform", "iree-cuda"]) == 2
    assert "error: IREE's driver 'cuda'" in capsys.readouterr().err


def test_a_plan_for_a_rung_that_the_platform_cannot_run_is_its_reason(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    board = replace(profiles.load("cpu"), not_applicable={"mnist": "one 8 GB board"})
    monkeypatch.setattr(profiles, "load", lambda name: board)
    assert run_app(app, ["plan", "mnist"]) == 2
    assert "error: mnist is n/a on platform cpu: one 8 GB board" in capsys.readouterr().err


def test_a_device_in_use_is_not_disturbed(capsys: pytest.CaptureFixture[str]) -> None:
    with Slot.acquire("cpu-0", {"run": "a run"}, 0, lambda _: None):
        assert run_app(app, ["plan", "mnist", "--nets", "linear"]) == 2
    assert "is taken by process" in capsys.readouterr().err


def test_the_plan_loads_no_runtime_itself() -> None:
    code = (
        "import sys; from ladder.cli import app, run_app;"
        "run_app(app, ['plan', 'mnist', '--nets', 'linear', '--platform', 'nowhere']);"
        "import ladder.lowerers.iree.preflight;"
        "print([n for n in ('jax', 'iree', 'flax') if n in sys.modules])"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, timeout=120)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
