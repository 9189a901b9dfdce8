"""The tables of the store: an index of records and references, rebuilt from `runs/` at any time.

Scores are images correct of images scored; losses are nats; times are seconds; dates are UTC, ISO 8601. A loss that was
not finite is null.
"""

from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, MetaData, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

HEAD = "0001"  # the newest migration; a test holds it to ladder/store/migrations
NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}
RUN = "run.uuid"


class Base(DeclarativeBase):
    """Constraint names are fixed, so that a later migration can name what it drops."""

    metadata = MetaData(naming_convention=NAMES)


class Run(Base):
    """One rung on one box. `platform` is the profile's name; `folder` is where under `runs/` its record lies."""

    __tablename__ = "run"
    uuid: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    rung: Mapped[str]
    box: Mapped[str]
    platform: Mapped[str]
    lowerer: Mapped[str]
    fault: Mapped[str | None]
    state: Mapped[str]  # running, interrupted, complete
    folder: Mapped[str]  # "", .partial, kept, published
    started: Mapped[str] = mapped_column(index=True)
    finished: Mapped[str | None]
    word: Mapped[str | None]  # the verdict
    manifest: Mapped[dict[str, Any]] = mapped_column(JSON)


class Trial(Base):
    """One recipe at one seed: every column of finals.tsv."""

    __tablename__ = "trial"
    __table_args__ = (UniqueConstraint("run", "recipe_hash", "seed"), Index(None, "recipe_hash"))
    id: Mapped[int] = mapped_column(primary_key=True)
    run: Mapped[str] = mapped_column(ForeignKey(RUN, ondelete="CASCADE"))
    position: Mapped[int]  # the line in finals.tsv, from 0
    net: Mapped[str]
    arm: Mapped[str]
    seed: Mapped[int]
    status: Mapped[str]
    correct: Mapped[int | None]
    total: Mapped[int]
    top5: Mapped[int | None]
    train_loss: Mapped[float | None]
    epochs: Mapped[int]
    lowerer: Mapped[str]
    recipe_hash: Mapped[str]
    program_sha: Mapped[str]
    data_identity: Mapped[str]
    attempts: Mapped[int]
    compile_s: Mapped[float]
    train_s: Mapped[float]
    finished: Mapped[str]
    note: Mapped[str]


class Epoch(Base):
    """A trial's epoch, from 1. Of an epoch that was run again after a crash, the later attempt."""

    __tablename__ = "epoch"
    trial: Mapped[int] = mapped_column(ForeignKey("trial.id", ondelete="CASCADE"), primary_key=True)
    epoch: Mapped[int] = mapped_column(primary_key=True)
    train_loss: Mapped[float | None]
    correct: Mapped[int]
    total: Mapped[int]
    top5: Mapped[int]
    lr: Mapped[float]
    seconds: Mapped[float]
    attempt: Mapped[int]


class Verdict(Base):
    """The judgement of one net and arm of a run; `judgement` holds every figure (ladder.verdict.Judgement)."""

    __tablename__ = "verdict"
    run: Mapped[str] = mapped_column(ForeignKey(RUN, ondelete="CASCADE"), primary_key=True)
    net: Mapped[str] = mapped_column(primary_key=True)
    arm: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int]  # the order in which the run judged
    word: Mapped[str]
    reason: Mapped[str]
    reference: Mapped[str]  # its name, or ""
    judgement: Mapped[dict[str, Any]] = mapped_column(JSON)


class Reference(Base):
    """A named, immutable set of finals. `content` is the SHA-256 of what its text says, `facts` where it comes from.

    `text_sha` is the SHA-256 of the files it was indexed from, the bindings included.
    """

    __tablename__ = "reference"
    name: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str]  # published, measured
    date: Mapped[str]
    platform: Mapped[str]
    lowerer: Mapped[str]
    content: Mapped[str]
    text_sha: Mapped[str]
    facts: Mapped[dict[str, Any]] = mapped_column(JSON)


class ReferenceRecipe(Base):
    """One net and arm of a reference. Without a recipe hash it is waiting for its recipe: `waiting` says why."""

    __tablename__ = "reference_recipe"
    __table_args__ = (UniqueConstraint("reference", "net", "arm"), Index(None, "recipe_hash"))
    id: Mapped[int] = mapped_column(primary_key=True)
    reference: Mapped[str] = mapped_column(ForeignKey("reference.name", ondelete="CASCADE"))
    position: Mapped[int]
    rung: Mapped[str]
    net: Mapped[str]
    arm: Mapped[str]
    total: Mapped[int]
    recipe_hash: Mapped[str | None]
    recipe: Mapped[dict[str, Any]] = mapped_column(JSON)  # as published, or in full as run
    ours: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))  # our recipe that it is bound to
    differences: Mapped[list[str]] = mapped_column(JSON)
    waiting: Mapped[str]


class ReferenceFinal(Base):
    """One final of a reference, with its curves."""

    __tablename__ = "reference_final"
    recipe: Mapped[int] = mapped_column(ForeignKey("reference_recipe.id", ondelete="CASCADE"), primary_key=True)
    seed: Mapped[int] = mapped_column(primary_key=True)
    correct: Mapped[int | None]
    top5: Mapped[int | None]
    diverged: Mapped[bool]
    train_loss: Mapped[float | None]
    epoch_correct: Mapped[list[int]] = mapped_column(JSON)
    epoch_loss: Mapped[list[float | None]] = mapped_column(JSON)
    note: Mapped[str]
    source: Mapped[str]
