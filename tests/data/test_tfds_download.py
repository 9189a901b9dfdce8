"""TFDS's download: asked only where it can work, in its own process, with deadlines, and failing in one line."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ladder.data import tfds_download
from ladder.data.source import Found

REPO = Path(__file__).resolve().parents[2]
WHERE = "TFDS_DATA_DIR"


def silent(_: str) -> None:
    pass


@pytest.fixture
def ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with TensorFlow and a network."""
    monkeypatch.setattr(tfds_download, "find_spec", lambda _: object())
    monkeypatch.setattr(tfds_download, "unreachable", lambda _: "")


def test_without_tensorflow_the_answer_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tfds_download, "find_spec", lambda _: None)
    answer = tfds_download.look("mnist", tmp_path / "new", WHERE, silent)
    assert answer == "preparing needs TensorFlow, which is not installed: pip install '.[tfds]' in the checkout"
    assert not (tmp_path / "new").exists()


@pytest.mark.usefixtures("ready")
def test_without_a_network_tfds_is_not_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tfds_download, "unreachable", lambda _: "no network: host:443: refused")
    monkeypatch.setattr(tfds_download, "run", None)
    assert tfds_download.look("mnist", tmp_path, WHERE, silent) == "no network: host:443: refused"


@pytest.mark.usefixtures("ready")
def test_what_tfds_prepared_is_then_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny_tfds: Path, said: list[str]
) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], seconds: float) -> str:
        commands.append(command)
        shutil.copytree(tiny_tfds / "mnist", tmp_path / "new" / "mnist")
        return ""

    monkeypatch.setattr(tfds_download, "run", run)
    for _ in range(2):
        answer = tfds_download.look("mnist", tmp_path / "new", WHERE, said.append)
        assert isinstance(answer, Found)
    assert commands == [[sys.executable, "-m", "ladder.data.tfds_download", "mnist", str(tmp_path / "new")]]
    assert said == ["TFDS downloads and prepares mnist in TFDS_DATA_DIR, for up to 15 min"]


@pytest.mark.usefixtures("ready")
def test_a_failing_tfds_is_one_line_without_paths(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tfds_download, "run", lambda *_: f"TFDS failed with code 1: OSError: {tmp_path}/mnist")
    answer = tfds_download.look("mnist", tmp_path, WHERE, silent)
    assert answer == "TFDS failed with code 1: OSError: TFDS_DATA_DIR/mnist"


@pytest.mark.usefixtures("ready")
def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert (
        tfds_download.look("mnist", tmp_path / "file", WHERE, silent) == "TFDS_DATA_DIR cannot be written: File exists"
    )


def test_a_process_that_succeeds_says_nothing() -> None:
    assert tfds_download.run([sys.executable, "-c", "print('fine')"], 30) == ""


def test_a_process_that_fails_gives_its_last_line() -> None:
    code = "import sys; print('first', file=sys.stderr); raise SystemExit('the last line\\n')"
    assert tfds_download.run([sys.executable, "-c", code], 30) == "TFDS failed with code 1: the last line"
    assert tfds_download.run([sys.executable, "-c", "raise SystemExit(4)"], 30).endswith("code 4: it said nothing")


def test_a_process_that_hangs_is_ended() -> None:
    start = time.monotonic()
    answer = tfds_download.run([sys.executable, "-c", "import time; time.sleep(60)"], 0.5)
    assert answer == "TFDS had not prepared it after 0.5 s and was ended"
    assert time.monotonic() - start < 5


def test_the_preparing_process_ends_with_its_parent(tmp_path: Path) -> None:
    child = "import os, sys, threading, time; from ladder.data import tfds_download as t; "
    child += "threading.Thread(target=t._end_with_parent, daemon=True).start(); "
    child += "open(sys.argv[1] + '.new', 'w').write(str(os.getpid())); os.rename(sys.argv[1] + '.new', sys.argv[1]); "
    child += "time.sleep(60)"
    pid_file = tmp_path / "pid"
    parent = "import sys; from ladder.data.tfds_download import run; run(sys.argv[1:], 60)"
    command = [sys.executable, "-c", parent, sys.executable, "-c", child, str(pid_file)]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(REPO)})
    wait_until(pid_file.exists)
    process.send_signal(signal.SIGKILL)
    process.wait()
    pid = int(pid_file.read_text())
    wait_until(lambda: not running(pid))


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "not within the deadline"
        time.sleep(0.02)


@pytest.fixture
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tfds_download, "getproxies", dict)


@pytest.mark.usefixtures("no_proxy")
def test_a_host_that_answers_is_reachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert tfds_download.unreachable("127.0.0.1", server.getsockname()[1]) == ""


@pytest.mark.usefixtures("no_proxy")
def test_a_closed_port_is_no_network() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    answer = tfds_download.unreachable("127.0.0.1", port)
    assert answer == f"no network: 127.0.0.1:{port}: Connection refused"


@pytest.mark.usefixtures("no_proxy")
def test_a_name_that_does_not_resolve_in_time_is_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()

    def resolving(*_: object) -> None:
        answered.wait(20)
        raise OSError("too late to matter")

    monkeypatch.setattr(socket, "create_connection", resolving)
    start = time.monotonic()
    assert tfds_download.unreachable("example", 443, 0.2) == "no network: example:443 did not answer in 0.2 s"
    assert time.monotonic() - start < 2
    answered.set()


def test_behind_a_proxy_the_proxy_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        for proxy in ("http://127.0.0.1:{}", "127.0.0.1:{}"):
            address = proxy.format(server.getsockname()[1])
            monkeypatch.setattr(tfds_download, "getproxies", lambda address=address: {"https": address})
            assert tfds_download.unreachable("host.invalid") == ""
