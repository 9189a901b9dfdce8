"""Tier 2b: a training step of each family of nets against committed goldens; see ladder.suite.case. No jax here."""

from ladder.suite.nets.cases import cases
from ladder.suite.nets.running import run

__all__ = ["cases", "run"]
