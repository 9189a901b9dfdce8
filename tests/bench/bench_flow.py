"""What Prefect costs: from the command to the first step with and without a server, and a flow and a task, in ms.

`ladder run mnist --nets linear` in a new process each time: no server, cold (its database is made) and warm; and with
`ladder up` running (goal 8 s). `--no-server` is in bench_start.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.measure import first_step, spread

RUN = (sys.executable, "-m", "flows.cli", "run", "mnist", "--nets", "linear", "--seeds", "1")
UP = (sys.executable, "-u", "-m", "flows.cli", "up")
OVERHEAD = (sys.executable, "-c", "from tests.bench.bench_flow import overhead; overhead()")


def overhead() -> None:
    """In a process of its own, on the server that is up: a flow without trials, and trials that take no time."""
    from flows import server

    os.environ.update(server.environment(server.choose()))
    from prefect import flow

    from flows.artifacts import Progress
    from flows.link import Link
    from flows.live import DESKS, Desk
    from flows.train import run_trial
    from ladder.records import FinalRow

    class Nothing:
        def execute(self, trial: str, _: object) -> FinalRow:
            text = ("net", "arm", 1, "done", 1, 1, 1, 0.0, 1, "xla", "h1:", "", "", 1, 0.0, 0.0, "")
            return FinalRow(*text)  # pyright: ignore[reportArgumentType]

    tasks: list[float] = []

    @flow
    def bare(trials: int) -> None:
        with Link() as link:
            DESKS["bench"] = Desk(Nothing(), link, Progress(link, "bench", {}))  # pyright: ignore[reportArgumentType]
            for seed in range(trials):
                start = time.perf_counter()
                run_trial.submit("bench", "t", "net-arm", seed).wait()
                tasks.append(1000 * (time.perf_counter() - start))

    bare(1)
    tasks.clear()
    flows: list[float] = []
    for _ in range(5):
        start = time.perf_counter()
        bare(0)
        flows.append(1000 * (time.perf_counter() - start))
    bare(20)
    print(json.dumps({"flow": flows, "task": tasks}))


def main() -> None:
    """Print all of it."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as probe:
        env = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
        env |= {"LADDER_CACHE": f"{folder}/cache", "LADDER_RUNS": f"{folder}/runs", "HOME": folder}
        subprocess.run(
            [*RUN, "--no-server"], env=env, check=False, capture_output=True
        )  # programs, data, compiled code
        cold: list[float] = []
        for _ in range(2):
            shutil.rmtree(Path(folder, "cache", "prefect"), ignore_errors=True)
            cold.append(first_step(RUN, env))
        print(f"  first step, no server, cold: {spread(cold, ' s', 2)}", flush=True)
        print(f"  first step, no server, warm: {spread([first_step(RUN, env) for _ in range(3)], ' s', 2)}", flush=True)
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        start = time.perf_counter()
        up = subprocess.Popen([*UP, "--port", str(port)], env=env, stderr=subprocess.PIPE, text=True)
        try:
            assert up.stderr is not None
            while "is up" not in (line := up.stderr.readline()):
                if not line:
                    raise SystemExit("`ladder up` ended")
            print(f"  ladder up, warm database: {time.perf_counter() - start:.1f} s (n=1)", flush=True)
            time.sleep(10)  # its worker starts
            steps = [first_step(RUN, env) for _ in range(5)]
            print(f"  first step, `ladder up` running: {spread(steps, ' s', 2)}; goal 8 s", flush=True)
            told = subprocess.run(OVERHEAD, env=env, check=True, capture_output=True, text=True).stdout
            for what, values in json.loads(told.splitlines()[-1]).items():
                print(f"  a {what} that does nothing: {spread(values, ' ms', 0)}")
        finally:
            up.terminate()
            up.wait(timeout=60)


if __name__ == "__main__":
    main()
