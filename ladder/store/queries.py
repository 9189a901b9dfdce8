"""Questions to the store. Answers are plain dicts of JSON values, in a fixed order: the same store, the same bytes."""

import difflib
import math
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Select, bindparam, func, select

from ladder.errors import LadderError
from ladder.reference_text import Final, Part, Reference
from ladder.references import spread
from ladder.store.engine import Database
from ladder.store.models import Epoch, ReferenceFinal, ReferenceRecipe, Run, Trial, Verdict
from ladder.store.models import Reference as ReferenceRow
from ladder.store.store import EPOCH_FIELDS, RUN_FIELDS

RUN_COLUMNS = (*RUN_FIELDS, "platform", "state", "folder")
REFERENCE_COLUMNS = ("name", "kind", "date", "platform", "lowerer")
HEAD = select(ReferenceRow.__table__).where(ReferenceRow.name == bindparam("name"))
RECIPES = (
    select(ReferenceRecipe.__table__)
    .where(ReferenceRecipe.reference == bindparam("name"))
    .order_by(ReferenceRecipe.position)
)
FINALS = (  # the recipe that a final belongs to, then Final's fields in their order
    select(
        *(ReferenceFinal.recipe, ReferenceFinal.seed, ReferenceFinal.correct, ReferenceFinal.top5),
        *(ReferenceFinal.diverged, ReferenceFinal.train_loss, ReferenceFinal.note, ReferenceFinal.source),
        *(ReferenceFinal.epoch_correct, ReferenceFinal.epoch_loss),
    )
    .join(ReferenceRecipe)
    .where(ReferenceRecipe.reference == bindparam("name"))
    .order_by(ReferenceFinal.recipe, ReferenceFinal.seed)
)


def runs(
    database: Database, rung: str | None = None, box: str | None = None, platform: str | None = None
) -> list[dict[str, Any]]:
    """Every run, newest first, with how many trials have a final of how many asked for."""
    asked = {Run.rung: rung, Run.box: box, Run.platform: platform}
    query = select(*(getattr(Run, key) for key in RUN_COLUMNS), Run.manifest)
    query = query.where(*(column == value for column, value in asked.items() if value is not None))
    with database.read() as connection:
        counted = connection.execute(select(Trial.run, func.count(Trial.correct).label("finals")).group_by(Trial.run))
        finals = {row.run: row.finals for row in counted}
        rows = [dict(row) for row in connection.execute(query).mappings()]
    for row in rows:
        row["finals"], row["trials"] = finals.get(row["uuid"], 0), trials_asked(row.pop("manifest"))
    return sorted(rows, key=lambda row: (row["started"], row["name"]), reverse=True)


def trials_asked(manifest: Mapping[str, Any]) -> int:
    """How many trials the run was asked for: recipes times seeds."""
    return len(manifest["recipes"]) * len(manifest["request"]["seeds"])


def find_run(database: Database, name: str) -> str:
    """The UUID of the run with this name or UUID, or whose name or UUID starts so; `last` is the newest.

    Raises LadderError, with the nearest names, when there is none or more than one.
    """
    with database.read() as connection:
        rows = connection.execute(select(Run.uuid, Run.name, Run.started).order_by(Run.started, Run.name)).all()
    if name == "last" and rows:
        return rows[-1].uuid
    exact = [row for row in rows if name in (row.name, row.uuid)]
    found = exact or [row for row in rows if row.name.startswith(name) or row.uuid.startswith(name)]
    if len(found) == 1:
        return found[0].uuid
    if found:
        names = ", ".join(sorted(row.name for row in found)[:5])
        raise LadderError(f"'{name}' could be any of {len(found)} runs: {names}", "give more of the name, or the UUID")
    near = difflib.get_close_matches(name, [row.name for row in rows], 3, 0.4)
    raise LadderError(f"there is no run '{name}'" + (f"; near: {', '.join(near)}" if near else ""), "ladder runs --all")


def run(database: Database, uuid: str) -> dict[str, Any]:
    """One run whole: its row, its manifest, its trials with their epochs, its verdicts."""
    with database.read() as connection:
        row = (
            connection.execute(
                select(*(getattr(Run, key) for key in RUN_COLUMNS), Run.manifest).where(Run.uuid == uuid)
            )
            .mappings()
            .one()
        )
        trials = [dict(row) for row in connection.execute(_trials(uuid)).mappings()]
        columns = [getattr(Epoch, field) for field in EPOCH_FIELDS]
        epochs = select(Epoch.trial, *columns).join(Trial).where(Trial.run == uuid).order_by(Epoch.trial, Epoch.epoch)
        curves: dict[int, list[dict[str, Any]]] = {}
        for epoch in connection.execute(epochs):
            curves.setdefault(epoch.trial, []).append({field: getattr(epoch, field) for field in EPOCH_FIELDS})
        verdicts = list(
            connection.scalars(select(Verdict.judgement).where(Verdict.run == uuid).order_by(Verdict.position))
        )
    for trial in trials:
        trial["curve"] = curves.get(trial.pop("id"), [])
    found = dict(row)
    manifest = found.pop("manifest")
    return {**found, "trials": trials, "verdicts": verdicts, "manifest": manifest}


def _trials(uuid: str) -> Select[Any]:
    columns = [column for column in Trial.__table__.columns if column.name not in ("run", "position")]
    return select(*columns).where(Trial.run == uuid).order_by(Trial.position)


def ranges(
    database: Database, rung: str | None = None, net: str | None = None, arm: str | None = None
) -> list[dict[str, Any]]:
    """The range of every net and arm of every reference: n, min, median, max, mean, sd, in per cent and in images.

    Trials that diverged are counted apart. `hash` is null while the reference waits for its recipe; `waiting` says why.
    """
    asked = {ReferenceRecipe.rung: rung, ReferenceRecipe.net: net, ReferenceRecipe.arm: arm}
    columns = ("id", "reference", "rung", "net", "arm", "total", "recipe_hash", "waiting", "differences")
    query = (
        select(
            *(getattr(ReferenceRecipe, c) for c in columns), *(getattr(ReferenceRow, c) for c in REFERENCE_COLUMNS[1:])
        )
        .join(ReferenceRow, ReferenceRow.name == ReferenceRecipe.reference)
        .where(*(column == value for column, value in asked.items() if value is not None))
        .order_by(ReferenceRecipe.position)
    )
    with database.read() as connection:
        parts = [dict(row) for row in connection.execute(query).mappings()]
        finals = select(ReferenceFinal.recipe, ReferenceFinal.correct, ReferenceFinal.diverged)
        if any(asked.values()):
            finals = finals.where(ReferenceFinal.recipe.in_([part["id"] for part in parts]))
        by_part: dict[int, list[tuple[int | None, bool]]] = {}
        for final in connection.execute(finals.order_by(ReferenceFinal.seed)):
            by_part.setdefault(final.recipe, []).append((final.correct, final.diverged))
    for part in parts:
        of = by_part.get(part.pop("id"), [])
        images = spread([correct for correct, diverged in of if correct is not None and not diverged])
        per_cent = {k: v if k == "n" or v is None else 100 * v / part["total"] for k, v in images.items()}
        part |= {"diverged": sum(diverged for _, diverged in of), **per_cent, "images": images}
        part["hash"] = part.pop("recipe_hash")
    return sorted(parts, key=lambda part: part["reference"])


def references(database: Database) -> list[dict[str, Any]]:
    """Every reference by name: what it is, how many finals, how many of its nets and arms wait for their recipe."""
    parts: dict[str, list[dict[str, Any]]] = {}
    for part in ranges(database):
        parts.setdefault(part["reference"], []).append(part)
    return [
        {
            "name": name,
            **{key: of[0][key] for key in REFERENCE_COLUMNS[1:]},
            "finals": sum(part["n"] + part["diverged"] for part in of),
            "parts": len(of),
            "waiting": sum(part["hash"] is None for part in of),
            "why": "; ".join(dict.fromkeys(part["waiting"] for part in of if part["waiting"])),
        }
        for name, of in sorted(parts.items())
    ]


def reference(database: Database, name: str) -> Reference:
    """One reference whole, with its curves. Raises LadderError, with the nearest names, when there is none."""
    with database.read() as connection:
        head = connection.execute(HEAD, {"name": name}).one_or_none()
        if head is None:
            near = difflib.get_close_matches(name, list(connection.scalars(select(ReferenceRow.name))), 3, 0.4)
            known = f"; near: {', '.join(near)}" if near else ""
            raise LadderError(f"there is no reference '{name}'{known}", "ladder reference list")
        recipes = connection.execute(RECIPES, {"name": name}).all()
        rows = connection.execute(FINALS, {"name": name}).all()
    finals: dict[int, list[Final]] = {recipe.id: [] for recipe in recipes}
    for recipe, seed, correct, top5, diverged, loss, note, source, curve, losses in rows:
        known = tuple(math.nan if x is None else x for x in losses)
        finals[recipe].append(Final(seed, correct, top5, diverged, loss, note, source, tuple(curve), known))
    parts = tuple(_part(r, finals[r.id]) for r in recipes)
    fields = {key: getattr(head, key) for key in (*REFERENCE_COLUMNS, "facts", "content")}
    return Reference(**fields, parts=parts)


def with_hash(database: Database, recipe_hash: str) -> list[dict[str, Any]]:
    """The references that have this recipe hash, the one with most finals first."""
    query = (
        select(ReferenceRecipe.reference, ReferenceRecipe.net, ReferenceRecipe.arm, func.count().label("finals"))
        .join(ReferenceFinal)
        .where(ReferenceRecipe.recipe_hash == recipe_hash)
        .group_by(ReferenceRecipe.reference, ReferenceRecipe.net, ReferenceRecipe.arm)
    )
    with database.read() as connection:
        rows = [dict(row) for row in connection.execute(query).mappings()]
    return sorted(rows, key=lambda row: (-row["finals"], row["reference"]))


def _part(row: Any, finals: Sequence[Final]) -> Part:
    return Part(
        rung=row.rung,
        net=row.net,
        arm=row.arm,
        total=row.total,
        fields=row.recipe,
        finals=tuple(finals),
        hash=row.recipe_hash,
        ours=row.ours,
        differences=tuple(row.differences),
        waiting=row.waiting,
    )
