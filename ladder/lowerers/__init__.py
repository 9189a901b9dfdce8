"""Lowerers turn a program into something that runs. `make` chooses one; nothing else in Ladder asks which it is."""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from ladder.errors import LadderError
from ladder.lowerers.functions import Functions
from ladder.lowerers.protocol import Compiled, Executable, Lowerer, Unsupported, check_boundary
from ladder.lowerers.stages import Stages
from ladder.train.artifact import Program

__all__ = [
    "NAMES",
    "Compiled",
    "Executable",
    "Functions",
    "Lowerer",
    "Stages",
    "Unsupported",
    "check_boundary",
    "functions",
    "lacks",
    "make",
    "preflight",
    "stages",
]


class _Real(Lowerer, Functions, Protocol):
    """What both lowerers are."""


def _xla(jax_platform: str, device: int) -> _Real:
    from ladder.lowerers.xla import Xla

    return Xla(jax_platform, device)


def _iree(jax_platform: str, device: int) -> _Real:
    from ladder.lowerers.iree.lowerer import Iree

    return Iree(jax_platform, device)


_MAKE: dict[str, Callable[[str, int], _Real]] = {"xla": _xla, "iree": _iree}
NAMES = tuple(_MAKE)
# What a lowerer does not do, and why: a test of it does not apply.
_LACKS: dict[str, dict[str, str]] = {
    "xla": {},
    "iree": {
        "pjrt": "IREE's runtime is no PJRT plugin",
        "collective": "collectives exist on the PJRT path only",
        "donation": "IREE 3.13 would write over a donated argument that is still to be read: none is given up",
        "placement": "IREE's values do not tell their device",
    },
}


def make(name: str, jax_platform: str, device: int = 0, fault: str | None = None) -> Lowerer:
    """The lowerer `name` on one device of a jax platform, wrapped by `faulty` when a fault is named.

    Raises LadderError for an unknown lowerer, fault, platform or device.
    """
    lowerer = _real(name, jax_platform, device)
    if fault is None:
        return lowerer
    from ladder.lowerers.faulty import Faulty

    return Faulty(lowerer, fault)


def functions(name: str, jax_platform: str, device: int = 0) -> Functions:
    """The lowerer `name` on one device of a jax platform, for plain functions. Raises LadderError as `make` does."""
    return _real(name, jax_platform, device)


def stages(name: str, jax_platform: str, devices: int, virtual: bool) -> Stages:
    """The lowerer `name` on `devices` devices, stage by stage; `virtual`: IREE makes them of one.

    Raises LadderError for an unknown lowerer, and what a runtime raises that does not start.
    """
    _known(name)
    if name == "iree":
        from ladder.lowerers.iree.stages import IreeStages

        return IreeStages(devices, virtual)
    from ladder.lowerers.xla_stages import XlaStages

    return XlaStages(jax_platform)


def lacks(name: str, what: str) -> str:
    """Why the lowerer `name` does not have `pjrt`, `collective`, `donation` or `placement`; "" when it has."""
    return _LACKS[name].get(what, "")


def _known(name: str) -> None:
    if name not in _MAKE:
        raise LadderError(f"there is no lowerer '{name}'; the lowerers are: {', '.join(NAMES)}")


def _real(name: str, jax_platform: str, device: int) -> _Real:
    _known(name)
    return _MAKE[name](jax_platform, device)


def preflight(name: str, environment: Mapping[str, str], programs: Callable[[], Iterable[Program]]) -> None:
    """What a lowerer can refuse before any data is read, in a profile's environment; `programs` only if it asks.

    Starts children only: this process loads no runtime. Raises LadderError, or Unsupported for an operation.
    """
    if name == "iree":
        from ladder.lowerers.iree.preflight import preflight

        preflight({**os.environ, **environment}, programs)
