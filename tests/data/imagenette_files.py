"""Imagenette's class folders with few images.

python imagenette_files.py TREE TFDS_DIR: TFDS's real imagenette builder, fed from the tree.
"""

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ladder.data.imagenette import CLASSES


def jpeg(image: np.ndarray, quality: int = 90) -> bytes:
    """The bytes of an image uint8 [h, w, 3], or [h, w] for a grey one."""
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=quality)
    return file.getvalue()


def write_tree(folder: Path, train: int = 44, val: int = 20, quality: int = 90) -> Path:
    """train and val with so many images of the ten classes in turn, of several sizes; some are grey, as real ones."""
    draw = np.random.default_rng(3)
    prototypes = draw.integers(0, 256, (10, 6, 8, 3))
    for split, count in (("train", train), ("val", val)):
        for i in range(count):
            height, width = (int(side) for side in draw.integers(5, 12, 2) * 8)
            small = prototypes[i % 10] // 2 + draw.integers(0, 128, (6, 8, 3))
            image = Image.fromarray(small.astype(np.uint8)).resize((width, height))
            place = folder / split / CLASSES[i % 10]
            place.mkdir(parents=True, exist_ok=True)
            pixels = np.asarray(image.convert("L") if i % 7 == 3 else image)
            (place / f"{CLASSES[i % 10]}_{i}.JPEG").write_bytes(jpeg(pixels, quality))
    return folder


def main() -> None:
    """Prepare TFDS's imagenette/320px-v2 in TFDS_DIR; its keys are the file names, as the builder's own."""
    import tensorflow_datasets as tfds

    tree = Path(sys.argv[1])

    def examples(split: str) -> Iterator[tuple[str, dict[str, Any]]]:
        for path in sorted((tree / split).glob("*/*.JPEG")):
            yield path.name, {"image": io.BytesIO(path.read_bytes()), "label": path.parent.name}

    builder: Any = tfds.builder("imagenette/320px-v2", data_dir=sys.argv[2], file_format="array_record")
    type(builder)._split_generators = lambda self, dl_manager: {
        "train": examples("train"),
        "validation": examples("val"),
    }
    builder.download_and_prepare()


if __name__ == "__main__":
    main()
