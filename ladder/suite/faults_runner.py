"""Faults that the run itself catches: transcripts that are no evidence, dead children, missing baselines."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ladder.errors import LadderError
from ladder.suite.case import Case, Outcome, Side, passed
from ladder.suite.faults import Fault

HERE = "ladder.suite.faults_runner"
TEST = "exact-integers"


def _instead(act: Callable[[], object]) -> None:
    """The test does this in place of itself."""
    from ladder.suite import platform

    def test(side: Side) -> Outcome:
        del side
        act()
        return passed()

    platform.TESTS[TEST] = test


def aborts(report: Any) -> None:
    """The process aborts."""
    del report
    _instead(os.abort)


def segfaults(report: Any) -> None:
    """The process touches what is not its own."""
    del report
    _instead(lambda: os.kill(os.getpid(), signal.SIGSEGV))


def hangs(report: Any) -> None:
    """The test never ends."""
    del report
    _instead(lambda: time.sleep(3600))


def raises(report: Any) -> None:
    """The test raises."""
    del report
    _instead(lambda: 1 / 0)


def cut(report: Any) -> None:
    """The log ends after the last pass, and the process well."""
    report.end = lambda: os._exit(0)


def torn(report: Any) -> None:
    """The log ends in the middle of a line."""
    report.end = lambda: os.write(report._fd, b'{"v": 1, "se') and os._exit(0)


def bad_end(report: Any) -> None:
    """The whole log says pass, and the process ends with status 1."""
    end = report.end
    report.end = lambda: (end(), sys.exit(1))


def stale(report: Any) -> None:
    """The log is that of an older run."""
    report._run = "0" * 32


def gap(report: Any) -> None:
    """A line of the log is lost."""
    report._seq += 1


def silent(report: Any) -> None:
    """No test is run, and the log is whole."""
    from ladder.suite import platform

    del report
    platform.run_each = lambda *_: None


def foreign(report: Any) -> None:
    """A pass of another test is told."""
    start = report.start
    report.start = lambda name: start("compile-execute")


def _refusal(act: Callable[[], object]) -> str:
    try:
        act()
    except LadderError as error:
        return error.message
    return ""


def no_baseline() -> str:
    """The platform has no expectation file."""
    from ladder.suite import expectations

    return _refusal(lambda: expectations.load("cpu", (), Path("/nonexistent")))


def no_module() -> str:
    """A tier's module is missing."""
    return _with_tier("ladder.suite.nonesuch")


def no_test() -> str:
    """A tier's module has no test."""
    return _with_tier("ladder.suite.faults_runner")


def cases(side: Any) -> tuple[Any, ...]:
    """This module as a tier without a test."""
    del side
    return ()


def _with_tier(module: str) -> str:
    from ladder.suite import runner

    side = Side("cpu", "xla", "cpu", 1)
    kept = runner.MODULES[0]
    runner.MODULES[0] = (*kept, module)
    try:
        return _refusal(lambda: runner.collect(side, [0]))
    finally:
        runner.MODULES[0] = kept


def _judged(status: Any, listed: str = "") -> str:
    """What a run says whose one test ended so, with this line in its expectation file; "" if it says pass."""
    from ladder.records import ResultRow
    from ladder.suite.expectations import Expectation, diff, state_of
    from ladder.suite.run import word_of
    from ladder.suite.runner import Result
    from ladder.verdict import Word

    expected = {TEST: Expectation(TEST, listed, "known", "cpu.txt")} if listed else {}
    state = state_of(Result(Case(TEST, 0, "platform"), status, None, None, 0.0, ""), expected.get(TEST))
    word = word_of([ResultRow(TEST, 0, state, None, None, 0.0, "")])
    return "" if word is Word.PASS else f"{word}: {state} {diff({TEST: state}, expected, {TEST: ''}, 'cpu')}"


def unexpected_pass() -> str:
    """A test that is listed as failing passes."""
    return _judged("pass", "fail")


def only_skips() -> str:
    """Every test skips itself."""
    return _judged("skip")


def other_failure() -> str:
    """A test that is listed as failing crashes."""
    return _judged("crash", "fail")


def stray_line() -> str:
    """The expectation file lists a test that there is not."""
    from ladder.suite.expectations import Expectation, unknown

    lines = {"nonesuch": Expectation("nonesuch", "fail", "known", "cpu.txt")}
    return ", ".join(line.line for line in unknown(lines, [TEST]))


FAULTS = (
    Fault("abort", "a test aborts its process", TEST, f"{HERE}:aborts", ("crash",), "SIGABRT"),
    Fault("segfault", "a test touches what is not its own", TEST, f"{HERE}:segfaults", ("crash",), "SIGSEGV"),
    Fault("hang", "a test never ends", TEST, f"{HERE}:hangs", ("timeout",), "limit", limit_s=2.0),
    Fault("raises", "a test raises", TEST, f"{HERE}:raises", ("fail",), "ZeroDivisionError"),
    Fault("truncated-log", "the log ends after the last pass, the process well", TEST, f"{HERE}:cut", ("crash",)),
    Fault("torn-log", "the log ends in the middle of a line", TEST, f"{HERE}:torn", ("crash",), "torn"),
    Fault("pass-then-exit-1", "a pass, and then exit status 1", TEST, f"{HERE}:bad_end", ("crash",), "exit 1"),
    Fault("stale-pass", "the pass is an older run's", TEST, f"{HERE}:stale", ("crash",), "run 0000"),
    Fault("lost-line", "a line of the log is lost", TEST, f"{HERE}:gap", ("crash",), "number 1"),
    Fault("test-not-run", "a whole log that runs nothing", TEST, f"{HERE}:silent", ("fail",), "without running it"),
    Fault("other-test", "another test's pass is told", TEST, f"{HERE}:foreign", ("crash",), "out of order"),
    Fault(
        "child-does-not-start",
        "the child cannot import what it needs",
        TEST,
        "ladder.suite.nonesuch:nothing",
        ("crash",),
        "before the first test",
    ),
    Fault(
        "missing-baseline", "the platform has no expectation file", "", f"{HERE}:no_baseline", says="nothing is known"
    ),
    Fault("missing-module", "a tier's module is missing", "", f"{HERE}:no_module", says="cannot be imported"),
    Fault("zero-tests", "a tier has no test", "", f"{HERE}:no_test", says="no tests are no pass"),
    Fault("unexpected-pass", "a known failure passes", "", f"{HERE}:unexpected_pass", says="-exact-integers fail"),
    Fault("known-failure-crashes", "a known failure crashes", "", f"{HERE}:other_failure", says="fail: crash"),
    Fault("only-skips", "every test skips itself", "", f"{HERE}:only_skips", says="not-run"),
    Fault("stray-expectation", "a listed test is not in the suite", "", f"{HERE}:stray_line", says="nonesuch"),
)
