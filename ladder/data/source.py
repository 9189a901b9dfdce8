"""What a source of a dataset answers: it has the data, or one line that says why not."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ladder.data.identity import Arrays
from ladder.errors import LadderError


class SourceError(LadderError):
    """A source that is there and broken: an error where it was asked for by name, else the next source is asked."""


class NoData(LadderError):
    """No source that was asked has the dataset."""


@dataclass(frozen=True)
class Found:
    """A source that has the dataset.

    `fingerprint` is a SHA-256 of the source's own bytes, wherever they lie: equal fingerprints decode to equal arrays,
    so a cached dataset is found again without decoding. `decode` may raise SourceError.
    """

    source: str  # one line without paths: `IDX files in --data-dir (gzip)`
    fingerprint: str
    decoder: str  # decoder and version
    decode: "Callable[[], Arrays] | Files"


@dataclass(frozen=True)
class Files:
    """Decoding into a folder, for what does not fit in memory and whose decoder may change.

    `write(folder)` writes `<part>.npy` for each part; gives them mapped, and the identity, which is of the original
    files' bytes in order, not of pixels. It may raise SourceError. `bytes`: what the parts take on disk.
    """

    write: Callable[[Path], tuple[Arrays, str]]
    bytes: int

    def __call__(self) -> Arrays:
        """The arrays, mapped from a folder that is gone."""
        with TemporaryDirectory() as folder:
            return self.write(Path(folder))[0]


def fingerprint(kind: str, files: Iterable[tuple[str, bytes]]) -> str:
    """The hex SHA-256 of named contents. `kind` names the way of decoding, with a version to raise when it changes."""
    digest = hashlib.sha256(kind.encode())
    for name, content in files:
        digest.update(f"\n{name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()
