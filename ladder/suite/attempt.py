"""A process and how it ended: right, wrong, refused, crash or hang are five things, and only two may be tried again.

A hang or a wrong result is tried again without peer-to-peer copies, on record; beside it a control arm does the same
sum on one device. An ImportError, or any other error that says what it is, is not cured by a second try.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ladder import children
from ladder.suite.case import Outcome, Side, failed, passed
from ladder.suite.peer import MARK

WITHOUT_P2P = {"NCCL_P2P_DISABLE": "1"}  # read by NCCL and RCCL; elsewhere it changes nothing, and the retry shows that
TRIED_AGAIN = ("hang", "wrong")


@dataclass(frozen=True)
class Attempt:
    """How a process ended. `crash`: of a signal; `refused`: an exit status other than 0, or no result line."""

    how: Literal["right", "wrong", "refused", "crash", "hang"]
    detail: str


def attempt(role: Sequence[str], wanted: Sequence[float], limit_s: float, env: Mapping[str, str]) -> Attempt:
    """Run a role of ladder.suite.peer to its end or its limit; right only with its result line and exit status 0."""
    ended = children.run([*children.command("ladder.suite.peer"), *role], limit_s, children.environment(env))
    return judged(ended, wanted)


def judged(ended: children.Ended, wanted: Sequence[float]) -> Attempt:
    """How a process ended, from its transcript and its exit status."""
    said = next((line for line in reversed(ended.errors.splitlines()) if line.strip()), "")[:200]
    if ended.code is None:
        return Attempt("hang", ended.how)
    if ended.code < 0:
        return Attempt("crash", f"{ended.how} {said}".strip())
    lines = [line for line in ended.output.splitlines() if line.startswith(MARK)]
    try:
        found = json.loads(lines[-1].removeprefix(MARK)) if lines else None
    except ValueError:
        found = None
    if ended.code or not isinstance(found, list):
        return Attempt(
            "refused", f"{ended.how}, {'no result line' if found is None else 'after its result'} {said}".strip()
        )
    return Attempt("right" if found == list(wanted) else "wrong", f"{found} for {list(wanted)}")


def with_retry(side: Side, wanted: float, limit_s: float) -> Outcome:
    """The collective in a process of its own; after a hang or a wrong result once more without peer-to-peer."""
    role, every = [side.jax_platform, str(side.devices)], [wanted] * side.devices
    first = attempt(["collective", *role], every, limit_s, os.environ)
    if first.how == "right":
        return passed("as it is; no retry")
    if first.how not in TRIED_AGAIN:
        return failed(f"{first.how}: {first.detail}; not tried again")
    control = attempt(["control", *role], [wanted], limit_s, os.environ)
    told = f"first {first.how}: {first.detail}"
    if control.how != "right":
        return failed(
            f"inconclusive: {told}; the control arm on one device fails too ({control.how}: {control.detail})"
        )
    again = attempt(["collective", *role], every, limit_s, {**os.environ, **WITHOUT_P2P})
    setting = " ".join(f"{k}={v}" for k, v in WITHOUT_P2P.items())
    if again.how == "right":
        return failed(
            f"{told}; right with {setting}: peer-to-peer is broken here; put that into the profile's variables"
        )
    return failed(f"{told}; with {setting} {again.how}: {again.detail}; one device alone is right")
