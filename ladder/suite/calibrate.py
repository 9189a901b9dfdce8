"""Makes tolerances.toml: what tier 2 measures on healthy platforms, times three.

    python -m ladder.suite.calibrate [--check] [--platforms cpu,iree-cpu] [--only TEST,TEST]

Each platform's tests run in a child with its profile's environment. An operator's bound is three times the largest
error of any output on any of the platforms, documented differences left out; a net's likewise, for each statistic. A
platform whose clean value is more than ten times the others' has an entry of its own, so that it loosens nobody else's.
What is not measured now stays as it is. `--check` measures again and writes nothing: it fails where a clean value is
above its bound.
"""

import argparse
import json
import math
import os
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from ladder import children, lowerers, paths
from ladder.errors import LadderError
from ladder.request import profile_for
from ladder.suite import expectations, exported, nets, numerics, operators
from ladder.suite.case import Side
from ladder.suite.nets import goldens
from ladder.suite.nets.cases import FAMILIES
from ladder.suite.nets.cases import split as split_net
from ladder.suite.nets.running import TRACER as NETS
from ladder.suite.nets.running import statistics
from ladder.suite.operators.cases import split
from ladder.suite.operators.running import TRACER as OPERATORS

TIMES, APART = 3.0, 10.0
# No bound of an operator is below twice the unit roundoff of its dtype: XLA on the CPU leaves some results unrounded,
# which no other platform owes us. float32 has no wider type for what is between: sixteen times.
LEAST = {"float32": 16 * 2.0**-24, "float16": 2 * 2.0**-11, "bfloat16": 2 * 2.0**-8}
LIMIT_S = 3600.0
FREE = ("precision",)  # held against the profile's class, not a tolerance
Metrics = dict[str, float]
Groups = dict[tuple[str, str, str], dict[str, Metrics]]  # kind, group, dtype -> platform -> metrics


def measure(platform: str, names: list[str]) -> None:
    """The child: a line of JSON a test, {test, metrics}, on standard output."""
    profile = profile_for(platform, None)
    lowerer = lowerers.functions(profile.lowerer, profile.jax_platform)
    for tracer in (OPERATORS, NETS):
        mine = [name for name in names if name.startswith("net-") == (tracer == NETS)]
        functions = exported.Batches(tracer, mine, profile.jax_platform)
        for name in mine:
            try:
                function = functions[name]
                found = lowerer.function(function.plain)(function.inputs)
                metrics = (
                    _net(name, function.inputs, found) if tracer == NETS else _operator(platform, name, found, function)
                )
            except LadderError as error:
                print(json.dumps({"test": name, "error": str(error)}), flush=True)
                continue
            if metrics:
                print(json.dumps({"test": name, "metrics": metrics}), flush=True)


def _net(name: str, inputs: goldens.Arrays, found: goldens.Arrays) -> Metrics:
    net, _ = split_net(name)
    return statistics(goldens.errors(goldens.summaries(net, inputs, found), goldens.read(net)))


def _operator(platform: str, name: str, found: numerics.Arrays, function: exported.Exported) -> Metrics:
    """Empty where every output is documented to differ."""
    documented = {d.output for d in numerics.differences(platform, name)}
    errors = [e for e in numerics.compare(found, function.reference) if e.output not in documented]
    if not errors:
        return {}
    for e in sorted(errors, key=lambda e: -e.l2)[:3]:
        print(f"{name} {e.output}: {e.l2:.2g}, {e.largest:.2g}", file=sys.stderr)
    return {"l2": max(e.l2 for e in errors), "largest": max(e.largest for e in errors), "n": len(errors)}


def measured(platform: str, names: list[str]) -> dict[str, Metrics]:
    """Each test's metrics on a platform. Raises LadderError when the child does not come to its end."""
    profile = profile_for(platform, None)
    env = children.environment({**os.environ, **profile.environment})
    failing = {line.test for line in expectations.load(platform, ()).values() if line.state == "fail"}
    names = [name for name in names if name not in failing]
    argv = [*children.command("ladder.suite.calibrate"), "--measure", platform, "--only", ",".join(names)]
    ended = children.run(argv, LIMIT_S, env)
    print(ended.errors, file=sys.stderr)
    lines = [json.loads(line) for line in ended.output.splitlines() if line.startswith("{")]
    if errors := [line for line in lines if "error" in line]:
        print("\n".join(f"{platform} {e['test']}: {e['error']}" for e in errors), file=sys.stderr)
    if ended.code != 0:
        last = (ended.errors.strip().splitlines() or ["no output"])[-1]
        raise LadderError(f"measuring {platform} failed ({ended.how}): {last}")
    return {line["test"]: line["metrics"] for line in lines if "metrics" in line}


def kept() -> Groups:
    """What tolerances.toml holds already, for what is not measured now."""
    groups: Groups = {}
    for kind, label in (("operator", "operator"), ("net", "family")):
        for e in numerics.entries(numerics.TOLERANCES, kind) if numerics.TOLERANCES.exists() else ():
            found = groups.setdefault((kind, e[label], e["dtype"]), {})
            found |= {platform: {**clean, "n": e["n"]} for platform, clean in e["clean"].items()}
    return groups


def entries(values: Mapping[str, Mapping[str, Metrics]], old: Groups) -> Iterable[tuple[str, dict[str, Any]]]:
    """The tables of tolerances.toml from each platform's metrics, in place of the old ones: kind, and its fields."""
    new: Groups = {}
    for platform, tests in values.items():
        for name, metrics in tests.items():
            if name in FREE:
                continue
            if name.startswith("net-"):
                net, dtype = split_net(name)
                key = ("net", FAMILIES[net], dtype)
            else:
                key = ("operator", *split(name))
            so_far = new.setdefault(key, {}).get(platform, {})
            new[key][platform] = {k: max(v, so_far.get(k, 0.0)) for k, v in metrics.items()}
    groups = {key: {**old.get(key, {}), **new.get(key, {})} for key in old.keys() | new.keys()}
    for (kind, group, dtype), by_platform in sorted(groups.items(), key=lambda g: (g[0][0] != "operator", g[0])):
        least = LEAST[dtype] if kind == "operator" else 0.0
        for platforms in split_apart(dict(sorted(by_platform.items())), least):
            chosen = {p: by_platform[p] for p in platforms}
            names = [k for k in next(iter(chosen.values())) if k != "n"]
            label = "family" if kind == "net" else "operator"
            own = "" if platforms[0] == min(by_platform) else platforms[0]
            yield (
                kind,
                {
                    label: group,
                    "dtype": dtype,
                    "platform": own,
                    **{k: bound(max(m[k] for m in chosen.values()), least) for k in names},
                    "clean": {p: {k: float(f"{m[k]:.2g}") for k in names} for p, m in chosen.items()},
                    "n": int(next(iter(chosen.values()))["n"]),
                },
            )


def split_apart(by_platform: Mapping[str, Metrics], least: float) -> list[list[str]]:
    """The platforms that share an entry: those within APART of the first on every metric; each other has its own."""
    first, *others = by_platform
    base = {k: max(v, least / TIMES) if v else 0.0 for k, v in by_platform[first].items()}
    far = [p for p in others if any(v > APART * base[k] for k, v in by_platform[p].items() if k != "n")]
    return [[first, *(p for p in others if p not in far)], *([p] for p in far)]


def bound(clean: float, least: float = 0.0) -> float:
    """TIMES the clean value, to two digits, upwards; 0 stays 0: what is exact must be exact."""
    if not clean:
        return 0.0
    value = max(TIMES * clean, least)
    scale = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / scale) * scale:.2g}")


def text(made: Iterable[tuple[str, dict[str, Any]]]) -> str:
    """tolerances.toml."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("jax", "iree-base-compiler"))
    date = datetime.now(UTC).date().isoformat()
    lines = [
        "# Made by `python -m ladder.suite.calibrate`; see there. Not edited by hand.",
        f"# {paths.box()}, {os.cpu_count()} cores, {versions}, {date}; n: outputs measured, one draw of inputs each.",
    ]
    for kind, fields in made:
        lines += ["", f"[[{kind}]]", *(f"{k} = {_toml(v)}" for k, v in fields.items())]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + " }"
    return json.dumps(value)


def main() -> None:
    """See the module."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--check", action="store_true")
    p.add_argument("--platforms", default="cpu,iree-cpu")
    p.add_argument("--only", default="")
    p.add_argument("--measure", default="", help=argparse.SUPPRESS)
    args = p.parse_args()
    side = Side("cpu", "xla", "cpu", 1)
    names = [c.name for c in (*operators.cases(side), *nets.cases(side))]
    if args.only:
        names = [n for n in args.only.split(",") if n]
    if args.measure:
        return measure(args.measure, names)
    values = {platform: measured(platform, names) for platform in args.platforms.split(",")}
    if args.check:
        sys.exit(check(values))
    numerics.TOLERANCES.write_text(text(entries(values, kept())), "utf-8")
    return None


def check(values: Mapping[str, Mapping[str, Metrics]]) -> int:
    """Whether every clean value is within its bound; 1 when one is not, each told."""
    wrong = 0
    for platform, tests in values.items():
        for name, metrics in tests.items():
            if name in FREE:
                continue
            net = name.startswith("net-")
            kind, (group, dtype) = ("net", split_net(name)) if net else ("operator", split(name))
            allowed = numerics.bounds(kind, FAMILIES[group] if net else group, dtype, platform)
            over = [k for k, v in metrics.items() if k != "n" and not v <= allowed[k]]
            for k in over:
                print(f"{platform} {name}: {k} is {metrics[k]:.3g}, its bound {allowed[k]:g}", file=sys.stderr)
            wrong |= bool(over)
    return int(wrong)


if __name__ == "__main__":
    try:
        main()
    except LadderError as error:
        sys.exit(str(error))
