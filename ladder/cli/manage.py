"""Commands that change what is kept: keep, import, and the references."""

from pathlib import Path

from ladder import paths, records
from ladder.cli.app import Json, app, complain, database, reference_app
from ladder.cli.output import number, print_facts, print_json, print_table
from ladder.errors import LadderError


@app.command
def keep(run: str, /, *, as_json: Json = False) -> None:
    """Keep a complete run: its record moves to `runs/kept/`, to be committed; it then counts in PLATFORMS.md.

    Args:
        run: Its name, its UUID, the beginning of either, or `last`.
    """
    root = paths.runs()
    record = records.read(records.find(run, root))
    try:
        path = records.keep(record, root)
    except OSError as error:
        raise LadderError(f"the records folder {root} cannot be written: {error.strerror}") from error
    with database():
        pass
    if as_json:
        print_json({"name": path.name, "folder": str(path.relative_to(root))})
    else:
        print(f"{path.name} is in {path.relative_to(root.parent)}; next: git add it, then ladder platforms")


@app.command(name="import")
def import_(folder: Path, /, *, as_json: Json = False) -> int:
    """Index the records and references under a folder. The database can be deleted and rebuilt so; nothing is lost.

    Args:
        folder: A records folder, e.g. runs/.
    """
    from ladder import store

    if not folder.is_dir():
        raise LadderError(f"{folder} is no folder", f"ladder import {paths.runs()}")
    with store.open() as opened:
        found, references, errors = opened.import_tree(folder.absolute())
    for error in errors:
        complain(error, "not imported")
    if as_json:
        print_json({"records": found, "references": references, "errors": [error.message for error in errors]})
    else:
        print(f"{found} records and {references} references are in the database; {len(errors)} could not be imported")
    return 2 if errors else 0


@reference_app.command
def add(name: str, /, *, from_run: str, note: str = "", as_json: Json = False) -> None:
    """Make a reference from a complete run: its finals, curves, recipes and where they come from, as text.

    Args:
        name: The new name; a reference never changes once named.
        from_run: The run, as in `ladder show`.
        note: A remark that is kept with it.
    """
    from ladder import references

    root = paths.runs()
    record = records.read(records.find(from_run, root))
    made = references.from_record(name, record, note)
    folder = root / "references"
    new = references.add(made, folder, references.load_all())
    with database():
        pass
    keys = ("net", "arm", "total", "diverged", "hash")
    parts = [{key: getattr(part, key) for key in keys} | {"finals": len(part.finals)} for part in made.parts]
    if as_json:
        print_json({"name": name, "new": new, "parts": parts})
        return
    if new:
        print(f"reference {name} is in {folder.name}/{name}.toml; next: git add it")
    else:
        print(f"reference {name} is there already, word for word; nothing was changed")
    print_table([{key: str(value) for key, value in part.items()} for part in parts])


@reference_app.command(name="list")
def list_(*, as_json: Json = False) -> None:
    """Every reference: how many finals, where it comes from, what waits for its recipe."""
    from ladder.store import queries

    with database() as db:
        rows = queries.references(db)
    if as_json:
        print_json(rows)
        return
    print_table(
        [
            {
                "name": row["name"],
                "kind": row["kind"],
                "date": row["date"],
                "platform": row["platform"],
                "lowerer": row["lowerer"],
                "finals": str(row["finals"]),
                "bound": f"{row['parts'] - row['waiting']} of {row['parts']} nets and arms",
                "waiting": row["why"],
            }
            for row in rows
        ]
    )


@reference_app.command(name="show")
def show_reference(name: str, /, *, as_json: Json = False) -> None:
    """One reference: where it comes from, its recipes, its finals, and where its recipe differs from ours.

    Args:
        name: Its name, as in `ladder reference list`.
    """
    from ladder import references
    from ladder.store import queries

    with database() as db:
        found = queries.reference(db, name)
    if as_json:
        print_json(references.to_json(found))
        return
    print_facts({key: getattr(found, key) for key in ("name", "kind", "date", "platform", "lowerer")})
    print_facts(found.facts)
    for part in found.parts:
        images = references.spread(part.finite)
        print()
        print_facts({"net": f"{part.net} {part.arm}", "recipe": part.hash or f"waiting: {part.waiting}"})
        print_facts({key: value for key, value in part.fields.items() if key not in ("net", "arm", "rung")})
        print_facts({"n": images["n"], "diverged": part.diverged or None})
        if images["n"]:
            low, mid, high = (number(100 * images[key] / part.total) for key in ("min", "median", "max"))
            print(f"min / median / max %: {low} / {mid} / {high}")
        print(f"finals of {part.total}: " + " ".join(f"{f.seed}:{f.correct}{'!' * f.diverged}" for f in part.finals))
        for difference in part.differences:
            print(f"differs: {difference}")
