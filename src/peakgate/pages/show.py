"""``peakgate show``: one run as a page, as it was judged when it was taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.report import CellValue, Picture, Report, Row
from peakgate.base.safe_text import encodable
from peakgate.base.verdict import EMULATED_PASS, REGRESSIONS, UNDECIDED, ExitCode, Verdict
from peakgate.compare.result import WORST_FIRST
from peakgate.render import cases, files, terminal
from peakgate.runfile.find import FORMS, Archive, RunSide, find_history, find_side
from peakgate.runfile.options import add_out, add_runs, verb_parser
from peakgate.runfile.saved import CaseResult, Run

CELLS = (
    "case",
    "family",
    "stage",
    "size",
    "block",
    "variant",
    "dtype",
    *(each.name for each in cases.MEASURED_COLUMNS),
)


def report(run: Run, history: Iterable[Run] = (), *, pictures: bool = True) -> Report:
    """The cases of a run, worst first, within a verdict in the order measured.

    ``history`` are other runs of the GPU.
    """
    past = cases.past((*history, run))
    rows = [
        _row(each.case, each.verdict, each.reason, run.cases.get(each.case), past) for each in run.unmeasured.values()
    ]
    measured = (each for each in run.cases.values() if each.case not in run.unmeasured)
    rows += [_row(each.case, each.verdict, each.reason, each, past) for each in measured]
    rows.sort(key=_rank)
    found = {row.verdict for row in rows} & {*REGRESSIONS, *UNDECIDED}
    return Report(
        command="show",
        exit_code=ExitCode.OK,
        verdict=next((each for each in WORST_FIRST if each in found), Verdict.PASS),
        qualified="" if found or not run.emulated else EMULATED_PASS,
        about=(("run", cases.side(RunSide(str(run.path), (run,)))),),
        rows=rows,
        columns=cases.MEASURED_COLUMNS,
        tables=[*cases.rates_by_size(run), cases.machine(run)],
        pictures=_drawn(run) if pictures else (),
        taken=run.taken,
    )


def _row(case: str, verdict: Verdict | None, reason: str, now: CaseResult | None, past: Mapping[str, str]) -> Row:
    cells: dict[str, CellValue] = {name: getattr(now, name, None) for name in CELLS}
    cells["bound"] = cases.bound(now) if now else None
    return Row(
        name=encodable(case),
        verdict="" if verdict is None else verdict,
        reason=encodable(reason),
        details=(past[case],) if case in past else (),
        cells=cells | {"case": encodable(case)},
        group=cases.family(now) if now else case.partition(".")[0],
    )


def _rank(row: Row) -> int:
    """Position of the verdict, worst first; an unjudged case comes last."""
    return WORST_FIRST.index(Verdict(row.verdict)) if row.verdict else len(WORST_FIRST)


def _drawn(run: Run) -> Sequence[Picture]:
    from peakgate.render.pictures import pictures  # noqa: PLC0415  # matplotlib

    return pictures(list(run.cases.values()), run.gpu)


def main(verb: str, arguments: Sequence[str]) -> int:
    """Write the page and return the exit code."""
    parser = verb_parser(
        verb, f"Write a page of RUN: {FORMS}. It does not judge.", "exit codes: 0 written, 2 bad input"
    )
    parser.add_argument("wanted", metavar="RUN")
    add_runs(parser)
    add_out(parser)
    options = parser.parse_args(arguments)

    archive = Archive(options.runs)
    side = find_side(options.wanted, archive)
    if len(side.runs) > 1:
        raise PeakgateError(f"{options.wanted}: {len(side.runs)} sessions, expected one; name its file", Code.WHICH_RUN)
    found = report(side.runs[0], find_history(archive, [side]))
    terminal.last_line(found, written=files.write(found, options.out, ("html",)))
    return found.exit_code
