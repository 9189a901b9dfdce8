"""Every fault of the tier's catalogue goes red in the test that is named for it, and the test is green without."""

import pytest

from ladder.suite.case import Side
from ladder.suite.faults_numerics import TABLE
from ladder.suite.nets.injections import MUTANTS as NETS
from ladder.suite.operators.injections import MUTANTS as OPERATORS
from tests.suite.operators.made import IREE, XLA, names, outcome

OF_OPERATORS = [(mutant, test) for mutant, test, _ in TABLE if not test.startswith("net-")]
OF_NETS = [(mutant, test) for mutant, test, _ in TABLE if test.startswith("net-")]


@pytest.mark.parametrize(("mutant", "test"), OF_OPERATORS)
def test_a_fault_in_an_operator_is_caught(mutant: str, test: str) -> None:
    assert outcome(test, mutant).status == "fail"


@pytest.mark.slow
@pytest.mark.parametrize(("mutant", "test"), OF_NETS)
def test_a_fault_in_a_net_is_caught(mutant: str, test: str) -> None:
    assert outcome(test, mutant).status == "fail"


@pytest.mark.parametrize("test", ["linear-f32", "exact-bf16", "threefry", "precision", "net-linear-f32"])
@pytest.mark.parametrize("side", [XLA, IREE], ids=lambda side: side.lowerer)
def test_without_a_fault_the_test_is_green_through_either_lowerer(test: str, side: Side) -> None:
    found = outcome(test, "", side)
    assert found.status == "pass", found.detail


def test_a_fault_is_caught_through_iree_too() -> None:
    assert outcome("linear-f32", "tf32", IREE).status == "fail"


def test_every_mutant_is_in_the_table_and_every_test_of_the_table_is_one() -> None:
    assert {mutant for mutant, _ in OF_OPERATORS} == OPERATORS.keys()
    assert {mutant for mutant, _ in OF_NETS} == NETS.keys()
    assert {test for _, test, _ in TABLE} <= set(names())


def test_the_tier_reports_well_over_two_dozen_tests_of_unique_names() -> None:
    assert len(names()) == len(set(names())) >= 70
