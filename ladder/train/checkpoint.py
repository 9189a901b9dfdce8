"""A trial's checkpoint: the state after a whole epoch, and what it may be resumed with.

A plain .npz (the zip's CRC-32 finds damage) written beside the old one and renamed over it, so that a kill leaves the
last good one. States here are megabytes on one device; a checkpoint library earns its place when they are sharded.
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
    """Write atomically: new file, fsync, rename, fsync of the folder. A full disk is an OSError; the old file stays."""
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
    os.replace(scratch, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def load(path: Path, wanted: Identity) -> tuple[Checkpoint | None, str]:
    """The checkpoint to resume from, or None and the reason to start anew ("" when there is simply none)."""
    if not path.exists():
        return None, ""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            meta = json.loads(str(archive[META]))
            state = {name: archive[name] for name in archive.files if name != META}
        found = Checkpoint(Identity(**meta["identity"]), int(meta["epoch"]), state, list(meta["epochs"]))
    except Exception as error:  # damage has many faces: a flipped bit may ask for encryption, or for all memory
        return None, f"checkpoint {path.name} is damaged ({type(error).__name__}: {error}); starting anew"
    if found.identity != wanted:
        pairs = zip(asdict(found.identity).items(), asdict(wanted).values(), strict=True)
        differs = ", ".join(f"{name} {old} is not {new}" for (name, old), new in pairs if old != new)
        return None, f"checkpoint {path.name} is of another trial ({differs}); starting anew"
    return found, ""
