"""Commands that ask: ranges, runs, show, compare, export."""

from dataclasses import asdict
from typing import Annotated, Any

from cyclopts import Parameter

from ladder.cli.app import Json, app, database
from ladder.cli.output import number, one_of, print_facts, print_json, print_table

Flag = Annotated[bool, Parameter(negative="")]
NEWEST = 20


@app.command
def ranges(*, rung: str | None = None, net: str | None = None, arm: str | None = None, as_json: Json = False) -> None:
    """The seed ranges of all references: min, median, max, mean and standard deviation, per net and arm.

    Scores are per cent of the test images, over the trials that did not diverge.

    Args:
        rung: Only this rung.
        net: Only this net.
        arm: Only this arm.
    """
    from ladder.store import queries

    with database() as db:
        asked = {"rung": rung, "net": net, "arm": arm}
        check_known(asked, queries.ranges(db))
        rows = queries.ranges(db, rung, net, arm)
    if as_json:
        print_json(rows)
        return
    print_table(
        [
            {
                "reference": row["reference"],
                "rung": row["rung"],
                "net": row["net"],
                "arm": row["arm"],
                "n": str(row["n"]),
                "min %": number(row["min"]),
                "median %": number(row["median"]),
                "max %": number(row["max"]),
                "mean %": number(row["mean"]),
                "sd": number(row["sd"], 3),
                "diverged": str(row["diverged"] or ""),
                "source": f"{row['kind']} {row['date']} {row['platform']} {row['lowerer']}",
                "recipe": row["hash"][:11] if row["hash"] else f"waiting: {row['waiting']}",
            }
            for row in rows
        ]
    )
    if not rows:
        print("no reference has this rung, net and arm together")


def check_known(asked: dict[str, str | None], rows: list[dict[str, Any]]) -> None:
    """Raises LadderError, with the nearest values, for a value that no row has."""
    from difflib import get_close_matches

    from ladder.errors import LadderError

    for key, value in asked.items():
        known = sorted({row[key] for row in rows})
        if value is not None and value not in known:
            near = get_close_matches(value, known, 3, 0.4)
            there = f"near: {', '.join(near)}" if near else f"there are: {', '.join(known) or 'none'}"
            raise LadderError(f"--{key} '{value}': there is none; {there}")


@app.command
def runs(
    *,
    rung: str | None = None,
    box: str | None = None,
    platform: str | None = None,
    all_runs: Annotated[bool, Parameter(name="--all", negative="")] = False,
    as_json: Json = False,
) -> None:
    """The runs, newest first: running, interrupted or complete, and the verdict's word.

    Args:
        rung: Only this rung.
        box: Only this box.
        platform: Only this platform.
        all_runs: All of them; else the newest 20.
    """
    from ladder.store import queries

    with database() as db:
        check_known({"rung": rung, "box": box, "platform": platform}, queries.runs(db))
        rows = queries.runs(db, rung, box, platform)
    shown = rows if all_runs else rows[:NEWEST]
    if as_json:
        print_json(shown)
        return
    print_table(
        [
            {
                "name": row["name"],
                "state": row["state"],
                "verdict": row["word"] or "",
                "finals": f"{row['finals']}/{row['trials']}",
                "box": row["box"],
                "platform": row["platform"],
                "lowerer": row["lowerer"],
                "started": row["started"],
                "record": "database only" if row["folder"] is None else f"runs/{row['folder']}".rstrip("/"),
                "fault": row["fault"] or "",
            }
            for row in shown
        ]
    )
    if len(shown) < len(rows):
        print(f"the newest {NEWEST} of {len(rows)}; --all shows the rest")
    if not rows:
        print("no runs yet; next: ladder run mnist")


@app.command
def show(run: str, /, *, as_json: Json = False) -> None:
    """One run: its verdicts with their reasons, its finals, and what it ran on.

    Args:
        run: Its name, its UUID, the beginning of either, or `last`.
    """
    from ladder import report
    from ladder.store import queries

    with database() as db:
        found = with_results(queries.run(db, queries.find_run(db, run)), "json" if as_json else "")
    if as_json:
        print_json(found)
        return
    manifest = found["manifest"]
    print_facts({key: found[key] for key in ("name", "uuid", "state", "word", "fault", "started", "finished")})
    print_facts({"platform": f"{found['platform']} on {found['box']}", "lowerer": found["lowerer"]})
    if found["rung"] == "suite":
        from ladder.suite import report as suite

        print_facts({"again": suite.command(manifest), "virtual devices": manifest["virtual_devices"] or ""})
        print()
        print_table(suite.table(found["results"]), title="tests")
        for line in (*suite.red(found["results"]), *(manifest.get("expectations_diff") or "").splitlines()):
            print(line)
        return
    print_facts({"data": manifest["data"].get("source"), "again": report.command(manifest)})
    print()
    print_table(report.verdict_table(found["verdicts"]), report.TERMINAL, "verdicts")
    for verdict in found["verdicts"]:
        print(f"{verdict['net']}-{verdict['arm']} {verdict['word']}: {report.told(verdict)}")
    print()
    print_table(report.finals_table(found["trials"]), title="finals")


def with_results(run: dict[str, Any], form: str = "") -> dict[str, Any]:
    """A run, and of the suite's its tests, which stand in its record alone. Raises LadderError when that is gone."""
    from ladder import paths, records

    if run["rung"] != "suite":
        return run
    results = records.read(records.find(run["uuid"], paths.runs())).results
    return {**run, "results": [asdict(row) for row in results] if form == "json" else results}


@app.command
def compare(first: str, second: str, /, *, as_json: Json = False) -> None:
    """Two runs side by side: their finals seed by seed, and which half of the manifest changed.

    Args:
        first: A run, as in `ladder show`.
        second: Another.
    """
    from ladder.cli.comparison import compare as compare_runs
    from ladder.cli.comparison import print_comparison
    from ladder.store import queries

    with database() as db:
        pair = [queries.run(db, queries.find_run(db, name)) for name in (first, second)]
    comparison = compare_runs(*pair)
    print_json(comparison) if as_json else print_comparison(comparison)


@app.command
def export(
    *names: Annotated[str, Parameter(name="RUN")], csv: Flag = False, json: Flag = False, junit: Flag = False
) -> None:
    """Finals and verdicts on standard output: of these runs, or of all.

    Args:
        names: Runs, as in `ladder show`; all if none is named.
        csv: One line a trial (this if no format is named).
        json: The runs whole, with manifest and epochs.
        junit: A suite a run, a case a verdict, for continuous integration.
    """
    from ladder.cli import export as formats
    from ladder.store import queries

    form = one_of(csv=csv, json=json, junit=junit)
    with database() as db:
        uuids = [queries.find_run(db, name) for name in names] or [row["uuid"] for row in reversed(queries.runs(db))]
        found = [with_results(queries.run(db, uuid), form) for uuid in dict.fromkeys(uuids)]
    if form == "json":
        print_json(found)
    else:
        print({"csv": formats.trials_csv, "junit": formats.junit}[form](found), end="")
