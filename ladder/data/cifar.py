"""CIFAR-10's original files: the six binary batches, or the six Python pickles, which are read without running them."""

import io
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ladder.data.identity import Array, Arrays
from ladder.data.source import Found, SourceError, fingerprint

CLASSES = 10
SIDE = 32
PIXELS = 3 * SIDE * SIDE
BATCHES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")  # in file order; the last holds the test images
HINT = "give --data-dir a folder with cifar-10-batches-bin or cifar-10-batches-py, or their files themselves"
# What numpy's own pickles name; anything else would be called.
SAFE = {
    *((module, "_reconstruct") for module in ("numpy.core.multiarray", "numpy._core.multiarray")),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
}


def look(data_dir: Path) -> Found | str:
    """The batches below `data_dir`, binary before pickled, or the line that says that there is none.

    Raises SourceError if some of the six files are there and others not, or if one cannot be read.
    """
    for kind, (suffix, folder, parse) in FORMS.items():
        for place in (data_dir, data_dir / folder):
            there = [name for name in BATCHES if (place / f"{name}{suffix}").is_file()]
            if there and len(there) < len(BATCHES):
                missing = [f"{name}{suffix}" for name in BATCHES if name not in there]
                raise SourceError(
                    f"{len(there)} of the 6 {kind} batches are there; missing: {', '.join(missing)}", HINT
                )
            if there:
                return _found(kind, {f"{name}{suffix}": _read(place / f"{name}{suffix}") for name in BATCHES}, parse)
    return "neither data_batch_1.bin … test_batch.bin nor data_batch_1 … test_batch, nor the folders they come in"


def _found(kind: str, files: Mapping[str, bytes], parse: "Parse") -> Found:
    return Found(
        source=f"CIFAR-10 {kind} batches in --data-dir",
        fingerprint=fingerprint(f"cifar10 {kind} 1", files.items()),
        decoder=f"numpy {np.__version__} {kind} batches",
        decode=lambda: decode(files, parse),
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SourceError(f"{path.name} cannot be read: {error.strerror}", HINT) from error


def decode(files: Mapping[str, bytes], parse: "Parse") -> Arrays:
    """Both splits, in the order of `files`. Raises SourceError naming the file, value and limit."""
    batches: list[tuple[Array, Array]] = []
    for name, content in files.items():
        images, labels = parse(name, content)
        if labels.max() >= CLASSES:
            where = int(np.argmax(labels >= CLASSES))
            raise SourceError(f"{name}: label {labels[where]} of image {where} is above {CLASSES - 1}", HINT)
        # The files hold three planes, red first.
        batches.append((images.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1), labels))
    *train, test = batches
    images, labels = (np.concatenate(parts) for parts in zip(*train, strict=True))
    return Arrays(images, labels, *map(np.ascontiguousarray, test), classes=CLASSES)


def parse_binary(name: str, content: bytes) -> tuple[Array, Array]:
    """Images uint8 [N, 3072] and labels uint8 [N] of a binary batch: N records of a label and its pixels."""
    if not content or len(content) % (1 + PIXELS):
        raise SourceError(f"{name} is truncated: {len(content)} bytes are no multiple of {1 + PIXELS}", HINT)
    records = np.frombuffer(content, np.uint8).reshape(-1, 1 + PIXELS)
    return records[:, 1:], records[:, 0]


def parse_pickle(name: str, content: bytes) -> tuple[Array, Array]:
    """Images uint8 [N, 3072] and labels uint8 [N] of a pickled batch. Raises SourceError, before anything is called."""
    try:
        batch: Any = _Restricted(io.BytesIO(content), encoding="bytes").load()
        images, labels = batch[b"data"], np.asarray(batch[b"labels"])
    except Exception as error:  # a damaged pickle may raise anything
        reason = f"{type(error).__name__}: {error}"[:200]
        raise SourceError(f"{name} is truncated or not a CIFAR-10 pickle: {reason}", HINT) from error
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.shape != (len(labels), PIXELS):
        found = f"{images.dtype} {images.shape}" if isinstance(images, np.ndarray) else type(images).__name__
        raise SourceError(f"{name}: data is {found}, expected uint8 ({len(labels)}, {PIXELS})", HINT)
    if not len(labels) or labels.ndim != 1 or labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() > 255:
        raise SourceError(f"{name}: labels are {labels.dtype} {labels.shape}, expected integers from 0 to 9", HINT)
    return images, labels.astype(np.uint8)


class _Restricted(pickle.Unpickler):
    """Builds dicts, lists, strings, numbers and numpy arrays; a pickle that names anything else is refused."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if (module_name, global_name) not in SAFE:
            raise pickle.UnpicklingError(f"it names {module_name}.{global_name}, which a batch of images does not need")
        return super().find_class(module_name.replace("numpy.core", "numpy._core"), global_name)


Parse = Callable[[str, bytes], tuple[Array, Array]]
FORMS: dict[str, tuple[str, str, Parse]] = {
    "binary": (".bin", "cifar-10-batches-bin", parse_binary),
    "pickled": ("", "cifar-10-batches-py", parse_pickle),
}
