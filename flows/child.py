"""`python -m flows.child PARENT COMMAND...`: become COMMAND, and end when the process PARENT ends, however it ends."""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Linux tells a child of its parent's death; elsewhere a parent that is killed leaves it running."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            sys.exit(1)  # it died before it could be watched
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
