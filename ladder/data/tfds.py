"""Datasets as TensorFlow Datasets prepared them, in its array_record format, read without TensorFlow.

TFDS shuffles the examples when it prepares them, so they are put back into file order here: cifar10 by the id that it
keeps, mnist, which has none, by a table.
"""

import io
import json
import os
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ladder.data import order
from ladder.data.identity import MNIST_IDENTITY, Array, Arrays, identity
from ladder.data.source import Found, SourceError, fingerprint

HINT = "remove that prepared version, and prepare it again"


@dataclass(frozen=True)
class Split:
    """A prepared split in TFDS's order: images uint8 [N, H, W, C], labels uint8 [N], and the ids, if it has them."""

    images: Array
    labels: Array
    ids: tuple[str, ...]


@dataclass(frozen=True)
class Builder:
    """A dataset that TFDS prepares: the shape of its PNG images, and how both splits get back into file order."""

    shape: tuple[int, int, int]
    restore: Callable[[Split, Split], Arrays]


def default_dir() -> tuple[Path, str]:
    """Where TFDS keeps what it prepares, and the words for it: TFDS_DATA_DIR, else ~/tensorflow_datasets."""
    if given := os.environ.get("TFDS_DATA_DIR"):
        return Path(given).expanduser(), "TFDS_DATA_DIR"
    return Path.home() / "tensorflow_datasets", "~/tensorflow_datasets"


def look(name: str, tfds_dir: Path, where: str) -> Found | str:
    """The newest prepared 3.x of `name` in `tfds_dir`, called `where` in answers, or why there is none to read.

    Reads the files' bytes but does not import TFDS: that takes a second, and a cached dataset does not need it.
    Raises SourceError if files of a prepared version are missing or cannot be read.
    """
    found = prepared(name, 3, tfds_dir, where)
    if isinstance(found, str):
        return found
    return Found(
        source=found.source,
        fingerprint=found.fingerprint,
        decoder=f"Pillow {version('pillow')} PNG via TFDS {version('tensorflow-datasets')}",
        decode=lambda: decode(name, found.folder, found.source),
    )


@dataclass(frozen=True)
class Prepared:
    """A version that TFDS prepared as array_record: its folder, words for it, and the SHA-256 of its files."""

    folder: Path
    source: str
    fingerprint: str


def prepared(name: str, major: int, tfds_dir: Path, where: str) -> Prepared | str:
    """The newest `major`.x of `name`, such as `imagenette/320px-v2`; see `look`."""
    wanted = re.compile(rf"{major}\.\d+\.\d+")
    versions = [p for p in (tfds_dir / name).glob(f"{major}.*") if wanted.fullmatch(p.name)]
    whole = [p for p in versions if (p / "dataset_info.json").is_file()]
    if not whole:
        return f"no {name}/{major}.* with a dataset_info.json in {where}"
    folder = max(whole, key=lambda p: [int(part) for part in p.name.split(".")])
    source = f"TFDS {name} {folder.name} in {where}"
    try:
        info = json.loads((folder / "dataset_info.json").read_bytes())
        file_format = info.get("fileFormat", "tfrecord")
        if file_format != "array_record":
            return f"{source} is {file_format}, which needs TensorFlow; `tfds convert_format` makes it array_record"
        names = ["dataset_info.json", "features.json", *_shards(name.partition("/")[0], info)]
        printed = fingerprint(f"{name} tfds 1", ((file, (folder / file).read_bytes()) for file in names))
    except OSError as error:
        raise SourceError(f"{source}: {Path(error.filename).name} cannot be read: {error.strerror}", HINT) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SourceError(f"{source}: dataset_info.json is damaged: {error!r}", HINT) from error
    return Prepared(folder, source, printed)


def _shards(name: str, info: dict[str, Any]) -> list[str]:
    counts = {split["name"]: len(split["shardLengths"]) for split in info["splits"]}
    return [f"{name}-{s}.array_record-{i:05d}-of-{n:05d}" for s, n in sorted(counts.items()) for i in range(n)]


def decode(name: str, folder: Path, source: str) -> Arrays:
    """The dataset in file order, from a prepared folder in any order. Takes about 10 s.

    Raises SourceError if the folder cannot be read or its order cannot be restored.
    """
    builder = BUILDERS[name]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of TFDS's own imports
            train, test = (read_split(folder, split, builder.shape) for split in ("train", "test"))
    except Exception as error:  # whatever TFDS, array_record and Pillow raise for damaged files
        reason = " ".join(str(error).replace(str(folder), folder.name).split())[:200]
        raise SourceError(f"{source} cannot be read: {type(error).__name__}: {reason}", HINT) from error
    try:
        return builder.restore(train, test)
    except SourceError as error:
        raise SourceError(f"{source} {error.message}", HINT) from error


def by_table(train: Split, test: Split) -> Arrays:
    """The published MNIST, by the shipped order table. Raises SourceError for anything else."""
    shuffled = Arrays(train.images, train.labels, test.images, test.labels, classes=10)
    arrays = order.restore(shuffled, *order.load_table())
    if (got := identity(arrays)) != MNIST_IDENTITY:
        other = "holds other examples than the published MNIST, so their file order is unknown"
        raise SourceError(f"{other} (identity {got})")
    return arrays


def by_id(train: Split, test: Split) -> Arrays:
    """CIFAR-10 by its ids, `train_00000` and so on: the running numbers of the original files' examples."""
    return Arrays(*_sorted(train, "train"), *_sorted(test, "test"), classes=10)


def _sorted(split: Split, name: str) -> tuple[Array, Array]:
    wanted = [f"{name}_{i:05d}" for i in range(len(split.labels))]
    places = np.argsort(np.array(split.ids))
    if [split.ids[i] for i in places] != wanted:
        raise SourceError(f"has other ids in {name} than {wanted[0]} to {wanted[-1]}, so its file order is unknown")
    return split.images[places], split.labels[places]


def read_split(folder: Path, split: str, shape: tuple[int, int, int]) -> Split:
    import tensorflow_datasets as tfds
    from PIL import Image

    builder: Any = tfds.builder_from_directory(folder)
    # Take the PNG bytes, since TFDS would decode with whichever of OpenCV and Pillow it finds.
    png: Any = tfds.decode.SkipDecoding
    source = builder.as_data_source(split, decoders={"image": png()})
    examples = source.__getitems__(range(len(source)))
    images = np.stack([np.asarray(Image.open(io.BytesIO(example["image"]))) for example in examples])
    images = images[..., None] if images.ndim == 3 else images
    if images.shape[1:] != shape or images.dtype != np.uint8:
        raise ValueError(f"{split} images are {images.dtype} {images.shape}, expected uint8 of {shape}")
    labels = np.array([example["label"] for example in examples], np.uint8)
    return Split(images, labels, tuple(example["id"].decode() for example in examples if "id" in example))


BUILDERS = {"mnist": Builder((28, 28, 1), by_table), "cifar10": Builder((32, 32, 3), by_id)}
