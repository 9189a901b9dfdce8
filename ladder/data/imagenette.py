"""Imagenette: a tree of class folders, or `imagenette/320px-v2` as TFDS prepared it; one identity from both."""

import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ladder.data import images, tfds
from ladder.data.identity import Arrays
from ladder.data.images import Encoded
from ladder.data.source import Files, Found, SourceError

# ILSVRC's names of the ten classes, in the order of their labels.
CLASSES = (
    "n01440764",
    "n02102040",
    "n02979186",
    "n03000684",
    "n03028079",
    "n03394916",
    "n03417042",
    "n03425413",
    "n03445777",
    "n03888257",
)
SIDES = (256, 224)  # of a training and a test image, decoded
CONFIG = "imagenette/320px-v2"
SUFFIXES = (".jpeg", ".jpg", ".png")
HINT = "give --data-dir a folder with imagenette2-320, or with its train and val folders"

Splits = tuple[tuple[Encoded, ...], tuple[Encoded, ...]]  # train and test, ordered


def look(data_dir: Path) -> Found | str:
    """The class folders in `data_dir` or in a folder of it called imagenette2-…, or the line that says there are none.

    Reads every file. Raises SourceError if a class has no images or a file cannot be read.
    """
    places = (data_dir, *sorted(p for p in data_dir.glob("imagenette2*") if p.is_dir()))
    trees = [p for p in places if (p / "train").is_dir() and (p / "val").is_dir()]
    if not trees:
        return "neither train and val, nor an imagenette2-… folder that has them"
    if len(trees) > 1:
        raise SourceError(f"{len(trees)} trees are there: {', '.join(p.name for p in trees)}", "give one of them")
    splits = _tree(trees[0] / "train"), _tree(trees[0] / "val")
    ident = images.identity(*splits)
    return _found("imagenette class folders in --data-dir", ident, splits)


def _tree(folder: Path) -> tuple[Encoded, ...]:
    found: list[Encoded] = []
    for label, name in enumerate(CLASSES):
        files = sorted(p for p in folder.glob(f"{name}/*") if p.suffix.lower() in SUFFIXES)
        if not files:
            raise SourceError(f"{folder.name}/{name} has no images", HINT)
        try:
            found += [images.encoded(label, f"{folder.name}/{name}/{p.name}", p.read_bytes) for p in files]
        except OSError as error:
            raise SourceError(f"{folder.name}/{name}: an image cannot be read: {error.strerror}", HINT) from error
    return images.ordered(found)


def look_tfds(tfds_dir: Path, where: str) -> Found | str:
    """What TFDS prepared in `tfds_dir`, called `where` in answers, or why there is none to read; see tfds.look."""
    prepared = tfds.prepared(CONFIG, 1, tfds_dir, where)
    if isinstance(prepared, str):
        return prepared
    splits = _records(prepared)
    return _found(prepared.source, prepared.fingerprint, splits, f" via TFDS {version('tensorflow-datasets')}")


def _records(prepared: tfds.Prepared) -> Splits:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of TFDS's own imports
            import tensorflow_datasets

            skip: Any = tensorflow_datasets.decode.SkipDecoding
            builder: Any = tensorflow_datasets.builder_from_directory(prepared.folder)
            train, test = (
                _split(builder.as_data_source(split, decoders={"image": skip()}), split)
                for split in ("train", "validation")
            )
            return train, test
    except Exception as error:  # whatever TFDS and array_record raise for damaged files
        reason = " ".join(str(error).replace(str(prepared.folder), prepared.folder.name).split())[:200]
        message = f"{prepared.source} cannot be read: {type(error).__name__}: {reason}"
        raise SourceError(message, tfds.HINT) from error


def _split(records: Any, name: str) -> tuple[Encoded, ...]:
    def one(at: int) -> Encoded:
        return images.encoded(int(records[at]["label"]), f"{name} record {at}", lambda: bytes(records[at]["image"]))

    return images.ordered(one(at) for at in range(len(records)))


def _found(source: str, fingerprint: str, splits: Splits, via: str = "") -> Found:
    train, test = splits
    size = sum(3 * side * side * len(split) for side, split in zip(SIDES, splits, strict=True))

    def write(folder: Path) -> tuple[Arrays, str]:
        return images.decode(folder, train, test, SIDES, len(CLASSES)), images.identity(train, test)

    return Found(
        source=source,
        fingerprint=fingerprint.removeprefix("sha256:"),
        decoder=images.decoder() + via,
        decode=Files(write, size),
    )
