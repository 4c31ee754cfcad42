"""``peakgate bisect``: which commit changed a case's time."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from peakgate.base.errors import CannotDecide, Code, PeakgateError
from peakgate.base.files import make_folder, refuse_links, remove_output, scratch_folder
from peakgate.base.options import at_least
from peakgate.base.text import Progress, counted, say, warn
from peakgate.base.verdict import ExitCode, Verdict
from peakgate.compare.ab.command import add_pairs_options
from peakgate.compare.ab.experiment import Choice, run_experiment
from peakgate.compare.ab.explain import Explained, explain
from peakgate.compare.ab.folders import Wanted, folders
from peakgate.compare.ab.judge import comparison
from peakgate.compare.ab.means import Budget, Means, Stopped
from peakgate.compare.ab.process import SideBroken
from peakgate.compare.ab.record import PairSettings
from peakgate.compare.bisect.commits import (
    STATE_FILE,
    BisectState,
    BisectTarget,
    PointFolder,
    Question,
    Rig,
    build_all,
    listed,
    points,
    resumed,
)
from peakgate.compare.bisect.report import BisectAnswer, plan_lines, report
from peakgate.compare.bisect.search import BuiltCommit, Effort, End, Unusable, groups, narrowed, search
from peakgate.compare.result import change_text
from peakgate.render import files
from peakgate.run.lock import device_uuid, locked
from peakgate.runfile.options import GATE_EXIT_CODES, add_out, verb_parser

BISECT_FOLDER = "bisect"
USUAL = Effort()


def main(verb: str, arguments: Sequence[str]) -> int:
    """Run ``bisect`` and return its exit code: 1 if a commit is named, 0 if none is the cause."""
    options = _parser(verb).parse_args(arguments)
    if not 0 < options.error < 0.5:
        raise PeakgateError(
            f"--error {options.error:g}: expected an error rate above 0 and below 0.5, such as 0.05", Code.OPTION
        )
    commits = _versions(options) if options.package else listed(options.good, options.bad)
    progress = Progress(sys.stderr, every_s=5.0)
    if options.plan:
        return _plan(commits, options, progress)
    uuid = device_uuid(options.device)
    state, out = _begun(options, _question(options, commits, uuid))
    try:
        with locked(uuid, options.wait), points(options.package) as place:
            return _bisect(commits, options, state, Means(out, Budget(options.budget), progress), place)
    except KeyboardInterrupt:
        progress.clear()
        warn(f"interrupted; what was measured is in {out}, go on with --resume")
        return ExitCode.INTERRUPTED


def _versions(options: argparse.Namespace) -> list[tuple[str, str]]:
    """The versions of the package from GOOD to BAD, each with what stands for a commit's subject."""
    if not options.case:
        raise PeakgateError("--package needs --case ID: the case whose time changed", Code.OPTION)
    every = list(dict.fromkeys([options.good, *options.between.replace(",", " ").split(), options.bad]))
    if len(every) < 2:
        raise PeakgateError(f"{options.good} and {options.bad} are the same version; name two", Code.NOT_ALIKE)
    return [(version, f"{options.package} {version}") for version in every]


def _begun(options: argparse.Namespace, question: Question) -> tuple[BisectState, Path]:
    """The state to go on from, and its folder; without --resume what another bisect left there is removed."""
    out: Path = options.out / BISECT_FOLDER
    if options.resume:
        return resumed(out, question), out.resolve()
    if (out / STATE_FILE).exists():
        remove_output(out)
    state = BisectState(1, question, options.case)
    state.save(out)
    return state, out.resolve()


def _parser(verb: str) -> argparse.ArgumentParser:
    parser = verb_parser(
        verb,
        "Find the commit between GOOD and BAD that changed a case's time: every commit is built, those whose machine "
        "code cannot differ are taken together, and only the borders between them are measured.",
        f"{GATE_EXIT_CODES}; 1 is: a commit is named, 0: no commit is the cause; 130 interrupted",
    )
    parser.add_argument("good", metavar="GOOD", help="an ancestor of BAD, before the change")
    parser.add_argument("bad", metavar="BAD", help="a commit after the change")
    parser.add_argument("--case", default="", metavar="ID", help="the case (default: the one slowed most in `ab`)")
    parser.add_argument(
        "--error",
        type=float,
        default=USUAL.error,
        metavar="SHARE",
        help="the share of whole bisects that may name a wrong commit (default: 0.05)",
    )
    parser.add_argument(
        "--package",
        default="",
        metavar="NAME",
        help="GOOD and BAD are versions of this package, which uv installs, at the commit HEAD",
    )
    parser.add_argument("--between", default="", metavar="V,V", help="the package's versions between, oldest first")
    add_pairs_options(parser)
    parser.add_argument(
        "--most", type=at_least(USUAL.batch), default=40, metavar="N", help="pairs at one commit (default: 40)"
    )
    parser.add_argument("--plan", action="store_true", help="print the groups; measures nothing")
    parser.add_argument("--capability", metavar="9.0", help="compute capability for --plan (default: of the GPU)")
    parser.add_argument("--resume", action="store_true", help="go on with the bisect that is in the output folder")
    add_out(parser)
    return parser


def _question(options: argparse.Namespace, commits: Sequence[tuple[str, str]], uuid: str | None) -> Question:
    try:
        from peakgate.compile import nvrtc  # noqa: PLC0415  (named where it is missing)

        compiler = nvrtc.version()
    except ImportError as error:
        raise PeakgateError(
            f"{error.name or 'NVRTC'} is not installed: pip install 'peakgate[nvrtc]'", Code.INSTALLATION
        ) from None
    return Question(
        good=commits[0][0],
        bad=commits[-1][0],
        wanted_case=options.case,
        tier=options.tier,
        device=options.device,
        gpu=uuid,
        nvrtc=compiler,
        error=options.error,
        package=options.package,
    )


def _plan(commits: Sequence[tuple[str, str]], options: argparse.Namespace, progress: Progress) -> ExitCode:
    """Print the groups of the case, or of every case that differs between the ends."""
    with scratch_folder("bisect") as scratch, points(options.package) as place:
        target = BisectTarget(options.tier, options.capability, options.case, place)
        state = BisectState(1, _question(options, commits, None))
        history = _history(commits, target, state, scratch, progress)
    progress.clear()
    ends = history[0].cases, history[-1].cases
    changed = [case for case in ends[1] if case in ends[0] and not ends[0][case].surely_equals(ends[1][case])]
    for case in [options.case] if options.case else changed:
        found = groups(history, case)
        say("\n".join(plan_lines(history, case, found, narrowed(found))) + "\n")
    if not options.case:
        same = len(ends[1]) - len(changed)
        say(f"{counted(len(changed), 'case')} changed between the ends, {same} not: no commit is to blame for those")
    return ExitCode.OK


def _bisect(
    commits: Sequence[tuple[str, str]],
    options: argparse.Namespace,
    state: BisectState,
    means: Means,
    place: PointFolder,
) -> ExitCode:
    """Choose the case, build, search, report."""
    settings = PairSettings(options.tier, options.device, options.pairs, options.confirm_pairs)
    if not state.case:
        state.case = _slowest(options, settings, means) or ""
        state.save(means.out)
        if not state.case:
            say("no case is slower at BAD than at GOOD, measured alternately on this GPU: no commit to look for")
            return ExitCode.OK
    target = BisectTarget(options.tier, None, state.case, place)
    history = _history(commits, target, state, means.out, means.progress)
    found = groups(history, state.case)
    kept = narrowed(found)
    answer = BisectAnswer(state.case, options.tier, history, kept, None, package=options.package, device=options.device)
    if len(kept) > 1:
        effort = Effort(options.error, options.pairs, options.confirm_pairs, most=options.most)
        answer = _searched(answer, settings, effort, means, place)
    means.progress.clear()
    found_why = _why(answer, means.out) if answer.end is End.FOUND and not options.package else None
    return files.deliver(report(answer, found_why), means.out, ("json",))


def _searched(
    answer: BisectAnswer, settings: PairSettings, effort: Effort, means: Means, place: PointFolder
) -> BisectAnswer:
    """Measure until the search ends."""
    commits = [answer.history[group.first] for group in answer.groups]
    with Rig(commits, answer.case, settings, means, place) as rig:
        try:
            outcome = search(len(commits) - 1, rig, effort, lambda what: means.progress.show(f"bisect: {what}"))
        except Unusable as reason:
            raise PeakgateError(
                f"GOOD or BAD cannot be measured: {reason}; `peakgate ab` says more", Code.SIDE
            ) from None
        except Stopped as reason:
            raise CannotDecide(f"{reason}; go on with --resume", Code.BUSY) from None
        return replace(answer, outcome=outcome, measured=len(rig.measured), pairs=rig.pairs)


def _history(
    commits: Sequence[tuple[str, str]],
    target: BisectTarget,
    state: BisectState,
    out: Path,
    progress: Progress,
) -> list[BuiltCommit]:
    def built(commit: BuiltCommit) -> None:
        state.commits.append(commit)
        state.save(out)
        progress.show(f"built {len(state.commits)} of {len(commits)} commits")

    return build_all(commits, target, state.commits, out, built)


def _slowest(options: argparse.Namespace, settings: PairSettings, means: Means) -> str | None:
    """The case that ``ab`` of the ends flags as slowed most, by the lower bound of its interval; None where none."""
    raw = means.out / "ab"
    make_folder(raw)
    refuse_links(raw)
    try:
        with folders(Wanted(options.good), Wanted(options.bad)) as placed:
            record = run_experiment(placed, settings, Choice(), Means(raw, means.budget, means.progress))
    except SideBroken as broken:
        raise PeakgateError(f"{broken}; GOOD and BAD must run, name others", Code.SIDE) from None
    if record.interrupted:
        raise KeyboardInterrupt
    rows = [row for row in comparison(record).records if row.verdict == Verdict.SLOWER]
    if not rows and record.stopped:
        raise CannotDecide(f"{record.stopped}: GOOD and BAD were not compared to the end", Code.BUSY)
    for row in rows[1:]:
        again = f"peakgate bisect {options.good} {options.bad} --case {row.case}"
        say(f"{row.case} is slower too ({change_text(row.change_percent)}): `{again}`")
    return rows[0].case if rows else None


def _why(answer: BisectAnswer, out: Path) -> Explained:
    """Changes in the machine code, and in hardware counters if ncu is installed."""
    assert answer.outcome is not None
    assert answer.outcome.before is not None
    assert answer.outcome.group is not None
    commits = [answer.history[answer.groups[at].first].commit for at in (answer.outcome.before, answer.outcome.group)]
    with folders(Wanted(commits[0]), Wanted(commits[1])) as placed:
        return explain(placed, [answer.case], out / "explain", answer.device)
