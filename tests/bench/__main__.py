"""`make bench`: every benchmark, or those named; prints one line a figure with n and spread, and where it was measured.

python -m tests.bench [loop seeds start flow store lowerers]
"""

import importlib
import os
import platform
import sys
import time
from importlib.metadata import version

from platforms import profile

NAMES = ("loop", "seeds", "start", "flow", "store", "lowerers")


def where() -> str:
    """Box and versions, for the log."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("jax", "numpy", "prefect", "sqlalchemy"))
    return f"{os.cpu_count()} cores {platform.machine()}, Python {platform.python_version()}, {packages}"


def main(names: list[str]) -> None:
    """Run the named benchmarks in order."""
    wanted = profile.load("cpu").environment
    if {**os.environ, **wanted} != dict(os.environ):  # as a worker has it: before Python starts
        os.execve(sys.executable, [sys.executable, "-m", "tests.bench", *names], {**os.environ, **wanted})
    if unknown := [name for name in names if name not in NAMES]:
        sys.exit(f"no benchmark {', '.join(unknown)}; there are: {', '.join(NAMES)}")
    print(f"{time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}; {where()}; load {os.getloadavg()[0]:.1f}")
    for name in names or NAMES:
        print(f"\n{name}", flush=True)
        importlib.import_module(f"tests.bench.bench_{name}").main()


if __name__ == "__main__":
    main(sys.argv[1:])
