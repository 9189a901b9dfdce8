"""Lowerers turn a program into something that runs. `make` chooses one; nothing else in Ladder asks which it is."""

import os
from collections.abc import Callable, Iterable, Mapping

from ladder.errors import LadderError
from ladder.lowerers.protocol import Compiled, Executable, Lowerer, Unsupported, check_boundary
from ladder.train.artifact import Program

__all__ = ["NAMES", "Compiled", "Executable", "Lowerer", "Unsupported", "check_boundary", "make", "preflight"]


def _xla(jax_platform: str, device: int) -> Lowerer:
    from ladder.lowerers.xla import Xla

    return Xla(jax_platform, device)


def _iree(jax_platform: str, device: int) -> Lowerer:
    from ladder.lowerers.iree.lowerer import Iree

    return Iree(jax_platform, device)


_MAKE: dict[str, Callable[[str, int], Lowerer]] = {"xla": _xla, "iree": _iree}
NAMES = tuple(_MAKE)


def make(name: str, jax_platform: str, device: int = 0, fault: str | None = None) -> Lowerer:
    """The lowerer `name` on one device of a jax platform, wrapped by `faulty` when a fault is named.

    Raises LadderError for an unknown lowerer, fault, platform or device.
    """
    if name not in _MAKE:
        raise LadderError(f"there is no lowerer '{name}'; the lowerers are: {', '.join(NAMES)}")
    lowerer = _MAKE[name](jax_platform, device)
    if fault is None:
        return lowerer
    from ladder.lowerers.faulty import Faulty

    return Faulty(lowerer, fault)


def preflight(name: str, environment: Mapping[str, str], programs: Callable[[], Iterable[Program]]) -> None:
    """What a lowerer can refuse before any data is read, in a profile's environment; `programs` only if it asks.

    Starts children only: this process loads no runtime. Raises LadderError, or Unsupported for an operation.
    """
    if name == "iree":
        from ladder.lowerers.iree.preflight import preflight

        preflight({**os.environ, **environment}, programs)
