"""Which source gives a dataset: each is asked in order and answers aloud, and the first that has it is prepared."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ladder.data import cache as datasets
from ladder.data import cifar, embedded, idx, imagenette, tfds, tfds_download
from ladder.data.files import open_split
from ladder.data.identity import CIFAR10_IDENTITY, IMAGENETTE_IDENTITY, MNIST5K_IDENTITY, MNIST_IDENTITY
from ladder.data.source import Found, NoData, SourceError
from ladder.errors import LadderError

PUBLISHED = {
    "mnist": MNIST_IDENTITY,
    "mnist5k": MNIST5K_IDENTITY,
    "cifar10": CIFAR10_IDENTITY,
    "imagenette": IMAGENETTE_IDENTITY,
}
ORIGINALS = {
    "mnist": (idx.look, idx.HINT),
    "cifar10": (cifar.look, cifar.HINT),
    "imagenette": (imagenette.look, imagenette.HINT),
}
HINTS = {
    "mnist": "ladder run mnist --data-dir DIR, with MNIST's four IDX files (gzipped or not) in DIR",
    "cifar10": "ladder run cifar --data-dir DIR, with cifar-10-batches-bin or -py in DIR; or pip install '.[tfds]' in"
    " the checkout, and TFDS downloads it",
    "imagenette": "ladder run imagenette --data-dir DIR, with imagenette2-320, or its train and val folders, in DIR",
}

Say = Callable[[str], None]
Source = tuple[str, str, Callable[[], Found | str]]  # its title, the dataset it gives, how to ask it


@dataclass(frozen=True)
class Dataset:
    """A prepared dataset on disk. `ladder.data.open_split(folder, ...)` maps its arrays."""

    name: str
    identity: str  # sha256:<64 hex> of the ordered bytes, see ladder.data.identity
    source: str  # one line, without paths
    reasons: tuple[str, ...]  # one line per source asked, in order: its answer and why
    folder: Path
    train: int
    test: int
    classes: int
    shape: tuple[int, int, int]  # height, width, channels of a training image
    test_shape: tuple[int, int, int]
    decoder: str  # what decoded the source, with its version


def prepare(
    name: str,
    *,
    data_dir: Path | None,
    cache: Path,
    tfds_dir: Path | None = None,
    allow_download: bool = True,
    say: Say,
) -> Dataset:
    """The dataset `name` from the first source that has it; `mnist` may fall back to `mnist5k`, said aloud.

    A given `data_dir` is an instruction: it alone is asked, first for a prepared TFDS dataset, then for the original
    files, even where `tfds_dir` (default: TFDS_DATA_DIR, else ~/tensorflow_datasets) has a prepared one. Raises NoData
    if no source that was asked has the dataset, LadderError for a broken one, or a cache that cannot be written.
    """
    if name not in PUBLISHED:
        raise LadderError(f"there is no dataset '{name}'; the datasets are: {', '.join(PUBLISHED)}")
    if name == "mnist5k" and data_dir is not None:
        raise LadderError(f"mnist5k is embedded, so --data-dir {data_dir} cannot give it", "leave --data-dir out")

    def tell(line: str) -> None:
        say(f"data: {line}")

    reasons: list[str] = []
    for title, gives, look in _sources(name, data_dir, tfds_dir, allow_download, tell):
        try:
            found = look()
            cached = datasets.fetch(found, gives, cache, tell) if isinstance(found, Found) else None
        except SourceError as error:
            if data_dir is not None:
                raise LadderError(f"--data-dir {data_dir}: {error.message}", error.hint) from error
            found, cached = f"broken: {error.message}; {error.hint}", None
        answer = found.source if isinstance(found, Found) else found
        reasons.append(f"{title}: {'yes' if cached else 'no'}, {answer}")
        tell(reasons[-1])
        if isinstance(found, Found) and cached:
            folder, meta = cached
            dataset = Dataset(
                name=gives,
                identity=meta["identity"],
                source=found.source,
                reasons=tuple(reasons),
                folder=folder,
                train=meta["train"],
                test=meta["test"],
                classes=meta["classes"],
                shape=_shape(folder, "train"),
                test_shape=_shape(folder, "test"),
                decoder=meta["decoder"],
            )
            _warn(name, dataset, tell)
            return dataset
    if data_dir is not None:
        raise NoData(f"--data-dir {data_dir} holds no {name}. {'; '.join(reasons)}", ORIGINALS[name][1])
    raise NoData(f"no source has {name}. {'; '.join(reasons)}", HINTS[name])


def _shape(folder: Path, split: Literal["train", "test"]) -> tuple[int, int, int]:
    height, width, channels = open_split(folder, split)[0].shape[1:]
    return height, width, channels


def _sources(name: str, data_dir: Path | None, tfds_dir: Path | None, allow_download: bool, tell: Say) -> list[Source]:
    last: list[Source] = [("embedded subset", "mnist5k", embedded.look)] if name.startswith("mnist") else []
    if name == "mnist5k":
        return last
    originals, hint = ORIGINALS[name]
    if data_dir is not None:
        if not data_dir.is_dir():
            raise LadderError(f"--data-dir {data_dir} is {'a file' if data_dir.exists() else 'not there'}", hint)
        return [
            ("prepared TFDS in --data-dir", name, lambda: _prepared(name, data_dir, "--data-dir")),
            ("original files in --data-dir", name, lambda: originals(data_dir)),
        ]
    folder, where = (tfds_dir, "the given TFDS folder") if tfds_dir else tfds.default_dir()

    def download() -> Found | str:
        if name not in tfds_download.HOSTS:
            return f"not asked, Ladder does not have {name} prepared"
        return tfds_download.look(name, folder, where, tell) if allow_download else "not asked, downloads are off"

    return [
        ("prepared TFDS", name, lambda: _prepared(name, folder, where)),
        ("original files", name, lambda: "--data-dir is not given"),
        ("TFDS download", name, download),
        *last,
    ]


def _prepared(name: str, folder: Path, where: str) -> Found | str:
    return imagenette.look_tfds(folder, where) if name == "imagenette" else tfds.look(name, folder, where)


def _warn(asked: str, dataset: Dataset, tell: Say) -> None:
    if dataset.name != asked:
        sizes = f"{dataset.train:,} training and {dataset.test:,} test images"
        tell(f"FALLBACK: {dataset.name}, {sizes}, instead of {asked}; it has its own recipe hash and reference")
        tell(f"FALLBACK: {HINTS[asked]} trains on the full {asked}")
    elif dataset.identity != PUBLISHED[asked]:
        told = f"identity {dataset.identity}, published {PUBLISHED[asked]}; it has no reference"
        tell(f"NOT the published {asked}: {told}")
