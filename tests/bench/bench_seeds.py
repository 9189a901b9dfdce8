"""K = 10 mlp seeds through a run without a flow: wall time over ten times the bare loop, and what the rest is.

The bare loop is 12 epochs of feed and step, no evaluation, no checkpoint, no record.
"""

import os
import tempfile
import time
from pathlib import Path

import numpy as np

from ladder import paths
from ladder.data import prepare
from ladder.run import Request, drive
from tests.bench.bench_loop import bare
from tests.bench.measure import compiled, spread

SEEDS = tuple(range(1, 11))


def shared_mnist() -> Path | None:
    """The real MNIST for development, when it is there."""
    folder = Path(os.environ.get("LADDER_SHARED") or Path(__file__).resolve().parents[3] / "shared") / "data/mnist-gz"
    return folder if folder.is_dir() else None


def main() -> None:
    """Print the run's wall time over the bare loop's."""
    data_dir = shared_mnist()
    if data_dir is None:
        print("  not run: it needs the full MNIST (LADDER_SHARED, or shared/ beside the checkout)")
        return
    bench = compiled("mlp")
    state = bare(bench, bench.state())
    epochs: list[float] = []
    for _ in range(6):
        start = time.perf_counter()
        state = bare(bench, state)
        epochs.append(time.perf_counter() - start)
    bare_s = float(np.median(epochs)) * bench.recipe.epochs * len(SEEDS)
    with tempfile.TemporaryDirectory() as runs:
        os.environ["LADDER_RUNS"] = runs
        prepare("mnist", data_dir=data_dir, cache=paths.cache(), say=lambda _: None)
        start = time.perf_counter()
        drive(Request("mnist", nets=("mlp",), seeds=SEEDS, data_dir=str(data_dir), wait_s=60), lambda _: None)
        wall = time.perf_counter() - start
        del os.environ["LADDER_RUNS"]
    print(f"  bare epoch {spread(epochs, ' s')}")
    print(f"  {len(SEEDS)} mlp seeds: {wall:.1f} s; ten bare loops: {bare_s:.1f} s; {wall / bare_s:.3f} of them")


if __name__ == "__main__":
    main()
