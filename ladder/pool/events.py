"""What a worker says: JSON lines `{v, seq, t, trial, attempt, type, ...}` on a descriptor of its own, never stdout."""

import json
from dataclasses import dataclass, field
from typing import Any

VERSION = 1


class BadEvent(Exception):
    """A line that is no event, or a gap in `seq`."""


@dataclass(frozen=True)
class Event:
    """One event. `t` is unix time in seconds; `data` is what the type carries."""

    type: str
    seq: int
    t: float
    trial: str = ""
    attempt: int = 0
    data: dict[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The line, with its newline."""
        head = {"v": VERSION, "seq": self.seq, "t": round(self.t, 3), "trial": self.trial, "attempt": self.attempt}
        return (json.dumps({**head, "type": self.type, **self.data}) + "\n").encode()

    def line(self) -> str:
        """One line for a log, or "" when the event is only for machines."""
        write = _LINES.get(self.type)
        text = write(self.data) if write else ""
        return f"{self.trial}: {text}" if text and self.trial else text


def decode(line: bytes, expected_seq: int) -> Event:
    """The event on a line. Raises BadEvent for anything else, and for a gap in `seq`."""
    try:
        fields = json.loads(line)
        version, seq, t, trial, attempt, kind = (fields.pop(k) for k in ("v", "seq", "t", "trial", "attempt", "type"))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadEvent(f"not an event: {line[:80]!r} ({error!r})") from None
    if version != VERSION:
        raise BadEvent(f"event version {version}; this parent reads {VERSION}")
    if seq != expected_seq:
        raise BadEvent(f"event seq {seq}; expected {expected_seq}: events were lost")
    return Event(kind, seq, t, trial, attempt, fields)


def _epoch(d: dict[str, Any]) -> str:
    from ladder.verdict import wilson  # not at import: a worker has no use for SciPy

    low, high = wilson(d["correct"], d["total"])
    return (
        f"epoch {d['epoch']}: train loss {d['train_loss']:.6f}, test {d['correct']}/{d['total']} "
        f"({100 * d['correct'] / d['total']:.2f} %, Wilson 95 % {100 * low:.2f}-{100 * high:.2f}), {d['seconds']:.2f} s"
    )


def _compiled(d: dict[str, Any]) -> str:
    how = "from the cache" if all(d["cached"].values()) else "compiled"
    return f"program {d['program_sha'][:12]} {how} in {d['compile_s']:.2f} s"


def _alarm(d: dict[str, Any]) -> str:
    where = "below" if d["correct"] < d["low"] else "above"
    band = f"the band {d['low']}-{d['high']} of {d['curves']} curves of {d['reference']}"
    return f"alarm: epoch {d['epoch']}: {d['correct']}/{d['total']} lies {where} {band}"


_LINES = {
    "ready": lambda d: f"worker {d['pid']} ready on {d['device']} ({d['lowerer']}, {d['runtime']})",
    "compiled": _compiled,
    "first_step": lambda d: "first step done",
    "resumed": lambda d: f"resumed after epoch {d['epoch']}",
    "checkpoint": lambda d: d["reason"],
    "epoch": _epoch,
    "alarm": _alarm,
    "final": lambda d: f"final {d['correct']}/{d['total']} after {d['train_s']:.1f} s",
    "error": lambda d: f"{d['status']}: {d['message']}",
    "lost": lambda d: f"attempt {d['attempt_lost']} {d['status']}: {d['message']}",
    "log": lambda d: f"worker: {d['text']}",
}
