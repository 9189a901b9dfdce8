"""Records: a run's directory is the evidence; the database is an index that can be rebuilt from it.

runs/.partial/<uuid>/   until complete: every line is appended whole and fsynced
runs/<name>/            complete (renamed); `ladder keep` moves it to runs/kept/<name>/

manifest.json   schema, the run's facts, *core* (this repo) and *platform* (what the box supplied), verdicts
finals.tsv      one line a trial
epochs.jsonl    one line an epoch of a trial
results.tsv     the suite: one line a test
REPORT.md       for people
"""

import difflib
import errno
import fcntl
import itertools
import json
import os
import re
import shutil
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, Self

from ladder.errors import LadderError

SCHEMA = 1
MANIFEST, FINALS, EPOCHS, REPORT, OWNER = "manifest.json", "finals.tsv", "epochs.jsonl", "REPORT.md", "owner"
RESULTS = "results.tsv"
PARTIAL = ".partial"
KEPT = ("kept", "published")
LOOKS_S = (0.001,) * 20 + (0.01,) * 10

TrialStatus = Literal["done", "diverged", "crashed", "timeout", "unsupported", "not-run"]


@dataclass(frozen=True)
class FinalRow:
    """One trial's line of finals.tsv. `correct` of `total` is the last epoch's test score, never the best epoch's.

    A trial that gave no final (crashed, timeout, unsupported, not-run) has `correct`, `top5` and `train_loss` None.
    `lowerer` is the full spelling, a fault included: `xla`, `iree`, `faulty(xla, scaled-gradient=1.05)`.
    """

    net: str
    arm: str
    seed: int
    status: TrialStatus
    correct: int | None
    total: int
    top5: int | None
    train_loss: float | None
    epochs: int
    lowerer: str
    recipe_hash: str
    program_sha: str
    data_identity: str
    attempts: int
    compile_s: float
    train_s: float
    finished: str  # UTC, ISO 8601, seconds
    note: str = ""


@dataclass(frozen=True)
class EpochRow:
    """One line of epochs.jsonl: a trial's epoch (1-based), mean train loss, and test score."""

    net: str
    arm: str
    seed: int
    epoch: int
    train_loss: float | None  # None: not finite
    correct: int
    total: int
    top5: int
    lr: float  # of the epoch's last step
    seconds: float
    attempt: int


@dataclass(frozen=True)
class ResultRow:
    """One line of results.tsv: a test of the suite. `measured` is held against `bound`; both are None where nothing is.

    `status` is one of Mesa's states: pass fail xfail xpass flake skip crash timeout.
    """

    test: str
    tier: int
    status: str
    measured: float | None
    bound: float | None
    seconds: float
    detail: str


@dataclass(frozen=True)
class Record:
    """A run's directory, read. `state` is running while its owner's lock is held, interrupted when it is not."""

    path: Path
    manifest: dict[str, Any]
    finals: tuple[FinalRow, ...]
    epochs: tuple[EpochRow, ...]
    state: Literal["complete", "running", "interrupted"]
    results: tuple[ResultRow, ...] = ()


class Writer:
    """The partial directory of a run being made. Its owner lock tells readers that the run is alive."""

    def __init__(self, root: Path, path: Path, manifest: dict[str, Any], lock: int) -> None:
        self.root, self.path, self.manifest, self._lock = root, path, manifest, lock

    @classmethod
    def create(cls, root: Path, manifest: dict[str, Any]) -> Self:
        """A new partial directory `<root>/.partial/<uuid>` with its manifest; `manifest["name"]` is chosen here.

        Raises LadderError when `root` cannot be written.
        """
        path = root / PARTIAL / manifest["uuid"]
        try:
            path.mkdir(parents=True)
            lock = _own(path)
        except OSError as error:
            raise LadderError(
                f"the records folder {root} cannot be written: {error.strerror}", "set LADDER_RUNS to a folder that can"
            ) from error
        assert lock is not None
        writer = cls(root, path, {**manifest, "schema": SCHEMA, "name": _free_name(root, manifest)}, lock)
        writer.update()
        return writer

    @classmethod
    def reopen(cls, root: Path, path: Path) -> Self | None:
        """Take over an interrupted run; None if somebody else has it, or completed it. A torn last line is cut off."""
        try:
            lock = _own(path)
        except FileNotFoundError:
            return None
        if lock is None:
            return None
        for name in (FINALS, EPOCHS):
            if (file := path / name).exists():
                whole = file.read_bytes()
                os.truncate(file, whole.rfind(b"\n") + 1)
        return cls(root, path, json.loads((path / MANIFEST).read_text("utf-8")), lock)

    def update(self, **facts: Any) -> None:
        """Merge facts into the manifest and write it. Raises LadderError, as all writing does, on a full disk."""
        self.manifest |= facts
        with self._writing(MANIFEST):
            write_atomic(self.path / MANIFEST, json.dumps(self.manifest, indent=1) + "\n")

    def final(self, row: FinalRow) -> None:
        """Append a trial's line, on disk when this returns."""
        self._row(FINALS, replace(row, note=without_paths(row.note)))

    def result(self, row: ResultRow) -> None:
        """Append a test's line, on disk when this returns."""
        self._row(RESULTS, replace(row, detail=without_paths(row.detail)))

    def _row(self, name: str, row: FinalRow | ResultRow) -> None:
        file, columns = self.path / name, [f.name for f in fields(row)]
        begun = file.exists() and file.stat().st_size
        head = "" if begun else "\t".join(columns) + "\n"
        cells = ("-" if getattr(row, column) is None else str(getattr(row, column)) for column in columns)
        with self._writing(name):
            _append(file, head + "\t".join(" ".join(c.split()) for c in cells) + "\n")

    def epoch(self, row: EpochRow) -> None:
        """Append an epoch's line."""
        with self._writing(EPOCHS):
            _append(self.path / EPOCHS, json.dumps(asdict(row)) + "\n")

    def complete(self, report: str) -> Path:
        """Write REPORT.md and rename the directory to its name; returns where it lies."""
        with self._writing(REPORT):
            write_atomic(self.path / REPORT, report)
        while True:
            self.update(state="complete")
            target = self.root / self.manifest["name"]
            with self._writing(target.name):
                if _renamed(self.path, target):
                    break
            self.manifest["name"] = _free_name(self.root, self.manifest)
        (target / OWNER).unlink(missing_ok=True)  # after the rename: until then it says that the run has an owner
        self.close()
        return target

    @contextmanager
    def _writing(self, what: str) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise LadderError(
                f"the record {self.manifest['name']} cannot be written: {what}: {error.strerror}",
                "make room, then run the same command again: finished trials are kept",
            ) from error

    def discard(self) -> None:
        """Remove a run that never began."""
        shutil.rmtree(self.path)
        self.close()

    def close(self) -> None:
        """Let go of the owner lock; an uncompleted run is interrupted from here on."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def read(path: Path) -> Record:
    """A record from its directory. Raises LadderError when it is none, or is damaged, naming the file and line."""
    try:
        manifest = json.loads((path / MANIFEST).read_text("utf-8"))
        if manifest["schema"] != SCHEMA:
            raise LadderError(f"record {path.name} has schema {manifest['schema']}; this Ladder reads {SCHEMA}")
        finals = _read_rows(path / FINALS, FinalRow)
        results = _read_rows(path / RESULTS, ResultRow)
        epochs = {(e.net, e.arm, e.seed, e.epoch): e for e in _read_epochs(path / EPOCHS)}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LadderError(f"record {path.name} cannot be read: {type(error).__name__}: {error}") from error
    return Record(path, manifest, finals, tuple(epochs.values()), _state(path), results)


def find_all(root: Path) -> list[Path]:
    """The directories of complete, kept, published and partial records under `root`, oldest name first."""
    folders = [root, *(root / name for name in (*KEPT, PARTIAL))]
    return [m.parent for folder in folders for m in sorted(folder.glob(f"*/{MANIFEST}"))]


def find(name: str, root: Path) -> Path:
    """The record with this name, or the one whose name or UUID starts so; `last` is the newest.

    Raises LadderError when there is none or more than one.
    """
    found = dict(_manifests(root))
    if name == "last" and found:
        return max(found, key=lambda path: found[path]["started"])
    names = {path: (manifest["name"], manifest["uuid"]) for path, manifest in found.items()}
    for matches in (
        [path for path, both in names.items() if name in both],
        [path for path, both in names.items() if any(n.startswith(name) for n in both)],
    ):
        if len(matches) == 1:
            return matches[0]
        if matches:
            which = ", ".join(sorted(found[path]["name"] for path in matches))
            raise LadderError(f"'{name}' could be any of {len(matches)} runs: {which}", "give more of it, or the UUID")
    near = difflib.get_close_matches(name, [m["name"] for m in found.values()], 3, 0.4)
    raise LadderError(f"there is no run '{name}'" + (f"; near: {', '.join(near)}" if near else ""), "ladder runs")


def keep(record: Record, root: Path) -> Path:
    """Move a complete record to `<root>/kept/`, where it is committed and feeds PLATFORMS.md; returns where it lies.

    Raises LadderError for a run that is not complete or had a fault injected.
    """
    if record.state != "complete":
        raise LadderError(f"run {record.manifest['name']} is {record.state}; only a complete run can be kept")
    if fault := record.manifest.get("fault"):
        raise LadderError(f"run {record.manifest['name']} had the fault '{fault}' injected; it is no evidence")
    target = root / "kept" / record.manifest["name"]
    if record.path == target:
        return target
    if target.exists():
        raise LadderError(f"{target.name} is already among the kept runs")
    target.parent.mkdir(parents=True, exist_ok=True)
    os.rename(record.path, target)
    return target


def without_paths(text: str) -> str:
    """A text in which files are named without where they lie: `/home/ada/x.npy` -> `x.npy`. URLs and `5/s` stay."""
    return re.sub(r"(?<![\w:/.~])~?/(?:[\w.@+~-]+/)*(?=[\w.@+~-])", "", text)


def write_atomic(path: Path, text: str) -> None:
    """Replace a file whole: written beside, fsynced, renamed."""
    scratch = path.with_name(f".{path.name}.new")
    try:
        with scratch.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except OSError:
        scratch.unlink(missing_ok=True)
        raise
    _sync(path.parent)


def _append(path: Path, text: str) -> None:
    """A whole line or nothing, on disk when this returns. What a full disk cut short is taken back."""
    content, new = text.encode(), not path.exists()
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        size = os.fstat(fd).st_size
        try:
            while content:
                content = content[os.write(fd, content) :]
            os.fsync(fd)
        except OSError:
            os.ftruncate(fd, size)
            raise
    finally:
        os.close(fd)
    if new:
        _sync(path.parent)


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _renamed(path: Path, target: Path) -> bool:
    """Rename a directory to a name that is free; False when it is taken."""
    try:
        if target.exists():
            return False
        os.rename(path, target)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            return False
        raise
    _sync(target.parent)
    return True


def _own(path: Path) -> int | None:
    """The held owner lock of a partial directory, or None when another process holds it or has completed the run.

    Tried a few times, since a reader that looks whether there is an owner holds the lock for an instant.
    """
    fd = os.open(path / OWNER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    for wait_s in (*LOOKS_S, None):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if wait_s is None:
                os.close(fd)
                return None
            time.sleep(wait_s)
    try:
        moved = not os.path.samestat(os.stat(path / OWNER), os.fstat(fd))
    except FileNotFoundError:
        moved = True
    if moved:  # completed between our open and our lock
        os.close(fd)
        return None
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd


def _state(path: Path) -> Literal["complete", "running", "interrupted"]:
    if path.parent.name != PARTIAL:
        return "complete"
    try:
        fd = os.open(path / OWNER, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return "interrupted"
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return "running"
    finally:
        os.close(fd)
    return "interrupted"


def _manifests(root: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The records that can be told by name. A damaged one, or one renamed meanwhile, keeps no other from being used."""
    for path in find_all(root):
        try:
            manifest = json.loads((path / MANIFEST).read_text("utf-8"))
            if {"name", "uuid", "started"} <= manifest.keys():
                yield path, manifest
        except (OSError, ValueError, AttributeError):
            continue


def _free_name(root: Path, manifest: dict[str, Any]) -> str:
    """`<UTC date>-<rung>-<box>-<platform>[-k]`, not used by another record."""
    stem = "-".join((manifest["started"][:10], manifest["rung"], manifest["box"], manifest["profile"]))
    taken = {path.name for path in find_all(root)}
    taken |= {found["name"] for _, found in _manifests(root) if found["uuid"] != manifest["uuid"]}
    return next(name for k in itertools.count(1) if (name := stem if k == 1 else f"{stem}-{k}") not in taken)


def _read_rows[Row: FinalRow | ResultRow](path: Path, kind: type[Row]) -> tuple[Row, ...]:
    if not path.exists():
        return ()
    head, *lines = _whole_lines(path) or [""]
    names = head.split("\t")
    kinds = {f.name: str(f.type) for f in fields(kind)}
    rows: list[Row] = []
    for line in lines:
        cells = dict(zip(names, line.split("\t"), strict=True))
        rows.append(kind(**{name: _cell(cells[name], kinds[name]) for name in kinds}))
    return tuple(rows)


def _cell(text: str, kind: str) -> Any:
    if text == "-" and "None" in kind:
        return None
    return int(text) if "int" in kind else float(text) if "float" in kind else text


def _read_epochs(path: Path) -> tuple[EpochRow, ...]:
    return tuple(EpochRow(**json.loads(line)) for line in _whole_lines(path)) if path.exists() else ()


def _whole_lines(path: Path) -> list[str]:
    """The lines that end in a newline: a torn last line is not there yet."""
    content = path.read_bytes()
    return content[: content.rfind(b"\n") + 1].decode().splitlines()
