"""Faults that tier 1 catches: guards that let things through, stages, collectives, processes, and a blind watchdog."""

import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ladder.suite.faults import Fault

HERE = "ladder.suite.faults_runtime"
P2P_OFF = "NCCL_P2P_DISABLE"


def _lenient(fit: Callable[[Any, Any], Any]) -> None:
    """A lowerer that makes every leaf of the state fit, without a word."""
    from ladder.suite import runtime

    make = runtime.executable

    class Lenient:
        def __init__(self, inner: Any, leaves: Any) -> None:
            self._inner, self._leaves = inner, {leaf.name: leaf for leaf in leaves}

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def step(self, state: Any, *given: Any) -> Any:
            return self._inner.step({k: fit(v, self._leaves[k]) for k, v in state.items()}, *given)

    runtime.executable = lambda side, device=0: Lenient(make(side, device), runtime.program(side).leaves)


def shape_taken(report: Any) -> None:
    """Wrong shapes are reshaped."""
    del report
    _lenient(lambda value, leaf: value.reshape(leaf.shape))


def dtype_taken(report: Any) -> None:
    """Wrong types are converted."""
    del report
    _lenient(lambda value, leaf: value.astype(leaf.dtype))


def output_dropped(report: Any) -> None:
    """Gate G4 does not look at a program's outputs."""
    from ladder.suite import runtime

    del report
    runtime.check_boundary = lambda program: None


def leaf_dropped(report: Any) -> None:
    """Gate G4 does not look at a state's leaves."""
    from ladder.suite import runtime

    del report
    runtime.check_state = lambda program, state: None


def no_donation(report: Any) -> None:
    """Nothing is given up to a step."""
    import jax

    del report
    jit: Any = jax.jit
    jax.jit = lambda function, **options: jit(function, **{**options, "donate_argnums": ()})


def all_devices(report: Any) -> None:
    """A program is compiled for every device there is, as a PJRT bridge once did."""
    import jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    from ladder.lowerers import xla

    del report
    xla.SingleDeviceSharding = lambda device: NamedSharding(Mesh(np.array(jax.devices()), ("all",)), PartitionSpec())


def _stages(**methods: Any) -> None:
    from ladder.lowerers.xla_stages import XlaStages

    for name, method in methods.items():
        setattr(XlaStages, name, method(getattr(XlaStages, name)))


def _raises(*_: Any) -> Any:
    raise RuntimeError("INTERNAL: no code for this device")


def bad_compile(report: Any) -> None:
    """The compiler fails."""
    del report
    _stages(compile=lambda _: _raises)


def bad_copy_out(report: Any) -> None:
    """The first element that is copied out is wrong."""
    del report
    _stages(get=lambda get: lambda self, value: _flip(get(self, value)))


def bad_copy_in(report: Any) -> None:
    """The first element that is copied in is wrong."""
    del report
    _stages(put=lambda put: lambda self, array, device: put(self, _flip(array), device))


def bad_execute(report: Any) -> None:
    """The product is one ten-thousandth too large."""
    del report
    _stages(compile=lambda compile: lambda self, device: _scaled(compile(self, device)))


def _flip(array: np.ndarray) -> np.ndarray:
    changed = np.array(array)
    changed.flat[0] += 1
    return changed


def _scaled(call: Any) -> Any:
    return lambda a, b: call(a, b) * np.float32(1.0001)


def _sum(change: Callable[[list[Any]], list[Any]]) -> None:
    from ladder.suite import parallel

    sharded_sum = parallel.sharded_sum
    parallel.sharded_sum = lambda platform, devices: change(sharded_sum(platform, devices))


def one_device_wrong(report: Any) -> None:
    """The last device holds another sum than the rest."""
    del report
    _sum(lambda parts: [*parts[:-1], parts[-1] + 1])


def shard_lost(report: Any) -> None:
    """The reduction leaves the last shard out."""
    from ladder.suite import parallel

    del report
    parallel.total = lambda x: x[: -parallel.PER_DEVICE].sum()


def _patience(report: Any, seconds: float = 45.0) -> None:
    """In the suite's child: a shorter limit for what it starts."""
    if report is not None:
        from ladder.suite import runtime

        runtime.PROCESS_S = seconds


def collective_hangs(report: Any) -> None:
    """A collective never ends."""
    _patience(report)
    _sum(lambda parts: time.sleep(3600) or parts)


def hangs_with_p2p(report: Any) -> None:
    """A collective ends only without peer-to-peer."""
    _patience(report)
    if P2P_OFF not in os.environ:
        collective_hangs(report)


def wrong_with_p2p(report: Any) -> None:
    """A collective is right only without peer-to-peer."""
    if P2P_OFF not in os.environ:
        one_device_wrong(report)


def everything_wrong(report: Any) -> None:
    """The collective is wrong, and so is one device alone."""
    from ladder.suite import peer

    one_device_wrong(report)
    peer.ROLES["control"] = lambda platform, devices: [0.0]


def import_error(report: Any) -> None:
    """The collective's process cannot import what it needs."""
    from ladder.suite import peer

    del report
    peer.ROLES["collective"] = lambda platform, devices: peer.act("raise")


def _trained(change: Callable[[Any], Any]) -> None:
    """The training over several devices is `change` of itself; the one on a single device stays."""
    from ladder.suite import parallel

    trained = parallel.trained
    parallel.trained = lambda platform, devices: (change(trained) if devices > 1 else trained)(platform, devices)


def half_gradient(report: Any) -> None:
    """Gradients are averaged over devices twice."""
    from ladder.suite import parallel

    del report

    def halved(trained: Any) -> Any:
        def run(platform: str, devices: int) -> Any:
            rate = parallel.RATE
            parallel.RATE = rate / 2
            try:
                return trained(platform, devices)
            finally:
                parallel.RATE = rate

        return run

    _trained(halved)


def noise(report: Any) -> None:
    """What a collective gives is a little different each time."""
    del report

    def noisy(trained: Any) -> Any:
        def run(platform: str, devices: int) -> Any:
            params, losses = trained(platform, devices)
            draw = np.random.RandomState(time.perf_counter_ns() % 2**32)
            return {k: v + (1e-7 * draw.standard_normal(v.shape)).astype("f") for k, v in params.items()}, losses

        return run

    _trained(noisy)


def no_learning(report: Any) -> None:
    """Updates are lost."""
    from ladder.suite import parallel

    del report
    parallel.RATE = 0.0


def member_exits(report: Any) -> None:
    """One of the processes ends with status 7 before it meets the others."""
    del report
    _member(lambda member, role: sys.exit(7) if role[2] == "1" else member(*role))


def member_wrong(report: Any) -> None:
    """One of the processes holds another sum."""
    del report
    _member(lambda member, role: [value + float(role[2]) for value in member(*role)])


def _member(change: Callable[[Any, tuple[str, ...]], Any]) -> None:
    from ladder.suite import peer

    member = peer.ROLES["member"]
    peer.ROLES["member"] = lambda *role: change(member, role)


def no_member(report: Any) -> None:
    """No process is started at all."""
    from ladder.suite import runtime

    if report is not None:
        runtime.MEMBERS_ON_CPU = 0


def blind(report: Any) -> None:
    """Whoever waits for processes believes that each ended well."""
    from ladder import children

    if report is not None:
        run = children.run
        children.run = lambda *given: replace(run(*given), code=0)


FAULTS = (
    Fault("wrong-shape-accepted", "a transposed weight is reshaped", "guard-shape", f"{HERE}:shape_taken"),
    Fault("wrong-dtype-accepted", "an integer weight is converted", "guard-dtype", f"{HERE}:dtype_taken"),
    Fault(
        "dropped-output",
        "a step may return too little",
        "guard-dropped-state",
        f"{HERE}:output_dropped",
        says="dropped output",
    ),
    Fault(
        "dropped-state",
        "a state may hold too little",
        "guard-dropped-state",
        f"{HERE}:leaf_dropped",
        says="dropped leaf",
    ),
    Fault("no-donation", "a step gives no memory back", "donation", f"{HERE}:no_donation"),
    Fault("all-devices", "a program is compiled for all devices", "one-of-several", f"{HERE}:all_devices", devices=2),
    Fault("stage-compile", "the compiler fails", "stages", f"{HERE}:bad_compile", says="stage compile"),
    Fault("stage-copy-out", "device to host is wrong", "stages", f"{HERE}:bad_copy_out", says="stage copy out"),
    Fault("stage-copy-in", "host to device is wrong", "stages", f"{HERE}:bad_copy_in", says="stage copy in"),
    Fault("stage-execute", "a kernel is wrong", "stages", f"{HERE}:bad_execute", says="stage execute"),
    Fault(
        "stage-collective",
        "a collective is wrong",
        "stages",
        f"{HERE}:one_device_wrong",
        devices=2,
        says="stage collective",
    ),
    Fault("one-device-wrong", "one device holds another sum", "all-reduce", f"{HERE}:one_device_wrong", devices=2),
    Fault("shard-lost", "a reduction leaves one shard out", "all-reduce", f"{HERE}:shard_lost", devices=2),
    Fault(
        "collective-hangs",
        "a collective never ends, with and without peer-to-peer",
        "collective",
        f"{HERE}:collective_hangs",
        devices=2,
        says="one device alone is right",
    ),
    Fault(
        "p2p-hang",
        "a collective ends only without peer-to-peer",
        "collective",
        f"{HERE}:hangs_with_p2p",
        devices=2,
        says="peer-to-peer is broken",
    ),
    Fault(
        "p2p-wrong",
        "a collective is right only without peer-to-peer",
        "collective",
        f"{HERE}:wrong_with_p2p",
        devices=2,
        says="peer-to-peer is broken",
    ),
    Fault(
        "control-wrong",
        "one device alone is wrong too",
        "collective",
        f"{HERE}:everything_wrong",
        devices=2,
        says="inconclusive",
    ),
    Fault(
        "collective-import-error",
        "the collective cannot be imported",
        "collective",
        f"{HERE}:import_error",
        devices=2,
        says="not tried again",
    ),
    Fault("half-gradient", "gradients are averaged twice", "data-parallel", f"{HERE}:half_gradient", devices=2),
    Fault(
        "noise",
        "a collective is different each time",
        "data-parallel",
        f"{HERE}:noise",
        devices=2,
        says="non-deterministic",
    ),
    Fault("no-learning", "updates are lost", "data-parallel", f"{HERE}:no_learning", devices=2, says="does not fall"),
    Fault(
        "process-dies",
        "one of the processes ends with status 7",
        "process-per-device",
        f"{HERE}:member_exits",
        devices=2,
        says="exit 7",
    ),
    Fault(
        "process-wrong",
        "one of the processes holds another sum",
        "process-per-device",
        f"{HERE}:member_wrong",
        devices=2,
        says="process 1 wrong",
    ),
    Fault("no-process", "no process is started", "process-per-device", f"{HERE}:no_member", devices=2),
    Fault("blind-watchdog", "every process is believed to end well", "told-apart", f"{HERE}:blind", says="was called"),
)
