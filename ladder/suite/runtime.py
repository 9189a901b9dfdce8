"""Tier 1: what a training stands on: guards, donation, the stages of a call, several devices, several processes."""

import os
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from ladder import lowerers
from ladder.lowerers import Executable
from ladder.lowerers.protocol import DroppedState, check_boundary, check_state
from ladder.lowerers.stages import K, M, N
from ladder.recipes import Data
from ladder.recipes.mnist import recipes
from ladder.suite.attempt import Attempt, attempt, with_retry
from ladder.suite.case import Case, Outcome, Report, Side, Test, failed, passed, ran, run_each, skipped
from ladder.suite.peer import VALUES
from ladder.suite.platform import FULL_PRECISION
from ladder.suite.product import error, operands, product, stages
from ladder.train.artifact import Program, program_for
from ladder.train.layout import initial_state

DATA = Data("suite", "none", 256, 100, classes=10, shape=(28, 28, 1))
DRIFT = (
    1e-5  # of a parameter after 40 steps, sharded or not: 3e-8 measured on 2 and 4 virtual devices (facts, section 5)
)
PROCESS_S, MEMBERS_S, HANG_S = 90.0, 120.0, 3.0
MEMBERS_ON_CPU = 2  # processes that a CPU's virtual devices are played by
ENDINGS = {"right": "right", "wrong": "wrong", "raise": "refused", "abort": "crash", "mute": "refused", "hang": "hang"}
ONE_DEVICE = "there is one device"


@lru_cache
def program(side: Side) -> Program:
    """mnist's linear net: the smallest real program, exported in a child or found in the cache."""
    recipe = replace(recipes(DATA)[0], batch=16)
    return program_for(recipe, side.jax_platform)[0]


@lru_cache
def executable(side: Side, device: int = 0) -> Executable:
    """It, compiled by the side's own lowerer."""
    return lowerers.make(side.lowerer, side.jax_platform, device).compile(program(side))


Change = Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]


def stepped(side: Side, device: int = 0, change: Change = dict) -> tuple[dict[str, Any], dict[str, Any]]:
    """The state as it went into a step, changed, and as it came out."""
    exe, made = executable(side, device), program(side)
    state = {name: exe.put(value) for name, value in change(initial_state(made.leaves, "linear", 1)).items()}
    inputs = {a.name.removeprefix("batch:"): a for a in made.functions["step"].inputs if a.name.startswith("batch:")}
    batch = {name: exe.put(np.ones(a.shape, a.dtype)) for name, a in inputs.items()}
    after, _ = exe.step(state, batch, np.float32(0.1), np.zeros(2, np.uint32))
    return state, after


def refuses(side: Side, what: str, change: Change) -> Outcome:
    """A step that is given a changed state must refuse it, and then still take the right one."""
    try:
        stepped(side, 0, change)
    except Exception as error:  # each runtime has a type of its own
        stepped(side)
        return passed(f"{type(error).__name__}: {' '.join(str(error).split())[:120]}")
    return failed(f"a state with {what} was taken without a word")


def _first(state: dict[str, np.ndarray]) -> str:
    return max((name for name in state if name.startswith("params/")), key=lambda name: state[name].size)


def wrong_shape(side: Side) -> Outcome:
    """A weight of the right size and the wrong shape is refused."""
    return refuses(side, "a transposed weight", lambda s: {**s, _first(s): np.ascontiguousarray(s[_first(s)].T)})


def wrong_dtype(side: Side) -> Outcome:
    """A weight of the wrong type is refused, not converted."""
    return refuses(side, "an integer weight", lambda s: {**s, _first(s): s[_first(s)].astype(np.int32)})


def dropped_state(side: Side) -> Outcome:
    """Gate G4 refuses a program that returns too little, and a state that holds too little."""
    made = program(side)
    step = made.functions["step"]
    cut = replace(made, functions={**made.functions, "step": replace(step, outputs=step.outputs[1:])})
    state = initial_state(made.leaves, "linear", 1)
    check_boundary(made)
    check_state(made, state)
    short = {name: value for name, value in state.items() if name != _first(state)}
    for what, check in (("output", lambda: check_boundary(cut)), ("leaf", lambda: check_state(made, short))):
        try:
            check()
        except DroppedState:
            continue
        return failed(f"a dropped {what} was taken without a word")
    return passed()


def donation(side: Side) -> Outcome:
    """A step takes its state's memory over: no leaf of the state that went in is still there."""
    if why := lowerers.lacks(side.lowerer, "donation"):
        return skipped(why)
    before, _ = stepped(side)
    kept = [name for name, value in before.items() if not value.is_deleted()]
    return ran(len(kept), 0, f"of {len(before)} leaves not given up: {', '.join(kept) or 'none'}")


def each_stage(side: Side) -> Outcome:
    """Compile, copy out, copy in, execute, reduce over devices: the first that is wrong is named."""
    a, b, exact = operands()
    run, ramp = stages(side), np.arange(M * K, dtype=np.float32).reshape(M, K)

    def collective() -> float:
        from ladder.suite import parallel

        found = [np.asarray(part) for part in parallel.sharded_sum(side.jax_platform, side.devices)]
        return max(abs(float(part) - reduced(side)) for part in found)

    probes: dict[str, tuple[Callable[[], float], float]] = {
        "compile": (lambda: product(side, 0) is None, 0.0),
        "copy out": (lambda: float(np.abs(run.get(run.count(0)) - np.arange(N)).max()), 0.0),
        "copy in": (lambda: float(np.abs(run.get(run.put(ramp, 0)) - ramp).max()), 0.0),
        "execute": (lambda: error(run.get(product(side, 0)(run.put(a, 0), run.put(b, 0))), exact), FULL_PRECISION),
    }
    if side.devices > 1 and not lowerers.lacks(side.lowerer, "collective"):
        probes["collective"] = (collective, 0.0)
    for name, (probe, bound) in probes.items():
        try:
            off = float(probe())
        except Exception as raised:
            return failed(f"stage {name}: {type(raised).__name__}: {' '.join(str(raised).split())[:200]}")
        if not off <= bound:
            return Outcome("fail", off, bound, f"stage {name} gives a wrong result")
    return passed(f"clean: {', '.join(probes)}")


def one_of_several(side: Side) -> Outcome:
    """Compiled for the last device of several, it runs there and nowhere else."""
    if side.devices < 2:
        return skipped(ONE_DEVICE)
    last, (a, b, exact) = side.devices - 1, operands()
    run = stages(side)
    value = product(side, last)(run.put(a, last), run.put(b, last))
    where = {run.devices[last]}
    found = set(run.ran_on(value))
    if not lowerers.lacks(side.lowerer, "placement"):
        found |= {device for leaf in stepped(side, last)[1].values() for device in run.ran_on(leaf)}
    if found != where:
        return failed(f"it ran on {', '.join(sorted(found))}, not on {run.devices[last]} alone")
    return ran(error(run.get(value), exact), FULL_PRECISION, f"on {run.devices[last]} of {side.devices}")


def reduced(side: Side) -> float:
    """What the sharded sum of ladder.suite.parallel.rows is: exact in float32 for any number of devices there is."""
    from ladder.suite.parallel import rows

    return float(rows(side.devices).astype(np.float64).sum())


def _several(test: Test) -> Test:
    def run(side: Side) -> Outcome:
        if why := lowerers.lacks(side.lowerer, "collective"):
            return skipped(why)
        return skipped(ONE_DEVICE) if side.devices < 2 else test(side)

    return run


def all_reduce(side: Side) -> Outcome:
    """A sharded array summed over all devices, against NumPy, as every device holds it."""
    from ladder.suite import parallel

    found = [float(np.asarray(part)) for part in parallel.sharded_sum(side.jax_platform, side.devices)]
    if len(found) != side.devices:
        return failed(f"{len(found)} devices hold the sum, not {side.devices}")
    return ran(max(abs(value - reduced(side)) for value in found), 0.0, f"on each of {len(found)} devices")


def data_parallel(side: Side) -> Outcome:
    """A training whose batch is sharded equals the one on a single device, twice; and its loss falls."""
    from ladder.suite import parallel

    alone, losses = parallel.trained(side.jax_platform, 1)
    first, second = (parallel.trained(side.jax_platform, side.devices) for _ in range(2))
    if not losses[-1] < 0.9 * losses[0]:
        return failed(f"the loss does not fall: {losses[0]:.4g} to {losses[-1]:.4g}")
    if unlike := [name for name in alone if not np.array_equal(first[0][name], second[0][name])]:
        return failed(f"non-deterministic: two equal runs differ in {', '.join(unlike)}")
    drift = max(float(np.abs(first[0][name] - alone[name]).max()) for name in alone)
    return ran(drift, DRIFT, f"drift of a parameter after {parallel.STEPS} steps, the same twice")


def retry(side: Side) -> Outcome:
    """The collective in a process of its own; a hang or a wrong sum is tried again without peer-to-peer, on record."""
    return with_retry(side, reduced(side), PROCESS_S)


def processes(side: Side) -> Outcome:
    """One process a device with a coordinator: each holds the sum over all of them. One that fails, fails all."""
    count = side.devices if side.accelerator else min(side.devices, MEMBERS_ON_CPU)
    wanted = float(VALUES * sum(range(1, count + 1)))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {k: v for k, v in os.environ.items() if k not in ("XLA_FLAGS", "JAX_NUM_CPU_DEVICES")}

    def member(index: int) -> Attempt:
        role = ["member", side.jax_platform, str(count), str(index), str(port), str(index)]
        return attempt(role, [wanted], MEMBERS_S, env)

    with ThreadPoolExecutor(count) as pool:
        ended = list(pool.map(member, range(count)))
    right = sum(one.how == "right" for one in ended)
    if right != count or not count:
        wrong = [f"process {index} {one.how}: {one.detail}" for index, one in enumerate(ended) if one.how != "right"]
        return failed(f"{right} of {count} processes are right; {'; '.join(wrong)}")
    return passed(f"{count} processes, {wanted:g} in each")


def told_apart(side: Side) -> Outcome:
    """The watchdog itself: a hang, a crash, a wrong answer, an error and silence are each called what they are."""
    del side

    def one(how: str) -> Attempt:
        return attempt(["act", how], [1.0], HANG_S if how == "hang" else PROCESS_S, os.environ)

    with ThreadPoolExecutor(2) as pool:
        ended = dict(zip(ENDINGS, pool.map(one, ENDINGS), strict=True))
    wrong = [f"{how} was called {ended[how].how}" for how, word in ENDINGS.items() if ended[how].how != word]
    return failed("; ".join(wrong)) if wrong else passed(", ".join(dict.fromkeys(ENDINGS.values())))


TESTS: dict[str, Test] = {
    "told-apart": told_apart,
    "stages": each_stage,
    "guard-shape": wrong_shape,
    "guard-dtype": wrong_dtype,
    "guard-dropped-state": dropped_state,
    "donation": donation,
    "one-of-several": one_of_several,
    "collective": _several(retry),
    "all-reduce": _several(all_reduce),
    "data-parallel": _several(data_parallel),
    "process-per-device": _several(processes),
}
FAMILY = {"collective": "collective", "all-reduce": "collective", "data-parallel": "collective"}


def cases(side: Side) -> tuple[Case, ...]:
    """The tests of tier 1."""
    del side
    return tuple(Case(name, 1, FAMILY.get(name, "runtime")) for name in TESTS)


def run(names: Sequence[str], side: Side, report: Report) -> None:
    """Run these of them."""
    run_each(TESTS, names, side, report)
