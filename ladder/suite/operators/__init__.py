"""Tier 2a: operators against float64. `cases` and `run` as ladder.suite.case says; jax only in `run`'s child."""

from ladder.suite.operators.cases import cases
from ladder.suite.operators.running import run

__all__ = ["cases", "run"]
