"""A cifar run from its files to its record: killed at any moment, it ends as if it had not been."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ladder import paths, records
from ladder.data.identity import Arrays
from ladder.request import Request
from ladder.run import drive
from ladder.train import artifact
from tests.data.cifar_files import write_binary

RUN = """
import sys
from ladder.request import Request
from ladder.run import drive
from ladder.train import artifact
artifact.TEST_BATCH = 40
drive(Request("cifar", arms=(sys.argv[2],), seeds=(1,), epochs=8, data_dir=sys.argv[1]), lambda x: print(x, flush=True))
"""


@pytest.fixture(scope="module")
def batches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """256 training and 40 test images of ten noisy prototypes: two steps an epoch."""
    draw = np.random.default_rng(7)
    prototypes = draw.integers(0, 256, (10, 32, 32, 3))

    def split(n: int) -> tuple[np.ndarray, np.ndarray]:
        labels = draw.integers(0, 10, n, np.uint8)
        return (prototypes[labels] * 0.5 + draw.integers(0, 128, (n, 32, 32, 3))).astype(np.uint8), labels

    return write_binary(tmp_path_factory.mktemp("cifar"), Arrays(*split(256), *split(40), classes=10))


def told(record: records.Record) -> tuple[Any, ...]:
    """All that does not depend on the clock."""
    finals = [(f.arm, f.status, f.correct, f.top5, f.train_loss) for f in record.finals]
    epochs = sorted((e.arm, e.epoch, e.train_loss, e.correct, e.top5) for e in record.epochs)
    return finals, epochs


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("arm", ["nobn-momentum", "bn-adamw", "batchbn-adamw"])
def test_a_run_killed_in_its_middle_ends_as_an_undisturbed_one_bit_for_bit(
    arm: str, batches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Velocity, moments, running statistics, order and flips are all back: every epoch's loss is equal to the bit."""
    monkeypatch.setattr(artifact, "TEST_BATCH", 40)
    request = Request("cifar", arms=(arm,), seeds=(1,), epochs=8, data_dir=str(batches), wait_s=60)
    undisturbed = records.read(drive(request, lambda _: None).record_path)
    command = [sys.executable, "-c", RUN, str(batches), arm]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    assert child.stdout is not None
    for line in child.stdout:
        if "epoch 1:" in line:
            child.send_signal(signal.SIGKILL)
            break
    child.stdout.close()
    child.wait(timeout=60)
    assert len(list((paths.runs() / records.PARTIAL).glob("*"))) == 1
    said: list[str] = []
    resumed = records.read(drive(request, said.append).record_path)
    assert any("resumed after epoch" in line for line in said), said
    assert told(resumed) == told(undisturbed)
    losses = [loss for _, _, loss, *_ in told(resumed)[1]]
    assert len(set(losses)) == len(losses) == 8
    (program,) = resumed.manifest["programs"].values()
    assert (program["variant"], program["sha"] != program["plain_sha"]) == ("matmul-gradient", True)
