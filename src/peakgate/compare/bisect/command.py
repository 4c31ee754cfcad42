"""``peakgate bisect``: which commit, or version of a package, made a case slower."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Literal

from msgspec import Struct, field, to_builtins

from peakgate.base import records
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import remove_output, write_whole
from peakgate.base.formatting import counted
from peakgate.base.git import commit_of
from peakgate.base.processes import variables
from peakgate.base.report import Report
from peakgate.base.streams import say, warn
from peakgate.base.verdict import REGRESSIONS, ExitCode, Verdict
from peakgate.compare.ab import command as ab_command
from peakgate.compare.ab.folders import git
from peakgate.compare.bisect.search import CaseRow, PointState, SearchResult, search
from peakgate.render import files
from peakgate.run.ab_process import AB_VARIABLE
from peakgate.runfile.options import GATE_EXIT_CODES, add_out, verb_parser

BISECT_FOLDER, STATE_FILE = "bisect", "state.json"

COMPARISON_S = 12
"""Seconds for an ``ab`` of one kernel on an H200 (9 to 13, docs/results/starts.md), without the project's own build."""


class BisectState(Struct):
    """The saved state of a bisect, for --resume: its ``question``, and by point the comparisons with GOOD."""

    schema: Literal[2]
    question: dict[str, str]
    rows: dict[str, CaseRow] = field(default_factory=dict)


class AbDocument(Struct):
    """Fields read from ab.json; ``reason`` says why a side could not be measured at all."""

    rows: list[CaseRow]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Comparisons:
    """Compares points by ``ab``, each comparison in its own folder below ``out``."""

    ab: Callable[[str, Sequence[str]], int]
    options: argparse.Namespace
    points: Sequence[str]
    out: Path

    def rows(self, base: str, head: str, case: str) -> list[CaseRow]:
        """Measure two points and return ab's row of the case, or of every case if ``case`` is empty."""
        options, folder = self.options, self.out / f"{_short(base)}-{_short(head)}"
        if options.package:
            files_of = {point: self.out / f"{options.package}-{point}.txt" for point in (base, head)}
            for version, path in files_of.items():
                write_whole(path, f"{options.package}=={version}\n")
            sides = ["HEAD", f"--base-env={files_of[base]}", f"--head-env={files_of[head]}"]
        else:  # explain the pair of adjacent commits, which is the answer
            adjacent = self.points.index(head) - self.points.index(base) == 1
            sides = [base, head, *(["--explain"] if adjacent else [])]
        how = [f"--tier={options.tier}", f"--device={options.device}", f"--pairs={','.join(map(str, options.pairs))}"]
        chosen, asked = (["-k", case], {"sentinels": 0}) if case else ([], {})
        warn(f"measuring {_short(base)} and {_short(head)}")
        with redirect_stdout(StringIO()), variables(**{AB_VARIABLE: json.dumps(asked)}):  # the folder has the report
            code = self.ab("ab", [*sides, *chosen, *how, f"--out={folder}"])
        if code == ExitCode.INTERRUPTED:
            raise KeyboardInterrupt
        found = records.read(folder / "ab.json", AbDocument, "run it again")
        rows = [row for row in found.rows if case in ("", row.case)] or [CaseRow(case, Verdict.MISSING, found.reason)]
        say(f"{_short(base)} to {_short(head)}: {rows[0].case} {rows[0].verdict}, {rows[0].reason}")
        return rows


def main(verb: str, arguments: Sequence[str], ab: Callable[[str, Sequence[str]], int] = ab_command.main) -> int:
    """Run ``bisect``, which measures by ``ab``; return 1 if a commit is found, 0 if none is the cause."""
    options = _parser(verb).parse_args(arguments)
    points = _points(options)
    if options.plan:
        steps = math.ceil(math.log2(len(points) - 1))
        after = counted(len(points) - 1, "version" if options.package else "commit")
        work = f"about {steps + 2} comparisons: GOOD with BAD, {steps} to search, 1 to confirm"
        time = f"some {COMPARISON_S * (steps + 2)} s for one kernel on an H200, and two builds of the project for each"
        say(f"{after} after GOOD; {work}; {time}")
        return ExitCode.OK
    out: Path = options.out.resolve() / BISECT_FOLDER
    compared = Comparisons(ab, options, points, out)
    state = _begun(out, points, options)

    def keep(point: str, row: CaseRow) -> CaseRow:
        state.rows[point] = row
        write_whole(out / STATE_FILE, json.dumps(to_builtins(state), indent=1) + "\n")
        return row

    def compare(base: str, head: str) -> CaseRow:
        return compared.rows(base, head, ends.case)[0]

    def judge(point: str) -> CaseRow:
        known = state.rows.get(point)
        return known if known and known.state is not PointState.SKIP else keep(point, compare(points[0], point))

    try:
        ends = state.rows.get(points[-1]) or _worst(compared.rows(points[0], points[-1], options.case))
        outcome = SearchResult(ExitCode.OK)
        if ends.state is PointState.SKIP:
            outcome = SearchResult(
                ExitCode.UNDECIDED, points[1:], "no difference between GOOD and BAD could be resolved"
            )
        elif ends.state is PointState.BAD:
            keep(points[-1], ends)
            outcome = search(points, judge, compare)
    except KeyboardInterrupt:
        warn(f"interrupted; what was measured is in {out}, go on with --resume")
        return ExitCode.INTERRUPTED
    return files.deliver(report(points, ends, outcome, options), out, ("json",))


def _parser(verb: str) -> argparse.ArgumentParser:
    parser = verb_parser(
        verb,
        "Find the commit between GOOD and BAD that made a case slower, by bisection along first parents: `ab` compares "
        "commits with GOOD, and finally the one that is left with its parent.",
        f"{GATE_EXIT_CODES}; 1 is: a commit is named, 0: no commit is the cause; 130 interrupted",
    )
    parser.add_argument("good", metavar="GOOD", help="an ancestor of BAD, before the change")
    parser.add_argument(
        "between", metavar="VERSION", nargs="*", help="with --package, the versions between GOOD and BAD, oldest first"
    )
    parser.add_argument("bad", metavar="BAD", help="a commit after the change")
    parser.add_argument("--case", default="", metavar="ID", help="the case (default: the one slowed most in `ab`)")
    parser.add_argument(
        "--package",
        default="",
        metavar="NAME",
        help="GOOD and BAD are versions of this package, which uv installs, at the commit HEAD",
    )
    ab_command.add_pairs_options(parser)
    parser.add_argument("--plan", action="store_true", help="print how many comparisons it takes; measures nothing")
    parser.add_argument("--resume", action="store_true", help="continue the bisect that is in the output folder")
    add_out(parser)
    return parser


def _points(options: argparse.Namespace) -> list[str]:
    """The versions of the package, or the commits along first parents, from GOOD to BAD."""
    good, bad = options.good, options.bad
    if options.package:
        if not options.case:
            raise PeakgateError("--package needs --case ID: the case whose time changed", Code.OPTION)
        every = list(dict.fromkeys([good, *options.between, bad]))
        if len(every) < 2:
            raise PeakgateError(f"{good} and {bad} are the same version; name two", Code.NOT_ALIKE)
        return every
    if options.between:
        raise PeakgateError(f"{options.between[0]}: name two commits, or versions of a --package", Code.OPTION)
    first, last = commit_of(good, Path(), "GOOD"), commit_of(bad, Path(), "BAD")
    if first == last:
        raise PeakgateError(f"{good} and {bad} are the same commit; name an older one as GOOD", Code.NOT_ALIKE)
    if git("merge-base", first, last) != first:
        raise PeakgateError(
            f"{good} is not an ancestor of {bad}; name one that is, see `git merge-base {good} {bad}`", Code.NOT_ALIKE
        )
    return [first, *git("rev-list", "--reverse", "--first-parent", f"{first}..{last}").splitlines()]


def _begun(out: Path, points: Sequence[str], options: argparse.Namespace) -> BisectState:
    """The state to continue from; without --resume, a new one, after removing another bisect's files."""
    question = {name: str(getattr(options, name)) for name in ("case", "tier", "device", "package")}
    question |= {"good": points[0], "bad": points[-1]}
    path = out / STATE_FILE
    if not options.resume:
        if path.exists():
            remove_output(out)
        return BisectState(2, question)
    state = records.read(path, BisectState, "run it without --resume")
    if state.question != question:
        raise PeakgateError(f"{path}: of {state.question}, expected {question}; run without --resume", Code.CHANGED)
    return state


def _worst(rows: Sequence[CaseRow]) -> CaseRow:
    """The case to search for: the worst measured one of the ends' comparison, whose rows are sorted worst first."""
    measured = [row for row in rows if row.verdict not in REGRESSIONS - {Verdict.SLOWER}]
    if not measured:
        why = f"{rows[0].verdict}, {rows[0].reason}; `peakgate ab` says more"
        raise PeakgateError(f"{rows[0].case}: GOOD or BAD cannot be measured: {why}", Code.SIDE)
    return measured[0]


def report(points: Sequence[str], ends: CaseRow, outcome: SearchResult, options: argparse.Namespace) -> Report:
    """The report of the search's outcome."""
    case, left, noun = ends.case, list(map(_short, outcome.suspects)), "version" if options.package else "commit"
    if outcome.exit_code is ExitCode.OK:
        why = "driver, GPU or clocks may have changed between the runs that differed"
        what = f"{case} is not" if options.case else "no case is"
        lines = [f"no {noun} is the cause: {what} slower at BAD than at GOOD; {why}"]
    elif outcome.border and outcome.exit_code is ExitCode.REGRESSION:
        subject = options.package or git("show", "--no-patch", "--format=%s", left[0])
        lines = [f"{left[0]} made {case} slower: {subject}"]
        lines.append(f"{outcome.border.reason}; from GOOD to BAD {ends.reason}")
    else:
        lines = [f"{case}: not decided: {outcome.reason}; from GOOD to BAD {ends.reason}"]
        lines.append(f"{counted(len(left), noun)} left: {', '.join(left[:8])}")
        lines.append("raise --pairs, and go on with --resume: what was skipped is measured again")
    again = None
    if outcome.border and not options.package:
        sides = f"{_short(outcome.before)} {left[0]}"
        again = f"peakgate ab {sides} -k {case} --tier {options.tier} --device {options.device} --explain"
    fields = {"case": case, "ends": to_builtins(ends), "history": len(points), "again": again}
    return Report("bisect", outcome.exit_code, sentences=lines, fields=fields | to_builtins(outcome), next=again or "")


def _short(point: str) -> str:
    """A commit abbreviated to 12 digits; a version unchanged."""
    return point[:12] if len(point) == 40 else point
