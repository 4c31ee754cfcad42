"""The verbs that read run files: compare saved runs, propose floors from them, show one as a page or in the ladder."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from peakgate.common.errors import PeakgateError
from peakgate.common.files import write_whole
from peakgate.judge.floors import load_floors
from peakgate.project import config
from peakgate.reports.ab.command import add_commands
from peakgate.reports.compare import compare
from peakgate.reports.history import command as history
from peakgate.reports.keep import keep
from peakgate.reports.ladder import command as ladder
from peakgate.reports.locate import FORMS, Archive, add_runs, apart, find_history, find_side, without_copies
from peakgate.reports.protect import command as protect
from peakgate.reports.render import faces, terminal
from peakgate.reports.render.console import VerdictConsole, say
from peakgate.reports.render.page import of_run
from peakgate.reports.selftest import command as selftest
from peakgate.verdict import ExitCode


def main(verb: str, arguments: Sequence[str]) -> int:
    """Run one verb and return its exit code."""
    project = config.current()
    options = _parser(config.near(project.out), config.near(project.baselines)).parse_args([verb, *arguments])
    code: ExitCode = options.run(options)
    return code


def _compare(options: argparse.Namespace) -> ExitCode:
    archive = Archive(options.runs)
    sides = apart(find_side(options.base, archive), find_side(options.new, archive))
    others = find_history(archive, sides)
    remarks = selftest.remarks(sides[1], options.out)
    comparison = compare(*sides, others, across_gpus=options.across_gpus, remarks=remarks)
    console = VerdictConsole()
    terminal.show(comparison, console, everything=options.all)
    texts: Mapping[str, str] = {}
    if not options.no_files:
        texts = faces.texts(comparison, "compare", others, strict=options.strict, page=not options.no_html)
    for name, text in texts.items():
        write_whole(options.out / name, text)
    faces.summarize(comparison, strict=options.strict)
    written = [options.out / name for name in texts]
    terminal.last_line(comparison, console, strict=options.strict, written=written)
    return comparison.exit_code(strict=options.strict)


def _floors(options: argparse.Namespace) -> ExitCode:
    from peakgate.reports import floors  # noqa: PLC0415  # pandas takes over a second to import

    archive = Archive(options.runs)
    runs = without_copies(run for wanted in options.run_names for run in find_side(wanted, archive).runs)
    path = options.baselines / runs[0].slug / "floors.toml"
    present = load_floors(path, gpu=runs[0].slug)
    text = path.read_text(encoding="utf-8") if present.present else ""
    proposals = floors.propose(runs, present)
    revised = floors.revised(text, proposals, lower=options.lower)
    say(floors.diff(text, revised, path))
    say(floors.summary(proposals, len(runs), lower=options.lower, everything=options.all))
    if options.write:
        floors.check_enough(len(runs))
    if options.write and revised != text:
        write_whole(path, revised)
        say(f"written: {path}\n")
    return ExitCode.OK


def _keep(options: argparse.Namespace) -> ExitCode:
    archive = Archive(options.runs)
    runs = without_copies(run for wanted in options.run_names for run in find_side(wanted, archive).runs)
    for path in keep(runs, options.baselines):
        say(f"kept: {path}\n")
    return ExitCode.OK


def _show(options: argparse.Namespace) -> ExitCode:
    from peakgate.reports.render import html  # noqa: PLC0415  # as in _floors

    archive = Archive(options.runs)
    side = find_side(options.wanted, archive)
    if len(side.runs) > 1:
        raise PeakgateError(f"{options.wanted}: {len(side.runs)} sessions, a page shows one; name its file")
    page = of_run(side.runs[0], find_history(archive, [side]))
    write_whole(options.out / "show.html", html.render(page))
    counts = ", ".join(f"{count} {verdict}" for verdict, count in page.counts.items())
    say(f"{counts}: {page.verdict}; {options.out / 'show.html'}\n")
    return ExitCode.OK


def _parser(out: Path, baselines: Path) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="peakgate", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    comparing = commands.add_parser(
        "compare",
        help="say what is slower in NEW than in BASE",
        description=f"Say what is slower in NEW than in BASE. Each is {FORMS}.",
        epilog="exit codes: 0 pass, 1 regression, 2 bad input, 3 could not decide",
    )
    comparing.set_defaults(run=_compare)
    comparing.add_argument("base", metavar="BASE")
    comparing.add_argument("new", metavar="NEW")
    add_runs(comparing)
    comparing.add_argument("--out", type=Path, default=out, metavar="DIR", help="folder of the written reports")
    comparing.add_argument("--no-files", action="store_true", help="print only")
    comparing.add_argument("--no-html", action="store_true", help="write no page")
    comparing.add_argument("--across-gpus", action="store_true", help="compare runs of two GPU models")
    comparing.add_argument("--all", action="store_true", help="list unchanged cases too")
    comparing.add_argument(
        "--strict-gate",
        "--strict",
        dest="strict",
        action="store_true",
        help="a case without a floor leaves the gate undecided",
    )
    viewing = commands.add_parser(
        "show",
        help="write a page of one run",
        description=f"Write a page of RUN: {FORMS}. It judges nothing: it shows how the run was judged.",
        epilog="exit codes: 0 written, 2 bad input",
    )
    viewing.set_defaults(run=_show)
    viewing.add_argument("wanted", metavar="RUN")
    add_runs(viewing)
    viewing.add_argument("--out", type=Path, default=out, metavar="DIR", help="folder of the page")
    proposing = commands.add_parser(
        "floors",
        help="propose floors from several saved runs",
        description=f"Propose floors from 5 or more sessions, as a diff; 2 are enough for a look. Each RUN is {FORMS}.",
    )
    proposing.set_defaults(run=_floors)
    proposing.add_argument("run_names", metavar="RUN", nargs="+")
    add_runs(proposing)
    proposing.add_argument("--baselines", type=Path, default=baselines, metavar="DIR", help="holds <gpu>/floors.toml")
    proposing.add_argument("--lower", action="store_true", help="take floors lower than today's too")
    proposing.add_argument("--write", action="store_true", help="change floors.toml, from 5 or more sessions")
    proposing.add_argument("--all", action="store_true", help="name every case that keeps or lacks a floor")
    keeping = commands.add_parser(
        "keep",
        help="keep saved runs as references, without their samples",
        description=f"Copy runs to baselines/<gpu>/runs, samples and white space left out. Each RUN is {FORMS}.",
    )
    keeping.set_defaults(run=_keep)
    keeping.add_argument("run_names", metavar="RUN", nargs="+")
    add_runs(keeping)
    keeping.add_argument("--baselines", type=Path, default=baselines, metavar="DIR")
    ladder.add_commands(commands)
    add_commands(commands, out)
    history.add_commands(commands, out)
    protect.add_commands(commands)
    return parser
