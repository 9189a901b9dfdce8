"""The step loop against the same feed and step in a bare Python loop, alternating in one process, per net.

Goal: at least 98 % of the bare loop's throughput for mlp and cnn, 90 % for linear.
"""

import time
from typing import Any

import numpy as np

from ladder.train.loop import run_epoch
from ladder.train.order import epoch_order, step_keys
from tests.bench.measure import Bench, compiled, spread

REPEATS = {"linear": 15, "mlp": 9, "cnn": 3}
GOALS = {"linear": 0.90, "mlp": 0.98, "cnn": 0.98}


def bare(bench: Bench, state: dict[str, Any]) -> dict[str, Any]:
    """One epoch of feed and step, and one wait at its end."""
    exe, data = bench.exe, bench.data
    lr, key = np.float32(bench.recipe.schedule.rate), step_keys(bench.recipe, 1)[0]
    loss: Any = None
    for idx in epoch_order(bench.recipe, 1):
        batch = exe.feed(data.images, data.labels, idx, {})
        state, metrics = exe.step(state, batch, lr, key)
        loss = metrics["loss"]
    exe.get(loss)
    return state


def main() -> None:
    """Print, per net, the bare step time and the loop's share of the bare throughput."""
    for net, repeats in REPEATS.items():
        bench = compiled(net)
        state = bare(bench, bench.state())
        bare_s: list[float] = []
        loop_s: list[float] = []
        for _ in range(repeats):
            start = time.perf_counter()
            state = bare(bench, state)
            middle = time.perf_counter()
            state, _ = run_epoch(bench.exe, state, bench.data, bench.recipe, 1, lambda step, loss: None)
            bare_s.append(middle - start)
            loop_s.append(time.perf_counter() - middle)
        ms = [s / bench.recipe.steps * 1e3 for s in bare_s]
        share = [b / s for b, s in zip(bare_s, loop_s, strict=True)]
        print(f"  {net}: bare {spread(ms, ' ms')} a step; loop {spread(share)} of it; goal {GOALS[net]}", flush=True)


if __name__ == "__main__":
    main()
