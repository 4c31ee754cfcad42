"""``peakgate show``: one run as a page, as it was judged when it was taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from peakgate.base import progress
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import encodable
from peakgate.base.report import CellValue, Picture, Report, Row, Section
from peakgate.base.verdict import EMULATED_PASS, RAN, REGRESSIONS, RIGHT, UNDECIDED, ExitCode, Verdict
from peakgate.compare.result import WORST_FIRST
from peakgate.render import cases, files, terminal
from peakgate.runfile.find import Archive, RunSide, find_history, find_side
from peakgate.runfile.options import READING
from peakgate.runfile.saved import CaseResult, Run

ABOUT_CASE = ("family", "stage", "size", "block", "variant", "dtype")

SPEEDS = ("gbs", "tflops")
"""Columns that an emulated run does not have: its times are not those of a GPU."""

ANSWERS: Mapping[str, str] = {
    Verdict.NO_FLOOR: "without a floor",
    Verdict.PASS: "pass",
    Verdict.BELOW_FLOOR: "below the floor",
    Verdict.INCONCLUSIVE: "inconclusive",
    Verdict.TIMEOUT: "timed out",
}
"""How many cases are what, in words; of other verdicts the word in small letters."""


def report(run: Run, history: Iterable[Run] = (), *, pictures: bool = True) -> Report:
    """The cases of a run, worst first, within a verdict in the order measured; with ``pictures`` its families too.

    ``history`` are other runs of the GPU. A run without floors that has nothing against it is not called PASS: how many
    cases were judged stands in place of the verdict. Of an emulated run no speed is shown: results are RIGHT, or RAN.
    """
    past = {} if run.emulated else cases.past((*history, run))
    rows = [
        _row(each.case, each.verdict, each.reason, run.cases.get(each.case), past) for each in run.unmeasured.values()
    ]
    measured = (each for each in run.cases.values() if each.case not in run.unmeasured)
    rows += [_row(each.case, each.verdict, each.reason, each, past) for each in measured]
    rows.sort(key=lambda row: WORST_FIRST.index(Verdict(row.verdict)) if row.verdict else len(WORST_FIRST))
    found = {row.verdict for row in rows}
    against = [each for each in WORST_FIRST if each in found and each in REGRESSIONS | UNDECIDED]
    verdict = against[0] if against else "" if Verdict.NO_FLOOR in found else Verdict.PASS
    if run.emulated:
        checked = {case for case, each in run.cases.items() if each.relative_error is not None}
        words = {row.name: RIGHT if row.name in checked else RAN for row in rows if row.verdict == Verdict.NO_FLOOR}
        rows = [replace(row, verdict=words.get(row.name, row.verdict)) for row in rows]
    counts = Counter(row.verdict for row in rows if row.verdict)  # in the order of the rows
    answer = ", ".join(f"{count} {ANSWERS.get(name, name.lower())}" for name, count in counts.items())
    drawn, sections = _drawn(run) if pictures and not run.emulated else ((), ())
    return Report(
        command="show",
        exit_code=ExitCode.OK,
        verdict=verdict,
        qualified=answer if not verdict else EMULATED_PASS if run.emulated and verdict == Verdict.PASS else "",
        about=(("run", cases.side(RunSide(str(run.path), (run,)))),),
        rows=rows,
        columns=[each for each in cases.measured_columns(rows) if not (run.emulated and each.name in SPEEDS)],
        tables=[cases.machine(run)],
        pictures=drawn,
        taken=run.taken,
        sections=sections,
    )


def _row(case: str, verdict: Verdict | None, reason: str, now: CaseResult | None, past: Mapping[str, str]) -> Row:
    cells: dict[str, CellValue] = {"case": encodable(case)} | {name: getattr(now, name, None) for name in ABOUT_CASE}
    return Row(
        name=encodable(case),
        verdict="" if verdict is None else verdict,
        reason=encodable(reason),
        details=(past[case],) if case in past else (),
        cells=cells | (cases.measured_cells(now) if now else {}),
        group=cases.family(now) if now else case.partition(".")[0],
    )


def _drawn(run: Run) -> tuple[Sequence[Picture], Sequence[Section]]:
    """All families by their stages, then the roofline; a section per family has the rest."""
    from peakgate.render import families, pictures  # noqa: PLC0415  # matplotlib

    reached, sections = families.sections(run)
    stages = [picture for section in sections for picture in section.pictures[:1]]
    roofline = pictures.roofline(list(run.cases.values()), run.gpu, run.memory_roof_gbs)
    drawn = [each for each in (pictures.families(reached), *stages, roofline) if each]
    return drawn, [replace(each, pictures=each.pictures[1:]) for each in sections if each.pictures[1:] or each.tables]


def write(wanted: str, archive: Archive, out: Path) -> ExitCode:
    """Write the page of the run that is named, below ``out``."""
    with progress.shown(READING):
        side = find_side(wanted, archive)
        if len(side.runs) > 1:
            raise PeakgateError(f"{wanted}: {len(side.runs)} sessions, expected one; name its file", Code.WHICH_RUN)
        found = report(side.runs[0], find_history(archive, [side]))
        progress.step("writing the page")
        written = files.write(found, out, ("html",))
    terminal.answer(found)
    terminal.last_line(found, written=written)
    return found.exit_code
