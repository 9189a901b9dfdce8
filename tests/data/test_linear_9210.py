"""Order decides the score: linear in file order gives 9210 of 10,000 on every backend, from every source."""

import gzip
from pathlib import Path

import pytest

from ladder import records
from ladder.run import Request, drive


def final(data_dir: Path) -> int | None:
    outcome = drive(Request("mnist", nets=("linear",), seeds=(1,), data_dir=str(data_dir)), lambda _: None)
    assert outcome.word == "pass", outcome.judgements[0].reason
    (row,) = records.read(outcome.record_path).finals
    return row.correct


def test_linear_gives_9210_from_gzipped_idx(mnist_gz: Path) -> None:
    assert final(mnist_gz) == 9210


def test_linear_gives_9210_from_plain_idx(mnist_gz: Path, tmp_path: Path) -> None:
    for path in mnist_gz.iterdir():
        (tmp_path / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
    assert final(tmp_path) == 9210


@pytest.mark.slow
def test_linear_gives_9210_from_tfds_in_its_own_order(real_tfds: Path) -> None:
    assert final(real_tfds) == 9210
