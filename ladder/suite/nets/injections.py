"""Faults in a net's step: another traced step, so that the whole path runs for real."""

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp

from ladder.suite.nets.steps import STATS
from ladder.suite.operators.injections import round_operand

Values = dict[str, Any]
Step = Callable[[Mapping[str, Any]], Values]
Change = Callable[[Mapping[str, Any], Values], Values]
PARAMS = "params/"


def inject(fault: str, step: Step) -> Step:
    """The step with a fault of MUTANTS."""
    change, bits = MUTANTS[fault]

    def faulty(values: Mapping[str, Any]) -> Values:
        given = {k: round_operand(v, bits) if bits and k.startswith(PARAMS) else v for k, v in values.items()}
        return change(given, step(given))

    return faulty


def _params(out: Values) -> list[str]:
    return [k for k in out if k.startswith(PARAMS)]


def _kernel(out: Values) -> str:
    """The largest kernel but for the first."""
    return max((k for k in _params(out) if k.endswith("/kernel")), key=lambda k: out[k].size)


def _stale(before: Mapping[str, Any], out: Values) -> Values:
    return {**out, _kernel(out): before[_kernel(out)]}


def _flipped(before: Mapping[str, Any], out: Values) -> Values:
    k = _kernel(out)
    return {**out, k: before[k] + jnp.flip(out[k] - before[k], -1)}


def _scaled(before: Mapping[str, Any], out: Values) -> Values:
    return {**out, **{k: before[k] + 1.01 * (out[k] - before[k]) for k in _params(out)}}


def _nan(before: Mapping[str, Any], out: Values) -> Values:
    del before
    k = _params(out)[0]
    return {**out, k: out[k].at[(0,) * out[k].ndim].set(jnp.nan)}


def _stale_statistics(before: Mapping[str, Any], out: Values) -> Values:
    return {k: before[k] if k.startswith(STATS) else v for k, v in out.items()}


def _dropped(before: Mapping[str, Any], out: Values) -> Values:
    del before
    return {k: v for k, v in out.items() if k != _params(out)[-1]}


def _same(before: Mapping[str, Any], out: Values) -> Values:
    del before
    return out


# Fault -> what it makes of a step's results, and the mantissa bits that parameters keep where they are read (0: all).
MUTANTS: dict[str, tuple[Change, int]] = {
    "tf32": (_same, 10),
    "stale-parameter": (_stale, 0),
    "flipped-update": (_flipped, 0),
    "scaled-gradient": (_scaled, 0),
    "nan-gradient": (_nan, 0),
    "stale-statistics": (_stale_statistics, 0),
    "dropped-output": (_dropped, 0),
}
