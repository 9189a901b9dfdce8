"""What can be said before any data is read: versions, the device, and whether every operation is taken."""

from collections.abc import Callable, Iterable, Mapping

from ladder.lowerers.iree import cache, compiling, targets
from ladder.lowerers.iree.devices import probe_device
from ladder.train.artifact import Program


def preflight(environment: Mapping[str, str], programs: Callable[[], Iterable[Program]]) -> None:
    """Check a run in a profile's environment. Raises LadderError, or Unsupported for an operation."""
    target, version = targets.target(environment), targets.installed_version()
    targets.compiler()
    if target.check:
        probe_device(target, 0)
    for program in programs():
        if cache.read(cache.folder_for(program, target, version))[0] is None:
            compiling.check_operations(program, target)
