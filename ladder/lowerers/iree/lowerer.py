"""The iree lowerer: a program's StableHLO text through IREE on one device, with the fastest flag set that is right."""

import os
import platform

from iree.runtime.version import REVISIONS, VERSION

from ladder.errors import LadderError
from ladder.lowerers.functions import Call, PlainFunction
from ladder.lowerers.iree import cache, targets
from ladder.lowerers.iree.devices import probe_device
from ladder.lowerers.iree.executable import Device, IreeExecutable
from ladder.lowerers.iree.functions import load, module_for
from ladder.lowerers.protocol import Compiled, Unsupported, check_boundary
from ladder.train.artifact import FUNCTIONS, Program

EXPORTED_FOR = "cpu"  # other targets' exports hold custom calls


class Iree:
    """IREE on device number `device` of the target that LADDER_IREE_TARGET names."""

    name = "iree"

    def __init__(self, jax_platform: str, device: int = 0) -> None:
        """Claims the device. Raises LadderError when IREE, its driver or the device is not there."""
        if jax_platform != EXPORTED_FOR:
            raise LadderError(f"lowerer iree takes the program's {EXPORTED_FOR} form, not that for {jax_platform}")
        self._target, self._version = targets.target(os.environ), targets.installed_version()
        if self._target.check:  # a driver that is not the host's own may take the process down
            probe_device(self._target, device)
        self._index, self._device = device, Device(self._target, device)

    def describe(self) -> dict[str, str]:
        """The driver and device, and what made the code."""
        return {
            "device": f"{self._target.driver}:{self._index}",
            "device_kind": self._target.chip or platform.machine(),
            "runtime": f"iree {self._version}",
            "platform_version": f"{self._target.name}, IREE {VERSION} {REVISIONS['IREE'][:12]}",
        }

    def compile(self, program: Program) -> IreeExecutable:
        """Tune and compile, or find again. Raises Unsupported, LadderError, or DroppedState (gate G4)."""
        check_boundary(program)
        if program.platform != EXPORTED_FOR:
            raise Unsupported(
                f"program {program.sha[:12]} is for {program.platform}; iree takes the {EXPORTED_FOR} form"
            )
        folder, choice, cached = cache.choice_for(program, self._target, self._index, self._version, _say)
        return IreeExecutable(
            self._device,
            {name: folder / f"{name}.vmfb" for name in FUNCTIONS},
            program.functions,
            Compiled(
                {name: 0.0 if cached else choice.compile_seconds[name] for name in FUNCTIONS},
                dict.fromkeys(FUNCTIONS, cached),
                {
                    "flag_set": choice.flag_set,
                    "flags": " ".join((*self._target.compile_flags(), *choice.flags)),
                    "reason": choice.reason,
                    "tried": "; ".join(one.told() for one in choice.tried),
                },
            ),
        )

    def function(self, plain: PlainFunction) -> Call:
        """Compile a plain function, or find it again; see ladder.lowerers.functions. Raises Unsupported."""
        if plain.platform != EXPORTED_FOR:
            raise Unsupported(f"function {plain.name} is for {plain.platform}; iree takes the {EXPORTED_FOR} form")
        return load(self._device, module_for(plain, self._target, self._version), plain)


def _say(line: str) -> None:
    print(line, flush=True)  # the worker's output is its parent's log
