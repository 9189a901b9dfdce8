"""What a lowerer's runtime says of this box. Run in a child only: it may abort, hang or start a wrong device.

    python -m platforms.probe RESULT.json LOWERER PLATFORM DRIVER BACKEND

The result is written anew at every stage, so that a child that dies tells how far it came. Runtimes are imported by
name, so that nothing that imports this module loads one.
"""

import importlib
import json
import logging
import os
import sys
import time
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

RELATIVE = 1e-4  # float32 gives about 6e-7 at full precision; TF32 rounding 3e-4
MLIR = """func.func @double(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = stablehlo.add %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}"""


class Result:
    """The stages so far, on disk after each."""

    def __init__(self, file: Path) -> None:
        self._file, self.told = file, dict[str, Any]()

    def __call__(self, stage: str, **facts: Any) -> None:
        """Enter a stage."""
        self.told |= {"stage": stage, **facts}
        scratch = self._file.with_suffix(".new")
        scratch.write_text(json.dumps(self.told), "utf-8")
        os.replace(scratch, self._file)


class Messages(logging.Handler):
    """What jax logs about plugins that did not start."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message and the exception's text."""
        cause = f": {record.exc_info[1]}" if record.exc_info and record.exc_info[1] else ""
        self.lines.append(record.getMessage().splitlines()[0] + cause)


def xla(platform: str, result: Result) -> None:
    """Which devices jax starts, which plugins it could not, and one product on the first device against NumPy."""
    started = getattr(sys.modules.get("jax._src.xla_bridge"), "_backends", None)
    result("import jax", flags_at_start=os.environ.get("XLA_FLAGS"), started_before=bool(started))
    messages = Messages()
    logging.getLogger("jax._src.xla_bridge").addHandler(messages)
    jax = importlib.import_module("jax")
    plugins = sorted({entry.name for entry in entry_points(group="jax_plugins")} | set(_namespace_plugins()))
    result("start devices", jax=jax.__version__, plugins=plugins)
    try:
        devices = jax.devices(platform) if platform else jax.devices()
    finally:
        bridge = importlib.import_module("jax._src.xla_bridge")
        errors = {name: str(text) for name, text in getattr(bridge, "_backend_errors", {}).items()}
        result("start devices", log=messages.lines, errors=errors, flags=os.environ.get("XLA_FLAGS"))
    result(
        "compute",
        devices=[{"id": f"{d.platform}:{d.id}", "kind": d.device_kind, "platform": d.platform} for d in devices],
        version=" ".join(str(devices[0].client.platform_version).split()),
    )
    result("done", **_product(jax, devices[0]))


def _namespace_plugins() -> list[str]:
    import pkgutil

    try:
        return [module.name for module in pkgutil.iter_modules(importlib.import_module("jax_plugins").__path__)]
    except ImportError:
        return []


def _product(jax: Any, device: Any) -> dict[str, Any]:
    numpy = importlib.import_module("numpy")
    draw = numpy.random.RandomState(7)
    a, b = draw.standard_normal((256, 128)).astype("f"), draw.standard_normal((128, 64)).astype("f")
    start = time.perf_counter()
    with jax.default_matmul_precision("highest"):
        got = jax.jit(lambda x, y: x @ y)(jax.device_put(a, device), b)
    ran_on = sorted(f"{d.platform}:{d.id}" for d in got.devices())
    exact = a.astype("d") @ b.astype("d")
    error = float(abs(numpy.asarray(got) - exact).max() / abs(exact).max())
    return {"error": error, "ran_on": ran_on, "compute_s": round(time.perf_counter() - start, 3)}


def iree(driver: str, backend: str, result: Result) -> None:
    """Which devices the driver opens, and, on a CPU, a function compiled and run."""
    result("import iree.runtime")
    runtime = importlib.import_module("iree.runtime")
    result("import iree.compiler", runtime=getattr(importlib.import_module("iree.runtime.version"), "VERSION", ""))
    compiler = importlib.import_module("iree.compiler.tools")
    result("start devices")
    found = runtime.get_driver(driver).query_available_devices()
    devices = [{"id": f"{driver}:{n}", "kind": d.get("name", "") or driver} for n, d in enumerate(found)]
    result("compute", devices=[{**d, "platform": "cpu" if backend == "llvm-cpu" else driver} for d in devices])
    if backend != "llvm-cpu" or not devices:
        result("done")
        return
    code = compiler.compile_str(
        MLIR, target_backends=[backend], input_type="stablehlo", extra_args=["--iree-llvmcpu-target-cpu=host"]
    )
    numpy = importlib.import_module("numpy")
    config = runtime.Config(driver)
    module = runtime.load_vm_module(runtime.VmModule.copy_buffer(config.vm_instance, code), config)
    got = numpy.asarray(module.double(numpy.arange(4, dtype="f")))
    result("done", error=float(abs(got - 2 * numpy.arange(4)).max()), ran_on=[devices[0]["id"]])


def main(argv: list[str]) -> None:
    """Probe, and write what was found; an exception is written too."""
    file, lowerer, platform, driver, backend = argv
    result = Result(Path(file))
    try:
        xla(platform, result) if lowerer == "xla" else iree(driver, backend, result)
    except Exception as error:
        result(result.told.get("stage", "start"), exception={"type": type(error).__name__, "text": str(error)})
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
