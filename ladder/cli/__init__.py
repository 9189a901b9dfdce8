"""The command line: `app` has the library's commands; flows/cli.py mounts on it those that need Prefect."""

from ladder.cli import doctor, manage, plan, platforms, queries, suite, tie
from ladder.cli.app import app, run_app

__all__ = ["app", "doctor", "manage", "plan", "platforms", "queries", "run_app", "suite", "tie"]
