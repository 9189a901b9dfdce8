"""From the first command to the first step, as a user waits: `ladder run mnist --nets linear` in a new process.

`--no-server` here (goal 5 s), with everything cached, and with a cold cache (export and compile). The times with a
server are in bench_flow.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.measure import spread

COMMAND = (sys.executable, "-m", "flows.cli", "run", "mnist", "--nets", "linear", "--seeds", "1", "--no-server")


def first_step(env: dict[str, str]) -> float:
    """Seconds until the command says that the first step is done; then it is left to finish."""
    start = time.perf_counter()
    child = subprocess.Popen(COMMAND, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert child.stdout is not None
    seconds, lines = 0.0, []
    for line in child.stdout:
        lines.append(line)
        if "first step done" in line and not seconds:
            seconds = time.perf_counter() - start
    child.wait(timeout=120)
    if not seconds:
        raise SystemExit("no first step:\n" + "".join(lines))
    return seconds


def main() -> None:
    """Print the cold and the warm times."""
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "LADDER_CACHE": f"{folder}/cache", "LADDER_RUNS": f"{folder}/runs"}
        cold: list[float] = []
        for _ in range(3):
            shutil.rmtree(Path(folder, "cache"), ignore_errors=True)
            cold.append(first_step(env))
        warm = [first_step(env) for _ in range(5)]
    print(f"  --no-server, cold cache: {spread(cold, ' s', 2)}")
    print(f"  --no-server, warm cache: {spread(warm, ' s', 2)}; goal 5 s")


if __name__ == "__main__":
    main()
