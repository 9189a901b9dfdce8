"""A run's manifest, and which interrupted run it continues."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ladder import paths, records
from ladder.data import Dataset
from ladder.errors import LadderError
from ladder.recipes import Recipe
from ladder.references import Match
from ladder.request import Request
from ladder.train.artifact import Program
from platforms import manifest as halves
from platforms.profile import Profile

# Not in the record's request: a path has no place there, and accumulation stands in its recipes.
HOW_NOT_WHAT = ("data_dir", "wait_s", "deadline", "fresh", "feed", "accumulate")


def build(
    uuid: str,
    request: Request,
    profile: Profile,
    recipes: Sequence[Recipe],
    programs: Mapping[str, Program],
    matches: Mapping[str, Match],
    dataset: Dataset,
) -> dict[str, Any]:
    """The manifest at the start of a run; `programs` and `matches` are keyed by recipe hash. Plain JSON values."""
    manifest = {
        "uuid": uuid,
        "rung": request.rung,
        "box": paths.box(),
        "profile": profile.name,
        "lowerer": profile.lowerer,
        "fault": request.fault,
        "state": "partial",
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "request": {k: v for k, v in asdict(request).items() if k not in HOW_NOT_WHAT},
        "recipes": [{"hash": r.hash, **r.to_json()} for r in recipes],
        "programs": {h: _program(p) for h, p in programs.items()},
        "references": {h: match.reference.name for h, match in matches.items()},
        "data": {k: v for k, v in asdict(dataset).items() if k not in ("folder", "reasons")},
        "core": halves.core(Path(__file__).resolve().parents[1]),
        "platform": halves.box(profile),
        "devices": [],
    }
    return json.loads(json.dumps(manifest))


def _program(p: Program) -> dict[str, Any]:
    return {
        "sha": p.sha,
        "variant": p.variant,
        "plain_sha": p.plain_sha,
        "streamed": p.streamed,
        "versions": dict(p.versions),
    }


def resumable(manifest: Mapping[str, Any], fresh: bool, say: Callable[[str], None]) -> Iterator[Path]:
    """The interrupted runs that a new run with this manifest continues, newest first; says why the others are not.

    Resumed only where request, recipes, programs and data are the same, and not with `fresh`.
    """
    wanted = _sameness(manifest)
    for found, theirs in sorted(_partial(say), key=lambda pair: pair[0].manifest["started"], reverse=True):
        name = found.manifest["name"]
        if found.state != "interrupted" or theirs["request"] != wanted["request"]:
            continue
        if differs := [key for key in wanted if wanted[key] != theirs[key]]:
            say(f"interrupted run {name} is not resumed: its {', '.join(differs)} differ")
        elif fresh:
            say(f"interrupted run {name} is left as it is (--fresh)")
        else:
            yield found.path


def _partial(say: Callable[[str], None]) -> Iterator[tuple[records.Record, dict[str, Any]]]:
    for path in (paths.runs() / records.PARTIAL).glob(f"*/{records.MANIFEST}"):
        try:
            found = records.read(path.parent)
            yield found, _sameness(found.manifest)
        except (LadderError, KeyError, TypeError, AttributeError) as error:
            say(f"interrupted run {path.parent.name} is not resumed: it is damaged ({type(error).__name__}: {error})")


def _sameness(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What must be equal for a run to be resumed."""
    return {
        "request": {**manifest["request"], **{k: manifest[k] for k in ("box", "profile", "lowerer", "fault")}},
        "recipes": [r["hash"] for r in manifest["recipes"]],
        "programs": {h: p["sha"] for h, p in manifest["programs"].items()},
        "data": manifest["data"]["identity"],
    }
