"""python tfds_fixture.py IDX_DIR TFDS_DIR: TFDS's real mnist builder, with its two splits fed from IDX files.

Only `_split_generators`, which needs TensorFlow, is replaced; the keys are the running numbers that the builder's own
`_generate_examples` yields, so TFDS shuffles as it does for a real user.
"""

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
from PIL import Image

from ladder.data import idx
from ladder.data.source import Found


def examples(images: np.ndarray, labels: np.ndarray) -> Iterator[tuple[int, dict[str, Any]]]:
    """TFDS examples with PNG bytes, as its builder would encode them."""
    for i, (image, label) in enumerate(zip(images, labels, strict=True)):
        png = io.BytesIO()
        Image.fromarray(image[..., 0]).save(png, "PNG", compress_level=1)
        png.seek(0)
        yield i, {"image": png, "label": int(label)}


def main() -> None:
    """Prepare it."""
    found = idx.look(Path(sys.argv[1]))
    assert isinstance(found, Found), found
    arrays = found.decode()
    builder: Any = tfds.builder("mnist", data_dir=sys.argv[2], file_format="array_record")
    type(builder)._split_generators = lambda self, dl_manager: {
        "train": examples(arrays.train_images, arrays.train_labels),
        "test": examples(arrays.test_images, arrays.test_labels),
    }
    builder.download_and_prepare()


if __name__ == "__main__":
    main()
