"""`ladder up`: this box's part of Prefect, in the foreground. Server (if none is configured), deployments, worker."""

import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from types import FrameType

from filelock import FileLock, Timeout

from flows import server
from flows.nightly import Nightly
from flows.supervise import Child
from ladder import paths
from ladder.errors import LadderError

READY_S = 240.0  # a cold server takes 16 s here, several times that on a small or busy board
REAP_S = 30.0
LOCAL = ("127.0.0.1", "localhost")
Say = Callable[[str], None]


class Stop(BaseException):
    """SIGTERM or ctrl-C. Like KeyboardInterrupt, it passes every `except Exception`."""


def up(platform: str, nightly: Nightly | None, keep_nightly: bool, host: str, port: int, say: Say) -> int:
    """Bring this box up and keep it up until ctrl-C or SIGTERM. A second one says where the first is."""
    server.home().mkdir(parents=True, exist_ok=True)
    lock = FileLock(server.home() / "up.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        there = server.read_up()
        say(f"already up: {there.ui}" if there else "another `ladder up` on this box is starting")
        if there and not (keep_nightly and nightly is None):
            os.environ.update(server.environment(server.Server(there.api, "up")))
            say(f"nightly: {_register(platform, nightly, keep_nightly)}")
        return 0
    try:
        _hold(platform, nightly, keep_nightly, host, port, say)
    finally:
        lock.release()
    return 0


def _hold(platform: str, nightly: Nightly | None, keep_nightly: bool, host: str, port: int, say: Say) -> None:
    chosen = server.configured() or server.Server(f"http://{reached_at(host)}:{port}/api", "started here")
    os.environ.update(server.environment(chosen))
    ui = chosen.api.removesuffix("/").removesuffix("/api")
    running: list[Child] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _stop)
    try:
        if not chosen.configured:
            running.append(_server(host, port, say))
        await_answer(chosen, running, say)
        say(f"nightly: {_register(platform, nightly, keep_nightly)}")
        running.append(_worker(say))
        server.write_up(paths.box(), chosen.api, ui)
        say(f"box {paths.box()} is up ({chosen.why}): {ui}")
        say("open its Deployments page to run a rung or `climb`; ctrl-C ends it")
        _watch(running, say)
    except Stop:
        say("stopping")
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # once is enough
        (server.home() / server.UP).unlink(missing_ok=True)
        for child in reversed(running):
            child.stop(10.0)


def reached_at(host: str) -> str:
    """Where this box itself reaches a server that is bound to `host`."""
    return "127.0.0.1" if host in ("0.0.0.0", "::", "localhost") else host


def _stop(number: int, _: FrameType | None) -> None:
    raise Stop(signal.Signals(number).name)


def _server(host: str, port: int, say: Say) -> Child:
    if host not in LOCAL:
        say(f"bound to {host}: whoever reaches port {port} can start and cancel runs on this box")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            hint = (
                f"ladder up --port {port + 1}, or PREFECT_API_URL=http://127.0.0.1:{port}/api if it is a Prefect server"
            )
            raise LadderError(f"{host}:{port} cannot be bound: {error.strerror}", hint) from None
    command = [sys.executable, "-P", "-m", "prefect", "server", "start", "--host", host, "--port", str(port)]
    env = {**os.environ, "PREFECT_UI_API_URL": "/api"}  # of the host that the browser asked, whatever its name
    child = Child("Prefect server", command, env, server.home() / "server.log", say)
    say(f"starting a Prefect server on {host}:{port} (about 15 s the first time, 8 s later)")
    child.start()
    return child


def _worker(say: Say) -> Child:
    box = paths.box()
    command = [sys.executable, "-P", "-m", "prefect", "worker", "start", "--pool", box, "--type", "process"]
    child = Child("Prefect worker", [*command, "--limit", "1", "--name", box], dict(os.environ), None, say)
    child.start()
    return child


def await_answer(chosen: server.Server, running: list[Child], say: Say) -> None:
    """Wait for the server. Raises LadderError when it does not come."""
    deadline = time.monotonic() + (READY_S if running else 3.0)
    while not server.answers(chosen.api):
        for child in running:
            child.check()
        if time.monotonic() > deadline:
            where = f"; its log: {server.home() / 'server.log'}" if running else f" ({chosen.why})"
            raise LadderError(f"the Prefect server at {chosen.api} does not answer{where}")
        time.sleep(0.2)


def _register(platform: str, nightly: Nightly | None, keep_nightly: bool) -> str:
    from flows.deployments import register  # Prefect: only now, when its settings are in the environment

    return register(platform, nightly, keep_nightly)


def _watch(running: list[Child], say: Say) -> None:
    """Until told to stop: start again what died, and give dead flow runs their end."""
    from flows.reap import reap

    reaped = -REAP_S
    while True:
        for child in running:
            child.check()
        if time.monotonic() - reaped >= REAP_S:
            reaped = time.monotonic()
            try:
                for line in reap():
                    say(line)
            except Exception as error:  # the server is away for a while; it is asked again
                say(f"looking for dead runs: {error!r}")
        time.sleep(0.5)
