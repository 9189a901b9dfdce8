"""The child that tries the modules of one flag set: a SIGSEGV in them costs that flag set and nothing else.

    python -m ladder.lowerers.iree.candidate

with {program, modules, device, timed, out} on stdin -> out/told.json, out/outputs.npz
"""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np

from ladder.lowerers import probe
from ladder.lowerers.iree import targets
from ladder.lowerers.iree.executable import Device, IreeExecutable
from ladder.lowerers.protocol import Compiled
from ladder.train.artifact import read


def main() -> None:
    """Serve the one request on stdin."""
    request = json.load(sys.stdin)
    out, program = Path(request["out"]), read(Path(request["program"]))
    modules = {name: Path(path) for name, path in request["modules"].items()}
    device = Device(targets.target(os.environ), request["device"])
    exe = IreeExecutable(device, modules, program.functions, Compiled({}, {}))
    np.savez(out / "outputs.npz", allow_pickle=False, **probe.outputs(exe, program, tuple(modules)))
    step = asdict(probe.timing(exe, program)) if request["timed"] else None
    (out / "told.json").write_text(json.dumps({"step": step}))


if __name__ == "__main__":
    main()
