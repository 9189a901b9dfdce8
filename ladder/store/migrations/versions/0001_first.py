"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "run",
        sa.Column("uuid", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("rung", sa.String, nullable=False),
        sa.Column("box", sa.String, nullable=False),
        sa.Column("platform", sa.String, nullable=False),
        sa.Column("lowerer", sa.String, nullable=False),
        sa.Column("fault", sa.String),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("folder", sa.String, nullable=False),
        sa.Column("started", sa.String, nullable=False),
        sa.Column("finished", sa.String),
        sa.Column("word", sa.String),
        sa.Column("manifest", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("uuid", name="pk_run"),
        sa.UniqueConstraint("name", name="uq_run_name"),
    )
    op.create_index("ix_run_started", "run", ["started"])
    op.create_table(
        "trial",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("run", sa.String, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("net", sa.String, nullable=False),
        sa.Column("arm", sa.String, nullable=False),
        sa.Column("seed", sa.Integer, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("correct", sa.Integer),
        sa.Column("total", sa.Integer, nullable=False),
        sa.Column("top5", sa.Integer),
        sa.Column("train_loss", sa.Double),
        sa.Column("epochs", sa.Integer, nullable=False),
        sa.Column("lowerer", sa.String, nullable=False),
        sa.Column("recipe_hash", sa.String, nullable=False),
        sa.Column("program_sha", sa.String, nullable=False),
        sa.Column("data_identity", sa.String, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("compile_s", sa.Double, nullable=False),
        sa.Column("train_s", sa.Double, nullable=False),
        sa.Column("finished", sa.String, nullable=False),
        sa.Column("note", sa.String, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_trial"),
        sa.ForeignKeyConstraint(["run"], ["run.uuid"], name="fk_trial_run", ondelete="CASCADE"),
        sa.UniqueConstraint("run", "recipe_hash", "seed", name="uq_trial_run_recipe_hash_seed"),
    )
    op.create_index("ix_trial_recipe_hash", "trial", ["recipe_hash"])
    op.create_table(
        "epoch",
        sa.Column("trial", sa.Integer, nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("train_loss", sa.Double),
        sa.Column("correct", sa.Integer, nullable=False),
        sa.Column("total", sa.Integer, nullable=False),
        sa.Column("top5", sa.Integer, nullable=False),
        sa.Column("lr", sa.Double, nullable=False),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("trial", "epoch", name="pk_epoch"),
        sa.ForeignKeyConstraint(["trial"], ["trial.id"], name="fk_epoch_trial", ondelete="CASCADE"),
    )
    op.create_table(
        "verdict",
        sa.Column("run", sa.String, nullable=False),
        sa.Column("net", sa.String, nullable=False),
        sa.Column("arm", sa.String, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("word", sa.String, nullable=False),
        sa.Column("reason", sa.String, nullable=False),
        sa.Column("reference", sa.String, nullable=False),
        sa.Column("judgement", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("run", "net", "arm", name="pk_verdict"),
        sa.ForeignKeyConstraint(["run"], ["run.uuid"], name="fk_verdict_run", ondelete="CASCADE"),
    )
    op.create_table(
        "reference",
        sa.Column("name", sa.String, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("date", sa.String, nullable=False),
        sa.Column("platform", sa.String, nullable=False),
        sa.Column("lowerer", sa.String, nullable=False),
        sa.Column("content", sa.String, nullable=False),
        sa.Column("text_sha", sa.String, nullable=False),
        sa.Column("facts", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_reference"),
    )
    op.create_table(
        "reference_recipe",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("reference", sa.String, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("rung", sa.String, nullable=False),
        sa.Column("net", sa.String, nullable=False),
        sa.Column("arm", sa.String, nullable=False),
        sa.Column("total", sa.Integer, nullable=False),
        sa.Column("recipe_hash", sa.String),
        sa.Column("recipe", sa.JSON, nullable=False),
        sa.Column("ours", sa.JSON),
        sa.Column("differences", sa.JSON, nullable=False),
        sa.Column("waiting", sa.String, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_reference_recipe"),
        sa.ForeignKeyConstraint(
            ["reference"], ["reference.name"], name="fk_reference_recipe_reference", ondelete="CASCADE"
        ),
        sa.UniqueConstraint("reference", "net", "arm", name="uq_reference_recipe_reference_net_arm"),
    )
    op.create_index("ix_reference_recipe_recipe_hash", "reference_recipe", ["recipe_hash"])
    op.create_table(
        "reference_final",
        sa.Column("recipe", sa.Integer, nullable=False),
        sa.Column("seed", sa.Integer, nullable=False),
        sa.Column("correct", sa.Integer),
        sa.Column("top5", sa.Integer),
        sa.Column("diverged", sa.Boolean, nullable=False),
        sa.Column("train_loss", sa.Double),
        sa.Column("epoch_correct", sa.JSON, nullable=False),
        sa.Column("epoch_loss", sa.JSON, nullable=False),
        sa.Column("note", sa.String, nullable=False),
        sa.Column("source", sa.String, nullable=False),
        sa.PrimaryKeyConstraint("recipe", "seed", name="pk_reference_final"),
        sa.ForeignKeyConstraint(
            ["recipe"], ["reference_recipe.id"], name="fk_reference_final_recipe", ondelete="CASCADE"
        ),
    )


def downgrade() -> None:
    raise NotImplementedError("the store is an index: delete the database and `ladder import runs/`")
