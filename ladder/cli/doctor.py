"""`ladder doctor`: what this box is, for people and as JSON."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ladder.cli.app import Json, app
from ladder.cli.output import print_json, print_table
from ladder.errors import LadderError

if TYPE_CHECKING:
    from platforms.doctor import Examination


@app.command
def doctor(*, platform: str = "", devices: int = 1, as_json: Json = False) -> int:
    """What this box is and why, what is missing for a platform, and the line that installs it.

    Vendor tools and runtimes are asked in processes of their own with a deadline: under 70 s in all. Exit code 1 only
    where a check says FAIL.

    Args:
        platform: Only this platform, which must then work; every platform if not given.
        devices: How many devices it must have; virtual ones never count.
    """
    from platforms import doctor, profile

    if devices < 1:
        raise LadderError(f"--devices {devices}: at least 1")
    if devices > 1 and not platform:
        raise LadderError(f"--devices {devices} needs a --platform", "ladder doctor --platform cpu")
    try:
        found = doctor.examine(platform or None, os.environ, devices)
    except profile.UnknownProfile as error:
        raise LadderError(str(error), "ladder doctor") from None
    print_json(found.to_json()) if as_json else print_examination(found)
    return 0 if found.healthy else 1


def print_examination(found: "Examination") -> None:
    """The platforms of this box in a table, then every check of those that are here."""
    told = found.to_json()
    print(
        f"{told['box']['system']}, {told['box']['processor']}, {told['box']['cores']} cores, "
        f"Python {told['box']['python']}"
    )
    print()
    print_table([{"platform": r["platform"], "is": r["state"], "why": r["reason"]} for r in told["platforms"]])
    sections = [("this shell", told["shell"]), *((r["platform"], r["checks"]) for r in told["platforms"])]
    for name, checks in sections:
        for line in _section(name, checks):
            print(line)
    for report in told["platforms"]:
        for unknown in report["unknown"]:
            print(f"not known of {report['platform']}: {unknown}")


def _section(name: str, checks: list[dict[str, str]]) -> Iterator[str]:
    if checks:
        yield ""
        yield f"{name}:"
    for check in checks:
        yield f"  {check['level']:4}  {check['name']}: {check['detail']}"
        if check["next"] and check["level"] != "OK":
            yield f"        next: {check['next']}"
