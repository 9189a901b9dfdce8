"""The committed tables of error rates: they hold what the verdict promises, and a fresh simulation agrees."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "verdict_simulation.py"


@pytest.fixture(scope="module")
def simulation() -> ModuleType:
    spec = spec_from_file_location("verdict_simulation", SCRIPT)
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def stored(simulation: ModuleType) -> dict[tuple[str, str], float]:
    return simulation.read(simulation.TABLES.read_text())[1]


def test_a_healthy_run_fails_at_most_once_in_a_hundred(stored: dict[tuple[str, str], float]):
    rates = {key: rate for key, rate in stored.items() if key[1] in ("fail, 0", "fail, healthy")}
    assert len(rates) == 84  # 56 runs of one net, 28 of three
    assert {key: rate for key, rate in rates.items() if rate > 1.0} == {}


def test_a_run_two_margins_low_never_passes(stored: dict[tuple[str, str], float]):
    assert max(rate for (_, column), rate in stored.items() if column in ("pass, 2", "pass, cnn low")) <= 0.5


def test_a_gaussian_run_one_margin_low_passes_at_five_per_cent(stored: dict[tuple[str, str], float]):
    rates = [rate for (row, column), rate in stored.items() if "gauss" in row and column == "pass, 1"]
    assert max(rates) <= 5 + 3 * 0.7  # three standard errors of 1000 draws


def test_a_fresh_simulation_agrees_with_the_stored_tables(simulation: ModuleType):
    assert simulation.differences(simulation.TABLES.read_text(), simulation.render(draws=10, seed=1)) == []


def test_the_comparison_sees_a_changed_rate(simulation: ModuleType):
    stored = simulation.TABLES.read_text()
    row = next(line for line in stored.splitlines() if line.startswith("| mlp gauss n=30 m=5"))
    changed = "| ".join([*row.split("| ")[:3], "50.0 ", *row.split("| ")[4:]])
    found = simulation.differences(stored, stored.replace(row, changed))
    assert len(found) == 1
    assert "mlp gauss n=30 m=5, pass, 0" in found[0]
