"""When a box climbs by itself. No Prefect here: pure functions of the clock and the time zone."""

import os
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ladder.errors import LadderError


@dataclass(frozen=True)
class Nightly:
    """A time of day in a zone, and what is climbed then."""

    hour: int
    minute: int
    timezone: str
    to: str
    budget_hours: float

    @classmethod
    def parse(cls, text: str, timezone: str, to: str, budget_hours: float) -> "Nightly":
        """`HH:MM`. Raises LadderError for anything else."""
        match = re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)", text)
        if not match:
            raise LadderError(f"--nightly '{text}' is no time of day", "--nightly 22:30, or --nightly off")
        if not 0 < budget_hours <= 24:
            raise LadderError(f"--budget {budget_hours:g}: more than 0 and at most 24 hours, a night has no more")
        return cls(int(match[1]), int(match[2]), timezone, to, budget_hours)

    @property
    def cron(self) -> str:
        return f"{self.minute} {self.hour} * * *"

    @property
    def parameters(self) -> dict[str, Any]:
        """What the schedule gives to `climb`."""
        return {"to": self.to, "budget_hours": self.budget_hours}

    def next(self, after: datetime) -> datetime:
        """The first start after `after`."""
        start = after.replace(hour=self.hour, minute=self.minute, second=0, microsecond=0)
        return start if start > after else start + timedelta(days=1)

    def line(self, now: datetime) -> str:
        """What `ladder up` prints."""
        what = f"{self.hour:02}:{self.minute:02} {self.timezone}, to {self.to}, {self.budget_hours:g} h"
        return f"{what}; next {self.next(now):%a %d %b %H:%M %Z}"

    def warning(self) -> str:
        """What is wrong with this hour on the nights when the clock is changed, or ""."""
        zone, year = ZoneInfo(self.timezone), datetime.now().year
        changes = datetime(year, 1, 1, tzinfo=zone).utcoffset() != datetime(year, 7, 1, tzinfo=zone).utcoffset()
        if changes and 1 <= self.hour < 3:
            return (
                f"{self.hour:02}:{self.minute:02} {self.timezone} does not exist, or exists twice, on the nights when"
                " the clock is changed: choose a time outside 01:00-03:00"
            )
        return ""


def local_timezone() -> str:
    """This box's zone: TZ, else what /etc/localtime points at, else /etc/timezone, else UTC."""
    candidates = [os.environ.get("TZ", "").lstrip(":")]
    candidates.append(os.path.realpath("/etc/localtime").partition("zoneinfo/")[2])
    if Path("/etc/timezone").is_file():
        candidates.append(Path("/etc/timezone").read_text().strip())
    return next((zone for zone in candidates if zone and is_zone(zone)), "UTC")


def is_zone(name: str) -> bool:
    """Whether this box knows the zone."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True
