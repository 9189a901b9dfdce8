"""Whatever is killed or cancelled, nothing recorded is lost, the device is free, and Prefect tells the truth."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

if TYPE_CHECKING:
    from tests.flows.conftest import Box, Wire

pytestmark = pytest.mark.server
Up = tuple["Box", "subprocess.Popen[Any]"]
LONG = 400  # epochs: a minute or more; nobody waits for its end
WORKER = "ladder.pool.worker"


def until(ask: Any, seconds: float, what: str) -> Any:
    deadline = time.monotonic() + seconds
    while not (answer := ask()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.1)
    return answer


def below(pid: int, words: str) -> list[psutil.Process]:
    """The live processes below `pid` with these words in their command line."""
    return [p for p in psutil.Process(pid).children(recursive=True) if words in command_line(p)]


def command_line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def test_cancelling_in_the_ui_frees_the_device_within_10_seconds(box: "Box", up: Up) -> None:
    run = box.start_mnist(nets=["cnn"], exact_seeds=[11], epochs=LONG)
    until(lambda: box.epochs(11) >= 2, 90, "two epochs")
    workers = below(up[1].pid, WORKER)
    assert workers
    assert not box.slot_is_free()
    start = time.monotonic()
    box.cancel(run)
    until(box.slot_is_free, 10, "the device is free")
    print(f"device free {time.monotonic() - start:.1f} s after the cancel")
    assert not any(worker.is_running() for worker in workers)
    assert box.finished(run)["state_type"] == "CANCELLED"
    assert box.epochs(11) >= 2


def test_cancelling_a_command_lines_run_in_the_ui_ends_the_command(box: "Box") -> None:
    command = box.run_mnist("--nets", "cnn", "--seeds", "12", "--epochs", str(LONG))
    until(lambda: box.epochs(12) >= 2, 60, "two epochs")
    run = box.newest("RUNNING")
    box.cancel(run["id"])
    output = command.communicate(timeout=15)[0]
    assert box.slot_is_free()
    assert command.returncode == 3, output
    assert "was cancelled; the same command goes on from where it was" in output
    assert box.finished(run["id"])["state_type"] == "CANCELLED"


def test_a_killed_device_worker_costs_an_attempt_and_nothing_else(box: "Box") -> None:
    command = box.run_mnist("--nets", "cnn", "--seeds", "13", "--epochs", "6")
    until(lambda: box.epochs(13) >= 2, 90, "two epochs")
    below(command.pid, WORKER)[0].send_signal(signal.SIGKILL)
    output = command.communicate(timeout=60)[0]
    run = box.newest()
    (final,) = box.record(run["name"])[1]
    assert (final["attempts"], final["epochs"]) == ("2", "6"), output
    assert "SIGKILL" in box.logs(run["id"])
    assert "resumed after epoch" in box.logs(run["id"])


def test_a_killed_run_is_gone_on_with_and_its_flow_run_reaped(box: "Box") -> None:
    again = ("--nets", "linear,cnn", "--seeds", "14", "--epochs", "6")
    command = box.run_mnist(*again)
    until(lambda: box.epochs(14) >= 6 + 2, 90, "linear, and two epochs of cnn")
    run = box.newest("RUNNING")
    command.kill()
    command.communicate()
    until(box.slot_is_free, 10, "the device is free")
    assert box.flow_run(run["id"])["state_type"] == "RUNNING"  # nobody told the server
    output = box.run_mnist(*again).communicate(timeout=90)[0]
    assert "resuming interrupted run" in output
    assert re.search(r"2 trials, 1 already done", output)
    assert [f["net"] for f in box.record(box.newest()["name"])[1]] == ["linear", "cnn"]
    assert box.flow_run(run["id"])["state_type"] == "CRASHED"
    assert "its process" in box.flow_run(run["id"])["state"]["message"]


def test_a_run_whose_worker_and_process_both_died_does_not_stay_running(box: "Box", up: Up) -> None:
    run = box.start_mnist(nets=["cnn"], exact_seeds=[15], epochs=LONG)
    until(lambda: box.epochs(15) >= 1, 90, "an epoch")
    (worker,) = below(up[1].pid, "prefect worker start")
    (flow,) = below(up[1].pid, "prefect.engine")
    worker.suspend()  # it must not see what happens to the flow
    flow.kill()
    worker.kill()
    until(box.slot_is_free, 10, "the device is free")
    assert box.flow_run(run)["state_type"] == "RUNNING"
    ended = box.finished(run, 60)
    assert ended["state_type"] == "CRASHED"
    assert "is gone; what it had recorded is kept" in ended["state"]["message"]
    until(lambda: below(up[1].pid, "prefect worker start"), 10, "another worker")


def test_a_run_whose_worker_died_ends_and_frees_the_device(box: "Box", up: Up) -> None:
    run = box.start_mnist(nets=["cnn"], exact_seeds=[16], epochs=LONG)
    until(lambda: box.epochs(16) >= 1, 90, "an epoch")
    below(up[1].pid, "prefect worker start")[0].kill()
    until(box.slot_is_free, 15, "the device is free")
    assert box.finished(run)["state_type"] in ("FAILED", "CRASHED")


def test_a_server_that_dies_mid_run_costs_the_page_and_not_the_record(box: "Box", wire: "Wire") -> None:
    command = box.run_mnist(
        "--nets", "cnn,linear", "--seeds", "17", "--epochs", "6", PREFECT_API_URL=f"http://127.0.0.1:{wire.port}/api"
    )
    until(lambda: box.epochs(17) >= 6 + 1, 90, "linear, and an epoch of cnn")
    wire.cut()
    start = time.monotonic()
    output = command.communicate(timeout=120)[0]
    print(f"ended {time.monotonic() - start:.1f} s after the server's end")
    (name,) = re.findall(r"; record: \S*/(\S+)", output)
    manifest, finals = box.record(name)
    assert [f["epochs"] for f in finals] == ["6", "6"]
    assert command.returncode == {"pass": 0, "fail": 1, "diverged": 1}.get(manifest["word"], 3), output
    assert output.count("Prefect is lost") == 1
    assert "Traceback" not in output
    assert "EventsWorker" not in output


def test_a_nightly_that_overlaps_is_cancelled_not_queued(box: "Box") -> None:
    first = box.start("climb", seeds=100, budget_hours=1)
    box.in_state(first, "RUNNING")
    second = box.start("climb", seeds=1)
    assert box.finished(second, 60)["state_type"] == "CANCELLED"
    box.cancel(first)
    assert box.finished(first, 30)["state_type"] == "CANCELLED"
    assert all(run["state_type"] != "RUNNING" for run in box.flow_runs("RUNNING"))


def test_whoever_kills_up_kills_its_worker_and_its_run(box: "Box", tmp_path: Path) -> None:
    env = {
        "PREFECT_API_URL": f"{box.url}/api",
        "LADDER_BOX": "other",
        "LADDER_CACHE": str(tmp_path),
    }
    other = box.ladder("up", **env)
    worker = until(lambda: below(other.pid, "prefect worker start"), 60, "a worker")[0]
    os.kill(other.pid, signal.SIGKILL)
    other.communicate()
    until(lambda: not worker.is_running(), 20, "the worker ends")
