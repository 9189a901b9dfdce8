"""What a suite child says: JSON lines `{v, seq, run, type, ...}` on a pipe of its own, never standard output.

`run` is the token that the parent gave this child: lines of any other run, such as an old log, are no evidence.
"""

import json
import os
from dataclasses import asdict
from typing import Any

from ladder.suite.case import Outcome

VERSION = 1


class BadLine(Exception):
    """A line that is none of this child's, or a gap in `seq`."""


class Transcript:
    """The child's end: a tier module's `report`."""

    def __init__(self, fd: int, run: str) -> None:
        self._fd, self._run, self._seq = fd, run, 0

    def start(self, name: str) -> None:
        """A case begins."""
        self.write("start", name=name)

    def __call__(self, name: str, outcome: Outcome) -> None:
        """A case ended."""
        self.write("done", name=name, outcome=asdict(outcome))

    def facts(self, **facts: Any) -> None:
        """What the record should know."""
        self.write("facts", facts=facts)

    def end(self) -> None:
        """All names were run. Without this line the transcript is truncated, whatever the exit status."""
        self.write("end")

    def write(self, type: str, **fields: Any) -> None:
        """One whole line."""
        head = {"v": VERSION, "seq": self._seq, "run": self._run, "type": type}
        self._seq += 1
        line = (json.dumps(head | fields) + "\n").encode()
        while line:
            line = line[os.write(self._fd, line) :]


def decode(line: bytes, run: str, seq: int) -> dict[str, Any]:
    """The line's fields; those of `done` hold an Outcome. Raises BadLine."""
    try:
        fields = json.loads(line)
        head = tuple(fields[key] for key in ("v", "run", "seq"))
        if fields["type"] == "done":
            fields["outcome"] = Outcome(**fields["outcome"])
            if fields["outcome"].status not in ("pass", "fail", "skip"):
                raise ValueError(f"status {fields['outcome'].status}")
        if fields["type"] not in ("start", "done", "facts", "end"):
            raise ValueError(f"type {fields['type']}")
    except (ValueError, KeyError, TypeError) as error:
        raise BadLine(f"not a line of a suite child: {line[:80]!r} ({error!r})") from None
    if head != (VERSION, run, seq):
        raise BadLine(f"a line of version {head[0]}, run {head[1]}, number {head[2]}; wanted {VERSION}, {run}, {seq}")
    return fields
