"""Child processes that are kept alive while `ladder up` lives, and no longer."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ladder import children
from ladder.errors import LadderError

TOO_SOON_S = 20.0  # a child that ends this soon after its start has something wrong with it
TRIES = 3


@dataclass
class Child:
    """A process that is started again when it dies. It leaves ctrl-C to us, who end the children in order."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path | None  # None: our own terminal
    say: Callable[[str], None]
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    soon: int = field(default=0)  # how often in a row it ended too soon

    def start(self) -> None:
        """Start it."""
        command = [*children.command("flows.child"), str(os.getpid()), *self.command]
        out = self.log.open("ab") if self.log else None
        try:
            self.process = subprocess.Popen(
                command,
                env=children.environment(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        finally:
            if out:
                out.close()
        self.started = time.monotonic()

    def check(self) -> None:
        """Start it again if it is dead. Raises LadderError when that does not help."""
        if self.process is None or (status := self.process.poll()) is None:
            return
        self.soon = self.soon + 1 if time.monotonic() - self.started < TOO_SOON_S else 0
        how = signal.Signals(-status).name if status < 0 else f"exit {status}"
        if self.soon >= TRIES:
            where = f"its log: {self.log}" if self.log else "see above"
            raise LadderError(f"the {self.name} ended {TRIES} times soon after its start ({how}); {where}")
        self.say(f"the {self.name} ended ({how}); starting it again")
        self.start()

    def stop(self, patience_s: float) -> None:
        """End it: asked first, then by force."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
