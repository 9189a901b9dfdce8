"""What a run shows in Prefect's UI: its progress, its verdict table, its accuracy curves."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)

from flows.link import Link
from ladder import paths
from ladder.pool.events import Event
from ladder.records import EpochRow
from ladder.verdict import Judgement


def key(*parts: str) -> str:
    """An artifact key: lower case letters, digits, dashes; the same for the next such run of this box: a history."""
    return re.sub(r"[^a-z0-9]+", "-", "-".join((*parts, paths.box())).lower()).strip("-")


@dataclass
class Progress:
    """The share of a run's epochs that is done. Told from the flow's thread, by `show`, whenever it changed."""

    link: Link
    name: str
    epochs: Mapping[str, int]  # of each trial
    reached: dict[str, int] = field(default_factory=dict[str, int])
    shown: float = -1.0
    artifact: UUID | None = None

    def note(self, event: Event) -> None:
        """Take an event of a trial into account. From any thread."""
        if event.type == "epoch":
            self.reached[event.trial] = event.data["epoch"]

    def finish(self, trial: str) -> None:
        """The trial ended, early or not."""
        self.reached[trial] = self.epochs[trial]

    def show(self) -> None:
        """Bring the artifact up to date."""
        percent = round(100 * sum(self.reached.values()) / max(sum(self.epochs.values()), 1), 1)
        if percent == self.shown:
            return
        self.shown = percent
        if self.artifact is None:
            text = f"{self.name}: epochs of all trials"
            name = key("progress", self.name)
            made = self.link.attempt(lambda: create_progress_artifact(percent, name, text))
            self.artifact = made if isinstance(made, UUID) else None
        elif artifact := self.artifact:
            self.link.attempt(lambda: update_progress_artifact(artifact, progress=percent))


def show_verdicts(link: Link, name: str, judgements: Sequence[Judgement], summary: str) -> None:
    """The verdict table, a row per net and arm."""
    rows = [verdict_row(judgement) for judgement in judgements]
    link.attempt(lambda: create_table_artifact(rows, key("verdict", name), summary))


def verdict_row(j: Judgement) -> dict[str, str]:
    """One row of the verdict table, every cell a string as people read it."""
    return {
        "net": j.net,
        "arm": j.arm,
        "verdict": str(j.word),
        "why": j.reason,
        "seeds": str(j.m),
        "mean %": _number(j.mean),
        "sd": _number(j.sd, 3),
        "reference": j.reference_name or "none",
        "its seeds": str(j.n),
        "its mean %": _number(j.reference_mean),
        "min / median / max": " / ".join(f"{x:g}" for x in j.range) if j.range else "",
        "outside by": ", ".join(f"{x:+d}" for x in j.outside) or "none",
        "margin": f"{j.margin:g}",
        "p": ", ".join(f"{p.test} {p.raw if p.holm is None else p.holm:.3g}" for p in j.tests),
        "more seeds": "" if j.more_seeds is None else str(j.more_seeds),
        "notes": "; ".join(j.notes),
    }


def _number(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def show_curves(link: Link, name: str, epochs: Sequence[EpochRow], image: str = "") -> None:
    """Test accuracy by epoch, a row per trial; under the picture of it, if there is one (a data: address)."""
    text = f"# {name}: test accuracy in % by epoch\n\n" + (f"![accuracy by epoch]({image})\n\n" if image else "")
    text += curve_table(epochs)
    link.attempt(lambda: create_markdown_artifact(text, key("curves", name)))


def curve_table(epochs: Sequence[EpochRow]) -> str:
    """A markdown table; where an epoch was run twice, after a resume, the later one counts."""
    curves: dict[tuple[str, str, int], dict[int, str]] = {}
    for row in epochs:
        curves.setdefault((row.net, row.arm, row.seed), {})[row.epoch] = f"{100 * row.correct / row.total:.2f}"
    last = max((row.epoch for row in epochs), default=0)
    head: list[Any] = ["net", "arm", "seed", *range(1, last + 1)]
    lines = [head, ["---"] * len(head)]
    lines += [[*trial, *(curve.get(n, "") for n in range(1, last + 1))] for trial, curve in sorted(curves.items())]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines) + "\n"
