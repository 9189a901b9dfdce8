"""Writing the store: runs, trials and verdicts from records, references from their text. Everything is idempotent."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Connection, delete, func, insert, select, update

from ladder import paths, records, references
from ladder.errors import LadderError
from ladder.records import EpochRow, FinalRow, Record
from ladder.reference_text import Part, Reference
from ladder.store import models
from ladder.store.engine import BUSY_S, Database, StoreError

RUN_FIELDS = ("uuid", "name", "rung", "box", "lowerer", "fault", "started", "finished", "word")
EPOCH_FIELDS = ("epoch", "train_loss", "correct", "total", "top5", "lr", "seconds", "attempt")


class Store(AbstractContextManager["Store"]):
    """An open store. Safe to use from several threads; every write is one short transaction."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def close(self) -> None:
        """Close all connections."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def begin_run(self, manifest: Mapping[str, Any], folder: str = records.PARTIAL) -> None:
        """A run that has begun, or begins again: the row that its trials hang on."""
        with self.database.write() as connection:
            _put_run(connection, manifest, "running", folder)

    def insert_trial(self, run: str, row: FinalRow, epochs: Iterable[EpochRow] = ()) -> None:
        """A finished trial of the run with this UUID; one that is there already is replaced."""
        with self.database.write() as connection:
            key = (models.Trial.run == run, models.Trial.recipe_hash == row.recipe_hash, models.Trial.seed == row.seed)
            position = connection.scalar(select(models.Trial.position).where(*key))
            if position is None:
                position = connection.scalar(select(func.count()).where(models.Trial.run == run)) or 0
            connection.execute(delete(models.Trial).where(*key))
            _put_trial(connection, run, position, row, epochs)

    def import_record(self, path: Path) -> Record:
        """Index a record whole, in place of what was known of its UUID. Raises LadderError for one that is damaged."""
        record = records.read(path)
        with self.database.write() as connection:
            _put_record(connection, record)
        return record

    def import_reference(self, reference: Reference, text_sha: str) -> None:
        """Index a reference. Raises LadderError if one of this name is there with other content."""
        with self.database.write() as connection:
            _put_reference(connection, reference, text_sha)

    def refresh(self, root: Path | None = None) -> list[LadderError]:
        """Index what is new under `root` and among the references; returns what could not be indexed.

        A complete record and an unchanged reference cost a look at their name or bytes only. What is new is written in
        a transaction each, so that a run that wants to record its trial never waits for long. Raises LadderError when
        the database itself refuses.
        """
        root = root or paths.runs()
        with self.database.read() as connection:
            runs = connection.execute(select(models.Run.name, models.Run.folder, models.Run.state)).all()
            known = {(run.name, run.folder) for run in runs if run.state == "complete"}
            trials = _trials_of_partial(connection)
        errors: list[LadderError] = []
        for path in records.find_all(root):
            folder = _folder(path)
            if folder != records.PARTIAL and (path.name, folder) in known:
                continue
            try:
                record = records.read(path)
                if (record.state, len(record.finals)) != trials.get(path.name):
                    self.import_record(path)
            except StoreError:
                raise
            except LadderError as error:
                errors.append(error)
        return errors + self.refresh_references(references.files())

    def refresh_references(self, files: Sequence[Path]) -> list[LadderError]:
        """Index those of these files that are new or were bound anew; returns what could not be indexed."""
        with self.database.read() as connection:
            rows = connection.execute(select(models.Reference.name, models.Reference.text_sha))
            indexed = {row.name: row.text_sha for row in rows}
        errors: list[LadderError] = []
        for file in files:
            try:
                if indexed.get(file.stem) != (sha := references.text_sha(file)):
                    self.import_reference(references.load(file), sha)
            except StoreError:
                raise
            except (LadderError, OSError) as error:
                errors.append(error if isinstance(error, LadderError) else LadderError(f"{file}: {error.strerror}"))
        return errors

    def import_tree(self, root: Path) -> tuple[int, int, list[LadderError]]:
        """Read every record and reference under `root` anew: how many of each, and what could not be indexed."""
        found, files, errors = (
            records.find_all(root),
            references.files([root / "references", root]),
            list[LadderError](),
        )
        for path in found:
            try:
                self.import_record(path)
            except StoreError:
                raise
            except LadderError as error:
                errors.append(error)
        broken = len(errors)
        errors += self.refresh_references(files)
        return len(found) - broken, len(files) - len(errors) + broken, errors


def open_store(url: str | None = None, busy_s: float = BUSY_S) -> Store:
    """The store at `url`, by default LADDER_DATABASE_URL, its tables brought up to date.

    Raises LadderError for one that is locked for longer than `busy_s` seconds, read-only, damaged or too new.
    """
    database = Database(url or paths.database_url(), busy_s)
    try:
        database.upgrade()
    except BaseException:
        database.close()
        raise
    return Store(database)


def _put_record(connection: Connection, record: Record) -> None:
    manifest, run = record.manifest, record.manifest["uuid"]
    connection.execute(delete(models.Trial).where(models.Trial.run == run))
    connection.execute(delete(models.Verdict).where(models.Verdict.run == run))
    _put_run(connection, manifest, record.state, _folder(record.path))
    curves: dict[tuple[str, str, int], list[EpochRow]] = {}
    for epoch in record.epochs:
        curves.setdefault((epoch.net, epoch.arm, epoch.seed), []).append(epoch)
    for position, row in enumerate(record.finals):
        _put_trial(connection, run, position, row, curves.get((row.net, row.arm, row.seed), ()))
    verdicts: list[dict[str, Any]] = manifest.get("verdicts") or []
    for position, verdict in enumerate(verdicts):
        values = {key: verdict[key] for key in ("net", "arm", "word", "reason")}
        reference = verdict.get("reference_name", "")
        row = {"run": run, "position": position, "reference": reference, "judgement": _finite(verdict)}
        connection.execute(insert(models.Verdict).values(**values, **row))


def _put_run(connection: Connection, manifest: Mapping[str, Any], state: str, folder: str) -> None:
    uuid, name = manifest["uuid"], manifest["name"]
    values = {key: manifest.get(key) for key in RUN_FIELDS}
    values |= {"platform": manifest["profile"], "state": state, "folder": folder, "manifest": _finite(manifest)}
    namesake = select(models.Run.uuid, models.Run.folder).where(models.Run.name == name, models.Run.uuid != uuid)
    if other := connection.execute(namesake).one_or_none():
        where = paths.runs() / other.folder / (other.uuid if other.folder == records.PARTIAL else name)
        if manifest["box"] != paths.box() or _uuid_at(where) == other.uuid:
            raise LadderError(
                f"there are two runs named {name}: {other.uuid} is in the database, {uuid} is not",
                "give the box another name (LADDER_BOX)",
            )
        connection.execute(delete(models.Run).where(models.Run.uuid == other.uuid))  # its record was deleted by hand
    known = connection.scalar(select(models.Run.uuid).where(models.Run.uuid == uuid))
    statement = update(models.Run).where(models.Run.uuid == uuid) if known else insert(models.Run)
    connection.execute(statement.values(**values))


def _uuid_at(path: Path) -> str:
    """Whose record lies there; "" when there is none."""
    try:
        return str(json.loads((path / records.MANIFEST).read_text("utf-8"))["uuid"])
    except (OSError, ValueError, KeyError):
        return ""


def _put_trial(connection: Connection, run: str, position: int, row: FinalRow, epochs: Iterable[EpochRow]) -> None:
    values = _finite(asdict(row))
    made = connection.execute(insert(models.Trial).values(run=run, position=position, **values))
    assert made.inserted_primary_key is not None
    trial = made.inserted_primary_key[0]
    latest = {epoch.epoch: epoch for epoch in epochs}
    lines = [{"trial": trial, **{f: _finite(getattr(e, f)) for f in EPOCH_FIELDS}} for e in latest.values()]
    if lines:
        connection.execute(insert(models.Epoch), lines)


def _put_reference(connection: Connection, reference: Reference, text_sha: str) -> None:
    name = reference.name
    known = connection.scalar(select(models.Reference.content).where(models.Reference.name == name))
    if known and known != reference.content:
        raise LadderError(
            f"reference '{name}' is in the database with other content ({known[:15]}…, not {reference.content[:15]}…);"
            " a reference never changes once named",
            "give the new one another name, or delete the database and `ladder import` the records",
        )
    connection.execute(delete(models.Reference).where(models.Reference.name == name))
    head = {key: getattr(reference, key) for key in ("name", "kind", "date", "platform", "lowerer", "content")}
    connection.execute(insert(models.Reference).values(**head, text_sha=text_sha, facts=_finite(reference.facts)))
    for position, part in enumerate(reference.parts):
        _put_part(connection, name, position, part)


def _put_part(connection: Connection, reference: str, position: int, part: Part) -> None:
    made = connection.execute(
        insert(models.ReferenceRecipe).values(
            reference=reference,
            position=position,
            rung=part.rung,
            net=part.net,
            arm=part.arm,
            total=part.total,
            recipe_hash=part.hash,
            recipe=_finite(part.fields),
            ours=_finite(part.ours),
            differences=list(part.differences),
            waiting=part.waiting,
        )
    )
    assert made.inserted_primary_key is not None
    recipe = made.inserted_primary_key[0]
    connection.execute(insert(models.ReferenceFinal), [{"recipe": recipe, **_finite(asdict(f))} for f in part.finals])


def _trials_of_partial(connection: Connection) -> dict[str, tuple[str, int]]:
    """State and number of trials of each run that was not complete, by UUID: the name of its partial folder."""
    counted = (
        select(models.Run.uuid, models.Run.state, func.count(models.Trial.id).label("trials"))
        .join(models.Trial, isouter=True)
        .where(models.Run.state != "complete")
        .group_by(models.Run.uuid, models.Run.state)
    )
    return {row.uuid: (row.state, row.trials) for row in connection.execute(counted)}


def _folder(path: Path) -> str:
    """Where under `runs/` a record lies: "", .partial, kept or published."""
    return path.parent.name if path.parent.name in (records.PARTIAL, *records.KEPT) else ""


def _finite(value: Any) -> Any:
    """The value as JSON and every database take it: a number that is not finite is null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value
