"""The comparison as JUnit XML, which every CI server shows: one test case per case, failed where it regressed."""

from __future__ import annotations

from xml.etree import ElementTree

from peakgate.reports.render import words
from peakgate.reports.result import Comparison
from peakgate.verdict import REGRESSIONS, UNDECIDED, Judgement, Verdict

SUITE = "peakgate"


def junit(comparison: Comparison, *, strict: bool = False) -> str:
    """Regressions are failures, what could not be decided is skipped, each with its reason; ``time`` is NEW's median.

    Under the family ``peakgate`` stand the suite-wide shift and, where ``strict`` makes them count, missing floors.
    """
    suite = ElementTree.Element("testsuite", name=SUITE)
    for row in comparison.records:
        family = row.family or row.case.partition(".")[0]
        case = _case(suite, family, row.case, Judgement(Verdict(row.verdict), row.reason))
        if row.new_time_us is not None:
            case.set("time", f"{row.new_time_us * 1e-6:.9f}")
    if comparison.suite:
        _case(suite, SUITE, "suite-wide", comparison.suite.judgement)
    if strict and comparison.without_floor:
        _case(suite, SUITE, "floors", Judgement(Verdict.NO_FLOOR, words.floors(comparison)))
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", "0")
    suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
    suite.set("timestamp", comparison.new.runs[-1].taken.isoformat(timespec="seconds"))
    root = ElementTree.Element("testsuites", name=SUITE)
    root.append(suite)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _case(suite: ElementTree.Element, family: str, name: str, judgement: Judgement) -> ElementTree.Element:
    """Characters that XML has no way to write are not printable either: ``one_line`` makes them spaces."""
    attributes = {"classname": words.one_line(f"{SUITE}.{family}"), "name": words.one_line(name)}
    case = ElementTree.SubElement(suite, "testcase", attributes)
    reason = words.one_line(f"{judgement.verdict}: {judgement.reason}")
    if judgement.verdict in REGRESSIONS:
        ElementTree.SubElement(case, "failure", {"type": judgement.verdict, "message": reason}).text = reason
    elif judgement.verdict in UNDECIDED or judgement.verdict is Verdict.NO_FLOOR:
        ElementTree.SubElement(case, "skipped", {"message": reason})
    return case
