"""The xla lowerer: a program's exported bytes through XLA on one PJRT device, with JAX's persistent cache."""

import time
from collections.abc import Mapping
from typing import Any

import jax
import jax.export
import jax.monitoring
import numpy as np
from jax.sharding import SingleDeviceSharding

from ladder import paths
from ladder.errors import LadderError
from ladder.lowerers.functions import Call, PlainFunction
from ladder.lowerers.protocol import Compiled, Unsupported, Value, check_boundary
from ladder.train.artifact import FUNCTIONS, Program

CACHE_HIT = "/jax/compilation_cache/cache_hits"


class Xla:
    """XLA on device number `device` of a jax platform."""

    name = "xla"

    def __init__(self, jax_platform: str, device: int = 0) -> None:
        """Claims the device. Raises LadderError when the platform or the device is not there: never another one."""
        try:
            devices = jax.devices(jax_platform)
        except (RuntimeError, AssertionError) as error:
            raise LadderError(
                f"jax platform '{jax_platform}' did not start: {error}",
                "check its driver and plugin (pip list), or train on --platform cpu",
            ) from error
        if not 0 <= device < len(devices):
            raise LadderError(f"jax platform '{jax_platform}' has {len(devices)} devices; there is no device {device}")
        self.device, self._asked = devices[device], jax_platform
        folder = paths.cache() / "xla" / f"{jax_platform}-jax{jax.__version__}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LadderError(
                f"the compilation cache {folder} cannot be written: {error.strerror}",
                "set LADDER_CACHE to a folder that can",
            ) from error
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        self._hits = 0
        jax.monitoring.register_event_listener(self._count)

    def _count(self, event: str, **_: Any) -> None:
        self._hits += event == CACHE_HIT

    def describe(self) -> dict[str, str]:
        """Device, kind, runtime and the PJRT client's own version text."""
        return {
            "device": f"{self.device.platform}:{self.device.id}",
            "device_kind": self.device.device_kind,
            "runtime": f"jax {jax.__version__}",
            "platform_version": " ".join(str(self.device.client.platform_version).split()),
        }

    def compile(self, program: Program) -> "XlaExecutable":
        """Compile the exported functions ahead of the first call. Raises Unsupported, or DroppedState (gate G4)."""
        check_boundary(program)
        if program.platform not in (self.device.platform, self._asked):
            raise Unsupported(f"program {program.sha[:12]} is for {program.platform}, this lowerer is on {self._asked}")
        calls: dict[str, Any] = {}
        seconds: dict[str, float] = {}
        cached: dict[str, bool] = {}
        sharding = SingleDeviceSharding(self.device)
        for name in FUNCTIONS:
            hits, start = self._hits, time.perf_counter()
            exported = jax.export.deserialize(bytearray(program.exported(name)))
            flat = [jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding) for a in exported.in_avals]
            args, _ = jax.tree.unflatten(exported.in_tree, flat)
            jitted = jax.jit(exported.call, donate_argnums=(0,) if name == "step" else ())
            try:
                calls[name] = jitted.lower(*args).compile()
            except jax.errors.JaxRuntimeError as error:
                line = str(error).splitlines()[0]
                raise Unsupported(f"xla cannot compile {name} of program {program.sha[:12]}: {line}") from error
            seconds[name], cached[name] = time.perf_counter() - start, self._hits > hits
        return XlaExecutable(self.device, calls, Compiled(seconds, cached))

    def function(self, plain: PlainFunction) -> Call:
        """Compile a plain function; see ladder.lowerers.functions. Raises Unsupported."""
        if plain.platform not in (self.device.platform, self._asked):
            raise Unsupported(f"function {plain.name} is for {plain.platform}, this lowerer is on {self._asked}")
        exported = jax.export.deserialize(bytearray(plain.serialised))
        sharding = SingleDeviceSharding(self.device)
        shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding) for a in exported.in_avals]
        try:
            compiled = jax.jit(exported.call).lower(*shapes).compile()
        except jax.errors.JaxRuntimeError as error:
            raise Unsupported(f"xla cannot compile {plain.name}: {str(error).splitlines()[0]}") from error

        def call(values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            found = compiled(*(jax.device_put(values[a.name], self.device) for a in plain.inputs))
            return {a.name: np.array(value) for a, value in zip(plain.outputs, found, strict=True)}

        return call


class XlaExecutable:
    """The compiled functions on their device; see ladder.lowerers.protocol.Executable."""

    def __init__(self, device: Any, calls: dict[str, Any], compiled: Compiled) -> None:
        self.compiled = compiled
        self._device = device
        self.feed, self.test_feed = calls["feed"], calls["test_feed"]
        self.step, self.eval = calls["step"], calls["eval"]

    def put(self, array: np.ndarray) -> Value:
        """Copy to the device."""
        return jax.device_put(array, self._device)

    def get(self, value: Value) -> np.ndarray:
        """Wait, then copy to the host."""
        return np.array(value)
