"""From the first command to the first step, as a user waits: `ladder run mnist --nets linear` in a new process.

`--no-server` here (goal 5 s), with everything cached, and with a cold cache (export and compile). The times with a
server are in bench_flow.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from tests.bench.measure import first_step, spread

COMMAND = (sys.executable, "-m", "flows.cli", "run", "mnist", "--nets", "linear", "--seeds", "1", "--no-server")


def main() -> None:
    """Print the cold and the warm times."""
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "LADDER_CACHE": f"{folder}/cache", "LADDER_RUNS": f"{folder}/runs"}
        cold: list[float] = []
        for _ in range(3):
            shutil.rmtree(Path(folder, "cache"), ignore_errors=True)
            cold.append(first_step(COMMAND, env))
        warm = [first_step(COMMAND, env) for _ in range(5)]
    print(f"  --no-server, cold cache: {spread(cold, ' s', 2)}")
    print(f"  --no-server, warm cache: {spread(warm, ' s', 2)}; goal 5 s")


if __name__ == "__main__":
    main()
