"""References: load them, bind the published ones to our recipes, find a run's, make one from a run.

They are text under `runs/references/` of the checkout and of the records folder. `bindings.toml` beside them says which
of our recipe hashes a published set is bound to and where its recipe is known to differ, or why it waits.
"""

import difflib
import hashlib
import json
import re
import statistics
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ladder import paths
from ladder.errors import LadderError
from ladder.recipes.recipe import Recipe, comparability
from ladder.records import EpochRow, FinalRow, Record, write_atomic
from ladder.reference_text import Final, Part, Reference, dumps, loads

__all__ = ["Final", "Match", "Part", "Reference", "add", "find", "from_record", "load_all", "spread", "to_json"]

BINDINGS = "bindings.toml"
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
UNBOUND = "no recipe of ours is bound to it"
COMMENT = "Made by `ladder reference add`. Never edited: a reference does not change once it is named."


@dataclass(frozen=True)
class Match:
    """The reference that a recipe's finals are held against, and its part with that recipe hash."""

    reference: Reference
    part: Part
    stand_in: str = ""  # why it is not the same, where the recipe declares another whose reference stands in


def roots() -> tuple[Path, ...]:
    """Where references lie: the committed ones, and those made here if the records lie elsewhere."""
    return tuple(dict.fromkeys((paths.references(), paths.runs() / "references")))


def files(folders: Sequence[Path] | None = None) -> list[Path]:
    """The references' files, by name."""
    found = [f for folder in folders or roots() for f in folder.glob("*.toml") if f.name != BINDINGS]
    return sorted(found, key=lambda f: (f.stem, f))


def text_sha(file: Path) -> str:
    """SHA-256 of a reference's file and of the bindings beside it: equal means nothing to index anew."""
    bindings = file.parent / BINDINGS
    return hashlib.sha256(file.read_bytes() + (bindings.read_bytes() if bindings.exists() else b"")).hexdigest()


def load(file: Path) -> Reference:
    """A reference, bound. Raises LadderError for a file that cannot be read, was edited or bears another name."""
    try:
        reference = loads(file.read_text(), _shown(file))
        bindings = file.parent / BINDINGS
        bound = tomllib.loads(bindings.read_text()) if bindings.exists() else {}
        if reference.name != file.stem:
            raise LadderError(f"reference {_shown(file)} calls itself '{reference.name}'; its file must be named so")
        return _bind(reference, bound)
    except (OSError, ValueError, KeyError) as error:
        raise LadderError(f"reference {_shown(file)} cannot be read: {type(error).__name__}: {error}") from error


def load_all(folders: Sequence[Path] | None = None) -> tuple[Reference, ...]:
    """Every reference, bound, by name. Raises LadderError for two of one name that say different things."""
    loaded: dict[str, Reference] = {}
    for file in files(folders):
        reference = load(file)
        if (other := loaded.get(reference.name)) and other.content != reference.content:
            raise LadderError(f"there are two references named '{reference.name}' that differ; one is {_shown(file)}")
        loaded[reference.name] = loaded.get(reference.name) or reference
    return tuple(loaded.values())


def _bind(reference: Reference, bindings: Mapping[str, Any]) -> Reference:
    """Give the parts of a published reference their recipe hash, or the reason why they wait."""
    if reference.kind != "published":
        return reference
    bound = {(b["net"], b["arm"]): b for b in bindings.get("binding", ()) if b["reference"] == reference.name}
    waiting = {w.get("net"): w["why"] for w in bindings.get("waiting", ()) if w["reference"] == reference.name}
    parts: list[Part] = []
    for part in reference.parts:
        if b := bound.get((part.net, part.arm)):
            parts.append(replace(part, hash=b["hash"], ours=b["recipe"], differences=tuple(b["differences"])))
        else:
            parts.append(replace(part, waiting=waiting.get(part.net) or waiting.get(None, UNBOUND)))
    return replace(reference, parts=tuple(parts), content=reference.content)


def find(recipe: Recipe, references: Sequence[Reference], name: str | None = None) -> Match | None:
    """What a recipe's finals are held against: by equal recipe hash only; the most finals, then the name, decides.

    A recipe without one of its own may declare another that stands in for it, and why: `Recipe.stands_in_for`.
    With `name`, that reference or a LadderError that says which comparability fields differ.
    """
    if name is not None:
        return Match(reference := named(name, references), _same_hash(recipe, reference))
    matches = [Match(r, p) for r in references for p in r.parts if p.hash == recipe.hash]
    if not matches and (declared := recipe.stands_in_for):
        other, why = declared
        return replace(match, stand_in=why) if (match := find(other, references)) else None
    return min(matches, key=lambda m: (-len(m.part.finals), m.reference.name), default=None)


def named(name: str, references: Sequence[Reference]) -> Reference:
    """The reference of that name. Raises LadderError, with the nearest names, when there is none."""
    if found := next((r for r in references if r.name == name), None):
        return found
    near = difflib.get_close_matches(name, [r.name for r in references], 3, 0.4)
    raise LadderError(
        f"there is no reference '{name}'" + (f"; near: {', '.join(near)}" if near else ""), "ladder reference list"
    )


def _same_hash(recipe: Recipe, reference: Reference) -> Part:
    same = next((p for p in reference.parts if p.hash == recipe.hash), None)
    if same:
        return same
    part = reference.part(recipe.net, recipe.arm)
    if part is None:
        has = ", ".join(f"{p.net}-{p.arm}" for p in reference.parts)
        raise LadderError(f"reference {reference.name} has no {recipe.name}; it has: {has}", "ladder reference list")
    if part.ours is None:
        raise LadderError(f"reference {reference.name} cannot be compared with {recipe.name}: {part.waiting}")
    raise LadderError(
        f"reference {reference.name} has another recipe than {recipe.name} (reference | run): "
        + "; ".join(differing(Recipe.from_json(part.ours), recipe)),
        "leave out --reference to be compared by recipe hash only",
    )


def differing(theirs: Recipe, ours: Recipe) -> list[str]:
    """`epochs 12 | 2` for each comparability field in which two recipes differ."""
    left, right = _flat(comparability(theirs)), _flat(comparability(ours))
    whole = _flat(theirs.to_json()), _flat(ours.to_json())
    keys = [key for key in {**left, **right} if left.get(key) != right.get(key)]
    return [f"{key} {whole[0].get(key)} | {whole[1].get(key)}" for key in keys]


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, item in value.items():
        flat |= _flat(item, f"{prefix}{key}.") if isinstance(item, Mapping) else {prefix + key: item}
    return flat


def spread(correct: Sequence[int]) -> dict[str, Any]:
    """n, min, median, max, mean and sample standard deviation of finals, in images; None where there is none."""
    return {
        "n": len(correct),
        "min": min(correct, default=None),
        "median": statistics.median(correct) if correct else None,
        "max": max(correct, default=None),
        "mean": statistics.fmean(correct) if correct else None,
        "sd": statistics.stdev(correct) if len(correct) >= 2 else None,
    }


def to_json(reference: Reference) -> dict[str, Any]:
    """A reference as JSON values; a loss that was not finite is null."""
    return json.loads(json.dumps(asdict(reference)), parse_constant=lambda _: None)


def add(reference: Reference, folder: Path, known: Sequence[Reference]) -> bool:
    """Write a reference; False if it is there already, word for word.

    Raises LadderError for a name that is taken, a bad name, or a folder that cannot be written.
    """
    text = dumps(reference, COMMENT)
    content = loads(text, reference.name).content
    if not NAME.fullmatch(reference.name) or f"{reference.name}.toml" == BINDINGS:
        raise LadderError(f"'{reference.name}' is no name for a reference: a-z, 0-9, '.', '_', '-', at most 64")
    if other := next((r for r in known if r.name == reference.name), None):
        if other.content == content:
            return False
        raise LadderError(
            f"there is a reference '{reference.name}' already, of {other.date} with other content; a reference never"
            " changes once named",
            "choose another name",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / f"{reference.name}.toml", text)
    except OSError as error:
        raise LadderError(
            f"the references folder {folder} cannot be written: {error.strerror}",
            "set LADDER_RUNS to a folder that can",
        ) from error
    return True


def from_record(name: str, record: Record, note: str = "") -> Reference:
    """A reference from a run's record. Diverged trials are counted in it.

    Raises LadderError for a run that is not complete, had a fault injected, lost trials, or has fewer than two finals
    of a recipe.
    """
    manifest = record.manifest
    run, recipes = manifest["name"], {r["hash"]: r for r in manifest["recipes"]}
    _refuse(record)
    by_recipe = {h: [f for f in record.finals if f.recipe_hash == h] for h in recipes}
    parts = tuple(
        _measured(run, recipes[h], rows, record.epochs)
        for h, rows in by_recipe.items()
        if any(f.status in ("done", "diverged") for f in rows)
    )
    if not parts:
        raise LadderError(f"run {run} has no final: nothing to make a reference of")
    core, platform = manifest.get("core", {}), manifest.get("platform", {})
    facts = {
        "made": f"ladder reference add {name} --from-run {run}",
        "run": run,
        "uuid": manifest["uuid"],
        "box": manifest["box"],
        "data": manifest["data"].get("identity"),
        "core": {k: core.get(k) for k in ("ladder", "commit", "dirty")},
        "host": {k: platform.get(k) for k in ("processor", "cores", "machine", "python", "packages", "plugins")},
        "note": note or None,
    }
    facts = {k: v for k, v in facts.items() if v is not None}
    date, profile = manifest["started"][:10], manifest["profile"]
    return Reference(name, "measured", date, profile, manifest["lowerer"], facts, parts)


def _refuse(record: Record) -> None:
    run = record.manifest["name"]
    if record.state != "complete":
        raise LadderError(
            f"run {run} is {record.state}; only a complete run can become a reference", f"ladder show {run}"
        )
    faults = {f.lowerer for f in record.finals if f.lowerer.startswith("faulty")}
    if fault := record.manifest.get("fault") or next(iter(faults), None):
        raise LadderError(f"run {run} had a fault injected ({fault}); it cannot become a reference")
    seen = Counter((f.net, f.arm, f.recipe_hash, f.seed) for f in record.finals)
    if twice := [key for key, times in seen.items() if times > 1]:
        net, arm, _, seed = twice[0]
        raise LadderError(f"run {run} has seed {seed} of {net}-{arm} twice; each seed may count once")


def _measured(run: str, recipe: Mapping[str, Any], rows: Sequence[FinalRow], epochs: Sequence[EpochRow]) -> Part:
    fields = {k: v for k, v in recipe.items() if k != "hash"}
    net, arm = recipe["net"], recipe["arm"]
    if lost := [f for f in rows if f.status not in ("done", "diverged")]:
        raise LadderError(
            f"run {run} lost {len(lost)} of {len(rows)} trials of {net}-{arm} (seed {lost[0].seed}: {lost[0].status});"
            " a reference made of the rest might be flattered"
        )
    if (n := sum(f.status == "done" for f in rows)) < 2:
        raise LadderError(
            f"run {run} has {n} final of {net}-{arm}; a reference needs 2 at least, 5 or more to be of use"
        )
    own = sorted((e for e in epochs if (e.net, e.arm) == (net, arm)), key=lambda e: e.epoch)
    curves = {f.seed: [e for e in own if e.seed == f.seed] for f in rows}
    finals = tuple(
        Final(
            seed=f.seed,
            correct=f.correct,
            top5=f.top5,
            diverged=f.status == "diverged",
            train_loss=f.train_loss,
            epoch_correct=tuple(e.correct for e in curves[f.seed]),
            epoch_loss=tuple(float("nan") if e.train_loss is None else e.train_loss for e in curves[f.seed]),
            note=f.note,
        )
        for f in sorted(rows, key=lambda f: f.seed)
    )
    return Part(recipe["rung"], net, arm, rows[0].total, fields, finals, hash=recipe["hash"], ours=fields)


def _shown(file: Path) -> str:
    """The file, without where the checkout lies."""
    return f"runs/references/{file.name}" if file.parent == paths.references() else str(file)
