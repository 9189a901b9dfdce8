"""Lowerers turn a program into something that runs. `make` chooses one; nothing else in Ladder asks which it is."""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from ladder.errors import LadderError
from ladder.lowerers.functions import Functions
from ladder.lowerers.protocol import Compiled, Executable, Lowerer, Unsupported, check_boundary
from ladder.train.artifact import Program

__all__ = [
    "NAMES",
    "Compiled",
    "Executable",
    "Functions",
    "Lowerer",
    "Unsupported",
    "check_boundary",
    "functions",
    "make",
    "preflight",
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


def _real(name: str, jax_platform: str, device: int) -> _Real:
    if name not in _MAKE:
        raise LadderError(f"there is no lowerer '{name}'; the lowerers are: {', '.join(NAMES)}")
    return _MAKE[name](jax_platform, device)


def preflight(name: str, environment: Mapping[str, str], programs: Callable[[], Iterable[Program]]) -> None:
    """What a lowerer can refuse before any data is read, in a profile's environment; `programs` only if it asks.

    Starts children only: this process loads no runtime. Raises LadderError, or Unsupported for an operation.
    """
    if name == "iree":
        from ladder.lowerers.iree.preflight import preflight

        preflight({**os.environ, **environment}, programs)
