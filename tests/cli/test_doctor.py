"""`ladder doctor`: exit code 1 only on FAIL, two lines for a mistake, and the same answer as JSON."""

import json
import os
import subprocess
import sys

import pytest

from ladder.cli import app, run_app
from platforms import doctor
from platforms.doctor import Check, Examination, Report

BOX = {"system": "Linux", "processor": "a CPU", "cores": 2, "python": "3.12.1"}


def answer(monkeypatch: pytest.MonkeyPatch, level: doctor.Level) -> None:
    checks = (Check("device", "OK", "it is here"), Check("stack", level, "jax 0.12", "bash deploy/x.sh"))
    report = Report("x", "A platform", "ready", "it is here", checks=checks, unknown=("its rounding",))
    found = Examination(BOX, (Check("shell", "OK", "jax starts cpu:0"),), (report,))
    monkeypatch.setattr(doctor, "examine", lambda *_: found)


@pytest.mark.parametrize(("level", "code"), [("OK", 0), ("WARN", 0), ("FAIL", 1)])
def test_only_a_failure_is_exit_code_1(
    level: doctor.Level, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(monkeypatch, level)
    assert run_app(app, ["doctor"]) == code
    out = capsys.readouterr().out
    assert f"  {level:4}  stack: jax 0.12\n" in out
    assert ("        next: bash deploy/x.sh\n" in out) == (level != "OK")
    assert "not known of x: its rounding" in out
    assert run_app(app, ["doctor", "--json"]) == code
    told = json.loads(capsys.readouterr().out)
    assert sorted(told) == ["box", "healthy", "platforms", "shell"]
    assert sorted(told["platforms"][0]) == [
        *("checks", "devices", "environment", "platform", "reason", "state", "title", "unknown"),
    ]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--platform", "cuda-9"], "there is no platform 'cuda-9'; the platforms are: cpu, cuda-desktop"),
        (["--platform", "../cpu"], "there is no platform '../cpu'"),
        (["--devices", "0"], "--devices 0: at least 1"),
        (["--devices", "2"], "--devices 2 needs a --platform"),
        (["--devices", "two"], "two"),
    ],
)
def test_nonsense_is_two_lines(argv: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(app, ["doctor", *argv]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert len(err.splitlines()) <= 2


def test_the_doctor_never_loads_a_runtime_itself() -> None:
    """On this box, for real."""
    code = (
        "import sys\nfrom ladder.cli import app, run_app\ncode = run_app(app, ['doctor', '--platform', 'cpu'])\n"
        "heavy = {'jax', 'jaxlib', 'iree', 'numpy', 'prefect'} & set(sys.modules)\n"
        "assert not heavy, heavy\nsys.exit(code)"
    )
    environ = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200, env=environ)
    assert (done.returncode, done.stderr) == (0, "")
    assert "cpu:\n  OK    device: every box has one" in done.stdout
