"""What a run shows in Prefect's UI: its progress, its verdict table, its accuracy curves."""

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)

from flows.link import Link
from ladder import paths, references, report
from ladder.pool.events import Event
from ladder.records import EpochRow, Record
from ladder.run import Outcome


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


def show_verdicts(link: Link, name: str, outcome: Outcome, record: Record, summary: str) -> None:
    """The verdict table, a row per net and arm, the columns that decide first; above it the reasons."""
    rows = report.verdict_table(outcome.judgements, record.finals)
    table = [{**{head: row[head] for head in report.TERMINAL}, **row} for row in rows]
    why = [f"- **{j.net} {j.arm}: {j.word}.** {'. '.join((j.reason, *j.notes))}." for j in outcome.judgements]
    text = "\n".join((summary, "", *why))
    link.attempt(lambda: create_table_artifact(table, key("verdict", name), text))


def show_curves(link: Link, name: str, record: Record) -> None:
    """Test accuracy by epoch: the picture, in the page itself, over a table with a row per trial."""
    picture = base64.b64encode(report.curves_png(record, references.load_all())).decode()
    text = f"### {record.path.name}: test accuracy in % by epoch\n\n![curves](data:image/png;base64,{picture})"
    text += f"\n\n{report.markdown(curve_table(record.epochs))}\n"
    link.attempt(lambda: create_markdown_artifact(text, key("curves", name)))


def curve_table(epochs: Sequence[EpochRow]) -> list[dict[str, str]]:
    """A row per trial; where an epoch was run twice, after a resume, the later one counts."""
    curves: dict[tuple[str, str, int], dict[int, str]] = {}
    for row in epochs:
        curves.setdefault((row.net, row.arm, row.seed), {})[row.epoch] = f"{100 * row.correct / row.total:.2f}"
    last = max((row.epoch for row in epochs), default=0)
    return [
        {"net": net, "arm": arm, "seed": str(seed)} | {str(n): curve.get(n, "") for n in range(1, last + 1)}
        for (net, arm, seed), curve in curves.items()
    ]
