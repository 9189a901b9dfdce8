"""Detection power: every fault of the catalogue is injected into a real run of the test that has to catch it."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ladder.errors import LadderError
from ladder.suite import faults
from ladder.suite.case import Case, Side
from ladder.suite.faults import Fault
from ladder.suite.run import VIRTUAL_FLAG
from ladder.suite.runner import Result, collect, run_cases
from ladder.suite.tiers import MODULES
from platforms import profile as profiles
from platforms.probing import SMALL


@dataclass(frozen=True)
class Trial:
    """What became of a fault: the state of the test, and what it said."""

    fault: Fault
    state: str
    detail: str

    @property
    def caught(self) -> bool:
        """Whether the test went red in the way that the catalogue says, for the reason that it says."""
        return self.state in self.fault.caught_as and self.fault.says in self.detail


def choose(names: Sequence[str]) -> tuple[Fault, ...]:
    """The faults of these names; all, if there are none. Raises LadderError for an unknown one."""
    every = {fault.name: fault for fault in faults.catalogue()}
    if unknown := [name for name in names if name not in every]:
        raise LadderError(f"there is no fault '{unknown[0]}'; the faults are: {', '.join(every)}")
    return tuple(every[name] for name in names) or tuple(every.values())


def trials(chosen: Sequence[Fault]) -> Iterator[Trial]:
    """Inject them one after another."""
    for fault in chosen:
        if fault.test:
            found = injected(fault)
            yield Trial(fault, found.status, found.detail)
        else:
            said = str(faults.call(fault.inject))
            yield Trial(fault, "fail" if said else "pass", said)


def injected(fault: Fault) -> Result:
    """The result of the test under its fault."""
    profile = profiles.load(fault.platform)
    side = Side(
        platform=profile.name,
        lowerer=profile.lowerer,
        jax_platform=profile.jax_platform,
        devices=fault.devices,
        virtual=fault.devices > 1,
        accelerator=not profile.detect.everywhere,
        precision=profile.precision,
    )
    side = replace(side, **fault.side)
    module, case = _find(fault.test, side)
    with tempfile.TemporaryDirectory(prefix="ladder-fault-") as folder:
        for name, text in fault.files.items():
            file = Path(folder) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            file.chmod(0o755)
        env = {**os.environ, **SMALL, **profile.environment, faults.VARIABLE: fault.inject}
        if fault.devices > 1:
            env["XLA_FLAGS"] = f"{VIRTUAL_FLAG}={fault.devices}"
        if fault.files:
            env |= {name: os.pathsep.join((folder, env.get(name, ""))) for name in ("PATH", "PYTHONPATH")}
        env |= {name: value.format(folder=folder) for name, value in fault.environment.items()}
        limited = replace(case, limit_s=fault.limit_s or case.limit_s)
        return next(run_cases(module, [limited], side, env, lambda _: None, lambda: None))


def _find(test: str, side: Side) -> tuple[str, Case]:
    """The module and the case of a test; only the tiers up to it are looked at."""
    for tier in MODULES:
        for module, cases in collect(side, [tier]).items():
            for case in cases:
                if case.name == test:
                    return module, case
    raise LadderError(f"the catalogue names the test '{test}', which the suite does not have")
