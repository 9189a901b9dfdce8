"""The same store on a real PostgreSQL server, where its programs and psycopg are there."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from ladder import paths, records, store
from ladder.errors import LadderError
from ladder.store import models, queries
from tests.store import made

pytest.importorskip("psycopg", reason="no psycopg: the store on PostgreSQL is not tested here")


@pytest.fixture(scope="module")
def server() -> Generator[str]:
    """The URL of a server of our own, on a Unix socket in a folder of its own."""
    if not (shutil.which("initdb") and shutil.which("pg_ctl")):
        pytest.skip("no initdb and pg_ctl: the store on PostgreSQL is not tested here")
    user = "postgres" if os.getuid() == 0 else None  # the server refuses root
    folder = Path(tempfile.mkdtemp(prefix="ladder-pg-"))
    if user:
        os.chown(folder, pwd.getpwnam(user).pw_uid, -1)

    def run(*command: str) -> None:
        subprocess.run(command, check=True, user=user, cwd=folder, stdout=subprocess.DEVNULL, timeout=60)

    data = str(folder / "data")
    run("initdb", "--pgdata", data, "--username", "ladder", "--auth", "trust", "--no-sync", "--encoding", "UTF8")
    options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
    run("pg_ctl", "--pgdata", data, "--log", str(folder / "log"), "--wait", "--options", options, "start")
    try:
        yield f"postgresql+psycopg://ladder@/postgres?host={folder}"
    finally:
        run("pg_ctl", "--pgdata", data, "--mode", "immediate", "--wait", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def test_models_migrations_and_queries_are_the_same_as_on_sqlite(server: str) -> None:
    made.healthy()
    records.keep(records.read(made.healthy(shift=-900)), paths.runs())
    mlp = made.recipes(["mlp"])
    made.complete([made.final(mlp[0], 1, None, "crashed"), made.final(mlp[0], 2, 980, "diverged")], mlp)
    writer = made.partial([row := made.final(mlp[0], 1, 9771)], mlp)
    answers: list[object] = []
    for url in (None, server):
        with store.open(url) as opened:
            opened.begin_run(writer.manifest)
            opened.insert_trial(writer.manifest["uuid"], row, made.epochs(row))
            assert opened.refresh() == []
            assert opened.import_tree(paths.runs())[0] == 4
            db = opened.database
            rows = queries.runs(db)
            answers.append(
                [
                    rows,
                    [queries.run(db, row["uuid"]) for row in rows],
                    queries.ranges(db),
                    queries.ranges(db, net="mlp"),
                    queries.references(db),
                    queries.with_hash(db, mlp[0].hash),
                    queries.find_run(db, "last"),
                ]
            )
    writer.close()
    assert answers[0] == answers[1]
    with store.open(server) as opened, opened.database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, models.Base.metadata) == []


def test_a_server_that_is_not_there_is_one_error_without_the_password() -> None:
    with pytest.raises(LadderError, match="postgresql") as error:
        store.open("postgresql+psycopg://me:secret@127.0.0.1:1/ladder")
    assert "secret" not in str(error.value)
