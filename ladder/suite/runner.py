"""Cases in children: what ends a child, or takes too long, costs the case in progress; the rest runs in a new one.

A case counts as its own account says only when the transcript is whole up to the next case's start, or up to the end
line and an exit status of 0.
"""

import importlib
import json
import os
import select
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import IO, Any, Literal

from ladder import children
from ladder.errors import LadderError
from ladder.suite.case import Case, Outcome, Side
from ladder.suite.tiers import MODULES
from ladder.suite.transcript import BadLine, decode
from platforms.redact import redact

START_S = 120.0  # to the first case, from one to the next, and from the last to the end
POLL_S = 0.5
SAID = 300  # characters of a dead child's last line


@dataclass(frozen=True)
class Result:
    """How a case ended, before any expectation."""

    case: Case
    status: Literal["pass", "fail", "skip", "crash", "timeout"]
    measured: float | None
    bound: float | None
    seconds: float
    detail: str


Look = Callable[[], None]
OnFacts = Callable[[dict[str, Any]], None]


def collect(side: Side, tiers: Sequence[int]) -> dict[str, tuple[Case, ...]]:
    """The cases of each module of these tiers. Raises LadderError for a module that is missing or has none."""
    found: dict[str, tuple[Case, ...]] = {}
    for tier in tiers:
        if tier not in MODULES:
            raise LadderError(f"there is no tier {tier}; the tiers are: {', '.join(map(str, MODULES))}")
        for name in MODULES[tier]:
            try:
                cases: tuple[Case, ...] = importlib.import_module(name).cases(side)
            except (ImportError, AttributeError) as error:  # AttributeError: a folder without a module in it
                raise LadderError(
                    f"tier {tier} cannot be run: its module {name} cannot be imported ({error})",
                    f"run the others: --tier {','.join(str(t) for t in MODULES if t != tier)}",
                ) from error
            if not cases:
                raise LadderError(f"tier {tier}: module {name} has no test; no tests are no pass")
            found[name] = cases
    names = [case.name for cases in found.values() for case in cases]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise LadderError(f"two tests are called {twice[0]}")
    return found


def run_cases(
    module: str, cases: Sequence[Case], side: Side, env: Mapping[str, str], on_facts: OnFacts, look: Look
) -> Iterator[Result]:
    """Run cases of a module, in order; exactly one result for each. `look` is called twice a second and may raise."""
    waiting = {case.name: case for case in cases}
    while waiting:
        child = _Child(module, waiting, side, env, on_facts, look)
        try:
            for result in child.results():
                del waiting[result.case.name]
                yield result
        finally:
            child.bury()
        if not child.progressed:
            for case in waiting.values():
                yield Result(case, child.lost, None, None, 0.0, f"before the first test: {child.why}")
            return


class _Child:
    """One child and what became of its cases."""

    def __init__(
        self,
        module: str,
        cases: Mapping[str, Case],
        side: Side,
        env: Mapping[str, str],
        on_facts: OnFacts,
        look: Look,
    ) -> None:
        self._cases, self._on_facts, self._look = dict(cases), on_facts, look
        self.progressed, self.why = False, ""
        self.lost: Literal["crash", "timeout"] = "crash"
        self._run, self._seq = uuid.uuid4().hex, 0
        self._current: Case | None = None  # begun and not ended
        self._begun = time.monotonic()
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  closed by bury
        request = {"module": module, "names": list(cases), "side": asdict(side), "run": self._run}
        self._events, write = os.pipe()
        try:
            self._process = subprocess.Popen(
                children.bound([*children.command("ladder.suite.child"), str(write)]),
                stdin=subprocess.PIPE,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                env=children.environment(env),
                pass_fds=(write,),
            )
        finally:
            os.close(write)
        assert self._process.stdin is not None
        with self._process.stdin as given:
            given.write(json.dumps(request).encode())

    def results(self) -> Iterator[Result]:
        """A result for each case that this child came to."""
        held: tuple[Case, Outcome, float] | None = None  # ended, and not yet known to have left the child alive
        ended, seen = False, set[str]()
        for line in self._lines():
            kind, took = line["type"], time.monotonic() - self._begun
            if kind == "facts":
                self._on_facts(line["facts"])
                continue
            if ended or (kind == "done") != (self._current is not None) or self._is_unasked(line, seen):
                self.why = f"the transcript is out of order at its {kind} line"
                break
            if kind == "done" and self._current:
                held, self._current = (self._current, line["outcome"], took), None
            else:
                if held and kind == "start":
                    yield _stands(*held)
                    held = None
                self._current, ended = self._cases.get(line.get("name", "")), kind == "end"
                self.progressed |= not ended
                seen |= {line.get("name", "")}
            self._begun = time.monotonic()
        status = self._end()
        if current := self._current:
            yield Result(current, self.lost, None, None, time.monotonic() - self._begun, self.why or status)
        elif held and (not ended or self.why or self._process.returncode != 0):
            case, outcome, seconds = held
            why = f"it said {outcome.status}, but then: {self.why or status}"
            yield Result(case, self.lost, outcome.measured, outcome.bound, seconds, why)
        elif held:
            yield _stands(*held)
        if ended and not self.why and self._process.returncode == 0:
            self.progressed = True
            for name in self._cases.keys() - seen:
                yield Result(self._cases[name], "fail", None, None, 0.0, "the child ended without running it")
        self.why = self.why or status

    def _is_unasked(self, line: Mapping[str, Any], seen: set[str]) -> bool:
        """Whether a line names a case that is not asked for, was told already, or is not the one in progress."""
        if line["type"] == "end":
            return False
        name = line["name"]
        return name not in self._cases or (name != self._current.name if self._current else name in seen)

    def _lines(self) -> Iterator[dict[str, Any]]:
        """The transcript's lines to its end, a bad line or the case's limit; `why` says which of the last two."""
        poller, buffer = select.poll(), b""
        poller.register(self._events, select.POLLIN)
        while True:
            self._look()
            left = self._begun + (self._current.limit_s if self._current else START_S) - time.monotonic()
            if left <= 0:
                self.lost, self.why = "timeout", "it did not end within its limit and was killed"
                return
            if not poller.poll(1000 * min(left, POLL_S)):
                continue
            if not (data := os.read(self._events, 1 << 16)):
                if buffer:
                    self.why = "the transcript's last line is torn"
                return
            *lines, buffer = (buffer + data).split(b"\n")
            for text in lines:
                try:
                    line = decode(text, self._run, self._seq)
                except BadLine as error:
                    self.why = str(error)
                    return
                self._seq += 1
                yield line

    def _end(self) -> str:
        """Wait for the child's end, or make it; how it ended, in words, with its last line."""
        try:
            self._process.wait(0.0 if self.why else 30.0)
        except subprocess.TimeoutExpired:
            children.kill(self._process.pid)
            self._process.wait()
            self.why = self.why or "it closed its transcript and did not end"
        told = os.pread(self._output.fileno(), 1 << 20, 0).decode("utf-8", "replace").strip().splitlines()
        last = f"; its last line: {redact(told[-1][:SAID], os.environ)}" if told else ""
        code = self._process.returncode
        return f"the child ended with {children.Ended(code, 0, '', '').how}{last}"

    def bury(self) -> None:
        """Nothing of it is left."""
        if self._process.poll() is None:
            children.kill(self._process.pid)
            self._process.wait()
        os.close(self._events)
        self._output.close()


def _stands(case: Case, outcome: Outcome, seconds: float) -> Result:
    return Result(case, outcome.status, outcome.measured, outcome.bound, seconds, outcome.detail)
