"""`ladder plan`: what a rung would run here, through which code, how long and how large; it trains nothing."""

import json
import math
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ladder.cli.app import Json, app
from ladder.cli.output import number, print_json, print_table
from ladder.errors import LadderError

if TYPE_CHECKING:
    from ladder.recipes import Recipe
    from ladder.train.artifact import Program
    from platforms.profile import Profile

PROBE_LIMIT_S = 1800.0  # as long as a worker may compile
NOT_ALL = 3  # exit code when a recipe cannot run here
COLUMNS = ("recipe", "parameters", "steps", "program", "support", "ms/step", "time", "disk MB", "code")


@dataclass(frozen=True)
class Probed:
    """A recipe's program on this box: `support` is "compiled", "tuned", "cached", or why there is none."""

    recipe: "Recipe"
    program: "Program"
    support: str
    hint: str = ""
    told: dict[str, Any] = field(default_factory=dict[str, Any])

    def seconds(self, seeds: int) -> float | None:
        """Training and scoring of `seeds` trials one after another; None when it cannot run."""
        if not self.told:
            return None
        evals = math.ceil(self.recipe.data.test / self.program.test_batch)
        epoch = self.recipe.steps * self.told["step"]["median"] + evals * self.told["eval_ms"]
        return seeds * self.recipe.epochs * epoch / 1000

    def disk(self) -> int:
        """Bytes: the prepared dataset, the exported program and one checkpoint."""
        data = self.recipe.data
        dataset = data.bytes + data.train + data.test
        state = sum(math.prod(leaf.shape) * 4 for leaf in self.program.leaves)
        return dataset + state + sum(path.stat().st_size for path in self.program.folder.iterdir())

    def row(self, seeds: int) -> dict[str, Any]:
        """Stable keys, for JSON."""
        step = self.told.get("step", {})
        return {
            "recipe": self.recipe.name,
            "recipe_hash": self.recipe.hash,
            "parameters": self.program.parameters,
            "steps": self.recipe.steps * self.recipe.epochs,
            "program_sha": self.program.sha,
            "support": self.support,
            "hint": self.hint,
            "options": self.told.get("compiled", {}).get("options", {}),
            "step_ms": step.get("median"),
            "step_ms_least": step.get("least"),
            "steps_timed": step.get("n", 0),
            "eval_ms": self.told.get("eval_ms"),
            "trial_s": self.seconds(1),
            "total_s": self.seconds(seeds),
            "disk_bytes": self.disk(),
        }


@app.command
def plan(
    rung: str,
    /,
    *,
    platform: str = "cpu",
    lowerer: str = "",
    nets: str = "",
    arms: str = "",
    seeds: str = "1-3",
    wait: float = 0.0,
    as_json: Json = False,
) -> int:
    """What a rung would run on this box: compiles every program and times a few steps of it; trains nothing.

    Args:
        rung: Which rung, e.g. mnist.
        platform: What it would run on.
        lowerer: What turns the programs into something that runs; the platform's own if not given.
        nets: Only these nets, separated by commas.
        arms: Only these arms of them.
        seeds: How many trials the time is for, e.g. 1-5.
        wait: Seconds to wait for a device that a run uses.
    """
    from ladder import paths
    from ladder.pool.slot import Slot
    from ladder.recipes import rung_recipes, select
    from ladder.request import parse_seeds, profile_for

    profile, count = profile_for(platform, lowerer or None, rung), len(parse_seeds(seeds))
    chosen = select(rung_recipes(rung), *(tuple(filter(None, text.split(","))) for text in (nets, arms)))
    with Slot.acquire(f"{profile.device}-0", {"run": f"ladder plan {rung}"}, wait, _say):
        rows = [_probe(profile, recipe).row(count) for recipe in chosen]
    free = shutil.disk_usage(paths.cache()).free
    needed = sum(row["disk_bytes"] for row in rows)
    if as_json:
        print_json({"rung": rung, "platform": profile.name, "seeds": count, "recipes": rows, "disk_free": free})
    else:
        print_table([_cells(row, count) for row in rows], COLUMNS, f"{rung} on {profile.name}, {count} seeds")
        for row in rows:
            for key, value in {**row["options"], "next": row["hint"]}.items():
                if value:
                    print(f"{row['recipe']} {key}: {value}")
        total = sum(row["total_s"] or 0.0 for row in rows)
        print(f"in all {_duration(total)}, and at most {needed / 1e6:.0f} MB of {free / 1e9:.1f} GB free")
    if needed > free:
        raise LadderError(f"{needed / 1e6:.0f} MB are needed and {free / 1e6:.0f} MB are free", "set LADDER_CACHE")
    return 0 if all(row["total_s"] is not None for row in rows) else NOT_ALL


def _probe(profile: "Profile", recipe: "Recipe") -> Probed:
    """Compile and time a recipe's program in a child; a lowerer that does not take it says so."""
    from ladder import children, lowerers, paths
    from ladder.train.artifact import program_for
    from ladder.train.batches import streams

    streamed, _ = streams(recipe.data, profile.device, profile.kind)
    program, _ = program_for(recipe, profile.jax_platform, profile.variant, streamed)
    _say(f"{recipe.name}: program {program.sha[:12]}, compiling and timing on {profile.name}")
    try:
        lowerers.preflight(profile.lowerer, profile.environment, lambda: [program])
    except lowerers.Unsupported as error:
        return Probed(recipe, program, f"unsupported: {error.message}", error.hint)
    env = children.environment({**os.environ, **profile.environment, "LADDER_CACHE": str(paths.cache())})
    with tempfile.TemporaryDirectory() as out:
        request = {
            "lowerer": profile.lowerer,
            "jax_platform": profile.jax_platform,
            "device": 0,
            "program": str(program.folder),
            "out": out,
        }
        argv = children.command("ladder.lowerers.probe")
        ended = children.run(argv, PROBE_LIMIT_S, env, json.dumps(request))
        if ended.code:
            return Probed(recipe, program, *_refusal(ended.errors, ended.how))
        if ended.code is None:
            return Probed(recipe, program, f"timeout: {ended.how}")
        told = json.loads((Path(out) / "told.json").read_text())
    cached = all(told["compiled"]["cached"].values())
    return Probed(recipe, program, "from the cache" if cached else "compiled", "", told)


def _refusal(errors: str, how: str) -> tuple[str, str]:
    """What the child said: its error in words, or how it died and its last line."""
    last = (errors.strip().splitlines() or ["no output"])[-1]
    try:
        message, hint = json.loads(last)
    except ValueError:
        return f"crashed: {how}: {last}", ""
    return f"unsupported: {message}", hint


def _cells(row: dict[str, Any], seeds: int) -> dict[str, str]:
    return {
        "recipe": row["recipe"],
        "parameters": f"{row['parameters']:,}",
        "steps": f"{row['steps']:,}",
        "program": row["program_sha"][:12],
        "support": row["support"],
        "ms/step": number(row["step_ms"]),
        "time": f"{seeds} x {_duration(row['trial_s'])}" if row["trial_s"] is not None else "",
        "disk MB": f"{row['disk_bytes'] / 1e6:.0f}",
        "code": row["options"].get("flag_set", ""),
    }


def _duration(seconds: float) -> str:
    """`12 s`, `3.4 min`, `5.6 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
