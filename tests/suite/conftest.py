"""A side, and modules of tests that end in every way there is."""

import pytest

from ladder.suite.case import Side


@pytest.fixture
def side() -> Side:
    """One CPU device through xla."""
    return Side("cpu", "xla", "cpu", 1)
