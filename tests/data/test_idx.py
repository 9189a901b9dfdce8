"""IDX files: every spelling is read, and every damage is told with its numbers."""

import gzip
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ladder.data import idx
from ladder.data.identity import Arrays, identity
from ladder.data.source import Found, SourceError

WriteIdx = Callable[..., Path]
IdxBytes = Callable[[np.ndarray], bytes]
LABELS = "train-labels-idx1-ubyte"
IMAGES = "train-images-idx3-ubyte"


def found(folder: Path) -> Found:
    answer = idx.look(folder)
    assert isinstance(answer, Found), answer
    return answer


@pytest.mark.parametrize("gz", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("dot", [False, True], ids=["dash", "dot"])
@pytest.mark.parametrize("layout", ["", "MNIST/raw"])
def test_every_layout_name_and_compression_gives_the_same_data(
    tiny: Arrays, write_idx: WriteIdx, tmp_path: Path, layout: str, gz: bool, dot: bool
) -> None:
    write_idx(tmp_path / layout, tiny, gz=gz, dot=dot)
    answer = found(tmp_path)
    assert answer.source == f"IDX files in --data-dir ({'gzip' if gz else 'plain'})"
    assert identity(answer.decode()) == identity(tiny)


def test_gzip_is_known_by_its_content_not_its_name(tiny: Arrays, write_idx: WriteIdx, tmp_path: Path) -> None:
    write_idx(tmp_path, tiny)
    (tmp_path / LABELS).rename(tmp_path / f"{LABELS}.gz")
    (tmp_path / IMAGES).write_bytes(gzip.compress((tmp_path / IMAGES).read_bytes()))
    assert identity(found(tmp_path).decode()) == identity(tiny)


def test_the_fingerprint_is_of_the_bytes_wherever_they_lie(tiny: Arrays, write_idx: WriteIdx, tmp_path: Path) -> None:
    here, there = (found(write_idx(tmp_path / name, tiny)) for name in ("a", "b"))
    assert here.fingerprint == there.fingerprint
    other = replace(tiny, test_labels=tiny.test_labels[::-1].copy())
    assert found(write_idx(tmp_path / "c", other)).fingerprint != here.fingerprint


def test_an_empty_folder_is_an_answer(tmp_path: Path) -> None:
    answer = idx.look(tmp_path)
    assert isinstance(answer, str)
    assert "train-images-idx3-ubyte" in answer


def test_missing_files_are_named(tiny: Arrays, write_idx: WriteIdx, tmp_path: Path) -> None:
    write_idx(tmp_path, tiny, gz=True)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(SourceError, match=r"3 of the 4 IDX files are there; missing: t10k-labels-idx1-ubyte\[\.gz\]"):
        idx.look(tmp_path)


@pytest.mark.parametrize("gz", [False, True], ids=["plain", "gzip"])
def test_a_file_cut_at_any_byte_is_an_error(tiny: Arrays, idx_bytes: IdxBytes, gz: bool) -> None:
    whole = idx_bytes(tiny.train_labels)
    content = gzip.compress(whole, mtime=0) if gz else whole
    for length in range(len(content)):
        with pytest.raises(SourceError, match="labels") as error:
            idx.parse("labels", content[:length], 1)
        assert "truncated" in str(error.value)
    np.testing.assert_array_equal(idx.parse("labels", content, 1), tiny.train_labels)


@pytest.mark.parametrize(
    ("content", "dims", "message"),
    [
        (struct.pack(">3I", 0x0801, 4, 0), 1, None),
        (struct.pack(">2I", 0x0801, 4) + b"12345", 1, "is too long: 13 bytes, its header asks for 12"),
        (struct.pack(">2I", 0x0801, 0), 1, "shape 0, expected N with N > 0"),
        (struct.pack(">2I", 0x0803, 4), 1, r"magic 2051 \(dtype 0x08, 3 dimensions\), expected 2049"),
        (struct.pack(">2I", 0x0D01, 4), 1, r"magic 3329 \(dtype 0x0d, 1 dimensions\), expected 2049"),
        (struct.pack(">4I", 0x0803, 1, 32, 32), 3, "shape 1x32x32, expected Nx28x28"),
        (struct.pack(">4I", 0x0803, 2**32 - 1, 28, 28), 3, "is truncated: 16 bytes, its header asks for 3367254359296"),
        (b"<!DOCTYPE html><html>", 1, "magic 1008813135"),
    ],
)
def test_a_header_is_checked_with_its_numbers(content: bytes, dims: int, message: str | None) -> None:
    if message is None:
        assert idx.parse("name", content, dims).tolist() == [0, 0, 0, 0]
        return
    with pytest.raises(SourceError, match=message):
        idx.parse("name", content, dims)


def test_a_broken_gzip_checksum_is_an_error(tiny: Arrays, idx_bytes: IdxBytes) -> None:
    content = bytearray(gzip.compress(idx_bytes(tiny.train_labels)))
    content[-6] ^= 1
    with pytest.raises(SourceError, match=r"labels is truncated or broken: .* CRC check failed"):
        idx.parse("labels", bytes(content), 1)


def test_labels_above_nine_are_refused(tiny: Arrays, write_idx: WriteIdx, tmp_path: Path) -> None:
    labels = tiny.train_labels.copy()
    labels[7] = 26
    write_idx(tmp_path, replace(tiny, train_labels=labels))
    with pytest.raises(SourceError, match=f"{LABELS}: label 26 of image 7 is above 9"):
        found(tmp_path).decode()


def test_counts_of_images_and_labels_must_agree(tiny: Arrays, write_idx: WriteIdx, tmp_path: Path) -> None:
    write_idx(tmp_path, replace(tiny, test_labels=tiny.test_labels[:19]))
    with pytest.raises(SourceError, match="t10k-labels-idx1-ubyte has 19 labels for the 20 images of t10k-images"):
        found(tmp_path).decode()
