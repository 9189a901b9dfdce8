"""MNIST as TensorFlow Datasets prepared it, in its array_record format, read without TensorFlow.

TFDS shuffles the examples when it prepares them and keeps no id, so they are put back into file order here.
"""

import io
import json
import os
import re
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ladder.data import order
from ladder.data.identity import MNIST_IDENTITY, Arrays, identity
from ladder.data.source import Found, SourceError, fingerprint

CLASSES = 10
HINT = "remove that prepared version, and prepare it again"


def default_dir() -> tuple[Path, str]:
    """Where TFDS keeps what it prepares, and the words for it: TFDS_DATA_DIR, else ~/tensorflow_datasets."""
    if given := os.environ.get("TFDS_DATA_DIR"):
        return Path(given).expanduser(), "TFDS_DATA_DIR"
    return Path.home() / "tensorflow_datasets", "~/tensorflow_datasets"


def look(tfds_dir: Path, where: str) -> Found | str:
    """The newest prepared mnist 3.x in `tfds_dir`, called `where` in answers, or why there is none that can be read.

    Reads the files' bytes but does not import TFDS: that takes a second, and a cached dataset does not need it.
    Raises SourceError if files of a prepared version are missing or cannot be read.
    """
    versions = [p for p in (tfds_dir / "mnist").glob("3.*") if re.fullmatch(r"3\.\d+\.\d+", p.name)]
    prepared = [p for p in versions if (p / "dataset_info.json").is_file()]
    if not prepared:
        return f"no mnist/3.* with a dataset_info.json in {where}"
    folder = max(prepared, key=lambda p: [int(part) for part in p.name.split(".")])
    source = f"TFDS mnist {folder.name} in {where}"
    try:
        info = json.loads((folder / "dataset_info.json").read_bytes())
        file_format = info.get("fileFormat", "tfrecord")
        if file_format != "array_record":
            return f"{source} is {file_format}, which needs TensorFlow; `tfds convert_format` makes it array_record"
        names = ["dataset_info.json", "features.json", *_shards(info)]
        files = [(name, (folder / name).read_bytes()) for name in names]
    except OSError as error:
        raise SourceError(f"{source}: {Path(error.filename).name} cannot be read: {error.strerror}", HINT) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SourceError(f"{source}: dataset_info.json is damaged: {error!r}", HINT) from error
    return Found(
        source=source,
        fingerprint=fingerprint("mnist tfds 1", files),
        decoder=f"Pillow {version('pillow')} PNG via TFDS {version('tensorflow-datasets')}",
        decode=lambda: decode(folder, source),
    )


def _shards(info: dict[str, Any]) -> list[str]:
    counts = {split["name"]: len(split["shardLengths"]) for split in info["splits"]}
    return [f"mnist-{s}.array_record-{i:05d}-of-{n:05d}" for s, n in sorted(counts.items()) for i in range(n)]


def decode(folder: Path, source: str) -> Arrays:
    """The published MNIST in file order, from a prepared folder in any order. Takes about 10 s.

    Raises SourceError if the folder cannot be read or holds anything else.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of TFDS's own imports
            parts = [part for split in ("train", "test") for part in read_split(folder, split)]
    except Exception as error:  # whatever TFDS, array_record and Pillow raise for damaged files
        reason = " ".join(str(error).replace(str(folder), folder.name).split())[:200]
        raise SourceError(f"{source} cannot be read: {type(error).__name__}: {reason}", HINT) from error
    try:
        arrays = order.restore(Arrays(*parts, classes=CLASSES), *order.load_table())
    except SourceError as error:
        raise SourceError(f"{source}: {error.message}", HINT) from error
    if (got := identity(arrays)) != MNIST_IDENTITY:
        other = f"holds other examples than the published MNIST, so their file order is unknown (identity {got})"
        raise SourceError(f"{source} {other}", HINT)
    return arrays


def read_split(folder: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    import tensorflow_datasets as tfds
    from PIL import Image

    builder: Any = tfds.builder_from_directory(folder)
    # Take the PNG bytes, since TFDS would decode with whichever of OpenCV and Pillow it finds.
    png: Any = tfds.decode.SkipDecoding
    source = builder.as_data_source(split, decoders={"image": png()})
    examples = source.__getitems__(range(len(source)))
    images = np.stack([np.asarray(Image.open(io.BytesIO(example["image"]))) for example in examples])
    if images.shape[1:] != (28, 28) or images.dtype != np.uint8:
        raise ValueError(f"{split} images are {images.dtype} {images.shape}, expected uint8 [N, 28, 28]")
    return images[..., None], np.array([example["label"] for example in examples], np.uint8)
