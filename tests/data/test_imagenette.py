"""Imagenette: one identity from class folders and from TFDS, decoded once, and every damage is told."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ladder.data import cache, dataset, imagenette, images, open_split, prepare
from ladder.data.dataset import Dataset
from ladder.data.source import Found
from ladder.errors import LadderError
from tests.data.imagenette_files import jpeg, write_tree

REPO = Path(__file__).resolve().parents[2]
FIRST = "n01440764"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """44 training and 20 test images."""
    return write_tree(tmp_path_factory.mktemp("tree"))


@pytest.fixture
def copied(tree: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tree, tmp_path / "copied"))


@pytest.fixture
def prepared(tmp_path: Path) -> Callable[..., Dataset]:
    """prepared(data_dir): the dataset, in a cache of the test's own."""

    def from_folder(data_dir: Path, said: list[str] | None = None) -> Dataset:
        say = (said if said is not None else []).append
        return prepare("imagenette", data_dir=data_dir, cache=tmp_path / "cache", say=say)

    return from_folder


def test_the_tree_is_decoded_as_pillow_does_by_class_and_hash(tree: Path, prepared: Callable[..., Dataset]) -> None:
    found = prepared(tree)
    assert (found.train, found.test, found.classes) == (44, 20, 10)
    assert (found.shape, found.test_shape) == ((256, 256, 3), (224, 224, 3))
    assert found.decoder == images.decoder()
    for split, folder, side in (("train", "train", 256), ("test", "val", 224)):
        pixels, labels = open_split(found.folder, split)  # type: ignore[arg-type]
        files = [(label, p) for label, name in enumerate(imagenette.CLASSES) for p in (tree / folder / name).iterdir()]
        files.sort(key=lambda f: (f[0], images.encoded(0, "", f[1].read_bytes).sha))
        assert labels.tolist() == [label for label, _ in files]
        for got, (_, path) in zip(pixels, files, strict=True):
            wanted = Image.open(path).convert("RGB").resize((side, side), Image.Resampling.BILINEAR)
            np.testing.assert_array_equal(got, np.asarray(wanted))


def test_a_tree_in_a_folder_and_under_other_file_names_is_the_same_dataset(
    tree: Path, copied: Path, prepared: Callable[..., Dataset]
) -> None:
    for i, path in enumerate(sorted((copied / "train").glob("*/*.JPEG"))):
        path.rename(path.with_name(f"{100 - i}.JPEG"))
    (copied.parent / "above").mkdir()
    copied.rename(copied.parent / "above" / "imagenette2-320")
    said: list[str] = []
    assert prepared(copied.parent / "above").identity == prepared(tree, said).identity
    assert not any("decoding" in line for line in said)  # equal files are found decoded


def test_a_re_encoding_another_count_and_a_moved_label_are_other_datasets(
    tree: Path, copied: Path, tmp_path: Path
) -> None:
    def told(folder: Path) -> str:
        found = imagenette.look(folder)
        assert isinstance(found, Found), found
        return found.fingerprint

    recoded, fewer = write_tree(tmp_path / "recoded", quality=80), write_tree(tmp_path / "fewer", train=43)
    moved = next((copied / "train" / FIRST).iterdir())
    moved.rename(copied / "train" / imagenette.CLASSES[1] / moved.name)
    assert len({told(folder) for folder in (tree, recoded, fewer, copied)}) == 4


def test_a_decoder_of_another_build_gives_the_same_identity(
    tree: Path, prepared: Callable[..., Dataset], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = prepared(tree)
    monkeypatch.setattr(images, "square", lambda image, side: np.zeros((side, side, 3), np.uint8))
    other = prepare("imagenette", data_dir=tree, cache=tmp_path / "other", say=[].append)
    assert other.identity == first.identity
    assert not np.array_equal(open_split(first.folder, "train")[0], open_split(other.folder, "train")[0])


def test_what_tfds_prepared_is_the_same_dataset(tree: Path, prepared: Callable[..., Dataset], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.data.imagenette_files", str(tree), str(tmp_path / "tfds")]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    found = prepared(tmp_path / "tfds")
    assert found.source == "TFDS imagenette/320px-v2 1.0.0 in --data-dir"
    assert found.identity == prepared(tree).identity
    shard = next((tmp_path / "tfds").glob("imagenette/320px-v2/1.0.0/*validation*"))
    shard.write_bytes(shard.read_bytes()[:-50])
    with pytest.raises(LadderError, match=r"TFDS imagenette/320px-v2 1\.0\.0 in --data-dir cannot be read"):
        prepared(tmp_path / "tfds")


def test_it_is_said_that_it_is_not_the_published_one(tree: Path, prepared: Callable[..., Dataset]) -> None:
    said: list[str] = []
    found = prepared(tree, said)
    assert f"NOT the published imagenette: identity {found.identity}" in said[-1]
    assert "no reference" in said[-1]


def test_a_broken_image_is_named_and_nothing_is_left(copied: Path, prepared: Callable[..., Dataset]) -> None:
    whole = jpeg(np.zeros((40, 40, 3), np.uint8))
    (copied / "train" / FIRST / "broken.JPEG").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(LadderError, match=f"train/{FIRST}/broken.JPEG cannot be decoded: "):
        prepared(copied)
    assert not list((copied.parent / "cache" / "datasets").glob(f"{cache.TEMPORARY}*"))


def test_a_missing_class_and_a_missing_tree_are_told(copied: Path, prepared: Callable[..., Dataset]) -> None:
    shutil.rmtree(copied / "val" / FIRST)
    with pytest.raises(LadderError, match=f"val/{FIRST} has no images"):
        prepared(copied)
    with pytest.raises(LadderError, match="neither train and val, nor an imagenette2-"):
        prepared(copied / "train")


def test_room_is_asked_for_before_anything_is_decoded(
    tree: Path, prepared: Callable[..., Dataset], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 10_000_000}))
    monkeypatch.setattr(images, "square", lambda *_: pytest.fail("decoded"))
    with pytest.raises(LadderError, match=r"class folders in --data-dir takes 0\.01 GB, and 0\.01 GB are free"):
        prepared(tree)


def test_a_preparation_that_was_killed_is_cleared_and_done_again(
    tree: Path, prepared: Callable[..., Dataset], tmp_path: Path
) -> None:
    left = tmp_path / "cache" / "datasets" / f"{cache.TEMPORARY}imagenette-killed"
    left.mkdir(parents=True)
    (left / "train_images.npy").write_bytes(b"half")
    said: list[str] = []
    assert prepared(tree, said).train == 44
    assert any("interrupted preparation of imagenette" in line for line in said)
    assert not left.exists()


def test_a_damaged_byte_in_the_cache_is_found_and_it_is_decoded_anew(
    tree: Path, prepared: Callable[..., Dataset]
) -> None:
    path = prepared(tree).folder / "train_images.npy"
    content = bytearray(path.read_bytes())
    content[5_000] ^= 1
    path.write_bytes(content)
    said: list[str] = []
    again = prepared(tree, said)
    assert any("damaged" in line for line in said)
    assert (again.folder / "train_images.npy").read_bytes() != bytes(content)


def test_without_data_the_error_names_the_next_command(tmp_path: Path) -> None:
    with pytest.raises(LadderError, match="no source has imagenette") as error:
        prepare("imagenette", data_dir=None, cache=tmp_path, tfds_dir=tmp_path / "none", say=[].append)
    assert error.value.hint == dataset.HINTS["imagenette"]
