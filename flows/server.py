"""Which Prefect server this process talks to. Read before Prefect is imported: Prefect takes its settings then."""

import json
import os
import tomllib
import urllib.error
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path

from flows.alive import identity, is_alive
from ladder import paths
from ladder.errors import LadderError

UP = "up.json"


@dataclass(frozen=True)
class Up:
    """What a running `ladder up` wrote down about itself."""

    process: str  # flows.alive.identity
    box: str
    api: str
    ui: str


@dataclass(frozen=True)
class Server:
    """The server's API address, and how it was found. No address: Prefect starts a temporary server."""

    api: str
    why: str
    configured: bool = False  # by the user, who then also looks after its settings


def home() -> Path:
    """Our own Prefect home, so that the user's is left alone: the server's database, its log, and `up.json`."""
    return paths.cache() / "prefect"


def read_up() -> Up | None:
    """The `ladder up` that runs on this box, or None."""
    try:
        up = Up(**json.loads((home() / UP).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return up if is_alive(up.process) else None


def write_up(box: str, api: str, ui: str) -> None:
    """Tell other commands on this box where the server is, for as long as this process lives."""
    file = home() / UP
    temporary = file.with_suffix(".tmp")
    temporary.write_text(json.dumps(asdict(Up(identity(), box, api, ui))) + "\n")
    temporary.rename(file)


def configured() -> Server | None:
    """The server that the user chose: PREFECT_API_URL, or the active profile of the user's own Prefect."""
    if api := os.environ.get("PREFECT_API_URL"):
        return Server(api, "PREFECT_API_URL", True)
    folder = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect").expanduser()
    file = Path(os.environ.get("PREFECT_PROFILES_PATH") or folder / "profiles.toml").expanduser()
    try:
        profiles = tomllib.loads(file.read_text())
    except (OSError, ValueError):
        return None
    name = os.environ.get("PREFECT_PROFILE") or profiles.get("active", "")
    api = profiles.get("profiles", {}).get(name, {}).get("PREFECT_API_URL")
    return Server(api, f"PREFECT_API_URL of the Prefect profile '{name}'", True) if api else None


def choose() -> Server:
    """The user's server; else the one that `ladder up` keeps on this box; else a temporary one."""
    if chosen := configured():
        return chosen
    if up := read_up():
        return Server(up.api, "`ladder up` on this box")
    return Server("", "a temporary server of its own (10-20 s to start; `ladder up` keeps one, --no-server needs none)")


def environment(server: Server) -> dict[str, str]:
    """The variables that lead a Prefect process to `server`, to be set before it imports Prefect.

    Makes the folder that they name: Prefect makes the last part of it only, and its server fails without.
    """
    polite = {
        "DO_NOT_TRACK": "1",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
        "PREFECT_CLIENT_MAX_RETRIES": os.environ.get("PREFECT_CLIENT_MAX_RETRIES", "3"),  # 14 s; the default takes 62
        "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",  # else it prints every event that a dead server misses
        "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    }
    if server.configured:
        return {**polite, "PREFECT_API_URL": server.api}
    try:
        home().mkdir(parents=True, exist_ok=True)
    except OSError as error:
        hint = "set LADDER_CACHE to a folder that can"
        raise LadderError(f"Prefect's folder {home()} cannot be made: {error.strerror}", hint) from error
    own = {"PREFECT_HOME": str(home()), "PREFECT_PROFILES_PATH": str(home() / "profiles.toml")}
    own["PREFECT_WORKER_QUERY_SECONDS"] = "3"  # a run from the UI starts that much sooner than with 10
    own["PREFECT_PROFILE"] = "ephemeral"  # built in; the user's choice is not among ours
    if server.api:
        return {**polite, **own, "PREFECT_API_URL": server.api}
    ephemeral = {"PREFECT_SERVER_EPHEMERAL_ENABLED": "true", "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "90"}
    return {**polite, **own, **ephemeral}


def answers(api: str, timeout: float = 3.0) -> bool:
    """Whether a server answers at this API address."""
    try:
        with urllib.request.urlopen(f"{api.rstrip('/')}/health", timeout=timeout) as reply:
            return reply.status == 200
    except urllib.error.HTTPError as refused:
        return refused.code < 500  # it wants a login: that is an answer
    except (OSError, ValueError):
        return False
