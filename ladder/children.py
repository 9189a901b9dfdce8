"""How Ladder starts a process of its own: with this process's code, and no longer than its deadline or its parent."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

# In a Python of its own, not between fork and exec, where a process with threads may run next to nothing.
_BIND = """
import ctypes, os, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL: it outlives the exec
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


def command(module: str) -> list[str]:
    """The command line that runs a module. -P: a `models` folder where the user stands is not ours."""
    return [sys.executable, "-P", "-m", module]


def environment(base: Mapping[str, str]) -> dict[str, str]:
    """`base` with this process's own packages first on the path."""
    root = str(Path(__file__).resolve().parents[1])
    return {**base, "PYTHONPATH": os.pathsep.join(filter(None, (root, base.get("PYTHONPATH"))))}


def bound(argv: Sequence[str]) -> list[str]:
    """The command line that runs `argv` no longer than the thread that starts it."""
    return [sys.executable, "-I", "-S", "-c", _BIND, str(os.getpid()), *argv]


@dataclass(frozen=True)
class Ended:
    """How a child ended. `code` is None when it was killed at its deadline, and negative for a signal."""

    code: int | None
    seconds: float
    output: str
    errors: str

    @property
    def how(self) -> str:
        """`exit 1`, `SIGSEGV`, or `killed after 5 s`."""
        if self.code is None:
            return f"killed after {self.seconds:.0f} s"
        return signal.Signals(-self.code).name if self.code < 0 else f"exit {self.code}"


def run(argv: Sequence[str], deadline_s: float, env: Mapping[str, str], given: str = "") -> Ended:
    """Run a command to its end or its deadline, `given` on its standard input.

    It and what it started are killed at the deadline; the kernel kills it when the calling thread ends.
    """
    start = time.perf_counter()
    with subprocess.Popen(
        bound(argv),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=dict(env),
    ) as process:
        try:
            output, errors = process.communicate(given, timeout=deadline_s)
            code: int | None = process.returncode
        except subprocess.TimeoutExpired:
            kill(process.pid)
            output, errors = process.communicate()
            code = None
        except BaseException:
            kill(process.pid)
            raise
    return Ended(code, time.perf_counter() - start, output, errors)


def kill(pid: int) -> None:
    """Kill a process and what it started."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
