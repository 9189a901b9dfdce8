"""Is this box this platform? From the vendor's tool and the device files: a value and the reason for it.

python -m platforms.detect PLATFORM      the reason; exit 1 where it is not. Standard library only
"""

import os
import platform
import re
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from platforms import process
from platforms.process import Ended
from platforms.profile import Profile, Tool, UnknownProfile, load

TOOL_S = 8.0
SHOWN = 160

Ask = Callable[[Tool], Ended]


@dataclass(frozen=True)
class Device:
    """A device as its vendor's tool tells it; "" where it does not."""

    name: str
    driver: str = ""
    memory: str = ""


@dataclass(frozen=True)
class Answer:
    """What a vendor's tool said. `state` tells seven answers apart; `reason` is `state` in words."""

    tool: str
    state: Literal["devices", "no-device", "absent", "failed", "empty", "garbage", "hanging"]
    reason: str
    devices: tuple[Device, ...] = ()


@dataclass(frozen=True)
class Detection:
    """Whether the platform's device is here, why, and what is wrong if it is here but its tool is not well."""

    found: bool
    reason: str
    devices: tuple[Device, ...] = ()
    answers: tuple[Answer, ...] = ()

    @property
    def sick(self) -> tuple[Answer, ...]:
        """The tools that are installed but gave no usable answer."""
        return tuple(a for a in self.answers if a.state in ("failed", "empty", "garbage", "hanging"))

    @property
    def driver(self) -> str:
        """The driver's version, "" where no tool tells it."""
        return next((d.driver for d in self.devices if d.driver), "")


def ask(tool: Tool) -> Ended:
    """Run a vendor's tool under its deadline."""
    return process.run(tool.command, TOOL_S, first_line=tool.first_line)


def ask_all(profiles: Sequence[Profile], ask: Ask = ask) -> Ask:
    """Every tool of these profiles asked once, side by side; the answers, as what `detect` asks."""
    tools = list(dict.fromkeys(tool for profile in profiles for tool in profile.detect.tools))
    with ThreadPoolExecutor(max(len(tools), 1)) as pool:
        answers = dict(zip(tools, pool.map(ask, tools), strict=True))
    return answers.__getitem__


def detect(profile: Profile, ask: Ask = ask, root: Path = Path("/")) -> Detection:
    """Whether this box has the profile's device. `root` is where device files lie."""
    how = profile.detect
    if how.everywhere:
        return Detection(True, f"every box has one: {processor()}, {os.cpu_count()} cores", (Device(processor()),))
    if how.system and platform.system() != how.system:
        return Detection(False, f"this is {platform.system()}, not {how.system}")
    if missing := [pattern for pattern in how.needs if not _there(root, pattern)]:
        return Detection(False, f"there is no {missing[0]}")
    if there := [pattern for pattern in how.without if _there(root, pattern)]:
        return Detection(False, f"{there[0]} is here: another platform's")
    answers: list[Answer] = []
    for tool in how.tools:
        answers.append(read(tool, ask(tool)))
        if answers[-1].state == "devices":
            return Detection(True, answers[-1].reason, answers[-1].devices, tuple(answers))
    reasons = [answer.reason for answer in answers]
    files = [pattern for pattern in how.files if _there(root, pattern)]
    if files:
        return Detection(True, "; ".join([f"{files[0]} is here", *reasons]), (), tuple(answers))
    return Detection(False, "; ".join([*reasons, *(f"no {pattern}" for pattern in how.files)]), (), tuple(answers))


def read(tool: Tool, ended: Ended) -> Answer:
    """A tool's answer from how it ended and what it printed."""
    name = tool.command[0]
    if ended.state == "absent":
        return Answer(name, "absent", f"{name} is not installed")
    if ended.state == "hanging":
        return Answer(name, "hanging", f"{name} did not answer within {ended.seconds:.0f} s")
    if tool.none and re.search(tool.none, ended.out):
        return Answer(name, "no-device", f"{name} lists no device")
    if ended.state == "failed":
        said = f": {first_line(ended.err or ended.out)}" if (ended.err or ended.out).strip() else ""
        return Answer(name, "failed", f"{name} ended with {ended.died_of}{said}")
    if not ended.out.strip():
        return Answer(name, "empty", f"{name} ended well but printed nothing")
    devices = _devices(tool, ended.out)
    if not devices:
        return Answer(name, "garbage", f"{name} printed what this profile cannot read: {first_line(ended.out)!r}")
    told = [*dict.fromkeys(device.name for device in devices)]
    driver = f", driver {devices[0].driver}" if devices[0].driver else ""
    return Answer(name, "devices", f"{name} lists {len(devices)} x {', '.join(told)}{driver}", devices)


def _devices(tool: Tool, text: str) -> tuple[Device, ...]:
    driver = re.search(tool.driver, text, re.MULTILINE) if tool.driver else None
    once = {"driver": driver["driver"]} if driver else {}
    found = re.finditer(tool.device, text, re.MULTILINE)
    return tuple(Device(**{**once, **{k: v.strip() for k, v in match.groupdict().items() if v}}) for match in found)


def first_line(text: str) -> str:
    """The first line that says something, cut to what fits beside other words."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= SHOWN else line[: SHOWN - 3] + "..."


def processor() -> str:
    """The processor's name."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or "unknown processor"


def _there(root: Path, pattern: str) -> bool:
    return next(root.glob(pattern.lstrip("/")), None) is not None


def main(argv: Sequence[str]) -> int:
    """0 where this box is the platform named; 1, with the reason, where it is not."""
    try:
        found = detect(load(argv[0] if argv else ""))
    except UnknownProfile as error:
        print(error, file=sys.stderr)
        return 2
    print(found.reason, file=sys.stdout if found.found else sys.stderr)
    return 0 if found.found else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
