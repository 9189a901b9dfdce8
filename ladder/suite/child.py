"""The child that runs cases of one tier module: `python -m ladder.suite.child FD`; the request is JSON on stdin.

It has its profile's environment from the start. Its lines go to descriptor FD; what native libraries print does not.
"""

import importlib
import json
import os
import sys

from ladder.suite import faults
from ladder.suite.case import Side
from ladder.suite.transcript import Transcript


def main() -> None:
    """Run the names, and say when all are run."""
    fd, request = int(sys.argv[1]), json.load(sys.stdin)
    os.set_inheritable(fd, False)  # nothing that a case starts may keep the pipe open
    report = Transcript(fd, request["run"])
    module = importlib.import_module(request["module"])
    faults.inject(report)
    module.run(tuple(request["names"]), Side(**request["side"]), report)
    report.end()


if __name__ == "__main__":
    main()
