"""MNIST's file order comes back from any order."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ladder.data import order
from ladder.data.identity import Arrays, identity
from ladder.data.source import SourceError

REPO = Path(__file__).resolve().parents[2]


def shuffled(arrays: Arrays, seed: int) -> Arrays:
    draw = np.random.default_rng(seed)
    a, b = draw.permutation(len(arrays.train_labels)), draw.permutation(len(arrays.test_labels))
    return Arrays(arrays.train_images[a], arrays.train_labels[a], arrays.test_images[b], arrays.test_labels[b], 10)


@pytest.mark.parametrize("seed", range(3))
def test_any_order_is_put_back(tiny: Arrays, seed: int) -> None:
    places = order.table(tiny)
    assert identity(order.restore(shuffled(tiny, seed), places[:60], places[60:])) == identity(tiny)


def test_examples_that_occur_twice_are_no_trouble(tiny: Arrays) -> None:
    twice = [0, 1, 1, 2, 0, *range(5, 60)]
    arrays = Arrays(tiny.train_images[twice], tiny.train_labels[twice], tiny.test_images, tiny.test_labels, 10)
    places = order.table(arrays)
    assert identity(order.restore(shuffled(arrays, 9), places[:60], places[60:])) == identity(arrays)


def test_another_count_is_refused(tiny: Arrays) -> None:
    places = order.table(tiny)
    with pytest.raises(SourceError, match=r"has 60 \+ 20 examples, MNIST has 59 \+ 21"):
        order.restore(tiny, places[:59], places[59:])


def test_the_shipped_table_is_two_permutations() -> None:
    train, test = order.load_table()
    assert train.dtype == test.dtype == np.uint16
    np.testing.assert_array_equal(np.sort(train), np.arange(60_000))
    np.testing.assert_array_equal(np.sort(test), np.arange(10_000))


def test_the_shipped_table_is_what_its_script_makes(mnist_gz: Path) -> None:
    command = [sys.executable, "scripts/mnist_order_table.py", "--from", str(mnist_gz), "--check"]
    done = subprocess.run(command, cwd=REPO, env={"PYTHONPATH": str(REPO)}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
