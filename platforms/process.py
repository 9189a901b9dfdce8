"""A command run under a deadline, in a process group of its own; however it ends is a value, never an exception."""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Literal

from platforms.redact import redact

POLL_S = 0.02
LIMIT = 1 << 20  # characters kept of what a command prints


@dataclass(frozen=True)
class Ended:
    """How a command ended: `state`, the exit `code` (negative: the signal), and what it printed, without secrets."""

    state: Literal["done", "failed", "absent", "hanging"]
    code: int | None
    out: str
    err: str
    seconds: float

    @property
    def died_of(self) -> str:
        """`exit code 9`, or `signal SIGABRT`."""
        if self.code is not None and self.code < 0:
            known = {number.value: number.name for number in signal.Signals}
            return f"signal {known.get(-self.code, -self.code)}"
        return f"exit code {self.code}"


def run(
    command: Sequence[str], deadline_s: float, env: Mapping[str, str] | None = None, first_line: bool = False
) -> Ended:
    """Run a command; after `deadline_s` seconds it and what it started are killed.

    With `first_line` it is ended as soon as it has printed a line: for tools that print for ever.
    """
    start = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env, process_group=0
            )
        except OSError as error:
            absent = isinstance(error, FileNotFoundError)
            return Ended("absent" if absent else "failed", error.errno, "", error.strerror or "", 0.0)
        try:
            has_line = _wait(child, out, start + deadline_s, first_line)
        finally:
            _kill(child)
        code = 0 if has_line else child.returncode
        took = time.monotonic() - start
        state = "done" if code == 0 else "hanging" if took >= deadline_s else "failed"
        environ = os.environ if env is None else env
        return Ended(state, code, redact(_read(out), environ), redact(_read(err), environ), took)


def _wait(child: "subprocess.Popen[bytes]", out: IO[bytes], until: float, first_line: bool) -> bool:
    """Wait for the child's end, the deadline, or, where that is asked for, its first line: then True."""
    while child.poll() is None and time.monotonic() < until:
        if first_line and b"\n" in os.pread(out.fileno(), LIMIT, 0):
            return True
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(POLL_S)
    return False


def _kill(child: "subprocess.Popen[bytes]") -> None:
    """The child and its group; a group that outlives its leader is killed too."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _read(file: IO[bytes]) -> str:
    return os.pread(file.fileno(), LIMIT, 0).decode("utf-8", "replace")
