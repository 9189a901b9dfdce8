"""Records as a run writes them, without training: through the real writer, with verdicts from the real judge."""

import itertools
import json
import uuid
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ladder import paths, records, references
from ladder.judging import cells
from ladder.recipes import Recipe, mnist
from ladder.records import EpochRow, FinalRow, TrialStatus
from ladder.report import report_markdown
from ladder.verdict import judge, run_word

SCORES = {"linear": (9210, 9210, 9210), "mlp": (9771, 9780, 9768)}
SECONDS = itertools.count()


def recipes(nets: Sequence[str] = tuple(SCORES)) -> tuple[Recipe, ...]:
    return tuple(r for r in mnist.recipes() if r.net in nets)


def final(recipe: Recipe, seed: int, correct: int | None, status: TrialStatus = "done", **changed: Any) -> FinalRow:
    row = FinalRow(
        net=recipe.net,
        arm=recipe.arm,
        seed=seed,
        status=status,
        correct=correct,
        total=recipe.data.test,
        top5=None if correct is None else min(recipe.data.test, correct + 100),
        train_loss=None if correct is None else 0.0125 * seed,
        epochs=2,
        lowerer="xla",
        recipe_hash=recipe.hash,
        program_sha="sha256:" + "ab" * 32,
        data_identity=recipe.data.identity,
        attempts=1,
        compile_s=0.5,
        train_s=2.25,
        finished="2026-12-01T00:00:09Z",
        note="" if status == "done" else f"it was {status}",
    )
    return replace(row, **changed)


def epochs(row: FinalRow) -> list[EpochRow]:
    correct = row.correct or 1000
    return [
        EpochRow(row.net, row.arm, row.seed, n, loss, score, row.total, row.total, 0.1, 1.5, 1)
        for n, loss, score in ((1, 0.5, correct - 300), (2, None if row.status == "diverged" else 0.1, correct))
    ]


def manifest(used: Sequence[Recipe], seeds: Sequence[int], **changed: Any) -> dict[str, Any]:
    """A manifest as ladder.manifests writes it; every call starts a second later than the last."""
    known = references.load_all()
    matches = {r.hash: references.find(r, known) for r in used}
    made = {
        "uuid": str(uuid.uuid4()),
        "rung": "mnist",
        "box": "testbox",
        "profile": "cpu",
        "lowerer": "xla",
        "fault": None,
        "state": "partial",
        "started": f"2026-12-01T{(n := next(SECONDS)) // 3600:02d}:{n // 60 % 60:02d}:{n % 60:02d}Z",
        "request": {"rung": "mnist", "nets": [], "arms": [], "seeds": list(seeds), "epochs": None},
        "recipes": [{"hash": r.hash, **r.to_json()} for r in used],
        "programs": {r.hash: {"sha": "sha256:" + "ab" * 32, "versions": {"jax": "0.12.0"}} for r in used},
        "references": {h: m.reference.name for h, m in matches.items() if m},
        "data": {"name": "mnist", "identity": used[0].data.identity, "source": "IDX files", "decoder": "idx 1"},
        "core": {"ladder": "0.1.0", "commit": "c" * 40, "dirty": False},
        "platform": {"profile": "cpu", "processor": "a CPU", "cores": 2, "packages": {"jax": "0.12.0"}},
        "devices": [],
    }
    return json.loads(json.dumps({**made, **changed}))


def partial(rows: Sequence[FinalRow], used: Sequence[Recipe] = (), **changed: Any) -> records.Writer:
    """A run in progress: its writer holds the owner lock until it is closed."""
    used = used or recipes()
    writer = records.Writer.create(paths.runs(), manifest(used, sorted({r.seed for r in rows}) or [1], **changed))
    for row in rows:
        for epoch in epochs(row):
            writer.epoch(epoch)
        writer.final(row)
    return writer


def complete(rows: Sequence[FinalRow], used: Sequence[Recipe] = (), **changed: Any) -> Path:
    """A complete, judged record."""
    used = used or recipes()
    writer = partial(rows, used, **changed)
    known = references.load_all()
    matches = {r.hash: m for r in used if (m := references.find(r, known))}
    judgements = judge(cells(used, rows, matches))
    facts = {"finished": "2026-12-01T12:00:00Z", "word": str(run_word(judgements))}
    writer.update(**facts, verdicts=[asdict(j) for j in judgements])
    return writer.complete(report_markdown(records.read(writer.path), known))


def healthy(shift: int = 0, **changed: Any) -> Path:
    """linear and mlp at three seeds inside the published range, plus `shift` images."""
    rows = [final(r, seed, SCORES[r.net][seed - 1] + shift) for r in recipes() for seed in (1, 2, 3)]
    return complete(rows, **changed)
