"""Datasets decoded once: written under a lock into a temporary folder, synced, then renamed into place.

    <cache>/datasets/<name>-<12 hex of the identity>/   a dataset (ladder.data.files)
    <cache>/datasets/sources/<32 hex>.json              which dataset a source's bytes decode to
    <cache>/datasets/<name>.lock                        held by the one process that decodes `name`

A process killed at any moment leaves a whole dataset, or a temporary folder that the next holder of the lock removes.
"""

import json
import os
import platform
import shutil
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ladder.data.files import FILES, META, sha256, verify
from ladder.data.identity import Arrays, identity
from ladder.data.source import Files, Found
from ladder.errors import LadderError

LOCK_SECONDS = 600.0
TEMPORARY = ".partial-"

Say = Callable[[str], None]


def fetch(found: Found, name: str, cache: Path, say: Say) -> tuple[Path, dict[str, Any]]:
    """The folder and meta of what `found` decodes to: the cached one if it is whole, else decoded and cached now.

    The meta's `decoder` is what decoded this source, then or now; the folder may have been written from another source.
    Raises LadderError for a broken source, a cache that cannot be written or has no room for it, or a lock not given
    up in `LOCK_SECONDS`.
    """
    root = cache / "datasets"
    try:
        (root / "sources").mkdir(parents=True, exist_ok=True)
        if cached := _cached(found, root, say):
            return cached
        with locked(root / f"{name}.lock", f"prepares {name}", say):
            # Another process may have finished it meanwhile.
            return _cached(found, root, lambda _: None) or _decode(found, name, root, say)
    except OSError as error:
        hint = "free some space there, or set LADDER_CACHE to a folder that you may write"
        raise LadderError(f"the dataset cache {root} cannot be written: {error}", hint) from error


@contextmanager
def locked(path: Path, doing: str, say: Say, seconds: float | None = None) -> Generator[None]:
    """Hold the OS lock `path`, which ends with its process. Says it when it waits; LadderError at the deadline."""
    from filelock import FileLock, Timeout  # here, since workers import this package with NumPy alone

    lock, seconds = FileLock(path), LOCK_SECONDS if seconds is None else seconds
    try:
        lock.acquire(timeout=0)
    except Timeout:
        say(f"another process {doing}; waiting for it, up to {seconds:g} s")
        try:
            lock.acquire(timeout=seconds)
        except Timeout:
            hint = "wait for it, or end that process, and run this again"
            raise LadderError(f"another process {doing} and held {path} for more than {seconds:g} s", hint) from None
    try:
        yield
    finally:
        lock.release()


def _entry(found: Found, root: Path) -> Path:
    return root / "sources" / f"{found.fingerprint[:32]}.json"


def _cached(found: Found, root: Path, say: Say) -> tuple[Path, dict[str, Any]] | None:
    try:
        entry = json.loads(_entry(found, root).read_text())
        folder, expected, decoder = root / str(entry["folder"]), str(entry["identity"]), str(entry["decoder"])
    except (OSError, ValueError, KeyError, TypeError):
        return None  # not decoded yet, or a damaged entry, which costs one more decoding
    try:
        return folder, {**_verify(folder, expected), "decoder": decoder}
    except LadderError as error:
        say(f"the cached dataset is damaged and is prepared anew from {found.source}: {error.message}")
        return None


def _verify(folder: Path, expected: str) -> dict[str, Any]:
    meta = verify(folder)
    if meta["identity"] != expected:
        raise LadderError(f"{folder} has identity {meta['identity']}, its source gave {expected}")
    return meta


def _decode(found: Found, name: str, root: Path, say: Say) -> tuple[Path, dict[str, Any]]:
    for leftover in root.glob(f"{TEMPORARY}{name}-*"):  # only the lock's holder writes these, and we hold it
        say(f"removing what an interrupted preparation of {name} left: {leftover.name}")
        _remove(leftover)
    _room(root, found)
    say(f"decoding {found.source}; this is done once")
    temporary = root / f"{TEMPORARY}{name}-{uuid.uuid4().hex}"
    try:
        temporary.mkdir()
        arrays, ident = _decoded(found, temporary)
        folder = root / f"{name}-{ident.removeprefix('sha256:')[:12]}"
        try:
            meta = _verify(folder, ident)  # already there from another source
        except LadderError:
            meta = _write(temporary, arrays, {"name": name, "identity": ident}, found)
            _replace(temporary, folder, root / f"{TEMPORARY}{name}-{uuid.uuid4().hex}")
    finally:
        _remove(temporary)
    partial = root / f"{TEMPORARY}{name}-{uuid.uuid4().hex}"
    entry = {"folder": folder.name, "identity": ident, "decoder": found.decoder}
    _write_synced(partial, json.dumps(entry).encode())
    partial.replace(_entry(found, root))
    return folder, {**meta, "decoder": found.decoder}


def _decoded(found: Found, folder: Path) -> tuple[Arrays, str]:
    if isinstance(found.decode, Files):
        return found.decode.write(folder)
    arrays = found.decode()
    return arrays, identity(arrays)


def _room(root: Path, found: Found) -> None:
    if isinstance(found.decode, Files) and found.decode.bytes > (free := shutil.disk_usage(root).free):
        needed = f"decoded, {found.source} takes {found.decode.bytes / 1e9:.2f} GB, and {free / 1e9:.2f} GB are free"
        raise LadderError(f"{needed} in {root}", "free some space there, or set LADDER_CACHE to a folder with room")


def _write(folder: Path, arrays: Arrays, names: dict[str, str], found: Found) -> dict[str, Any]:
    files: dict[str, dict[str, Any]] = {}
    for part, array in arrays.parts().items():
        path = folder / f"{part}.npy"
        with path.open("rb+" if path.exists() else "wb") as file:
            if not isinstance(found.decode, Files):
                np.save(file, np.ascontiguousarray(array), allow_pickle=False)
            file.flush()
            _sync(file.fileno())
        files[path.name] = {"size": path.stat().st_size, "sha256": sha256(path)}
    meta = {
        "schema": 1,
        **names,
        "train": len(arrays.train_labels),
        "test": len(arrays.test_labels),
        "classes": arrays.classes,
        "identity_of": FILES if isinstance(found.decode, Files) else "decoded bytes",
        "source": found.source,
        "decoder": found.decoder,
        "versions": {"python": platform.python_version(), "numpy": np.__version__},
        "files": files,
    }
    _write_synced(folder / META, (json.dumps(meta, indent=1) + "\n").encode())
    _sync_folder(folder)
    return meta


def _replace(temporary: Path, folder: Path, aside: Path) -> None:
    """Rename into place. A damaged folder there is moved aside first: who has it mapped keeps it until they let go."""
    if folder.exists():
        folder.rename(aside)
    temporary.rename(folder)
    _sync_folder(folder.parent)
    _remove(aside)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _write_synced(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        _sync(file.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _sync(descriptor)
    finally:
        os.close(descriptor)


def _sync(descriptor: int) -> None:
    os.fsync(descriptor)
