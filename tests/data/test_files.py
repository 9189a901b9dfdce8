"""A worker maps a prepared dataset with NumPy alone, and damage is told."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ladder.data import Dataset, open_split, prepare
from ladder.data.files import META, verify
from ladder.data.identity import PARTS, Arrays
from ladder.errors import LadderError

REPO = Path(__file__).resolve().parents[2]


@pytest.fixture
def dataset(tiny: Arrays, write_idx: Callable[..., Path], tmp_path: Path) -> Dataset:
    source = write_idx(tmp_path / "idx", tiny)
    return prepare("mnist", data_dir=source, cache=tmp_path / "cache", say=lambda _: None)


def test_a_split_is_mapped_read_only(dataset: Dataset, tiny: Arrays) -> None:
    for split in ("train", "test"):
        images, labels = open_split(dataset.folder, split)
        assert isinstance(images, np.memmap)
        assert not images.flags.writeable
        np.testing.assert_array_equal(images, tiny.parts()[f"{split}_images"])
        np.testing.assert_array_equal(labels, tiny.parts()[f"{split}_labels"])


def test_opening_imports_numpy_only(dataset: Dataset) -> None:
    code = "import sys, pathlib; from ladder.data import open_split; open_split(pathlib.Path(sys.argv[1]), 'test')"
    code += "; print(*sorted({m.split('.')[0] for m in sys.modules} - sys.stdlib_module_names))"
    run = [sys.executable, "-P", "-c", code, str(dataset.folder)]
    done = subprocess.run(run, env={"PYTHONPATH": str(REPO)}, capture_output=True, text=True, check=True)
    unwanted = {"filelock", "mlxtend", "tensorflow_datasets", "PIL", "jax", "tensorflow", "pandas", "absl"}
    loaded = set(done.stdout.split())
    assert {"numpy", "ladder"} <= loaded
    assert not loaded & unwanted


@pytest.mark.parametrize("keep", [0, 5, 200])
def test_a_truncated_file_is_an_error(dataset: Dataset, keep: int) -> None:
    path = dataset.folder / "train_images.npy"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(LadderError, match=r"train_images\.npy is not a whole \.npy file"):
        open_split(dataset.folder, "train")


def test_another_dtype_is_an_error(dataset: Dataset) -> None:
    np.save(dataset.folder / "train_images.npy", np.zeros((60, 28, 28, 1), np.float32))
    with pytest.raises(LadderError, match="holds float32, expected uint8"):
        open_split(dataset.folder, "train")


def test_another_count_is_an_error(dataset: Dataset) -> None:
    np.save(dataset.folder / "train_labels.npy", np.zeros(59, np.uint8))
    with pytest.raises(LadderError, match=r"train has images \(60, 28, 28, 1\) and labels \(59,\)"):
        open_split(dataset.folder, "train")


@pytest.mark.parametrize("part", PARTS)
def test_one_changed_bit_is_found_and_its_file_named(dataset: Dataset, part: str) -> None:
    path = dataset.folder / f"{part}.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(LadderError, match=rf"{part}\.npy has sha256 [0-9a-f]{{64}}, recorded was [0-9a-f]{{64}}"):
        verify(dataset.folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"identity": "sha256:0"}'])
def test_a_damaged_meta_is_an_error(dataset: Dataset, text: str) -> None:
    (dataset.folder / META).write_text(text)
    with pytest.raises(LadderError, match=r"meta\.json is missing or damaged"):
        verify(dataset.folder)
