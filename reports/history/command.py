"""``python -m reports history``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from peakgate.common.files import write_whole
from peakgate.reports.locate import Archive, add_runs
from peakgate.reports.render.console import VerdictConsole
from peakgate.verdict import ExitCode

RECENT = 6
"""The newest session and those before it, among which one of its tier is looked for."""


def add_commands(commands: Any, out: Path) -> None:
    """Add ``history`` to the sub-commands; ``out`` is the default folder of reports."""
    looking = commands.add_parser(
        "history",
        help="say what got slower over the saved runs of one GPU model, and between which commits",
        description="Say what got slower over the saved runs of one GPU model, in the order they were taken: the last "
        "5 sessions against the 30 before, all of the chip that measured a case last. Name the runs of one branch with"
        " --runs where others are saved too.",
        epilog="exit codes: 0 pass, 1 regression, 2 bad input, 3 could not decide",
    )
    looking.set_defaults(run=_history)
    looking.add_argument(
        "--gpu", metavar="SLUG", help="the GPU model, as its folder is named; needed where several are"
    )
    add_runs(looking)
    looking.add_argument(
        "--case",
        dest="parts",
        action="append",
        default=[],
        metavar="PART",
        help="only cases with PART in their id; again for more",
    )
    looking.add_argument("--out", type=Path, default=out, metavar="DIR", help="folder of the written reports")
    looking.add_argument("--all", action="store_true", help="list unchanged cases too")


def _history(options: argparse.Namespace) -> ExitCode:
    from peakgate.reports.history import faces  # noqa: PLC0415  # other commands need none of this
    from peakgate.reports.history.detect import detect, detect_together  # noqa: PLC0415
    from peakgate.reports.history.series import history  # noqa: PLC0415
    from peakgate.reports.history.words import Told  # noqa: PLC0415
    from peakgate.reports.newest import line, untimed  # noqa: PLC0415

    archive = Archive(options.runs)
    found = history(archive.sessions(), options.gpu, options.parts)
    *earlier, newest = archive.read([each for each in archive.sessions() if each.slug == found.slug][-RECENT:])
    missed = untimed(newest, earlier)
    notes = (*filter(None, [line(missed)]), *archive.notes())
    told = Told(found, detect(found), detect_together(found), notes, missed)
    console = VerdictConsole()
    faces.show(told, console, everything=options.all)
    texts = {
        "history.md": faces.markdown(told),
        "history.csv": faces.series_csv(told),
        "history.json": faces.verdict_json(told),
    }
    for name, text in texts.items():
        write_whole(options.out / name, text)
    faces.last_line(told, console, [options.out / name for name in texts])
    return told.exit_code
