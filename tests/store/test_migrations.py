"""Migrations are ordered, whole or not at all, and agree with the models."""

import io
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from ladder import paths, store
from ladder.errors import LadderError
from ladder.store import engine, models
from ladder.store.engine import Database, alembic_config


def tables() -> set[str]:
    with sqlite3.connect(paths.runs() / "ladder.db") as connection:
        found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    connection.close()
    return found


def test_models_and_migrations_agree() -> None:
    with store.open() as opened, opened.database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, models.Base.metadata) == []


def test_the_head_that_the_models_name_is_the_newest_migration() -> None:
    assert ScriptDirectory.from_config(alembic_config()).get_current_head() == models.HEAD


def test_an_empty_database_is_brought_up_to_date_and_opening_again_changes_nothing() -> None:
    store.open().close()
    assert tables() == {*models.Base.metadata.tables, "alembic_version"}
    with store.open() as opened:
        assert opened.database.version() == models.HEAD


def test_a_migration_that_fails_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    versions = tmp_path / "versions"
    versions.mkdir()
    (tmp_path / "env.py").write_bytes((engine.MIGRATIONS / "env.py").read_bytes())
    first = engine.MIGRATIONS / "versions" / "0001_first.py"
    (versions / "0001_first.py").write_bytes(first.read_bytes())
    (versions / "0002_bad.py").write_text(
        "from alembic import op\nrevision, down_revision = '0002', '0001'\n"
        "def upgrade():\n    op.execute('CREATE TABLE half (x INTEGER)')\n    raise RuntimeError('half way')\n"
    )
    monkeypatch.setattr(engine, "MIGRATIONS", tmp_path)
    with pytest.raises(RuntimeError, match="half way"):
        store.open()
    assert tables() == set()


def test_a_database_of_a_newer_ladder_is_a_clear_error() -> None:
    store.open().close()
    with sqlite3.connect(paths.runs() / "ladder.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0999'")
    connection.close()
    with pytest.raises(LadderError, match=r"has version 0999; this Ladder knows .* and older"):
        store.open()


def test_the_migrations_are_plain_sql_for_postgresql() -> None:
    config = alembic_config()
    config.output_buffer = io.StringIO()
    config.attributes["dialect_name"] = "postgresql"
    command.upgrade(config, "head", sql=True)
    sql = config.output_buffer.getvalue()
    assert sql.count("CREATE TABLE") == len(models.Base.metadata.tables) + 1
    assert "PRAGMA" not in sql


def test_the_password_of_a_url_is_never_shown() -> None:
    pytest.importorskip("asyncpg")
    database = Database("postgresql+asyncpg://me:secret@nowhere/ladder")
    assert "secret" not in database.name


def test_processes_that_open_a_new_database_at_once_all_succeed() -> None:
    code = "from ladder import store\nwith store.open() as s: print(s.database.version())"
    started = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [p.communicate(timeout=60)[0] for p in started] == [f"{models.HEAD}\n"] * 3
