"""How far a result is from float64, output by output, and whether that is allowed. NumPy only."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache as once
from pathlib import Path
from typing import Any

import numpy as np

from ladder.errors import LadderError
from ladder.suite.case import Outcome, failed

TOLERANCES = Path(__file__).with_name("tolerances.toml")
DIFFERENCES = Path(__file__).with_name("differences.toml")
Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class OutputError:
    """One output's error against float64: `l2` relative to its L2 norm, `largest` to its largest element.

    Whole numbers count as wrong or right: both are the share of elements that differ. Infinite when not finite.
    """

    output: str
    l2: float
    largest: float
    non_finite: int = 0


@dataclass(frozen=True)
class Difference:
    """A difference of a platform that is known and documented: an output's relative L2 error, its limit, and why.

    Strict: an error within the ordinary tolerance is reported too, so that no line here outlives its reason.
    """

    platform: str
    test: str
    output: str
    l2: float
    clean: float
    reason: str


def compare(found: Arrays, right: Arrays) -> tuple[OutputError, ...]:
    """The errors of every output, worst first. Raises ValueError for outputs, shapes or kinds that differ."""
    if found.keys() != right.keys():
        raise ValueError(f"outputs {', '.join(sorted(found.keys() ^ right.keys()))} are on one side only")
    return tuple(sorted((_error(k, found[k], right[k]) for k in right), key=lambda e: (-e.non_finite, -e.l2)))


def _error(output: str, found: np.ndarray, right: np.ndarray) -> OutputError:
    if found.shape != right.shape:
        raise ValueError(f"output {output} is {list(found.shape)}, not {list(right.shape)}")
    if not np.issubdtype(right.dtype, np.floating):
        share = float(np.mean(found.astype(np.int64) != right.astype(np.int64)))
        return OutputError(output, share, share)
    wide = found.astype(np.float64)
    if wrong := int((~np.isfinite(wide)).sum()):
        return OutputError(output, np.inf, np.inf, wrong)
    apart = wide - right
    return OutputError(
        output,
        _ratio(float(np.linalg.norm(apart)), float(np.linalg.norm(right))),
        _ratio(float(np.abs(apart).max(initial=0.0)), float(np.abs(right).max(initial=0.0))),
    )


def _ratio(apart: float, size: float) -> float:
    return apart / size if size else (np.inf if apart else 0.0)


def judge(errors: Sequence[OutputError], allowed: Mapping[str, float], known: Sequence[Difference]) -> Outcome:
    """A test's outcome; `known` are the documented differences of this test on this platform."""
    documented = {d.output: d for d in known}
    if missing := documented.keys() - {e.output for e in errors}:
        return failed(f"a difference is documented for {min(missing)}, which is no output of this test")
    if wrong := [e for e in errors if e.non_finite]:
        return failed(f"{wrong[0].output} has {wrong[0].non_finite} values that are not finite")
    notes: list[str] = []
    for e in errors:
        if d := documented.get(e.output):
            if e.l2 <= allowed["l2"]:
                told = f"{e.output} is {e.l2:.2g}: the documented difference is gone; remove its entry"
                return Outcome("fail", e.l2, allowed["l2"], told)
            if e.l2 > d.l2:
                return Outcome("fail", e.l2, d.l2, f"{e.output}: more than its documented difference ({d.reason})")
            notes.append(f"documented difference: {e.output} {e.l2:.2g} ({d.reason})")
    ordinary = [e for e in errors if e.output not in documented]
    if not ordinary:
        return Outcome("pass", None, None, "; ".join(notes))
    measured = [(e.l2, allowed["l2"], f"{e.output}, relative L2") for e in ordinary]
    measured += [(e.largest, allowed["largest"], f"{e.output}, largest element") for e in ordinary]
    value, bound, what = max(measured, key=lambda m: _ratio(m[0], m[1]))
    return Outcome("pass" if value <= bound else "fail", value, bound, "; ".join([what, *notes]))


def bounds(kind: str, group: str, dtype: str, platform: str) -> Mapping[str, float]:
    """The bounds of an operator, or of a family of nets, at a dtype: the platform's own where it has an entry.

    Raises LadderError where none was measured.
    """
    label = "family" if kind == "net" else "operator"
    found = [e for e in entries(TOLERANCES, kind) if (e[label], e["dtype"]) == (group, dtype)]
    for own in (platform, ""):
        for e in found:
            if e["platform"] == own:
                return {k: float(v) for k, v in e.items() if isinstance(v, float)}
    raise LadderError(f"no tolerance was measured for {group} in {dtype}", "python -m ladder.suite.calibrate")


def differences(platform: str, test: str) -> tuple[Difference, ...]:
    """The documented differences of a test on a platform."""
    return tuple(
        d for e in entries(DIFFERENCES, "difference") if (d := Difference(**e)).platform == platform and d.test == test
    )


@once
def entries(file: Path, kind: str) -> tuple[dict[str, Any], ...]:
    """The tables `[[kind]]` of a file. Raises LadderError when it cannot be read."""
    try:
        return tuple(tomllib.loads(file.read_text("utf-8")).get(kind, ()))
    except (OSError, ValueError) as error:
        raise LadderError(f"{file.name} cannot be read: {error}", "python -m ladder.suite.calibrate") from error
