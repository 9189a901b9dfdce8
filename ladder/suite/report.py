"""What a suite run shows to people: one line a test on the terminal, in REPORT.md and in Prefect."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ladder.records import Record, ResultRow
from ladder.report import markdown
from ladder.suite.expectations import ORDER, RED

Row = dict[str, str]
FACTS = ("rung", "box", "profile", "lowerer", "started", "finished", "word")


def table(results: Sequence[ResultRow]) -> list[Row]:
    """One row a test, every cell a string."""
    return [
        {
            "test": r.test,
            "tier": str(r.tier),
            "status": r.status,
            "measured": "" if r.measured is None else f"{r.measured:.3g}",
            "bound": "" if r.bound is None else f"{r.bound:.3g}",
            "seconds": f"{r.seconds:.1f}",
            "detail": r.detail,
        }
        for r in results
    ]


def counts(results: Sequence[ResultRow]) -> str:
    """`22 pass, 2 skip`."""
    found = Counter(r.status for r in results)
    return ", ".join(f"{found[state]} {state}" for state in ORDER if found[state]) or "no test"


def red(results: Sequence[ResultRow]) -> list[str]:
    """A line for each result that makes a run red."""
    return [f"{r.test} {r.status}: {r.detail or 'no detail'}" for r in results if r.status in RED]


def command(manifest: Mapping[str, Any]) -> str:
    """The command that would run this again."""
    request = manifest["request"]
    options = {
        "--tier": ",".join(map(str, request["tiers"])),
        "--only": ",".join(request["only"]),
        "--platform": manifest["profile"],
        "--devices": request["devices"],
    }
    return " ".join(("ladder run suite", *(f"{k} {v}" for k, v in options.items() if v not in ("", None))))


def report_markdown(record: Record) -> str:
    """REPORT.md: what is red first, then the paste-ready diff, every test, and what it ran on."""
    m = record.manifest
    lines = [f"# {m['name']}: {m.get('word') or record.state}", ""]
    if virtual := m.get("virtual_devices"):
        lines += [f"**{virtual} virtual devices, made of the host's cores: this run counts for no hardware.**", ""]
    lines += [", ".join(f"{key} {m[key]}" for key in FACTS if m.get(key)), "", f"{counts(record.results)}.", ""]
    lines += [f"- **{line}**" for line in red(record.results)]
    if m.get("expectations_diff"):
        lines += ["", "If these are known and accepted, paste this into the expectation file, with the reason:", ""]
        lines += ["```diff", m["expectations_diff"], "```"]
    lines += [
        "",
        "## Tests",
        "",
        markdown(table(record.results)),
        "",
        "## What was run",
        "",
        f"- again: `{command(m)}`",
    ]
    for half, what in (("core", "this repository"), ("platform", "what the box supplied")):
        lines += ["", f"### {half}: {what}", ""]
        facts: Mapping[str, Any] = m.get(half) or {}
        lines += [f"- {key}: {value}" for key, value in facts.items() if value not in ({}, [], None)]
    return "\n".join(lines).rstrip() + "\n"
