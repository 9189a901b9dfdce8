"""Is the process that wrote this down still there? Asked by the reaper, and of `ladder up`."""

import os
from pathlib import Path

import psutil


def identity(pid: int | None = None) -> str:
    """`<pid> <start> <boot>` of a process (default: this one), or "" when it is gone or a zombie.

    The start is in clock ticks since boot where the kernel tells it: a wall-clock start would move when the clock is
    set, and a box without a battery sets its clock after every boot.
    """
    pid = os.getpid() if pid is None else pid
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return ""
        if not os.path.exists("/proc/self/stat"):
            return f"{pid} {process.create_time():.0f} {psutil.boot_time():.0f}"
        start = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except (psutil.Error, OSError):
        return ""
    return f"{pid} {start} {boot}"


def is_alive(written: str) -> bool:
    """Whether the process that had this identity still runs. Busy or stopped for hours, it is alive."""
    pid = written.split(" ")[0]
    return pid.isdecimal() and identity(int(pid)) == written
