"""What every test stands on: folders of its own, a tiny learnable dataset, and programs exported once per session."""

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ladder.data.identity import PARTS, Arrays, identity
from ladder.lowerers import Executable, Lowerer
from ladder.recipes import Data, Recipe
from ladder.recipes.mnist import recipes
from ladder.train import artifact
from ladder.train.artifact import Program, program_for

REPO = Path(__file__).resolve().parents[1]
TRAIN, TEST, BATCH, TEST_BATCH = 256, 100, 16, 64  # two test batches, the second padded

os.environ["JAX_PLATFORMS"] = "cpu"  # before any test imports jax: no plugin of the box is loaded


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What costs seconds to make and never changes: exported programs and compiled code."""
    root = tmp_path_factory.mktemp("shared-cache")
    for name in ("programs", "xla"):
        (root / name).mkdir()
    return root


@pytest.fixture(autouse=True)
def own_folders(shared_cache: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Cache, records and box of the test's own; programs and compiled code are the session's."""
    root = tmp_path_factory.mktemp("ladder")
    cache = root / "cache"
    cache.mkdir()
    for name in ("programs", "xla"):
        (cache / name).symlink_to(shared_cache / name)
    monkeypatch.setenv("LADDER_CACHE", str(cache))
    monkeypatch.setenv("LADDER_RUNS", str(root / "runs"))
    monkeypatch.setenv("LADDER_BOX", "testbox")
    monkeypatch.delenv("LADDER_DATABASE_URL", raising=False)
    return root


@pytest.fixture(scope="session")
def learnable() -> Arrays:
    """256 training and 100 test images of ten noisy, overlapping prototypes."""
    draw = np.random.default_rng(7)
    prototypes = draw.integers(0, 256, (10, 28, 28, 1))

    def split(n: int) -> tuple[np.ndarray, np.ndarray]:
        labels = draw.integers(0, 10, n, np.uint8)
        images = prototypes[labels] * 0.2 + draw.integers(0, 205, (n, 28, 28, 1))
        return images.astype(np.uint8), labels

    return Arrays(*split(TRAIN), *split(TEST), classes=10)


@pytest.fixture(scope="session")
def dataset(learnable: Arrays, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The learnable dataset as the workers open it."""
    folder = tmp_path_factory.mktemp("dataset")
    for part in PARTS:
        np.save(folder / f"{part}.npy", getattr(learnable, part))
    meta = {"identity": identity(learnable), "train": TRAIN, "test": TEST, "classes": 10, "files": {}}
    (folder / "meta.json").write_text(json.dumps(meta))
    return folder


@pytest.fixture(scope="session")
def idx_folder(learnable: Arrays, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The learnable dataset as MNIST's original files, for --data-dir."""
    folder = tmp_path_factory.mktemp("idx")
    names = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
    for part, name in zip(PARTS, names, strict=True):
        array = getattr(learnable, part)
        shape = array.shape[:3]
        (folder / name).write_bytes(struct.pack(f">{1 + len(shape)}I", 0x800 + len(shape), *shape) + array.tobytes())
    return folder


@pytest.fixture(scope="session")
def tiny(learnable: Arrays) -> dict[str, Recipe]:
    """The mnist recipes on the learnable dataset: 16 steps an epoch, 3 epochs."""
    data = Data("learnable", identity(learnable), TRAIN, TEST, classes=10, shape=(28, 28, 1))
    return {r.net: replace(r, batch=BATCH, epochs=3) for r in recipes(data)}


@pytest.fixture(scope="session")
def program(tiny: dict[str, Recipe], shared_cache: Path) -> Callable[[str], Program]:
    """program(net): the tiny recipe's program, exported by a real child once per session."""
    made: dict[str, Program] = {}

    def get(net: str) -> Program:
        if net not in made:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("LADDER_CACHE", str(shared_cache))
                patch.setattr(artifact, "TEST_BATCH", TEST_BATCH)
                made[net], _ = program_for(tiny[net], "cpu", "matmul-gradient")
        return made[net]

    return get


@pytest.fixture(scope="session")
def mnist_gz() -> Path:
    """The folder with the four original gzipped MNIST files, outside the repository."""
    shared = Path(os.environ.get("LADDER_SHARED") or REPO.parent / "shared")
    if not (shared / "data" / "mnist-gz").is_dir():
        pytest.skip("no real MNIST: neither LADDER_SHARED nor ../shared has data/mnist-gz")
    return shared / "data" / "mnist-gz"


@pytest.fixture(scope="session")
def cifar10(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the real CIFAR-10 in both original forms, restored from what lies outside the repository: 20 s."""
    shared = Path(os.environ.get("LADDER_SHARED") or REPO.parent / "shared")
    if not (shared / "data" / "cifar10-webp.zip").is_file():
        pytest.skip("no real CIFAR-10: neither LADDER_SHARED nor ../shared has data/cifar10-webp.zip")
    folder = tmp_path_factory.mktemp("cifar10")
    subprocess.run([sys.executable, shared / "data" / "restore.py", "cifar10", folder], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="session")
def xla(shared_cache: Path) -> Lowerer:
    """The xla lowerer on this process's CPU."""
    from ladder.lowerers import make

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LADDER_CACHE", str(shared_cache))
        return make("xla", "cpu")


@pytest.fixture(scope="session")
def compiled(program: Callable[[str], Program], xla: Lowerer) -> Callable[[str], Executable]:
    """compiled(net): the tiny program, compiled once per session."""
    made: dict[str, Executable] = {}

    def get(net: str) -> Executable:
        if net not in made:
            made[net] = xla.compile(program(net))
        return made[net]

    return get
