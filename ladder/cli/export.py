"""Runs in other programs' formats: CSV of trials, JUnit XML of verdicts."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any
from xml.etree import ElementTree as Xml

from ladder.cli.output import csv_text
from ladder.records import FinalRow, ResultRow

RUN_COLUMNS = ("run", "uuid", "rung", "box", "platform", "state", "fault")
FAILED = ("fail", "diverged")
ERRORS = ("crashed", "timeout")
SUITE_TAGS = {
    "pass": "",
    "fail": "failure",
    "xpass": "failure",
    "crash": "error",
    "timeout": "error",
    "skip": "skipped",
    "xfail": "skipped",
    "flake": "skipped",
}


def trials_csv(runs: Sequence[Mapping[str, Any]]) -> str:
    """One line a trial: its run, then the columns of finals.tsv."""
    rows = [{**run, "run": run["name"], **trial} for run in runs for trial in run["trials"]]
    return csv_text(rows, (*RUN_COLUMNS, *(f.name for f in fields(FinalRow))))


def junit(runs: Sequence[Mapping[str, Any]]) -> str:
    """JUnit XML: a suite a run, a case a verdict. A run that was not judged has one case that is an error."""
    root = Xml.Element("testsuites", name="ladder")
    for run in runs:
        _suite(root, run)
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(root: Xml.Element, run: Mapping[str, Any]) -> None:
    suite = Xml.SubElement(
        root, "testsuite", name=run["name"], timestamp=run["started"].rstrip("Z"), hostname=run["box"]
    )
    properties = Xml.SubElement(suite, "properties")
    for key in ("uuid", "rung", "platform", "lowerer", "state", "word", "fault"):
        if run[key]:
            Xml.SubElement(properties, "property", name=key, value=str(run[key]))
    for result in run.get("results", ()):
        _case(suite, run, result)
    for verdict in run["verdicts"]:
        own = [t for t in run["trials"] if (t["net"], t["arm"]) == (verdict["net"], verdict["arm"])]
        seconds = sum(t["train_s"] + t["compile_s"] for t in own)
        where = f"ladder.{run['rung']}.{run['platform']}"
        name = f"{verdict['net']}-{verdict['arm']}"
        case = Xml.SubElement(suite, "testcase", classname=where, name=name, time=f"{seconds:.3f}")
        tag = _tag(verdict["word"])
        if tag:
            Xml.SubElement(case, tag, message=f"{verdict['word']}: {verdict['reason']}", type=verdict["word"])
        lines = [f"seed {t['seed']}: {t['status']} {t['correct']}/{t['total']} {t['note']}".rstrip() for t in own]
        Xml.SubElement(case, "system-out").text = "\n".join((verdict["reason"], *verdict["notes"], *lines))
    if not run["verdicts"] and not run.get("results"):
        case = Xml.SubElement(suite, "testcase", classname=f"ladder.{run['rung']}", name="verdict", time="0")
        Xml.SubElement(case, "error", message=f"the run is {run['state']} and was not judged", type=run["state"])
    for attribute, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(attribute, str(len(list(suite.iter(tag)))))


def _case(suite: Xml.Element, run: Mapping[str, Any], result: ResultRow) -> None:
    """A test of the suite rung: what is known to fail, or to be flaky, is skipped; what passes unexpectedly failed."""
    where, seconds = f"ladder.suite.{run['platform']}.tier{result.tier}", f"{result.seconds:.3f}"
    case = Xml.SubElement(suite, "testcase", classname=where, name=result.test, time=seconds)
    if tag := SUITE_TAGS[result.status]:
        Xml.SubElement(case, tag, message=f"{result.status}: {result.detail}", type=result.status)
    Xml.SubElement(case, "system-out").text = f"measured {result.measured}, bound {result.bound}; {result.detail}"


def _tag(word: str) -> str:
    """What a verdict is to JUnit: only a pass is a pass."""
    if word == "pass":
        return ""
    return "failure" if word in FAILED else "error" if word in ERRORS else "skipped"
