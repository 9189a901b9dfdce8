"""Which source gives a dataset: each is asked in order and answers aloud, and the first that has it is prepared."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ladder.data import cache as datasets
from ladder.data import embedded, idx
from ladder.data.identity import MNIST_IDENTITY
from ladder.data.source import Found
from ladder.errors import LadderError

NAMES = ("mnist", "mnist5k")


@dataclass(frozen=True)
class Dataset:
    """A prepared dataset on disk. `ladder.data.open_split(folder, ...)` maps its arrays."""

    name: str
    identity: str  # sha256:<64 hex> of the ordered bytes, see ladder.data.identity
    source: str  # one line, without paths
    reasons: tuple[str, ...]  # one line per source asked, in order: its answer and why
    folder: Path
    train: int
    test: int
    classes: int
    decoder: str  # what decoded the source, with its version


def prepare(
    name: str,
    *,
    data_dir: Path | None,
    cache: Path,
    tfds_dir: Path | None = None,
    allow_download: bool = True,
    say: Callable[[str], None],
) -> Dataset:
    """The dataset `name` from the first source that has it; `mnist` may fall back to `mnist5k`, said aloud.

    A given `data_dir` is an instruction: it is the only place asked. Raises LadderError if it has no whole dataset, or
    if no source has one.
    """
    if name not in NAMES:
        raise LadderError(f"there is no dataset '{name}'; the datasets are: {', '.join(NAMES)}")
    reasons: list[str] = []

    def answer(line: str) -> None:
        reasons.append(line)
        say(f"data: {line}")

    found: Found | str = "not asked"
    if name == "mnist":
        if data_dir is not None:
            found = idx.look(data_dir)
            if isinstance(found, str):
                raise LadderError(f"--data-dir {data_dir}: {found}", idx.HINT)
            answer(f"--data-dir: yes, {found.source}")
        else:
            answer("--data-dir: not given")
    if isinstance(found, str):
        name = "mnist5k"
        found = embedded.look()
        if isinstance(found, str):
            raise LadderError(f"no source has mnist: {found}", idx.HINT)
        answer(f"embedded: yes, {found.source}")
    folder, meta = datasets.fetch(found, name, cache, say)
    if name == "mnist" and meta["identity"] != MNIST_IDENTITY:
        say("not the published MNIST")
    return Dataset(
        name=name,
        identity=meta["identity"],
        source=found.source,
        reasons=tuple(reasons),
        folder=folder,
        train=meta["train"],
        test=meta["test"],
        classes=meta["classes"],
        decoder=found.decoder,
    )
