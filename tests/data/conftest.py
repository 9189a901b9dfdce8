"""Small datasets in every form, and the real MNIST where the machine has it."""

import gzip
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ladder.data.identity import Arrays

REPO = Path(__file__).resolve().parents[2]
FILES = {
    "train_images": "train-images-idx3-ubyte",
    "train_labels": "train-labels-idx1-ubyte",
    "test_images": "t10k-images-idx3-ubyte",
    "test_labels": "t10k-labels-idx1-ubyte",
}

WriteIdx = Callable[..., Path]


@pytest.fixture(scope="session")
def tiny() -> Arrays:
    """60 training and 20 test examples of noise."""
    draw = np.random.default_rng(0).integers
    return Arrays(
        draw(0, 256, (60, 28, 28, 1), np.uint8),
        draw(0, 10, 60, np.uint8),
        draw(0, 256, (20, 28, 28, 1), np.uint8),
        draw(0, 10, 20, np.uint8),
        classes=10,
    )


def to_idx(array: np.ndarray) -> bytes:
    """An IDX file of uint8 [N] or [N, 28, 28, 1]."""
    shape = array.shape[:3]
    return struct.pack(f">{1 + len(shape)}I", 0x800 + len(shape), *shape) + array.tobytes()


@pytest.fixture(scope="session")
def idx_bytes() -> Callable[[np.ndarray], bytes]:
    """idx_bytes(array): an IDX file of uint8 [N] or [N, 28, 28, 1]."""
    return to_idx


@pytest.fixture(scope="session")
def write_idx() -> WriteIdx:
    """write_idx(folder, arrays, gz=False, dot=False): the four IDX files, by either spelling of their names."""

    def write(folder: Path, arrays: Arrays, *, gz: bool = False, dot: bool = False) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        for part, array in arrays.parts().items():
            name = FILES[part].replace("-idx", ".idx") if dot else FILES[part]
            content = to_idx(array)
            (folder / (name + ".gz" if gz else name)).write_bytes(gzip.compress(content, 1, mtime=0) if gz else content)
        return folder

    return write


def tfds_prepare(idx_dir: Path, tfds_dir: Path) -> Path:
    """Prepare the IDX files of `idx_dir` as TFDS mnist, in a process of its own (see tfds_fixture.py)."""
    script = Path(__file__).with_name("tfds_fixture.py")
    command = [sys.executable, str(script), str(idx_dir), str(tfds_dir)]
    done = subprocess.run(
        command, cwd=REPO, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(REPO)}
    )
    assert done.returncode == 0, done.stderr
    return tfds_dir


@pytest.fixture(scope="session")
def tiny_tfds(tiny: Arrays, write_idx: WriteIdx, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A TFDS folder with `tiny` as mnist 3.0.1, in TFDS's order."""
    return tfds_prepare(write_idx(tmp_path_factory.mktemp("idx"), tiny), tmp_path_factory.mktemp("tfds"))


@pytest.fixture(scope="session")
def real_tfds(mnist_gz: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A TFDS folder with the real MNIST as mnist 3.0.1, in TFDS's order; takes about 15 s."""
    return tfds_prepare(mnist_gz, tmp_path_factory.mktemp("tfds-full"))


@pytest.fixture
def said() -> list[str]:
    """What `say=said.append` heard."""
    return []
