"""The command line: `app` has the library's commands; flows/cli.py mounts on it those that need Prefect."""

from ladder.cli import manage, queries
from ladder.cli.app import app, run_app

__all__ = ["app", "manage", "queries", "run_app"]
