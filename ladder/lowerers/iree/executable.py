"""Compiled modules on an IREE device: what the worker calls. State and dataset are buffers of the device."""

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import iree.runtime as rt
import numpy as np
from iree.runtime._binding import disable_leak_checker

from ladder.errors import LadderError
from ladder.lowerers.iree.targets import Target
from ladder.lowerers.protocol import Arrays, Compiled, Value
from ladder.train.artifact import Array, Function

ELEMENTS = {
    "float32": rt.HalElementType.FLOAT_32,
    "float16": rt.HalElementType.FLOAT_16,
    "int32": rt.HalElementType.SINT_32,
    "uint32": rt.HalElementType.UINT_32,
    "uint8": rt.HalElementType.UINT_8,
    "bool": rt.HalElementType.BOOL_8,
}


class Device:
    """Device number `index` of a target's driver, and the VM that runs on it."""

    def __init__(self, target: Target, index: int) -> None:
        """Claims the device. Raises LadderError when the driver or the device is not there: never another one."""
        if target.runtime_flags:
            rt.flags.parse_flags(*target.runtime_flags)
        try:
            driver = rt.get_driver(target.driver)
            devices = driver.query_available_devices()
            if not 0 <= index < len(devices):
                raise LadderError(
                    f"IREE's driver '{target.driver}' has {len(devices)} devices; there is no device {index}",
                    target.check,
                )
            # The caching allocator: a step allocates its whole state anew, 3.7-5.7 ms of the mlp against 4.9-6.4.
            caching: Any = ["caching"]  # specifications; the stub says allocators
            self.hal = driver.create_device(devices[index], None, caching)
        except (RuntimeError, ValueError) as error:
            line = str(error).splitlines()[0]
            raise LadderError(f"IREE's driver '{target.driver}' did not start: {line}", target.check) from error
        self.vm = rt.VmInstance()
        # A buffer that is freed after its device takes the interpreter down at exit; nobody orders that: they stay.
        disable_leak_checker()
        for kept in (self.hal, self.vm):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))

    def put(self, array: np.ndarray) -> Value:
        """Copy a host array to the device."""
        host = np.asarray(array, order="C")
        return self.hal.allocator.allocate_buffer_copy(
            memory_type=rt.MemoryType.DEVICE_LOCAL,
            allowed_usage=rt.BufferUsage.DEFAULT | rt.BufferUsage.MAPPING,
            device=self.hal,
            buffer=host,
            element_type=ELEMENTS[host.dtype.name],
        )

    def get(self, value: Value) -> np.ndarray:
        """A copy on the host."""
        return np.array(rt.DeviceArray(self.hal, value).to_host())


class Call:
    """One function of the program as a module: values by name in, values by name out."""

    def __init__(self, device: Device, module: Path, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        loaded = rt.VmModule.copy_buffer(device.vm, module.read_bytes())
        self._context = rt.VmContext(device.vm, modules=[rt.create_hal_module(device.vm, device.hal), loaded])
        function = loaded.lookup_function("main")
        assert function is not None, f"{module.name} has no function main"
        self._function = function
        self._inputs, self._outputs = [a.name for a in inputs], [a.name for a in outputs]

    def __call__(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """Runs to the end: what it returns is there."""
        given, found = rt.VmVariantList(len(self._inputs)), rt.VmVariantList(len(self._outputs))
        for name in self._inputs:
            given.push_ref(values[name])
        self._context.invoke(self._function, given, found)
        return {name: found.get_as_object(k, rt.HalBufferView) for k, name in enumerate(self._outputs)}


class IreeExecutable:
    """The functions that there are modules for; see ladder.lowerers.protocol.Executable."""

    def __init__(
        self, device: Device, modules: Mapping[str, Path], functions: Mapping[str, Function], compiled: Compiled
    ) -> None:
        self.compiled = compiled
        self._device = device
        self._calls = {
            name: Call(device, module, functions[name].inputs, functions[name].outputs)
            for name, module in modules.items()
        }
        self.put, self.get = device.put, device.get

    def feed(self, images: Value, labels: Value, idx: np.ndarray, draws: Mapping[str, np.ndarray]) -> Arrays:
        """A training batch."""
        return self._feed("feed", images, labels, idx, draws)

    def test_feed(self, images: Value, labels: Value, idx: np.ndarray, draws: Mapping[str, np.ndarray]) -> Arrays:
        """A test batch."""
        return self._feed("test_feed", images, labels, idx, draws)

    def _feed(self, name: str, images: Value, labels: Value, idx: np.ndarray, draws: Mapping[str, Any]) -> Arrays:
        drawn = {f"draws:{key}": self.put(value) for key, value in draws.items()}
        return self._calls[name]({"images": images, "labels": labels, "idx": self.put(idx), **drawn})

    def step(self, state: Arrays, batch: Arrays, lr: np.float32, key: np.ndarray) -> tuple[Arrays, Arrays]:
        """One training step."""
        host = {"lr": self.put(np.asarray(lr, np.float32)), "key": self.put(key)}
        out = self._calls["step"]({**_named("state", state), **_named("batch", batch), **host})
        after = {name.removeprefix("state:"): value for name, value in out.items() if name.startswith("state:")}
        return after, {name: self._alone(value) for name, value in out.items() if not name.startswith("state:")}

    def eval(self, state: Arrays, batch: Arrays) -> tuple[Value, Value, Value]:
        """A test batch's counts and loss."""
        out = self._calls["eval"]({**_named("state", state), **_named("batch", batch)})
        return self._alone(out["correct"]), self._alone(out["top5"]), self._alone(out["loss_sum"])

    def _alone(self, value: Value) -> Value:
        """A copy in an allocation of its own: the results of a call share one, so that a kept loss keeps the state."""
        return self.put(self.get(value))


def _named(kind: str, values: Mapping[str, Value]) -> dict[str, Value]:
    return {f"{kind}:{name}": value for name, value in values.items()}
