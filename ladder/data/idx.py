"""MNIST's original files: IDX, gzipped or not, under the names and folders in which they are found in the wild."""

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np

from ladder.data.identity import Array, Arrays
from ladder.data.source import Found, SourceError, fingerprint

CLASSES = 10
SIDE = 28
LAYOUTS = ("", "MNIST/raw")  # below --data-dir: the files themselves, or torchvision's folders
STEMS = {  # part of the dataset: the file's name, up to the separator before its `idx`
    "train_images": ("train-images", "idx3-ubyte"),
    "train_labels": ("train-labels", "idx1-ubyte"),
    "test_images": ("t10k-images", "idx3-ubyte"),
    "test_labels": ("t10k-labels", "idx1-ubyte"),
}
GZIP = b"\x1f\x8b"
UBYTE = 0x08
HINT = "give --data-dir a folder with MNIST's four IDX files, or leave it out and the other sources are asked"


def look(data_dir: Path) -> Found | str:
    """The IDX files below `data_dir`, plain ones before gzipped ones, or the line that says that there is none.

    Raises SourceError if some of the four files are there and others not, or if one cannot be read.
    """
    for layout in LAYOUTS:
        folder = data_dir / layout
        paths = {part: _find(folder, *stem) for part, stem in STEMS.items()}
        there = {part: path for part, path in paths.items() if path}
        if there and len(there) < len(STEMS):
            missing = [f"{a}-{b}[.gz]" for part, (a, b) in STEMS.items() if part not in there]
            raise SourceError(f"{len(there)} of the 4 IDX files are there; missing: {', '.join(missing)}", HINT)
        if there:
            return _found({part: (path.name, _read(path)) for part, path in there.items()})
    return f"none of {', '.join('-'.join(s) for s in STEMS.values())}, gzipped or not, nor in MNIST/raw below"


def _find(folder: Path, stem: str, kind: str) -> Path | None:
    names = [f"{stem}{separator}{kind}{suffix}" for suffix in ("", ".gz") for separator in "-."]
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SourceError(f"{path.name} cannot be read: {error.strerror}", HINT) from error


def _found(files: dict[str, tuple[str, bytes]]) -> Found:
    packed = sorted({"gzip" if content.startswith(GZIP) else "plain" for _, content in files.values()})
    return Found(
        source=f"IDX files in --data-dir ({' and '.join(packed)})",
        fingerprint=fingerprint("mnist idx 1", ((part, content) for part, (_, content) in files.items())),
        decoder=f"numpy {np.__version__} IDX",
        decode=lambda: decode(files),
    )


def decode(files: dict[str, tuple[str, bytes]]) -> Arrays:
    """Both splits from the four files' names and contents. Raises SourceError naming the file, value and limit."""
    parts = {part: parse(name, content, 3 if "images" in part else 1) for part, (name, content) in files.items()}
    for split in ("train", "test"):
        images, labels = parts[f"{split}_images"], parts[f"{split}_labels"]
        name = files[f"{split}_labels"][0]
        if len(images) != len(labels):
            counts = f"{len(labels)} labels for the {len(images)} images of {files[f'{split}_images'][0]}"
            raise SourceError(f"{name} has {counts}", HINT)
        if labels.max() >= CLASSES:
            where = int(np.argmax(labels >= CLASSES))
            raise SourceError(f"{name}: label {labels[where]} of image {where} is above {CLASSES - 1}", HINT)
    return Arrays(**{part: a[..., None] if a.ndim == 3 else a for part, a in parts.items()}, classes=CLASSES)


def parse(name: str, content: bytes, dims: int) -> Array:
    """The uint8 array in an IDX file with `dims` dimensions: [N] or [N, 28, 28].

    IDX: two zero bytes, the dtype (8: unsigned byte), the number of dimensions, each dimension as a big-endian 32-bit
    integer, then the bytes; nothing may follow. Raises SourceError with the numbers for anything else.
    """
    raw = _unpack(name, content)
    start = 4 + 4 * dims
    if len(raw) < start:
        raise SourceError(f"{name} is truncated: {len(raw)} bytes, and its IDX header alone has {start}", HINT)
    magic, expected = int.from_bytes(raw[:4]), (UBYTE << 8) + dims
    if magic != expected:
        kind = f"magic {magic} (dtype 0x{raw[2]:02x}, {raw[3]} dimensions)"
        raise SourceError(f"{name}: {kind}, expected {expected} (dtype 0x08, {dims} dimensions)", HINT)
    shape = struct.unpack(f">{dims}I", raw[4:start])
    if shape[0] == 0 or shape[1:] != (SIDE, SIDE)[: dims - 1]:
        wanted = ("N", "28", "28")[:dims]
        raise SourceError(f"{name}: shape {'x'.join(map(str, shape))}, expected {'x'.join(wanted)} with N > 0", HINT)
    length = start + math.prod(shape)
    if len(raw) != length:
        state = "truncated" if len(raw) < length else "too long"
        raise SourceError(f"{name} is {state}: {len(raw)} bytes, its header asks for {length}", HINT)
    return np.frombuffer(raw, np.uint8, offset=start).reshape(shape)


def _unpack(name: str, content: bytes) -> bytes:
    if not content.startswith(GZIP):
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise SourceError(f"{name} is truncated or broken: {len(content)} bytes of gzip, {error}", HINT) from error
