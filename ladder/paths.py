"""Where things lie on this box. Each place has one environment variable and a stated default."""

import os
import platform
import re
from pathlib import Path

from ladder.errors import LadderError

_CHECKOUT = Path(__file__).resolve().parents[1]


def runs() -> Path:
    """The records: LADDER_RUNS, else `runs/` of the checkout, else ~/.local/share/ladder/runs."""
    if given := os.environ.get("LADDER_RUNS"):
        return Path(given).expanduser().absolute()
    if (_CHECKOUT / "pyproject.toml").is_file():
        return _CHECKOUT / "runs"
    return Path.home() / ".local/share/ladder/runs"


def references() -> Path:
    """The references as text, committed with the code: `runs/references/` of the checkout, wherever the records are."""
    return _CHECKOUT / "runs" / "references"


def cache() -> Path:
    """What can be made again (datasets, programs, compiled code, checkpoints): LADDER_CACHE, else ~/.cache/ladder."""
    return Path(os.environ.get("LADDER_CACHE") or Path.home() / ".cache/ladder").expanduser().absolute()


def database_url() -> str:
    """The store: LADDER_DATABASE_URL, else SQLite in the records folder."""
    return os.environ.get("LADDER_DATABASE_URL") or f"sqlite:///{runs() / 'ladder.db'}"


def box() -> str:
    """This host's name in records, chosen by its owner: LADDER_BOX, else the host name."""
    name = os.environ.get("LADDER_BOX") or platform.node().split(".")[0] or "box"
    if not re.fullmatch(r"[A-Za-z0-9_]+(-[A-Za-z0-9_]+)*", name):
        raise LadderError(f"LADDER_BOX is '{name}'; a box name has letters, digits, '_' and single '-' only")
    return name
