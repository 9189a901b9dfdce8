"""A prepared TFDS mnist is read without TensorFlow and put back into file order; damage is one clear line."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ladder.data import order, prepare, tfds
from ladder.data.identity import Arrays, identity
from ladder.data.source import Found, SourceError

WHERE = "~/tensorflow_datasets"


@pytest.fixture
def tfds_dir(tiny_tfds: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return shutil.copytree(tiny_tfds, tmp_path / "tfds")


@pytest.fixture
def published(tiny: Arrays, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `tiny` be the published MNIST."""
    places = order.table(tiny)
    monkeypatch.setattr(order, "load_table", lambda: (places[:60], places[60:]))
    monkeypatch.setattr(tfds, "MNIST_IDENTITY", identity(tiny))


def found(folder: Path) -> Found:
    answer = tfds.look("mnist", folder, WHERE)
    assert isinstance(answer, Found), answer
    return answer


def version(tfds_dir: Path) -> Path:
    return tfds_dir / "mnist" / "3.0.1"


@pytest.mark.usefixtures("published")
def test_shuffled_examples_come_back_in_file_order(tiny_tfds: Path, tiny: Arrays) -> None:
    assert identity(found(tiny_tfds).decode()) == identity(tiny)


def test_the_fixture_is_shuffled(tiny_tfds: Path, tiny: Arrays) -> None:
    labels = tfds.read_split(version(tiny_tfds), "train", (28, 28, 1)).labels
    assert sorted(labels.tolist()) == sorted(tiny.train_labels.tolist())
    assert labels.tolist() != tiny.train_labels.tolist()


@pytest.mark.usefixtures("published")
def test_reading_imports_no_tensorflow(tiny_tfds: Path) -> None:
    code = (
        "import contextlib, sys; from pathlib import Path\n"
        "from ladder.data import tfds; from ladder.errors import LadderError\n"
        "with contextlib.suppress(LadderError):  # it is read, and then is not the published MNIST\n"
        f"    tfds.look('mnist', Path({str(tiny_tfds)!r}), 'here').decode()\n"
        "print(sorted({'tensorflow', 'jax', 'torch'} & set(sys.modules)))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True, timeout=60).strip() == "[]"


def test_the_answer_names_version_place_and_decoder(tiny_tfds: Path) -> None:
    answer = found(tiny_tfds)
    assert answer.source == "TFDS mnist 3.0.1 in ~/tensorflow_datasets"
    assert answer.decoder.startswith("Pillow ")
    assert " PNG via TFDS " in answer.decoder


def test_without_a_prepared_version_the_answer_says_so(tfds_dir: Path) -> None:
    shutil.move(version(tfds_dir), tfds_dir / "mnist" / "incomplete.ABCDEF_3.0.1")
    (tfds_dir / "mnist" / "3.0.2").mkdir()
    expected = "no mnist/3.* with a dataset_info.json in ~/tensorflow_datasets"
    assert tfds.look("mnist", tfds_dir, WHERE) == tfds.look("mnist", tfds_dir / "nowhere", WHERE) == expected


def test_the_newest_version_is_taken(tfds_dir: Path) -> None:
    shutil.copytree(version(tfds_dir), tfds_dir / "mnist" / "3.0.10")
    shutil.copytree(version(tfds_dir), tfds_dir / "mnist" / "3.0.9")
    assert "mnist 3.0.10 " in found(tfds_dir).source


@pytest.mark.parametrize("file_format", ["tfrecord", None])
def test_a_format_that_needs_tensorflow_is_not_taken(tfds_dir: Path, file_format: str | None) -> None:
    path = version(tfds_dir) / "dataset_info.json"
    info = json.loads(path.read_text())
    del info["fileFormat"]
    path.write_text(json.dumps({**info, **({"fileFormat": file_format} if file_format else {})}))
    answer = tfds.look("mnist", tfds_dir, WHERE)
    assert isinstance(answer, str)
    assert "3.0.1 in ~/tensorflow_datasets is tfrecord, which needs TensorFlow" in answer


@pytest.mark.parametrize("text", ["", "[]", '{"fileFormat": "array_record", "splits": [{}]}'])
def test_a_damaged_info_is_an_error(tfds_dir: Path, text: str) -> None:
    (version(tfds_dir) / "dataset_info.json").write_text(text)
    with pytest.raises(
        SourceError, match=r"TFDS mnist 3\.0\.1 in ~/tensorflow_datasets: dataset_info\.json is damaged"
    ):
        tfds.look("mnist", tfds_dir, WHERE)


def test_a_missing_shard_is_named(tfds_dir: Path) -> None:
    (version(tfds_dir) / "mnist-test.array_record-00000-of-00001").unlink()
    with pytest.raises(SourceError, match=r"mnist-test\.array_record-00000-of-00001 cannot be read: No such file"):
        tfds.look("mnist", tfds_dir, WHERE)


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize("damage", ["half", "empty", "zeros", "one bit"])
def test_a_damaged_shard_is_one_error_without_paths(tfds_dir: Path, damage: str) -> None:
    path = version(tfds_dir) / "mnist-train.array_record-00000-of-00001"
    content = path.read_bytes()
    inside = content.index(b"PNG") + 100
    damaged = {
        "half": content[: len(content) // 2],
        "empty": b"",
        "zeros": bytes(len(content)),
        "one bit": content[:inside] + bytes([content[inside] ^ 1]) + content[inside + 1 :],
    }
    path.write_bytes(damaged[damage])
    with pytest.raises(SourceError, match=r"TFDS mnist 3\.0\.1 in ~/tensorflow_datasets cannot be read: ") as error:
        found(tfds_dir).decode()
    assert str(tfds_dir) not in str(error.value)


def test_other_counts_are_refused(tiny_tfds: Path) -> None:
    with pytest.raises(SourceError, match=r"has 60 \+ 20 examples, MNIST has 60000 \+ 10000"):
        found(tiny_tfds).decode()


@pytest.mark.usefixtures("published")
def test_other_examples_are_refused(tiny_tfds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tfds, "MNIST_IDENTITY", "sha256:0")
    with pytest.raises(SourceError, match="holds other examples than the published MNIST"):
        found(tiny_tfds).decode()


def test_the_default_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TFDS_DATA_DIR", raising=False)
    assert tfds.default_dir() == (Path.home() / "tensorflow_datasets", "~/tensorflow_datasets")
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    assert tfds.default_dir() == (tmp_path, "TFDS_DATA_DIR")


@pytest.mark.usefixtures("published")
def test_a_cached_dataset_needs_no_tfds(
    tfds_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    def prepared() -> object:
        return prepare("mnist", data_dir=None, tfds_dir=tfds_dir, cache=tmp_path / "cache", say=said.append)

    first = prepared()
    monkeypatch.setattr(tfds, "read_split", None)
    assert prepared() == first
