"""Known failures and flakes of a platform and of a device, in the manner of Mesa's deqp-runner, strict.

A platform's file must be there, if only with comments: a missing baseline is no baseline that expects nothing.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ladder.errors import LadderError
from ladder.suite.runner import Result

FOLDER = Path(__file__).resolve().parents[2] / "platforms" / "expectations"
EXPECTABLE = ("fail", "crash", "timeout", "flake", "skip")
RED = ("fail", "xpass", "crash", "timeout")
ORDER = ("pass", "fail", "xfail", "xpass", "flake", "skip", "crash", "timeout")
LINE = re.compile(r"(?P<test>\S+)\s+(?P<state>\S+)\s+#\s*(?P<reason>\S.*)")

State = Literal["pass", "fail", "xfail", "xpass", "flake", "skip", "crash", "timeout"]


@dataclass(frozen=True)
class Expectation:
    """A line of an expectation file, and the file's name."""

    test: str
    state: str
    reason: str
    file: str

    @property
    def line(self) -> str:
        """As it stands in the file."""
        return f"{self.test} {self.state} # {self.reason}"


def device_file(platform: str, device: str) -> str:
    """`cuda-desktop-nvidia-h200.txt`."""
    return f"{platform}-{re.sub(r'[^a-z0-9]+', '-', device.lower()).strip('-')}.txt"


def load(platform: str, devices: Sequence[str], folder: Path = FOLDER) -> dict[str, Expectation]:
    """By test; a device's line replaces its platform's. Raises LadderError for a missing or wrong file."""
    base = folder / f"{platform}.txt"
    if not base.is_file():
        raise LadderError(
            f"platform {platform} has no expectation file {base.name}: without one nothing is known to pass",
            f"make platforms/expectations/{base.name}, empty if no failure is known",
        )
    found = _read(base)
    for file in dict.fromkeys(folder / device_file(platform, device) for device in devices):
        found |= _read(file) if file.is_file() else {}
    return found


def _read(path: Path) -> dict[str, Expectation]:
    found: dict[str, Expectation] = {}
    for number, text in enumerate(path.read_text("utf-8").splitlines(), 1):
        if not text.strip() or text.startswith("#"):
            continue
        match = LINE.fullmatch(text.strip())
        if match is None or match["state"] not in EXPECTABLE:
            raise LadderError(f"{path.name} line {number}: '{text}' is not `test {'|'.join(EXPECTABLE)} # reason`")
        if match["test"] in found:
            raise LadderError(f"{path.name} line {number}: {match['test']} is listed twice")
        found[match["test"]] = Expectation(**match.groupdict(), file=path.name)
    return found


def state_of(result: Result, expected: Expectation | None) -> State:
    """The state of a result under its expectation. A test that does not apply (`skip`) meets any expectation."""
    if expected is None or result.status == "skip":
        return result.status
    if expected.state == "flake":
        return "pass" if result.status == "pass" else "flake"
    if result.status == "pass":
        return "xpass"
    return "xfail" if result.status == expected.state else result.status


def unknown(expected: Mapping[str, Expectation], tests: Iterable[str]) -> list[Expectation]:
    """The lines whose test is not in the suite: they would hide nothing, and say so."""
    there = set(tests)
    return [line for line in expected.values() if line.test not in there]


def diff(
    states: Mapping[str, str], expected: Mapping[str, Expectation], details: Mapping[str, str], platform: str
) -> str:
    """What to paste into the expectation files to have what happened expected; "" when all was as expected."""
    lines: dict[str, list[str]] = {}
    for test, state in states.items():
        if state not in RED:
            continue
        old = expected.get(test)
        changed = lines.setdefault(old.file if old else f"{platform}.txt", [])
        changed += [f"-{old.line}"] if old else []
        if state != "xpass":
            changed.append(f"+{test} {state} # {' '.join(details[test].split())[:100] or 'why'}")
    return "\n".join(
        line
        for file, changed in lines.items()
        for line in (f"--- platforms/expectations/{file}", f"+++ platforms/expectations/{file}", *changed)
    )
