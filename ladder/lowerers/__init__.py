"""Lowerers turn a program into something that runs. `make` chooses one; nothing else in Ladder asks which it is."""

from ladder.errors import LadderError
from ladder.lowerers.protocol import Compiled, Executable, Lowerer, Unsupported, check_boundary

__all__ = ["NAMES", "Compiled", "Executable", "Lowerer", "Unsupported", "check_boundary", "make"]

NAMES = ("xla",)


def make(name: str, jax_platform: str, device: int = 0, fault: str | None = None) -> Lowerer:
    """The lowerer `name` on one device of a jax platform, wrapped by `faulty` when a fault is named.

    Raises LadderError for an unknown lowerer, fault, platform or device.
    """
    if name != "xla":
        raise LadderError(f"there is no lowerer '{name}'; the lowerers are: {', '.join(NAMES)}")
    from ladder.lowerers.xla import Xla

    lowerer: Lowerer = Xla(jax_platform, device)
    if fault is None:
        return lowerer
    from ladder.lowerers.faulty import Faulty

    return Faulty(lowerer, fault)
