"""Tier 0: the vendor's tool, the plugin, its API version, the devices, and one product computed on the right device.

The order is that in which a box is looked at: the first red line names the layer.
"""

import os
from collections.abc import Sequence

import numpy as np

from ladder import lowerers
from ladder.lowerers.stages import K, M, N
from ladder.suite.case import Case, Outcome, Report, Side, Test, failed, passed, ran, run_each, skipped
from ladder.suite.product import error, operands, product, stages
from platforms import detect, probing, stack
from platforms import profile as profiles

PROBE_S = 90.0
FULL_PRECISION = (
    1e-5  # of a product of depth 128: 6e-7 in f32, 2.9e-4 with operands rounded to TF32 (facts, section 1.8)
)
CPU_PLATFORMS = ("cpu", "local-task", "local-sync")


def vendor_tool(side: Side) -> Outcome:
    """The vendor's own tool lists as many devices as there should be."""
    profile = profiles.load(side.platform)
    if profile.detect.everywhere:
        return skipped("the host's CPU has no vendor tool")
    found = detect.detect(profile, detect.ask_all([profile]))
    if found.sick or not found.found:
        return failed("; ".join(answer.reason for answer in found.sick) or found.reason)
    if not found.devices:
        return failed(f"no tool lists a device: {found.reason}") if profile.detect.tools else passed(found.reason)
    if len(found.devices) < side.devices:
        return failed(f"{found.reason}; there should be {side.devices}")
    return passed(found.reason)


def plugin_loads(side: Side) -> Outcome:
    """The runtime starts in a process of its own, whichever way it ends, and no installed plugin stays idle."""
    profile = profiles.load(side.platform)
    probed = probing.probe(profile, os.environ, PROBE_S)
    if trouble := probing.trouble(probed):
        return failed(trouble)
    if side.accelerator and (idle := probing.idle(probed)):
        return failed("; ".join(idle))
    level, words = stack.judge(profile, stack.installed())
    return failed(words) if level == "FAIL" else passed(f"{probed.told.get('version', '')} {words}".strip())


def api_version(side: Side) -> Outcome:
    """The version of the PJRT C API that the plugin speaks, for the record."""
    if why := lowerers.lacks(side.lowerer, "pjrt"):
        return skipped(why)
    import jax

    client = jax.devices(side.jax_platform)[0].client
    major, minor = (getattr(client, f"pjrt_c_api_{part}_version", None) for part in ("major", "minor"))
    if not (major or minor):
        told = "jaxlib's own CPU client does not go through the C API"
        return failed("the plugin tells no version of the PJRT C API") if side.accelerator else skipped(told)
    return passed(f"PJRT C API {major}.{minor}")


def devices(side: Side) -> Outcome:
    """As many devices as there should be."""
    found = stages(side).devices
    told = ", ".join(found) + (", virtual: made of the host's cores" if side.virtual else "")
    if len(found) < side.devices or (side.virtual and len(found) != side.devices):
        return failed(f"there are {len(found)} devices ({told}), not {side.devices}")
    return passed(told)


def not_a_cpu(side: Side) -> Outcome:
    """The device is not the host's CPU where the profile says so: no silent fallback."""
    if not side.accelerator:
        return skipped("this profile's device is the host's CPU")
    host = [name for name in stages(side).devices if name.split(":")[0] in CPU_PLATFORMS]
    return failed(f"{', '.join(host)} is the host's CPU") if host else passed()


def compiles_and_runs(side: Side) -> Outcome:
    """A product in full precision on the first device, against float64."""
    a, b, exact = operands()
    run = stages(side)
    value = product(side, 0)(run.put(a, 0), run.put(b, 0))
    if run.ran_on(value) != run.devices[:1]:
        return failed(f"it ran on {', '.join(run.ran_on(value))}, not on {run.devices[0]}")
    return ran(error(run.get(value), exact), FULL_PRECISION, f"on {run.devices[0]}")


def exact_integers(side: Side) -> Outcome:
    """All ones: every sum of K of them is K exactly, in any order and precision."""
    run = stages(side)
    value = product(side, 0)(run.put(np.ones((M, K), np.float32), 0), run.put(np.ones((K, N), np.float32), 0))
    return ran(float(np.abs(run.get(value) - K).max()), 0.0, f"sums of {K} ones")


TESTS: dict[str, Test] = {
    "vendor-tool": vendor_tool,
    "plugin-loads": plugin_loads,
    "pjrt-api-version": api_version,
    "devices": devices,
    "not-a-cpu": not_a_cpu,
    "compile-execute": compiles_and_runs,
    "exact-integers": exact_integers,
}


def cases(side: Side) -> tuple[Case, ...]:
    """The tests of tier 0."""
    del side
    return tuple(Case(name, 0, "platform") for name in TESTS)


def run(names: Sequence[str], side: Side, report: Report) -> None:
    """Run these of them; the record learns which devices there are."""
    run_each(TESTS, names, side, report)
    if "devices" in names:
        report.facts(devices=stages(side).devices)
