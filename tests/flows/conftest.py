"""A box that is up: one real `ladder up`, with its server and worker, for the whole session."""

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

os.environ["PREFECT_HOME"] = tempfile.mkdtemp(prefix="ladder-prefect-")  # tests that import Prefect: not the user's own
LADDER = [sys.executable, "-P", "-c", "import sys; from flows.cli import main; main()"]
FINAL = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until[T](ask: Callable[[], T | None], seconds: float, what: str) -> T:
    """The first true answer. Fails the test when there is none in time."""
    deadline = time.monotonic() + seconds
    while not (answer := ask()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.1)
    return answer


@dataclass
class Box:
    """A box under test: its folders, its environment, and its server's REST interface."""

    root: Path
    data_dir: Path
    port: int
    env: dict[str, str] = field(default_factory=dict[str, str])
    started: "list[subprocess.Popen[str]]" = field(default_factory=list["subprocess.Popen[str]"])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    def ladder(self, *arguments: str, **env: str) -> "subprocess.Popen[str]":
        """A `ladder` command, started. Its output, both streams, is in `.stdout`."""
        made = subprocess.Popen(
            [*LADDER, *arguments], env={**self.env, **env}, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self.started.append(made)
        return made

    def stop_started(self) -> None:
        """End the commands that a test left running; what they said is in its captured output."""
        while self.started:
            process = self.started.pop()
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired, ValueError):  # ValueError: the test has read it
                print(process.communicate(timeout=15)[0])
            process.kill()

    def run_mnist(self, *arguments: str, **env: str) -> "subprocess.Popen[str]":
        """`ladder run mnist` on the tiny dataset."""
        return self.ladder("run", "mnist", "--data-dir", str(self.data_dir), *arguments, **env)

    def api(self, path: str, body: Any = None, tries: int = 5) -> Any:
        """GET, or POST a body. A busy SQLite is asked again, as Prefect's own client does."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/api{path}", data, {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                return json.loads(reply.read() or "null")
        except urllib.error.HTTPError as refused:
            with refused:
                told = f"{refused.code}: {refused.read().decode()}"
            if refused.code == 503 and tries:
                time.sleep(1)
                return self.api(path, body, tries - 1)
            raise ValueError(told) from None

    def start(self, deployment: str, **parameters: Any) -> str:
        """Start a run as the UI does; its id."""
        found = self.api(f"/deployments/name/{deployment}/testbox")
        return self.api(f"/deployments/{found['id']}/create_flow_run", {"parameters": parameters})["id"]

    def start_mnist(self, **parameters: Any) -> str:
        """A run of mnist on the tiny dataset."""
        return self.start("mnist", data_dir=str(self.data_dir), **parameters)

    def flow_run(self, run: str) -> dict[str, Any]:
        return self.api(f"/flow_runs/{run}")

    def flow_runs(self, *types: str) -> list[dict[str, Any]]:
        """The flow runs whose state has one of these types, newest first."""
        asked = {"flow_runs": {"state": {"type": {"any_": types}}}, "sort": "START_TIME_DESC"}
        return self.api("/flow_runs/filter", asked)

    def in_state(self, run: str, *types: str, seconds: float = 60) -> dict[str, Any]:
        """The flow run, when its state has one of these types."""

        def ask() -> dict[str, Any] | None:
            found = self.flow_run(run)
            return found if found["state_type"] in types else None

        return until(ask, seconds, f"flow run in {types}")

    def finished(self, run: str, seconds: float = 120) -> dict[str, Any]:
        """The flow run, in its final state."""
        return self.in_state(run, *FINAL, seconds=seconds)

    def newest(self, *types: str) -> dict[str, Any]:
        """The flow run that started last and is in one of these states (default: final)."""
        return self.flow_runs(*(types or FINAL))[0]

    def cancel(self, run: str) -> None:
        """What the UI's Cancel button does."""
        self.api(f"/flow_runs/{run}/set_state", {"state": {"type": "CANCELLING"}})

    def logs(self, run: str) -> str:
        """The log lines of a flow run and its tasks."""
        found = self.api("/logs/filter", {"logs": {"flow_run_id": {"any_": [run]}}, "sort": "TIMESTAMP_ASC"})
        return "\n".join(line["message"] for line in found)

    def artifacts(self, run: str) -> dict[str, dict[str, Any]]:
        """The artifacts of a flow run, by key."""
        found = self.api("/artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [run]}}})
        return {artifact["key"]: artifact for artifact in found}

    def slot_is_free(self) -> bool:
        """Whether somebody else could use the device now."""
        with (self.root / "cache" / "slots" / "cpu-0.lock").open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return False
            return True

    def record(self, name: str) -> tuple[dict[str, Any], list[dict[str, str]]]:
        """The manifest and the finals of a complete record."""
        folder = self.runs / name
        head, *lines = [line.split("\t") for line in (folder / "finals.tsv").read_text().splitlines()]
        return json.loads((folder / "manifest.json").read_text()), [
            dict(zip(head, line, strict=True)) for line in lines
        ]

    def epochs(self, seed: int) -> int:
        """How many epochs of this seed the unfinished records have. A seed of its own keeps a test's run apart."""
        lines = [
            line for file in (self.runs / ".partial").glob("*/epochs.jsonl") for line in file.read_text().splitlines()
        ]
        return sum(json.loads(line)["seed"] == seed for line in lines)


class Wire:
    """A TCP relay to a server, which can be cut: to its clients the server is then dead."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                return
            self._open += [near, far]
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._relay, args=(source, target), daemon=True).start()

    @staticmethod
    def _relay(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """No connection from now on."""
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


def stop(process: "subprocess.Popen[Any]", seconds: float = 30) -> None:
    """End a process of ours as a user would, by force if that does not help."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def make_box(root: Path, shared_cache: Path, data_dir: Path) -> Box:
    """Folders and environment; nothing is started."""
    cache = root / "cache"
    cache.mkdir(parents=True)
    for name in ("programs", "xla"):
        (cache / name).symlink_to(shared_cache / name)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT", "LADDER"))}
    own = {"LADDER_CACHE": str(cache), "LADDER_RUNS": str(root / "runs"), "LADDER_BOX": "testbox", "HOME": str(root)}
    return Box(root, data_dir, free_port(), {**kept, **own})


@pytest.fixture(scope="session")
def up(
    tmp_path_factory: pytest.TempPathFactory, shared_cache: Path, idx_folder: Path
) -> Iterator[tuple[Box, "subprocess.Popen[Any]"]]:
    """A box and its `ladder up`."""
    box = make_box(tmp_path_factory.mktemp("box"), shared_cache, idx_folder)
    log = box.root / "up.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*LADDER, "up", "--port", str(box.port), "--nightly", "22:30", "--timezone", "Europe/Berlin"],
            env=box.env,
            stdout=out,
            stderr=out,
        )
    try:
        until(lambda: "is up" in log.read_text() or process.poll() is not None, 260, "ladder up")
        assert process.poll() is None, log.read_text()
        yield box, process
    finally:
        stop(process)


@pytest.fixture(scope="session")
def finished(up: tuple[Box, "subprocess.Popen[Any]"]) -> tuple[Box, dict[str, Any]]:
    """A run from the UI, at its end: two nets, two seeds, ten epochs."""
    box, _ = up
    return box, box.finished(box.start_mnist(nets=["linear", "mlp"], seeds=2, epochs=10))


@pytest.fixture
def wire(box: Box) -> Iterator[Wire]:
    """A connection to the box's server that a test can cut."""
    made = Wire(box.port)
    yield made
    made.cut()


@pytest.fixture
def box(up: tuple[Box, "subprocess.Popen[Any]"]) -> Iterator[Box]:
    """The box that is up; commands that a test leaves running are ended."""
    yield up[0]
    up[0].stop_started()
