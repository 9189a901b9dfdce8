"""CIFAR-10's original files with few examples: the binary batches, and pickles as Python 2 and NumPy 1 wrote them.

python cifar_files.py BATCHES_DIR TFDS_DIR: TFDS's real cifar10 builder, fed from binary batches.
"""

import io
import pickle
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ladder.data.cifar import BATCHES
from ladder.data.identity import Arrays


def batches(arrays: Arrays) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Five training batches and a test batch: labels [N], and pixels [N, 3072] with the red plane first."""
    images = [*np.array_split(arrays.train_images, 5), arrays.test_images]
    labels = [*np.array_split(arrays.train_labels, 5), arrays.test_labels]
    planes = [part.transpose(0, 3, 1, 2).reshape(len(part), -1) for part in images]
    return dict(zip(BATCHES, zip(labels, planes, strict=True), strict=True))


def write_binary(folder: Path, arrays: Arrays) -> Path:
    """The six .bin files in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (labels, pixels) in batches(arrays).items():
        (folder / f"{name}.bin").write_bytes(np.concatenate([labels[:, None], pixels], 1).tobytes())
    return folder


def write_pickled(folder: Path, arrays: Arrays) -> Path:
    """The six pickles in `folder`, in the opcodes of the original files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (labels, pixels) in batches(arrays).items():
        (folder / name).write_bytes(python2_pickle(labels.tolist(), pixels))
    return folder


def python2_pickle(labels: list[int], pixels: np.ndarray) -> bytes:
    """`{'labels': [...], 'data': ndarray}` as cPickle protocol 2 of Python 2 wrote it: byte strings, numpy.core."""

    def word(text: bytes) -> bytes:
        return b"U" + bytes([len(text)]) + text

    listed = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    shape = b"".join(b"J" + struct.pack("<i", n) for n in pixels.shape) + b"\x86"
    empty = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\x01b\x87R"
    uint8 = b"cnumpy\ndtype\nU\x02u1K\0K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb"
    content = b"T" + struct.pack("<I", pixels.size) + pixels.tobytes()
    array = empty + b"(K\x01" + shape + uint8 + b"\x89" + content + b"tb"
    return b"\x80\x02}(" + word(b"labels") + listed + word(b"data") + array + b"u."


def modern_pickle(labels: list[int], pixels: np.ndarray) -> bytes:
    """The same as today's Python and NumPy write it."""
    return pickle.dumps({b"labels": labels, b"data": pixels}, protocol=4)


def main() -> None:
    """Prepare TFDS's cifar10 in TFDS_DIR; its keys and ids are the running numbers of the builder's own."""
    import tensorflow_datasets as tfds
    from PIL import Image

    from ladder.data import cifar
    from ladder.data.source import Found

    found = cifar.look(Path(sys.argv[1]))
    assert isinstance(found, Found), found
    arrays = found.decode()

    def examples(split: str, images: np.ndarray, labels: np.ndarray) -> Any:
        for i, (image, label) in enumerate(zip(images, labels, strict=True)):
            png = io.BytesIO()
            Image.fromarray(image).save(png, "PNG", compress_level=1)
            png.seek(0)
            yield i, {"id": f"{split}_{i:05d}", "image": png, "label": int(label)}

    builder: Any = tfds.builder("cifar10", data_dir=sys.argv[2], file_format="array_record")
    type(builder)._split_generators = lambda self, dl_manager: {
        "train": examples("train", arrays.train_images, arrays.train_labels),
        "test": examples("test", arrays.test_images, arrays.test_labels),
    }
    builder.download_and_prepare()


if __name__ == "__main__":
    main()
