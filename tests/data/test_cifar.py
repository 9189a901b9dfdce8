"""CIFAR-10: one identity from every form of its files, no pickle is obeyed, and every damage is told."""

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ladder.data import CIFAR10_IDENTITY, cifar, dataset, prepare, tfds, tfds_download
from ladder.data.identity import Arrays, identity
from ladder.data.source import Found, SourceError
from ladder.errors import LadderError
from tests.data.cifar_files import batches, modern_pickle, python2_pickle, write_binary, write_pickled

REPO = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def small() -> Arrays:
    """60 training and 20 test examples of noise."""
    draw = np.random.default_rng(0).integers
    images = [draw(0, 256, (n, 32, 32, 3), np.uint8) for n in (60, 20)]
    labels = [draw(0, 10, n, np.uint8) for n in (60, 20)]
    return Arrays(images[0], labels[0], images[1], labels[1], classes=10)


@pytest.fixture(scope="module")
def prepared(small: Arrays, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A TFDS folder with `small` as cifar10, in TFDS's order."""
    folder = tmp_path_factory.mktemp("tfds")
    files = write_binary(tmp_path_factory.mktemp("bin"), small)
    command = [sys.executable, "-m", "tests.data.cifar_files", str(files), str(folder)]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    return folder


def found(folder: Path) -> Found:
    answer = cifar.look(folder)
    assert isinstance(answer, Found), answer
    return answer


@pytest.mark.parametrize("layout", ["", "cifar-10-batches-bin"])
def test_binary_batches(small: Arrays, tmp_path: Path, layout: str) -> None:
    write_binary(tmp_path / layout, small)
    assert found(tmp_path).source == "CIFAR-10 binary batches in --data-dir"
    assert identity(found(tmp_path).decode()) == identity(small)


@pytest.mark.parametrize("layout", ["", "cifar-10-batches-py"])
def test_pickled_batches(small: Arrays, tmp_path: Path, layout: str) -> None:
    write_pickled(tmp_path / layout, small)
    assert found(tmp_path).source == "CIFAR-10 pickled batches in --data-dir"
    assert identity(found(tmp_path).decode()) == identity(small)


def test_todays_pickles_are_read_too(small: Arrays) -> None:
    labels, pixels = batches(small)["test_batch"]
    for content in (modern_pickle(labels.tolist(), pixels), python2_pickle(labels.tolist(), pixels)):
        got = cifar.parse_pickle("test_batch", content)
        np.testing.assert_array_equal(got[0], pixels)
        np.testing.assert_array_equal(got[1], labels)


class Bomb:
    def __init__(self, call: tuple[object, ...]) -> None:
        self.call = call

    def __reduce__(self) -> tuple[object, ...]:
        return self.call


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ((os.mkdir, ("{}",)), "posix.mkdir"),
        ((eval, ("open('{}', 'w')",)), "eval"),
        ((getattr, (os, "system")), "getattr"),
        ((exec, ("open('{}', 'w')",)), "exec"),
        ((np.load, ("{}",)), "numpy.load"),
    ],
    ids=["mkdir", "eval", "getattr", "exec", "numpy.load"],
)
def test_a_pickle_that_calls_anything_is_refused_before_it_does(
    call: tuple[object, tuple[object, ...]], name: str, tmp_path: Path
) -> None:
    mark = tmp_path / "obeyed"
    arguments = tuple(a.format(mark) if isinstance(a, str) else a for a in call[1])
    if call[0] is getattr:
        content = b"\x80\x02c__builtin__\ngetattr\ncos\nsystem\n."
    else:
        content = pickle.dumps({b"labels": [1], b"data": Bomb((call[0], arguments))}, protocol=4)
    with pytest.raises(SourceError, match=rf"data_batch_1 is truncated or not a CIFAR-10 pickle: .*{name}"):
        cifar.parse_pickle("data_batch_1", content)
    assert not mark.exists()


def test_a_pickle_cut_anywhere_is_an_error(small: Arrays) -> None:
    labels, pixels = batches(small)["test_batch"]
    content = python2_pickle(labels.tolist()[:2], pixels[:2])
    for length in (0, 1, 20, 100, 1000, len(content) - 4, len(content) - 1):
        with pytest.raises(SourceError, match="test_batch is truncated or not a CIFAR-10 pickle"):
            cifar.parse_pickle("test_batch", content[:length])


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({b"data": np.zeros((2, 3072), np.uint8)}, "KeyError"),
        ({b"data": np.zeros((2, 3072)), b"labels": [1, 2]}, r"data is float64 \(2, 3072\)"),
        ({b"data": np.zeros((3, 3072), np.uint8), b"labels": [1, 2]}, r"expected uint8 \(2, 3072\)"),
        ({b"data": [1, 2], b"labels": [1, 2]}, "data is list"),
        ({b"data": np.zeros((1, 3072), np.uint8), b"labels": [-1]}, "expected integers from 0 to 9"),
        ([], "TypeError"),
    ],
)
def test_a_pickle_of_something_else_is_told(batch: object, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        cifar.parse_pickle("test_batch", pickle.dumps(batch, protocol=4))


def test_a_truncated_binary_batch_is_told_with_its_numbers(small: Arrays, tmp_path: Path) -> None:
    path = write_binary(tmp_path, small) / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(SourceError, match=r"data_batch_3\.bin is truncated: 36875 bytes are no multiple of 3073"):
        found(tmp_path).decode()
    path.write_bytes(b"")
    with pytest.raises(SourceError, match=r"data_batch_3\.bin is truncated: 0 bytes"):
        found(tmp_path).decode()


def test_a_label_above_nine_is_told(small: Arrays, tmp_path: Path) -> None:
    path = write_binary(tmp_path, small) / "data_batch_1.bin"
    path.write_bytes(b"\x0a" + path.read_bytes()[1:])
    with pytest.raises(SourceError, match=r"data_batch_1\.bin: label 10 of image 0 is above 9"):
        found(tmp_path).decode()


def test_missing_batches_are_named(small: Arrays, tmp_path: Path) -> None:
    write_binary(tmp_path, small)
    (tmp_path / "test_batch.bin").unlink()
    with pytest.raises(SourceError, match=r"5 of the 6 binary batches are there; missing: test_batch\.bin"):
        cifar.look(tmp_path)


def test_every_form_is_one_dataset_and_another_order_is_another_one(
    small: Arrays, prepared: Path, tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(dataset.PUBLISHED, "cifar10", identity(small))
    forms = [write_binary(tmp_path / "bin", small), write_pickled(tmp_path / "py", small), prepared]
    results = [prepare("cifar10", data_dir=form, cache=tmp_path / "cache", say=said.append) for form in forms]
    assert {(r.name, r.identity, r.folder, r.shape) for r in results} == {
        ("cifar10", identity(small), results[0].folder, (32, 32, 3))
    }
    assert not any("NOT the published" in line for line in said)
    turned = Arrays(small.train_images[::-1], small.train_labels[::-1], small.test_images, small.test_labels, 10)
    other = prepare("cifar10", data_dir=write_binary(tmp_path / "x", turned), cache=tmp_path / "cache", say=said.append)
    assert other.identity != identity(small)
    assert any("NOT the published cifar10" in line for line in said)


def test_tfds_keeps_ids_that_restore_the_file_order(small: Arrays, prepared: Path) -> None:
    folder = next(prepared.glob("cifar10/3.*"))
    train = tfds.read_split(folder, "train", (32, 32, 3))
    assert train.ids != tuple(sorted(train.ids))
    answer = tfds.look("cifar10", prepared, "here")
    assert isinstance(answer, Found)
    assert identity(answer.decode()) == identity(small)
    broken = tfds.Split(train.images, train.labels, ("train_00000", *train.ids[1:]))
    with pytest.raises(SourceError, match="has other ids in train"):
        tfds.by_id(broken, train)


def test_a_damaged_prepared_shard_is_one_error(prepared: Path, tmp_path: Path, said: list[str]) -> None:
    copy = shutil.copytree(prepared, tmp_path / "tfds")
    next(copy.glob("cifar10/3.*/*train.array_record*")).write_bytes(b"")
    with pytest.raises(LadderError, match=r"--data-dir .*: TFDS cifar10 3\.\d\.\d in --data-dir cannot be read"):
        prepare("cifar10", data_dir=copy, cache=tmp_path / "cache", say=said.append)


def test_without_any_source_one_error_names_the_ways(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tfds_download, "find_spec", lambda _: None)
    with pytest.raises(LadderError, match="no source has cifar10") as error:
        prepare("cifar10", data_dir=None, tfds_dir=tmp_path, cache=tmp_path / "cache", say=said.append)
    assert "--data-dir" in error.value.hint
    assert ".[tfds]" in error.value.hint
    assert "embedded" not in error.value.message


@pytest.mark.slow
def test_the_real_files_have_the_published_identity(cifar10: Path, tmp_path: Path) -> None:
    for form in ("cifar-10-batches-bin", "cifar-10-batches-py"):
        assert identity(found(cifar10 / form).decode()) == CIFAR10_IDENTITY
