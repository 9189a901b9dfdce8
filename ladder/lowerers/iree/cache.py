"""Chosen modules on disk: found again by program, IREE's version, target and processor; written whole or not at all."""

import hashlib
import json
import os
import platform
import re
import shutil
from dataclasses import asdict
from pathlib import Path

from filelock import FileLock, Timeout

from ladder import paths
from ladder.errors import LadderError
from ladder.lowerers.iree import compiling, flags, targets, tuning
from ladder.train.artifact import FUNCTIONS, Program, sha256

LOCK_LIMIT_S = 1200.0  # a whole walk of another process
CHOICE = "choice.json"


def processor() -> str:
    """What code for this host depends on: architecture, processor features and the number of cores."""
    try:
        found = re.search(r"^(?:flags|Features)\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        features = " ".join(sorted(found[1].split())) if found else ""
    except OSError:
        features = platform.processor()
    return f"{platform.machine()} {os.cpu_count()} {features}"


def folder_for(program: Program, target: targets.Target, version: str) -> Path:
    """Where the program's chosen modules lie, or would."""
    step = program.stablehlo("step")
    sets = flags.flag_sets(target, step)
    decides = [
        program.sha,
        sha256(compiling.without_donation(step).encode()),
        version,
        asdict(target),
        processor(),
        [asdict(one) for one in sets],
    ]
    key = hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:24]
    return paths.cache() / "iree" / f"{program.sha[:12]}-{target.name}-{key}"


def read(folder: Path) -> tuple[tuning.Choice | None, str]:
    """The choice in a folder, or None and what is wrong with it ("" when there is simply none)."""
    if not folder.exists():
        return None, ""
    try:
        meta = json.loads((folder / CHOICE).read_text())
        if changed := [f for f in FUNCTIONS if sha256((folder / f"{f}.vmfb").read_bytes()) != meta["modules"][f]]:
            return None, f"its modules were changed: {', '.join(changed)}"
        return tuning.Choice.from_json(meta["choice"]), ""
    except (OSError, ValueError, KeyError, TypeError) as error:
        return None, f"it is not whole: {error!r}"


def choice_for(
    program: Program, target: targets.Target, device: int, version: str, say: tuning.Say
) -> tuple[Path, tuning.Choice, bool]:
    """The folder with the program's modules, the choice of their flags, and whether it was cached.

    One process tunes, others wait; a damaged choice is said and made again. Raises what `tuning.tune` raises, and
    LadderError when the cache cannot be written.
    """
    folder = folder_for(program, target, version)
    root, lock = folder.parent, folder.parent / f".{folder.name}.lock"
    choice, _ = read(folder)
    if choice:
        return folder, choice, True
    try:
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(lock, timeout=LOCK_LIMIT_S):
            choice, damage = read(folder)
            if choice:
                return folder, choice, True
            if damage:
                say(f"iree: the cached code of program {program.sha[:12]} is made again: {damage}")
            return folder, _tune(program, target, device, folder, say), False
    except Timeout:
        raise LadderError(
            f"waited {LOCK_LIMIT_S:.0f} s for another process to compile program {program.sha[:12]}",
            f"wait for the process that holds {lock}, or end it",
        ) from None
    except OSError as error:
        raise LadderError(
            f"the cache {root} cannot be written: {error.strerror}", "set LADDER_CACHE to a folder that can"
        ) from error


def _tune(program: Program, target: targets.Target, device: int, folder: Path, say: tuning.Say) -> tuning.Choice:
    scratch = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(scratch, ignore_errors=True)  # what a killed walk left
    scratch.mkdir()
    try:
        sets = flags.flag_sets(target, program.stablehlo("step"))
        choice = tuning.tune(program, target, device, sets, scratch, say)
        say(f"iree: program {program.sha[:12]} keeps {choice.kept.told()}; {choice.reason}; {choice.seconds:.0f} s")
        for path in scratch.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
        modules = {name: sha256((scratch / f"{name}.vmfb").read_bytes()) for name in FUNCTIONS}
        (scratch / CHOICE).write_text(json.dumps({"choice": asdict(choice), "modules": modules}, indent=1))
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(scratch, folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return choice
