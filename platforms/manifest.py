"""A manifest's two halves: *core* is this repository, *platform* what the box supplied. No path, no secret."""

import os
import platform
import subprocess
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path
from typing import Any

from platforms.profile import Profile

PACKAGES = ("jax", "jaxlib", "flax", "optax", "numpy", "scipy")
PLUGINS = ("jax-cuda", "jax-rocm", "jax-plugin", "jax-mps", "jax-metal", "intel-extension-for-openxla", "iree-base")


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


def box(profile: Profile) -> dict[str, Any]:
    """What the box supplied: processor, kernel, memory, Python, packages, and the profile's environment as applied."""
    return {
        "profile": profile.name,
        "environment": profile.environment,
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "plugins": dict(sorted(_plugins())),
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _plugins() -> Iterator[tuple[str, str]]:
    for distribution in distributions():
        metadata: Any = distribution.metadata  # empty, or None, for what a broken installation left
        name, number = (metadata.get("Name"), metadata.get("Version")) if metadata else (None, None)
        if name and number and name.lower().replace("_", "-").startswith(PLUGINS):
            yield name, number


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"
