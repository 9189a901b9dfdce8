"""A trial's checkpoint: the state after a whole epoch, and what it may be resumed with.

A plain .npz (the zip's CRC-32 finds damage), written beside the last one and renamed into its place, so that a kill or
a full disk leaves a good one. The one before is kept too: a disk may damage what was once written. States here are
megabytes on one device; a checkpoint library earns its place when they are sharded.
"""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

META = "__meta__"


@dataclass(frozen=True)
class Identity:
    """What must match for a checkpoint to be resumed."""

    recipe_hash: str
    program_sha: str
    data_identity: str
    seed: int
    lowerer: str


@dataclass(frozen=True)
class Checkpoint:
    """The state after `epoch` epochs, and the epoch lines so far."""

    identity: Identity
    epoch: int
    state: dict[str, np.ndarray]
    epochs: list[dict[str, Any]] = field(default_factory=list)


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Write atomically: new file, fsync, renames, fsync of the folder. A full disk: OSError, the old files stay."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(".new")
    meta = {"identity": asdict(checkpoint.identity), "epoch": checkpoint.epoch, "epochs": checkpoint.epochs}
    try:
        with scratch.open("wb") as file:
            np.savez(file, allow_pickle=False, **checkpoint.state, **{META: np.array(json.dumps(meta))})
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        scratch.unlink(missing_ok=True)
        raise
    if path.exists():
        os.replace(path, files(path)[1])
    os.replace(scratch, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def load(path: Path, wanted: Identity) -> tuple[Checkpoint | None, str]:
    """The newest good checkpoint of this trial, or None to start anew; and what was wrong ("" when nothing was)."""
    wrong: list[str] = []
    for file in files(path):
        if not file.exists():
            continue
        try:
            found = _read(file)
        except Exception as error:  # damage has many faces: a flipped bit may ask for encryption, or for all memory
            wrong.append(f"checkpoint {file.name} is damaged ({type(error).__name__}: {error})")
            continue
        if found.identity == wanted:
            return found, "; ".join(
                [*wrong, f"going on from the one before it, of epoch {found.epoch}"] if wrong else ()
            )
        pairs = zip(asdict(found.identity).items(), asdict(wanted).values(), strict=True)
        differs = ", ".join(f"{name} {old} is not {new}" for (name, old), new in pairs if old != new)
        wrong.append(f"checkpoint {file.name} is of another trial ({differs})")
    return None, "; ".join([*wrong, "starting anew"] if wrong else ())


def files(path: Path) -> tuple[Path, Path]:
    """A trial's checkpoint and the one before it."""
    return path, path.with_suffix(".before.npz")


def _read(file: Path) -> Checkpoint:
    """A checkpoint; any exception for a damaged one."""
    with file.open("rb") as opened, np.load(opened, allow_pickle=False) as archive:
        meta = json.loads(str(archive[META]))
        state = {name: archive[name] for name in archive.files if name != META}
    return Checkpoint(Identity(**meta["identity"]), int(meta["epoch"]), state, list(meta["epochs"]))
