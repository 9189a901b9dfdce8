"""The faulty lowerer: wraps another and injects one named fault, so that every detector has a red test.

Faults work on host copies of the parameters, whatever the wrapped lowerer runs on. Each is written `name` or
`name=value`; FAULTS is the list. A run through it is marked in its record and can become neither kept nor a reference.
"""

import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ladder.errors import LadderError
from ladder.lowerers.protocol import Arrays, Compiled, Executable, Lowerer, Value
from ladder.train.artifact import Program

Host = dict[str, np.ndarray]


def round_mantissa(x: np.ndarray, bits: int) -> np.ndarray:
    """float32 values rounded to nearest even with `bits` explicit mantissa bits: 10 is TF32, 7 is bfloat16."""
    drop = 23 - bits
    u = np.ascontiguousarray(x, np.float32).view(np.uint32)
    half = np.uint32((1 << (drop - 1)) - 1) + ((u >> np.uint32(drop)) & np.uint32(1))
    rounded = ((u + half) & ~np.uint32((1 << drop) - 1)).view(np.float32).reshape(x.shape)
    return np.where(np.isnan(x), x, rounded)  # the carry would make some NaNs infinite, and one zero


def _scaled_gradient(before: Host, after: Host, value: str) -> Host:
    factor = np.float32(value)
    return {k: b + factor * (after[k] - b) for k, b in before.items()}


def _stale(before: Host, after: Host, value: str) -> Host:
    return {**after, f"params/{value}": before[f"params/{value}"]}


def _swapped(before: Host, after: Host, value: str) -> Host:
    """The named weight's update lands flipped along its first axis, as from a kernel indexed backwards."""
    name = f"params/{value}"
    return {**after, name: before[name] + np.flip(after[name] - before[name], axis=0)}


def _ulp(before: Host, after: Host, value: str) -> Host:
    """Each parameter moves one unit in the last place, up where its last bit but one is set, else down."""
    del before, value
    up = {k: (a.view(np.uint32) >> np.uint32(1)) & np.uint32(1) == 1 for k, a in after.items()}
    return {k: np.nextafter(a, np.where(up[k], np.float32(np.inf), np.float32(-np.inf))) for k, a in after.items()}


def _bf16_state(before: Host, after: Host, value: str) -> Host:
    del before, value
    return {k: round_mantissa(a, 7) for k, a in after.items()}


@dataclass(frozen=True)
class Fault:
    """What a fault does, what its value means ("" for none), and how it acts."""

    what: str
    value: str = ""
    update: Callable[[Host, Host, str], Host] | None = None
    operand_bits: int | None = None
    at_step: Callable[[], None] | None = None


def _hang() -> None:
    while True:
        time.sleep(3600)


FAULTS: dict[str, Fault] = {
    "scaled-gradient": Fault("every update is multiplied by a factor", "factor", update=_scaled_gradient),
    "stale": Fault("one parameter is never updated", "parameter", update=_stale),
    "swapped": Fault("one weight's update is flipped along its first axis", "parameter", update=_swapped),
    "ulp": Fault("every parameter moves by one unit in the last place after every step", update=_ulp),
    "tf32": Fault("parameters are rounded to 10 mantissa bits where a step or eval reads them", operand_bits=10),
    "bf16": Fault("parameters are rounded to 7 mantissa bits where a step or eval reads them", operand_bits=7),
    "bf16-state": Fault("parameters are stored with 7 mantissa bits: small updates vanish", update=_bf16_state),
    "nan": Fault("a parameter becomes NaN at a step, counted from 1 in each trial", "step"),
    "hang": Fault("a step never returns", "step", at_step=_hang),
    "abort": Fault("a step aborts the process", "step", at_step=os.abort),
}


def parse(text: str) -> tuple[str, str]:
    """`stale=fc1/w` -> ("stale", "fc1/w"). Raises LadderError for an unknown fault, or a missing or bad value."""
    name, _, value = text.partition("=")
    if name not in FAULTS:
        raise LadderError(f"there is no fault '{name}'; the faults are: {', '.join(FAULTS)}")
    wanted = FAULTS[name].value
    if bool(value) != bool(wanted):
        told = f"fault '{text}': write {name}={wanted.upper()}" if wanted else f"fault {name} takes no value"
        raise LadderError(told)
    if wanted in _IS and not _IS[wanted](value):
        raise LadderError(f"fault '{text}': '{value}' is no {wanted}")
    return name, value


def _is_factor(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


_IS: dict[str, Callable[[str], bool]] = {
    "factor": _is_factor,
    "step": lambda text: text.isdecimal() and int(text) > 0,
}


class Faulty:
    """Another lowerer with a fault in it."""

    def __init__(self, inner: Lowerer, fault: str) -> None:
        self._inner, self._fault = inner, parse(fault)
        self.name = f"faulty({inner.name}, {fault})"

    def describe(self) -> dict[str, str]:
        """The wrapped lowerer's device."""
        return self._inner.describe()

    def compile(self, program: Program) -> "FaultyExecutable":
        """Compile with the wrapped lowerer. Raises LadderError for a parameter that the program does not have."""
        name, value = self._fault
        known = [leaf.name.removeprefix("params/") for leaf in program.leaves if leaf.name.startswith("params/")]
        if FAULTS[name].value == "parameter" and value not in known:
            raise LadderError(f"fault {name}={value}: no such parameter; the program has: {', '.join(known)}")
        return FaultyExecutable(self._inner.compile(program), name, value)


class FaultyExecutable:
    """The wrapped executable with the fault at work in `step` (and `eval`, for rounded operands)."""

    def __init__(self, inner: Executable, name: str, value: str) -> None:
        self._inner, self._fault, self._name, self._value = inner, FAULTS[name], name, value
        self.compiled: Compiled = inner.compiled
        self.put, self.get, self.feed, self.test_feed = inner.put, inner.get, inner.feed, inner.test_feed

    def step(self, state: Arrays, batch: Arrays, lr: np.float32, key: np.ndarray) -> tuple[Arrays, Arrays]:
        """The wrapped step, with the fault."""
        if self._fault.value == "step":
            return self._step_at(state, batch, lr, key)
        before = self._params(state)
        if bits := self._fault.operand_bits:
            rounded = {k: round_mantissa(v, bits) for k, v in before.items()}
            state, metrics = self._inner.step({**state, **self._put(rounded)}, batch, lr, key)
            moved = self._params(state)
            after = {k: before[k] + (moved[k] - rounded[k]) for k in before}
        else:
            state, metrics = self._inner.step(state, batch, lr, key)
            assert self._fault.update is not None
            after = self._fault.update(before, self._params(state), self._value)
        return {**state, **self._put(after)}, metrics

    def _step_at(self, state: Arrays, batch: Arrays, lr: np.float32, key: np.ndarray) -> tuple[Arrays, Arrays]:
        due = int(self._inner.get(state["step"])) + 1 == int(self._value)  # the trial's step, whatever ran before
        if due and self._fault.at_step:
            self._fault.at_step()
        state, metrics = self._inner.step(state, batch, lr, key)
        if due:
            name, host = next(iter(self._params(state).items()))
            host.flat[0] = np.nan
            state = {**state, name: self.put(host)}
        return state, metrics

    def eval(self, state: Arrays, batch: Arrays) -> tuple[Value, Value, Value]:
        """The wrapped eval, on rounded parameters where the fault rounds operands."""
        if bits := self._fault.operand_bits:
            state = {**state, **self._put({k: round_mantissa(v, bits) for k, v in self._params(state).items()})}
        return self._inner.eval(state, batch)

    def _params(self, state: Mapping[str, Any]) -> Host:
        return {k: self._inner.get(v) for k, v in state.items() if k.startswith("params/")}

    def _put(self, host: Host) -> Arrays:
        return {k: self._inner.put(v) for k, v in host.items()}
