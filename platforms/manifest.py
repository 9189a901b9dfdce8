"""A manifest's two halves: *core* is this repository, *platform* what the box supplied. No path, no secret."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from platforms import stack
from platforms.detect import Detection, ask_all, detect, processor
from platforms.probing import virtual_devices
from platforms.profile import Profile
from platforms.redact import redact

PACKAGES = ("jax", "jaxlib", "flax", "optax", "numpy", "scipy")


def core(root: Path) -> dict[str, Any]:
    """This repository: version, commit and whether the tree is dirty; "unknown" outside a checkout."""

    def git(*args: str) -> str | None:
        try:
            done = subprocess.run(["git", "-C", str(root), *args], capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    if (top := git("rev-parse", "--show-toplevel")) is None or Path(top).resolve() != root.resolve():
        return {"ladder": _version("ladder"), "commit": "unknown", "dirty": "unknown"}  # none, or somebody else's
    commit, status = git("rev-parse", "HEAD"), git("status", "--porcelain", "--untracked-files=no")
    return {
        "ladder": _version("ladder"),
        "commit": commit or "unknown",
        "dirty": "unknown" if status is None else bool(status),
    }


def box(profile: Profile, detection: Detection | None = None) -> dict[str, Any]:
    """What the box supplied: processor, kernel, memory, Python, packages, devices, driver, and the environment applied.

    The vendor's tool is asked for devices and driver, under its deadline; a CPU has none to ask. `virtual_devices` is
    how many devices the environment makes of the host's cores, 0 if none: such a run counts for no hardware.
    """
    found, seen = stack.installed(), detection or detect(profile, ask_all([profile]))
    told = {
        "profile": profile.name,
        "environment": profile.environment,
        "processor": processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "plugins": {name: number for name, number in found.items() if name not in PACKAGES},
        "triple": {name: found.get(name, "not installed") for name in stack.CORE} | stack.plugins(profile, found),
        "devices": [device.name for device in seen.devices],
        "driver": seen.driver or "unknown",
        "detected": seen.reason,
        "system_stack": stack.system_version(profile, found).get("here", "none"),
        "virtual_devices": virtual_devices({**os.environ, **profile.environment}),
    }
    return redact(told, os.environ)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
