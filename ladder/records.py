"""Records: a run's directory is the evidence; the database is an index that can be rebuilt from it.

    runs/.partial/<uuid>/   until complete: every line is appended whole and fsynced
    runs/<name>/            complete (renamed); `ladder keep` moves it to runs/kept/<name>/

    manifest.json   schema, the run's facts, *core* (this repo) and *platform* (what the box supplied), verdicts
    finals.tsv      one line a trial
    epochs.jsonl    one line an epoch of a trial
    REPORT.md       for people
"""

from dataclasses import dataclass
from typing import Literal

SCHEMA = 1

TrialStatus = Literal["done", "diverged", "crashed", "timeout", "unsupported", "not-run"]


@dataclass(frozen=True)
class FinalRow:
    """One trial's line of finals.tsv. `correct` of `total` is the last epoch's test score, never the best epoch's.

    A trial that gave no final (crashed, timeout, unsupported, not-run) has `correct`, `top5` and `train_loss` None.
    `lowerer` is the full spelling, a fault included: `xla`, `iree`, `faulty(xla, scaled-gradient=1.05)`.
    """

    net: str
    arm: str
    seed: int
    status: TrialStatus
    correct: int | None
    total: int
    top5: int | None
    train_loss: float | None
    epochs: int
    lowerer: str
    recipe_hash: str
    program_sha: str
    data_identity: str
    attempts: int
    compile_s: float
    train_s: float
    finished: str  # UTC, ISO 8601, seconds
    note: str = ""


@dataclass(frozen=True)
class EpochRow:
    """One line of epochs.jsonl: a trial's epoch (1-based), mean train loss, and test score."""

    net: str
    arm: str
    seed: int
    epoch: int
    train_loss: float | None  # None: not finite
    correct: int
    total: int
    top5: int
    lr: float  # of the epoch's last step
    seconds: float
    attempt: int
