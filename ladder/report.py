"""What a run shows to people: verdict and final tables for a terminal, REPORT.md and Prefect, and accuracy curves.

Scores are per cent of the test images. An interval beside a single final is Wilson's, of the images; the standard
deviation is over seeds. The two are different quantities.
"""

import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ladder.pool.events import Event
from ladder.records import FinalRow, Record
from ladder.references import Match, Reference
from ladder.verdict import Judgement, wilson

Row = dict[str, str]
FACTS = ("rung", "box", "profile", "lowerer", "started", "finished", "word")
TERMINAL = ("net", "arm", "verdict", "seeds", "mean %", "sd", "reference", "its mean %", "min / median / max", "margin")


def verdict_table(judgements: Sequence[Judgement | Mapping[str, Any]], finals: Sequence[FinalRow] = ()) -> list[Row]:
    """One row a net and arm, every cell a string as people read it; with finals, the counts themselves too."""
    rows: list[Row] = []
    for judgement in judgements:
        j = asdict(judgement) if isinstance(judgement, Judgement) else judgement
        own = [f for f in finals if (f.net, f.arm) == (j["net"], j["arm"])]
        rows.append({**verdict_row(j), **({"finals": " ".join(_score(f) for f in own)} if finals else {})})
    return rows


def verdict_row(j: Mapping[str, Any]) -> Row:
    """A judgement's figures, in words and rounded."""
    tests = (f"{t['test']} {t['raw'] if t['holm'] is None else t['holm']:.3g}" for t in j.get("tests", ()))
    return {
        "net": j["net"],
        "arm": j["arm"],
        "verdict": str(j["word"]),
        "why": j["reason"],
        "seeds": str(j["m"]),
        "mean %": _number(j["mean"]),
        "sd": _number(j["sd"], 3),
        "reference": f"{j['reference_name']} (n={j['n']})" if j.get("reference_name") else "none",
        "its mean %": _number(j["reference_mean"]),
        "its sd": _number(j["reference_sd"], 3),
        "min / median / max": " / ".join(f"{x:g}" for x in j["range"]) if j["range"] else "",
        "outside by": ", ".join(f"{x:+d}" for x in j["outside"]) or "none",
        "margin": f"{j['margin']:g}" if j["margin"] else "exact",
        "p": ", ".join(tests),
        "more seeds": "" if j["more_seeds"] is None else str(j["more_seeds"]),
        "notes": "; ".join(j["notes"]),
    }


def told(j: Mapping[str, Any]) -> str:
    """A judgement's reason, and the notes that the reason does not hold already."""
    return ". ".join((j["reason"], *(note for note in j["notes"] if note not in j["reason"]))) + "."


def finals_table(finals: Sequence[FinalRow | Mapping[str, Any]]) -> list[Row]:
    """One row a trial, its score with Wilson's 95 % interval."""
    rows: list[Row] = []
    for final in finals:
        f = asdict(final) if isinstance(final, FinalRow) else final
        correct, total = f["correct"], f["total"]
        low, high = wilson(correct, total) if correct is not None else (0.0, 0.0)
        rows.append(
            {
                "net": f["net"],
                "arm": f["arm"],
                "seed": str(f["seed"]),
                "status": f["status"],
                "correct": "-" if correct is None else f"{correct}/{total}",
                "%": "-" if correct is None else f"{100 * correct / total:.2f}",
                "95 % of images": "-" if correct is None else f"{100 * low:.2f}-{100 * high:.2f}",
                "train loss": "-" if f["train_loss"] is None else f"{f['train_loss']:.4g}",
                "epochs": str(f["epochs"]),
                "compile s": f"{f['compile_s']:.1f}",
                "train s": f"{f['train_s']:.1f}",
                "attempts": str(f["attempts"]),
                "note": f["note"],
            }
        )
    return rows


def matches(record: Record, references: Sequence[Reference]) -> dict[str, Match]:
    """The reference that each recipe hash of a run was held against, as its manifest names it."""
    named: Mapping[str, str] = record.manifest.get("references") or {}
    found = {p.hash: Match(r, p) for r in references for p in r.parts if p.hash and named.get(p.hash) == r.name}
    return {str(h): match for h, match in found.items()}


def report_markdown(record: Record, references: Sequence[Reference] = ()) -> str:
    """REPORT.md: the verdicts with their reasons, every final, what the references differ in, and what was run."""
    m = record.manifest
    verdicts: list[Mapping[str, Any]] = m.get("verdicts") or []
    lines = [f"# {m['name']}: {m.get('word') or record.state}", ""]
    if m.get("fault"):
        lines += [f"**The fault `{m['fault']}` was injected: this run is no evidence about the box.**", ""]
    lines += [", ".join(f"{key} {m[key]}" for key in FACTS if m.get(key)), "", "## Verdicts", ""]
    lines += [markdown(verdict_table(verdicts, record.finals), leave_out=("why", "notes")), ""]
    lines += [f"- **{v['net']} {v['arm']}: {v['word']}.** {told(v)}" for v in verdicts]
    lines += _alarms(m)
    lines += ["", "## Finals", "", markdown(finals_table(record.finals)), ""]
    lines += _differences(record, references)
    lines += ["## What was run", "", f"- again: `{command(m)}`"]
    lines += [f"- data: {', '.join(f'{k} {v}' for k, v in m['data'].items() if isinstance(v, str | int))}"]
    programs: Mapping[str, Any] = m.get("programs") or {}
    for recipe in m["recipes"]:
        found = programs.get(recipe["hash"], {})
        program = found.get("sha", "unknown")
        lines.append(
            f"- {recipe['net']}-{recipe['arm']}: recipe `{recipe['hash']}`, program `{program}`{_variant(found)}"
        )
    for half, what in (("core", "this repository"), ("platform", "what the box supplied")):
        lines += ["", f"### {half}: {what}", ""]
        facts: Mapping[str, Any] = m.get(half) or {}
        lines += [f"- {key}: {_words(value)}" for key, value in facts.items() if value not in ({}, [], None)]
    return "\n".join(lines).rstrip() + "\n"


def _variant(program: Mapping[str, Any]) -> str:
    variant, plain = program.get("variant", "plain"), program.get("plain_sha")
    return "" if variant == "plain" else f", variant {variant} of plain program `{plain}`"


def _alarms(manifest: Mapping[str, Any]) -> list[str]:
    """The early alarms, how often a healthy run has one, and what was not watched; nothing of a run from before."""
    if not (watch := manifest.get("alarm")):
        return []
    unwatched = [f"{r['net']}-{r['arm']}" for r in manifest["recipes"] if r["hash"] not in watch["watched"]]
    lines = [
        f"- {Event('alarm', -1, 0.0, f'{a["net"]}-{a["arm"]}-s{a["seed"]}', 0, a).line()}" for a in manifest["alarms"]
    ]
    rate = f"A healthy run has one with a probability of {100 * watch['rate']:g} % at most; it is no part of a verdict."
    count = f"{len(lines) or 'No'} early alarm{'s' if len(lines) != 1 else ''}. {rate}" if watch["watched"] else ""
    without = f"Not watched, for want of a reference with epoch curves: {', '.join(unwatched)}." if unwatched else ""
    return ["", "## Early alarms", "", " ".join(filter(None, (count, without))), *([""] if lines else []), *lines]


def _differences(record: Record, references: Sequence[Reference]) -> list[str]:
    """Where a published reference's recipe is known to differ from ours."""
    arms: dict[tuple[str, str], list[str]] = {}
    for match in matches(record, references).values():
        facts = match.reference.facts
        where = f"{match.reference.name} ({facts.get('repository')} {facts.get('source')})"
        for difference in match.part.differences:
            arms.setdefault((where, difference), []).append(f"{match.part.net}-{match.part.arm}")
    lines = [f"- {where}, {', '.join(of)}: {difference}" for (where, difference), of in arms.items()]
    return ["## Where the references differ from our recipes", "", *lines, ""] if lines else []


def command(manifest: Mapping[str, Any]) -> str:
    """The command that would run this again."""
    request = manifest["request"]
    seeds = ",".join(str(seed) for seed in request["seeds"])
    parts = max((recipe.get("accumulate", 1) for recipe in manifest["recipes"]), default=1)
    options = {
        "--nets": ",".join(request.get("nets") or ()),
        "--arms": ",".join(request.get("arms") or ()),
        "--seeds": seeds,
        "--platform": manifest["profile"],
        "--epochs": request.get("epochs"),
        "--fault": manifest.get("fault"),
        "--accumulate": parts if parts > 1 else None,
    }
    return " ".join((f"ladder run {manifest['rung']}", *(f"{k} {v}" for k, v in options.items() if v)))


def markdown(rows: Sequence[Row], leave_out: Sequence[str] = ()) -> str:
    """A markdown table of rows that share their keys; `none` without rows."""
    if not rows:
        return "none"
    keys = [key for key in rows[0] if key not in leave_out]
    lines = [keys, ["---"] * len(keys), *([row[key] for key in keys] for row in rows)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def curves_png(record: Record, references: Sequence[Reference] = ()) -> bytes:
    """Test accuracy by epoch as a PNG 900 pixels wide: a faint line a seed over the reference's min-max band."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    cells = list(dict.fromkeys((e.net, e.arm) for e in record.epochs)) or [("no epoch", "yet")]
    against = {(m.part.net, m.part.arm): m for m in matches(record, references).values()}
    columns = min(3, len(cells))
    rows = -(-len(cells) // columns)
    figure = Figure(figsize=(9, 0.5 + 3.2 * rows), dpi=100, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    panels = figure.subplots(rows, columns, squeeze=False).flat
    for panel, (net, arm) in zip(panels, cells, strict=False):
        _panel(panel, record, net, arm, against.get((net, arm)))
    for empty in list(panels):
        empty.set_axis_off()
    figure.suptitle(f"{record.manifest['name']}: {record.manifest.get('word') or record.state}", fontsize=11)
    buffer = io.BytesIO()
    canvas.print_png(buffer)
    return buffer.getvalue()


def _panel(panel: Any, record: Record, net: str, arm: str, match: Match | None) -> None:
    if match and (curves := [f.epoch_correct for f in match.part.finals if f.epoch_correct and not f.diverged]):
        epochs = range(1, 1 + min(len(curve) for curve in curves))
        at = [[100 * curve[e - 1] / match.part.total for curve in curves] for e in epochs]
        label = f"{match.reference.name} min-max, {len(curves)} of {len(match.part.finals)} seeds"
        low, high = [min(scores) for scores in at], [max(scores) for scores in at]
        panel.fill_between(epochs, low, high, color="tab:orange", alpha=0.35, linewidth=1.2, label=label)
    trials: dict[int, dict[int, float]] = {}
    for e in record.epochs:
        if (e.net, e.arm) == (net, arm):
            trials.setdefault(e.seed, {})[e.epoch] = 100 * e.correct / e.total
    label = f"this run, {len(trials)} seed{'s' if len(trials) != 1 else ''}"
    for curve in trials.values():
        epochs = sorted(curve)
        panel.plot(
            epochs, [curve[e] for e in epochs], color="tab:blue", alpha=0.5, linewidth=1, marker=".", label=label
        )
        label = "_"
    panel.set_title(f"{net} {arm}", fontsize=10)
    panel.set_xlabel("epoch", fontsize=9)
    panel.set_ylabel("test accuracy, %", fontsize=9)
    panel.xaxis.get_major_locator().set_params(integer=True)
    panel.tick_params(labelsize=8)
    panel.grid(alpha=0.25)
    if panel.get_legend_handles_labels()[0]:
        panel.legend(fontsize=7, loc="best")


def _words(value: Any) -> str:
    """A manifest's value on one line."""
    return ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, Mapping) else str(value)


def _score(final: FinalRow) -> str:
    return str(final.correct) if final.correct is not None and final.status == "done" else final.status


def _number(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value:.{digits}f}"
