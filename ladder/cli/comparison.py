"""Two runs compared: finals seed by seed, and the two halves of the manifest, which say where to look."""

from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Any

from ladder.cli.output import print_table
from ladder.recipes.recipe import Recipe
from ladder.references import differing

HALVES = ("core", "platform")
WHERE = {
    (False, False): "core and platform are equal: what differs is run-to-run noise, or is not in the manifest",
    (False, True): "core is equal and platform changed: look at the driver, the plugin or the box",
    (True, False): "platform is equal and core changed: look at this repository",
    (True, True): "core and platform both changed: run one of them again with the other held still",
}


def compare(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """What is equal and what is not between two runs, as JSON values."""
    manifests = (first["manifest"], second["manifest"])
    sides = {half: tuple(m.get(half) or {} for m in manifests) for half in HALVES}
    halves = {half: _changed(*_of_both(*pair)) for half, pair in sides.items()}
    data = [(m.get("data") or {}).get("identity") for m in manifests]
    return {
        "runs": [
            {k: run[k] for k in ("name", "uuid", "box", "platform", "lowerer", "state", "word")}
            for run in (first, second)
        ],
        "finals": _finals(first, second),
        "recipes": _recipes(first, second),
        "programs": _programs(first, second),
        "data": data[0] == data[1],
        "changed": halves,
        "unrecorded": {half: sorted(a.keys() ^ b.keys()) for half, (a, b) in sides.items()},
        "where": WHERE[bool(halves["core"]), bool(halves["platform"])],
        "but": [*_unsure(first, second, halves)],
    }


def _of_both(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What both manifests record: a fact that one of two versions of Ladder did not write has not changed."""
    return {k: v for k, v in a.items() if k in b}, {k: v for k, v in b.items() if k in a}


def _unsure(first: Mapping[str, Any], second: Mapping[str, Any], halves: Mapping[str, Any]) -> Iterator[str]:
    """Why the two halves tell less than they seem to."""
    if first["box"] != second["box"]:
        yield f"the runs are of two boxes, {first['box']} and {second['box']}: compare with a run on the same box"
    dirty = [run["name"] for run in (first, second) if (run["manifest"].get("core") or {}).get("dirty") is True]
    if dirty and not halves["core"]:
        yield f"uncommitted changes were there in {' and '.join(dict.fromkeys(dirty))}: core may differ all the same"


def _finals(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One entry per net, arm and seed of either run; `difference` in images, where the recipe is the same."""
    sides = [{(t["net"], t["arm"], t["seed"]): t for t in run["trials"]} for run in (first, second)]
    rows: list[dict[str, Any]] = []
    for net, arm, seed in dict.fromkeys((*sides[0], *sides[1])):
        a, b = (side.get((net, arm, seed)) for side in sides)
        same = bool(a and b and a["recipe_hash"] == b["recipe_hash"])
        scored = a is not None and b is not None and a["correct"] is not None and b["correct"] is not None
        rows.append(
            {
                "net": net,
                "arm": arm,
                "seed": seed,
                "first": _score(a),
                "second": _score(b),
                "total": (a or b or {})["total"],
                "same_recipe": same,
                "difference": b["correct"] - a["correct"] if a and b and same and scored else None,
                "first_epoch_apart": _first_apart(a, b) if a and b and same else None,
            }
        )
    return rows


def _score(trial: Mapping[str, Any] | None) -> int | str | None:
    """The images correct, or why there are none; None where the run has no such trial."""
    if trial is None:
        return None
    return trial["correct"] if trial["correct"] is not None else trial["status"]


def _first_apart(a: Mapping[str, Any], b: Mapping[str, Any]) -> int | None:
    """The first epoch whose test score or train loss differs; None while the curves are equal."""
    for x, y in zip(a["curve"], b["curve"], strict=False):
        if (x["correct"], x["train_loss"]) != (y["correct"], y["train_loss"]):
            return x["epoch"]
    return None


def _recipes(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, list[str]]:
    """For each net and arm of both runs whose recipe hashes differ: the comparability fields that do."""
    sides = [{(r["net"], r["arm"]): r for r in run["manifest"].get("recipes", [])} for run in (first, second)]
    differ = {key for key in sides[0].keys() & sides[1].keys() if sides[0][key]["hash"] != sides[1][key]["hash"]}
    whole = [
        {key: Recipe.from_json({k: v for k, v in side[key].items() if k != "hash"}) for key in differ} for side in sides
    ]
    return {f"{net}-{arm}": differing(whole[0][net, arm], whole[1][net, arm]) for net, arm in sorted(differ)}


def _programs(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, list[str]]:
    """For each recipe hash of both runs whose programs differ: the two program hashes."""
    sides = [{t["recipe_hash"]: t["program_sha"] for t in run["trials"]} for run in (first, second)]
    both = sorted(sides[0].keys() & sides[1].keys())
    return {h: [side[h] for side in sides] for h in both if sides[0][h] != sides[1][h]}


def _changed(first: Mapping[str, Any], second: Mapping[str, Any], prefix: str = "") -> dict[str, list[Any]]:
    """`{"packages.jax": ["0.12.0", "0.12.1"]}` for each value that differs; null where there is none."""
    changed: dict[str, list[Any]] = {}
    for key in dict.fromkeys((*first, *second)):
        a, b = first.get(key), second.get(key)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            changed |= _changed(a, b, f"{prefix}{key}.")
        elif a != b:
            changed[prefix + key] = [a, b]
    return changed


def print_comparison(comparison: Mapping[str, Any]) -> None:
    """The comparison in words and tables."""
    for label, run in zip(("first", "second"), comparison["runs"], strict=True):
        print(
            f"{label}: {run['name']} ({run['word'] or run['state']}), "
            f"{run['platform']} on {run['box']}, {run['lowerer']}"
        )
    rows = [{key: "" if row[key] is None else str(row[key]) for key in row} for row in comparison["finals"]]
    for row, of in zip(rows, comparison["finals"], strict=True):
        row["difference"] = "" if of["difference"] is None else f"{of['difference']:+d}"
        row["same_recipe"] = "yes" if of["same_recipe"] else "no"
    print_table(rows, title="finals, images correct")
    apart = [row["difference"] for row in comparison["finals"] if row["difference"] is not None]
    if apart:
        print(f"{len(apart)} finals of both: {apart.count(0)} equal, mean difference {fmean(apart):+.2f} images")
    for name, fields in comparison["recipes"].items():
        print(f"{name}: another recipe, so its finals cannot be compared (first | second): {'; '.join(fields)}")
    for recipe, (a, b) in comparison["programs"].items():
        print(f"recipe {recipe[:11]}: another program, {a[:12]} | {b[:12]}")
    if not comparison["data"]:
        print("the data is not the same")
    for half, changed in comparison["changed"].items():
        print(f"{half}: {'changed' if changed else 'equal'}")
        for key, (a, b) in changed.items():
            print(f"  {key}: {a} | {b}")
        if unrecorded := comparison["unrecorded"][half]:
            print(f"  in one manifest only: {', '.join(unrecorded)}")
    print(comparison["where"])
    for line in comparison["but"]:
        print(f"but {line}")
