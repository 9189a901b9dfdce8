"""A device slot is an OS lock file: one user at a time, and a second is told the holder.

The lock belongs to an open file description that the worker inherits, so that a slot is free only when the parent *and*
its worker are gone, and no crash can leave it taken.
"""

import fcntl
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from ladder import paths
from ladder.errors import LadderError

POLL_S = 0.5
SAY_S = 30.0


class Busy(LadderError):
    """Somebody else holds the slot."""


class Slot:
    """A held slot. `fd` keeps it; `close` (or the end of every process that has the descriptor) frees it."""

    def __init__(self, name: str, fd: int) -> None:
        self.name, self.fd = name, fd

    @classmethod
    def acquire(cls, name: str, holder: dict[str, Any], wait_s: float, say: Callable[[str], None]) -> Self:
        """Take the slot `name`, e.g. `cpu-0`; `holder` is what another user is told.

        Waits up to `wait_s` seconds, saying whom for. Raises Busy naming the holder.
        """
        path = _path(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise LadderError(
                f"the slot file {path} cannot be written: {error.strerror}", "set LADDER_CACHE to a folder that can"
            ) from error
        try:
            _lock(fd, name, wait_s, say)
            since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            os.ftruncate(fd, 0)
            os.pwrite(fd, json.dumps({"pid": os.getpid(), "since": since, **holder}).encode(), 0)
        except BaseException:
            os.close(fd)
            raise
        return cls(name, fd)

    def close(self) -> None:
        """Give the slot back."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _lock(fd: int, name: str, wait_s: float, say: Callable[[str], None]) -> None:
    deadline, said = time.monotonic() + wait_s, -SAY_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            now = time.monotonic()
            if now >= deadline:
                raise Busy(
                    f"device slot {name} is taken by {describe(name)}; waited {wait_s:.0f} s",
                    "wait for it, stop it, or give --wait SECONDS",
                ) from None
            if now - said >= SAY_S:
                said = now
                say(f"device slot {name} is taken by {describe(name)}; waiting up to {deadline - now:.0f} s more")
            time.sleep(min(POLL_S, deadline - now))
        except OSError as error:
            raise LadderError(f"the slot file {_path(name)} cannot be locked: {error.strerror}") from error


def _path(name: str) -> Path:
    return paths.cache() / "slots" / f"{name}.lock"


def describe(name: str) -> str:
    """The holder of a slot, in words."""
    try:
        held = json.loads(_path(name).read_text())
        return f"process {held['pid']} ({held.get('run', 'unknown')}) since {held['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "an unknown process"
