"""Faults that tier 0 catches: vendor's tools that are not well, plugins, devices, and products that are wrong."""

from typing import Any

import numpy as np

from ladder.suite.faults import Fault

HERE = "ladder.suite.faults_platform"
CARD: dict[str, Any] = {"platform": "cuda-desktop", "test": "vendor-tool"}
PLUGIN = """def initialize():
    raise RuntimeError("the driver is older than this plugin")
"""


def _product(change: Any) -> None:
    """What comes of a compiled product is `change` of its operands and its result."""
    from ladder.lowerers.xla_stages import XlaStages

    compile = XlaStages.compile

    def changed(self: XlaStages, device: int) -> Any:
        call = compile(self, device)
        return lambda a, b: change(call, a, b)

    XlaStages.compile = changed


def tf32(report: Any) -> None:
    """Operands rounded to ten bits of mantissa."""
    from ladder.lowerers.faulty import round_mantissa

    del report
    _product(lambda call, a, b: call(round_mantissa(np.asarray(a), 10), round_mantissa(np.asarray(b), 10)))


def not_a_number(report: Any) -> None:
    """One element of the product is NaN."""
    del report
    _product(lambda call, a, b: call(a, b).at[3, 5].set(np.nan))


def off_by_one(report: Any) -> None:
    """One sum of integers is one too large."""
    del report
    _product(lambda call, a, b: call(a, b).at[3, 5].add(1.0))


def other_device(report: Any) -> None:
    """Everything is put on, and compiled for, the last device."""
    from ladder.lowerers.xla_stages import XlaStages

    del report
    put, compile = XlaStages.put, XlaStages.compile
    XlaStages.put = lambda self, array, device: put(self, array, -1)
    XlaStages.compile = lambda self, device: compile(self, -1)


FAULTS = (
    Fault(
        "vendor-tool-absent",
        "the vendor's tool is not there",
        **CARD,
        environment={"PATH": "/nonexistent"},
        says="not installed",
    ),
    Fault(
        "vendor-tool-fails",
        "the vendor's tool ends with status 9",
        **CARD,
        files={"nvidia-smi": "#!/bin/sh\nexit 9\n"},
        says="exit code 9",
    ),
    Fault(
        "vendor-tool-garbage",
        "the vendor's tool prints what nobody can read",
        **CARD,
        files={"nvidia-smi": "#!/bin/sh\necho '?? ?? ??'\n"},
        says="cannot read",
    ),
    Fault(
        "vendor-tool-empty",
        "the vendor's tool prints nothing",
        **CARD,
        files={"nvidia-smi": "#!/bin/sh\n"},
        says="printed nothing",
    ),
    Fault(
        "vendor-tool-hangs",
        "the vendor's tool never ends",
        **CARD,
        files={"nvidia-smi": "#!/bin/sh\nsleep 600\n"},
        says="did not answer",
    ),
    Fault(
        "card-lost",
        "one of two cards fell off the bus",
        **CARD,
        files={"nvidia-smi": "#!/bin/sh\necho 'NVIDIA GeForce RTX 3060, 610.57, 12288 MiB'\n"},
        side={"devices": 2},
        says="there should be 2",
    ),
    Fault(
        "plugin-absent",
        "the platform's plugin is not installed",
        "plugin-loads",
        environment={"JAX_PLATFORMS": "nonesuch"},
        says="nonesuch",
    ),
    Fault(
        "idle-plugin",
        "an installed plugin raises at its start, and jax goes on without it",
        "plugin-loads",
        side={"accelerator": True},
        environment={"JAX_PLATFORMS": ""},
        files={"jax_plugins/nonesuch/__init__.py": PLUGIN},
        says="nonesuch",
    ),
    Fault(
        "flag-misspelt",
        "XLA_FLAGS holds a flag that ends the process",
        "plugin-loads",
        environment={"XLA_FLAGS": "--xla_nonesuch=1"},
        says="--xla_nonesuch",
    ),
    Fault(
        "api-untold",
        "an accelerator's plugin tells no version of the PJRT C API",
        "pjrt-api-version",
        side={"accelerator": True},
        says="tells no version",
    ),
    Fault(
        "wrong-device-count",
        "there is one device in place of four",
        "devices",
        side={"devices": 4},
        says="there are 1 devices",
    ),
    Fault(
        "virtual-as-several",
        "fewer virtual devices than were asked for",
        "devices",
        devices=2,
        side={"devices": 4},
        says="there are 2 devices",
    ),
    Fault(
        "silent-cpu",
        "the accelerator did not start and the host's CPU took its place",
        "not-a-cpu",
        side={"accelerator": True},
        says="is the host's CPU",
    ),
    Fault(
        "other-device",
        "what is meant for the first device runs on the last",
        "compile-execute",
        f"{HERE}:other_device",
        devices=2,
        says="it ran on",
    ),
    Fault("tf32-product", "operands are rounded to TF32", "compile-execute", f"{HERE}:tf32"),
    Fault("nan-product", "one element of a product is NaN", "compile-execute", f"{HERE}:not_a_number"),
    Fault("integers-off-by-one", "a sum of ones is one too large", "exact-integers", f"{HERE}:off_by_one"),
)
