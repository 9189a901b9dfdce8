"""Connections to the store: SQLite's settings, migrations, and every failure as one clear error."""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, inspect, make_url, select, table
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.sql import column

from ladder.errors import LadderError
from ladder.store.models import HEAD

MIGRATIONS = Path(__file__).parent / "migrations"
BUSY_S = 10.0
WRITES = "ladder_writes"  # execution option: this transaction will write


class StoreError(LadderError):
    """The database itself refuses: no record is to blame, and the next one would be refused too."""


class Database:
    """An engine whose transactions are either reads or writes, and whose failures are LadderErrors."""

    def __init__(self, url: str, busy_s: float = BUSY_S) -> None:
        self.busy_s = busy_s
        try:
            self.url = make_url(url)
            self.sqlite = self.url.get_backend_name() == "sqlite"
            self.engine = _sqlite(self.url, busy_s) if self.sqlite else create_engine(self.url)
        except (ArgumentError, NoSuchModuleError, ImportError) as error:
            raise LadderError(
                f"LADDER_DATABASE_URL is no database that can be opened here: {error}",
                "sqlite:////folder/ladder.db, or postgresql+psycopg://user@host/ladder",
            ) from error

    @property
    def name(self) -> str:
        """The file, or the URL without its password."""
        return str(self.url.database) if self.sqlite else self.url.render_as_string(hide_password=True)

    @contextmanager
    def read(self) -> Generator[Connection]:
        """A transaction that sees one state of the database. Raises LadderError when it cannot be read."""
        with self._errors(), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Generator[Connection]:
        """A transaction that writes, whole or not at all. Raises LadderError when it cannot, after waiting `busy_s`."""
        writing = self.engine.execution_options(**{WRITES: True})
        with self._errors(), writing.begin() as connection:
            yield connection

    def version(self) -> str | None:
        """The newest migration applied, or None for an empty database."""
        with self.read() as connection:
            if not inspect(connection).has_table("alembic_version"):
                return None
            return connection.scalar(select(column("version_num")).select_from(table("alembic_version")))

    def upgrade(self) -> None:
        """Bring the tables up to date. Raises LadderError for a database that a newer Ladder made."""
        if (version := self.version()) == HEAD:
            return
        from alembic import command
        from alembic.script import ScriptDirectory

        config = alembic_config()
        known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
        if version and version not in known:
            raise LadderError(
                f"the database {self.name} has version {version}; this Ladder knows {HEAD} and older",
                "update Ladder, or point LADDER_DATABASE_URL at another file and `ladder import runs/`",
            )
        with self.write() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    @contextmanager
    def _errors(self) -> Generator[None]:
        try:
            yield
        except DBAPIError as error:
            raise self._explain(str(error.orig)) from error

    def _explain(self, message: str) -> StoreError:
        """What went wrong, how long it was waited for, and the next command."""
        for sign, what, hint in (
            ("locked", f"is locked by another process; waited {self.busy_s:g} s", f"fuser {self.name}"),
            ("readonly", "cannot be written", "set LADDER_DATABASE_URL to a file that can"),
            ("unable to open", "cannot be opened", "set LADDER_DATABASE_URL to a file that can"),
            ("not a database", "is damaged", f"mv {self.name} {self.name}.bad; ladder import {_records()}"),
            ("malformed", "is damaged", f"mv {self.name} {self.name}.bad; ladder import {_records()}"),
            ("disk is full", "cannot grow: the disk is full", "df -h"),
        ):
            if sign in message:
                return StoreError(f"the database {self.name} {what} ({message})", hint)
        return StoreError(f"the database {self.name} refused: {message.splitlines()[0]}")


def alembic_config() -> Any:
    """Alembic's settings: where the migrations lie."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return config


def _sqlite(url: Any, busy_s: float) -> Engine:
    """An engine for a SQLite file: write-ahead log, foreign keys, and writers that queue before they read."""
    if url.database and url.database != ":memory:":
        folder = Path(url.database).parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LadderError(
                f"the folder of the database {url.database} cannot be made: {error.strerror}",
                "set LADDER_DATABASE_URL to a file that can be written",
            ) from error
    engine = create_engine(url, connect_args={"timeout": busy_s})

    @event.listens_for(engine, "connect")
    def connect(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # transactions are begun below, not guessed by the driver
        for pragma in ("foreign_keys=ON", "synchronous=NORMAL", "journal_mode=WAL"):
            try:
                connection.execute(f"PRAGMA {pragma}")
            except sqlite3.OperationalError as error:
                if "readonly" not in str(error):  # a read-only file keeps the journal mode it has
                    raise

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        write = connection.get_execution_options().get(WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    return engine


def _records() -> Path:
    from ladder import paths

    return paths.runs()
