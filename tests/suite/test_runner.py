"""Every way that a test can end costs that test and no other; what is no evidence is no pass. Real children."""

import os
import sys

import pytest

from ladder.errors import LadderError
from ladder.suite import runner, tiers
from ladder.suite.case import Side
from ladder.suite.runner import Result, collect, run_cases
from tests.suite import endings


def results(side: Side) -> list[Result]:
    module = "tests.suite.endings"
    return list(run_cases(module, endings.cases(side), side, os.environ, lambda _: None, lambda: None))


def test_every_ending_is_told_apart_and_costs_one_test(side: Side) -> None:
    found = {r.case.name: r for r in results(side)}
    assert {name: r.status for name, r in found.items()} == {
        "right": "pass",
        "aborts": "crash",
        "wrong": "fail",
        "hangs": "timeout",
        "not-a-number": "fail",
        "raises": "fail",
        "not-here": "skip",
        "last": "pass",
    }
    assert list(found) == list(endings.TESTS)
    assert "SIGABRT" in found["aborts"].detail
    assert found["raises"].detail == "ValueError: no such thing"
    assert (found["right"].measured, found["right"].bound, found["right"].detail) == (1.0, 2.0, "near enough")
    assert found["last"].detail == "cpu"
    assert 1.0 <= found["hangs"].seconds < 10


def test_whoever_looks_may_end_it_and_nothing_is_left(side: Side) -> None:
    import psutil

    def stop() -> None:
        raise KeyboardInterrupt

    before = psutil.Process().children(recursive=True)
    with pytest.raises(KeyboardInterrupt):
        list(run_cases("tests.suite.endings", endings.cases(side), side, os.environ, lambda _: None, stop))
    assert psutil.Process().children(recursive=True) == before


@pytest.mark.parametrize(
    ("module", "says"),
    [
        ("ladder.suite.nonesuch", "cannot be imported"),
        ("tests.suite", "cannot be imported"),
        ("ladder.suite.faults_runner", "no tests are no pass"),
    ],
)
def test_a_tier_that_cannot_be_run_is_refused(
    module: str, says: str, side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(runner.MODULES, 0, (module,))
    with pytest.raises(LadderError, match=says):
        collect(side, [0])


def test_two_tests_of_one_name_are_refused(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "twin", endings)
    monkeypatch.setitem(runner.MODULES, 0, ("tests.suite.endings", "twin"))
    with pytest.raises(LadderError, match="two tests are called aborts"):
        collect(side, [0])


def test_there_is_no_tier_beyond_the_last(side: Side) -> None:
    with pytest.raises(LadderError, match="no tier 7; the tiers are: 0, 1, 2"):
        collect(side, [7])


def test_the_tiers_of_this_suite_have_at_least_24_tests_with_names_of_their_own(side: Side) -> None:
    found = [case.name for cases in collect(side, list(tiers.MODULES)).values() for case in cases]
    assert len(found) >= 24
    assert len(set(found)) == len(found)
