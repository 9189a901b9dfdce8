"""`python -m ladder.cli`: the commands that need no Prefect."""

import sys

from ladder.cli import app, run_app

sys.exit(run_app(app, sys.argv[1:]))
