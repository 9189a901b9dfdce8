"""Which devices a driver sees, asked in a child with a deadline: listing a driver does not mean that it is there.

`python -m ladder.lowerers.iree.devices DRIVER` -> a line of JSON: {devices: [name, ...]} or {error: text}
"""

import json
import os
import re
import sys

from ladder import children
from ladder.errors import LadderError
from ladder.lowerers.iree.targets import Target

PROBE_LIMIT_S = 60.0


def probe_device(target: Target, index: int) -> None:
    """Raises LadderError, in a sentence, when the target's driver has no device of that number on this box."""
    argv = [*children.command("ladder.lowerers.iree.devices"), target.driver]
    ended = children.run(argv, PROBE_LIMIT_S, children.environment(os.environ))
    try:
        told = json.loads(ended.output.strip().splitlines()[-1]) if ended.code == 0 else {"error": ended.how}
    except (ValueError, IndexError):
        told = {"error": "its answer cannot be read"}
    if "error" in told:
        raise LadderError(f"IREE's driver '{target.driver}' is not usable on this box: {told['error']}", target.check)
    if index >= len(told["devices"]):
        found = ", ".join(told["devices"]) or "none"
        raise LadderError(f"IREE's driver '{target.driver}' sees no device {index}; it sees: {found}", target.check)


def _told(error: str) -> str:
    """The driver's own words: `Error creating driver: file.c:66: UNAVAILABLE; no library` -> `no library`."""
    line = next((line.strip() for line in error.splitlines() if line.strip()), "no reason given")
    return re.sub(r"^.*?:\d+: [A-Z_]+; ", "", line).rstrip(":;. ")[:300]


def main() -> None:
    """Answer for the driver on the command line."""
    import iree.runtime as rt

    driver = sys.argv[1]
    if driver not in rt.query_available_drivers():
        print(json.dumps({"error": "this build of the runtime does not have it"}))
        return
    try:
        found = rt.get_driver(driver).query_available_devices()
    except (RuntimeError, ValueError) as error:
        print(json.dumps({"error": _told(str(error))}))
        return
    print(json.dumps({"devices": [device["name"] or driver for device in found]}))


if __name__ == "__main__":
    main()
