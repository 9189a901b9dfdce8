"""The worker process: one device, one lowerer, trials one after another. Started by ladder.pool.pool, never by hand.

    python -m ladder.pool.worker --commands FD --events FD --slot FD --parent PID --lowerer xla --jax-platform cpu ...

Commands are JSON lines; the end of the commands pipe, or the parent's death, ends the worker at once.
"""

import argparse
import ctypes
import json
import os
import queue
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from ladder.pool.events import Event

PR_SET_PDEATHSIG = 1


class Events:
    """Writes events to the parent, numbered without gaps."""

    def __init__(self, fd: int) -> None:
        self._fd, self._seq, self._lock = fd, 0, threading.Lock()
        self.trial, self.attempt = "", 0

    def __call__(self, type: str, **data: Any) -> None:
        """Write one event as one whole line."""
        with self._lock:
            line = Event(type, self._seq, time.time(), self.trial, self.attempt, data).encode()
            self._seq += 1
            while line:
                line = line[os.write(self._fd, line) :]


def die_with_parent(parent: int) -> None:
    """Ask the kernel for SIGKILL when the parent's spawning thread ends, and leave if it is gone already."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def read_commands(fd: int, commands: "queue.Queue[dict[str, Any]]") -> None:
    """Queue the commands; leave the process, whatever it is doing, when the pipe ends."""
    try:
        with os.fdopen(fd, "rb") as pipe:
            for line in pipe:
                commands.put(json.loads(line))
    finally:
        os._exit(0)


def main() -> None:
    """Run trials until the commands pipe ends."""
    p = argparse.ArgumentParser()
    for name in ("commands", "events", "slot", "parent", "device"):
        p.add_argument(f"--{name}", type=int, required=True)
    for name in ("lowerer", "jax-platform"):
        p.add_argument(f"--{name}", required=True)
    p.add_argument("--fault")
    args = p.parse_args()
    die_with_parent(args.parent)
    for fd in (args.commands, args.events, args.slot):
        os.set_inheritable(fd, False)  # nothing that this process starts may keep the slot or the pipes
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C reaches the whole group; the parent decides
    commands: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=read_commands, args=(args.commands, commands), daemon=True).start()
    emit = Events(args.events)

    from ladder.errors import LadderError
    from ladder.pool.trials import Trials

    try:
        trials = Trials(args.lowerer, args.jax_platform, args.device, args.fault, emit)
    except LadderError as error:
        emit("refused", message=str(error))
        sys.exit(2)
    while True:
        job = commands.get()
        emit.trial, emit.attempt = job["trial"], job["attempt"]
        trials.run(job, Path(job["program"]))
        emit.trial, emit.attempt = "", 0


if __name__ == "__main__":
    main()
