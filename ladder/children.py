"""How Ladder starts a Python process of its own: with this process's code, whatever the working folder holds."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path


def command(module: str) -> list[str]:
    """The command line that runs a module. -P: a `models` folder where the user stands is not ours."""
    return [sys.executable, "-P", "-m", module]


def environment(base: Mapping[str, str]) -> dict[str, str]:
    """`base` with this process's own packages first on the path."""
    root = str(Path(__file__).resolve().parents[1])
    return {**base, "PYTHONPATH": os.pathsep.join(filter(None, (root, base.get("PYTHONPATH"))))}
