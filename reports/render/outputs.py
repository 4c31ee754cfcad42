"""Every written output of one comparison, by file name, and the summary of a GitHub Actions job."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from peakgate.common.errors import PeakgateError
from peakgate.common.text import as_json, cell
from peakgate.reports.render import markdown, phrases
from peakgate.reports.result import Comparison, SuiteShift, change_text
from peakgate.reports.runs.find import RunSide
from peakgate.reports.runs.runfile import Run
from peakgate.verdict import REGRESSIONS, UNDECIDED, Judgement, Verdict

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
MOST_SUMMARY_BYTES = 1_000_000
"""GitHub drops a step's summary of more than 1 MiB whole, with everything in it."""

VERDICT_SCHEMA = 1
SUITE = "peakgate"


def texts(
    comparison: Comparison, stem: str, history: Iterable[Run] = (), *, strict: bool = False, page: bool = True
) -> dict[str, str]:
    """``stem`` with ``.md``, ``.csv``, ``.json``, ``.junit.xml`` and, with ``page``, ``.html``.

    ``history`` are other runs of the GPU, for the page's sparklines.
    """
    outputs = {
        ".md": markdown.markdown(comparison, strict=strict),
        ".csv": csv(comparison),
        ".json": verdict_json(comparison, strict=strict),
        ".junit.xml": junit(comparison, strict=strict),
    }
    if page:
        from peakgate.reports.render import html  # noqa: PLC0415  # a quarter of a second that --no-html saves

        outputs[".html"] = html.comparison_page(comparison, history, strict=strict)
    return {f"{stem}{ending}": text for ending, text in outputs.items()}


def summarize(comparison: Comparison, *, strict: bool = False) -> None:
    """Append the comparison to the summary of the GitHub Actions job that this runs in, if it runs in one."""
    if path := os.environ.get(SUMMARY_VARIABLE):
        append_summary(comparison, Path(path), strict=strict)


def append_summary(comparison: Comparison, path: Path, *, strict: bool = False) -> None:
    """Append to the summary at ``path``, no more than still fits beside what the step has already put there."""
    try:
        present = path.stat().st_size if path.exists() else 0
        text = markdown.markdown(comparison, strict=strict, most_bytes=MOST_SUMMARY_BYTES - present - 1)
        with path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(f"{text}\n" if text else "")
    except OSError as error:
        raise PeakgateError(
            f"${SUMMARY_VARIABLE}: {path} cannot be written ({error.strerror}); unset it or name a file that can"
        ) from error


def verdict_json(comparison: Comparison, *, strict: bool = False) -> str:
    """Verdict, exit code, counts, sides, differences and every row, worst first."""
    detectable = comparison.detectable_percent
    document = {
        "schema": VERDICT_SCHEMA,
        "command": "compare",
        "verdict": comparison.verdict(strict=strict),
        "exit_code": int(comparison.exit_code(strict=strict)),
        "strict": strict,
        "counts": dict(comparison.counts),
        "without_floor": comparison.without_floor,
        "smallest_detectable_change_percent": {"median": detectable[0], "worst": detectable[1]} if detectable else None,
        "suite_wide": None if comparison.suite is None else _suite(comparison.suite),
        "base": _side(comparison.base),
        "new": _side(comparison.new),
        "differences": [asdict(difference) for difference in comparison.differences],
        "notes": list(comparison.notes),
        "rows": [_row(row) for row in comparison.records],
    }
    return as_json(document)


def _side(side: RunSide) -> dict[str, Any]:
    names = ("commit", "dirty", "slug", "uuid", "driver", "tier")
    runs = [
        {"path": str(run.path), "datetime": run.taken.isoformat()} | {name: getattr(run, name) for name in names}
        for run in side.runs
    ]
    return {"label": side.label, "runs": runs}


def _row(row: Any) -> dict[str, Any]:
    names = ("case", "verdict", "reason", "base_time_us", "new_time_us", "base_sessions", "new_sessions")
    found = {name: getattr(row, name) for name in names}
    return found | ({} if row.change_percent is None else _changed(row))


def _changed(row: Any) -> dict[str, Any]:
    names = ("change_percent", "smallest_detectable_change_percent", "p_value")
    return {"change": change_text(row.change_percent)} | {name: getattr(row, name) for name in names}


def _suite(suite: SuiteShift) -> dict[str, Any]:
    found = {"verdict": suite.judgement.verdict, "reason": suite.judgement.reason, "cases": suite.cases}
    return found | _changed(suite)


def csv(comparison: Comparison) -> str:
    """``Comparison.frame``, numbers to 8 digits, empty where unknown."""
    text: str = comparison.frame.map(cell).to_csv(index=False, float_format="%.8g", lineterminator="\n")
    return text


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
        _case(suite, SUITE, "floors", Judgement(Verdict.NO_FLOOR, phrases.floors(comparison)))
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
    attributes = {"classname": phrases.one_line(f"{SUITE}.{family}"), "name": phrases.one_line(name)}
    case = ElementTree.SubElement(suite, "testcase", attributes)
    reason = phrases.one_line(f"{judgement.verdict}: {judgement.reason}")
    if judgement.verdict in REGRESSIONS:
        ElementTree.SubElement(case, "failure", {"type": judgement.verdict, "message": reason}).text = reason
    elif judgement.verdict in UNDECIDED or judgement.verdict is Verdict.NO_FLOOR:
        ElementTree.SubElement(case, "skipped", {"message": reason})
    return case
