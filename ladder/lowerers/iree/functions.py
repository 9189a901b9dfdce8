"""Plain functions as IREE modules: compiled with the first flag set that takes them, cached by text."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np

from ladder import paths
from ladder.lowerers.functions import Call, PlainFunction
from ladder.lowerers.iree import cache, compiling, flags, targets
from ladder.lowerers.iree.executable import Call as ModuleCall
from ladder.lowerers.iree.executable import Device
from ladder.lowerers.protocol import Unsupported


def module_for(plain: PlainFunction, target: targets.Target, version: str) -> Path:
    """The function's module, compiled now or cached. Raises Unsupported, naming the operation where one is to blame."""
    sets = flags.flag_sets(target, plain.stablehlo)
    decides = [plain.stablehlo, version, asdict(target), cache.processor(), [asdict(one) for one in sets]]
    key = hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:24]
    folder = paths.cache() / "iree" / "functions"
    module = folder / f"{key}.vmfb"
    if module.exists():
        return module
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f".{key}.{os.getpid()}"
    errors: list[str] = []
    for one in sets:
        done = compiling.compile_text(plain.stablehlo, made, target, one.flags)
        if not done.error:
            os.replace(made, module)
            return module
        errors.append(f"{one.name}: {done.error}")
        if done.operation:
            substitute = compiling.SUBSTITUTES.get(done.operation, "write it with other operations")
            raise Unsupported(f"iree cannot compile {plain.name}: {done.operation} is not supported", substitute)
    raise Unsupported(f"iree cannot compile {plain.name}: {'; '.join(errors)}")


def load(device: Device, module: Path, plain: PlainFunction) -> Call:
    """The module on the device."""
    loaded = ModuleCall(device, module, plain.inputs, plain.outputs)

    def call(values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        found = loaded({a.name: device.put(values[a.name]) for a in plain.inputs})
        return {name: device.get(value) for name, value in found.items()}

    return call
