"""``peakgate compare``: report what is slower in NEW than in BASE.

If a selftest was saved, a note says which change this runner detects.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct

from peakgate.base import config, progress, records
from peakgate.base.formatting import counted, percent
from peakgate.base.records import Number, Whole
from peakgate.runfile.options import (
    FORMS,
    GATE_EXIT_CODES,
    READING,
    add_run,
    add_runs,
    add_verdict_options,
    run_name,
    verb_parser,
)

if TYPE_CHECKING:
    from peakgate.runfile.find import RunSide

SELFTEST_FILE = "selftest.json"


class Smallest(Struct):
    """The smallest change in percent that a design detects in the median case."""

    median: Number


class SavedDesign(Struct):
    """One design of the selftest: how many gates it ran, and how many of them failed on unchanged code."""

    gates: Whole
    alarms: Whole
    smallest_detectable_change_percent: Smallest


class SavedSelftest(Struct):
    """The fields used of a saved selftest."""

    command: Literal["selftest"]
    schema: Literal[1]
    gpu: str
    uuid: str | None
    driver: str | None
    taken: Annotated[datetime, Meta(tz=True, description="a date and time with its zone")]
    sessions: list[Any]
    designs: Annotated[list[SavedDesign], Meta(min_length=1, description="a list of at least one design")]
    floors_too_tight: list[Any]


def selftest_notes(new: RunSide, places: Sequence[Path]) -> tuple[str, ...]:
    """One line on the newest selftest of this side's GPU model; empty if none was saved.

    Raises PeakgateError for a file that is not a selftest.
    """
    run = new.runs[-1]
    remedy = "delete it or run `peakgate selftest` again"
    read = [records.read(path, SavedSelftest, remedy) for path in places if path.is_file()]
    known = [each for each in read if each.gpu == run.slug]
    if not known:
        return ()
    found = max(known, key=lambda each: each.taken)
    facts = ("GPU", found.uuid, run.uuid), ("driver", found.driver, run.driver)
    differs = [what for what, before, now in facts if before != now]
    where = f" on another {' and '.join(differs)}" if differs else ""
    flagged, gates = (sum(getattr(each, name) for each in found.designs) for name in ("alarms", "gates"))
    one_against_one = percent(found.designs[0].smallest_detectable_change_percent.median)
    tight = len(found.floors_too_tight)
    return (
        f"selftest of {len(found.sessions)} sessions{where}, {found.taken:%Y-%m-%d}: {flagged} of {gates} gates failed "
        f"on unchanged code; one session against one detects {one_against_one} in the median case"
        + (f"; {counted(tight, 'floor')} too tight for this runner" if tight else ""),
    )


def main(verb: str, arguments: Sequence[str]) -> int:
    """Compare two saved sides and return the exit code of the verdict."""
    parser = verb_parser(verb, f"Report what is slower in NEW than in BASE. Each is {FORMS}.", GATE_EXIT_CODES)
    add_run(parser, "base", metavar="BASE", help="the side to compare with")
    add_run(parser, "new", metavar="NEW", help="the side that is judged")
    add_runs(parser)
    add_verdict_options(parser)
    parser.add_argument("--across-gpus", action="store_true", help="compare runs of two GPU models")
    options = parser.parse_args(arguments)
    for wanted in (options.base, options.new):
        run_name(wanted)

    with progress.shown(READING):
        # pandas and scipy take a second to import: after the arguments are known to be right.
        from peakgate.compare.judge import compare  # noqa: PLC0415
        from peakgate.compare.report import report  # noqa: PLC0415
        from peakgate.compare.result import Comparison  # noqa: PLC0415
        from peakgate.render import files  # noqa: PLC0415
        from peakgate.runfile.find import Archive, apart, find_history, find_side  # noqa: PLC0415
        from peakgate.runfile.frame import to_frame  # noqa: PLC0415

        archive = Archive(options.runs)
        base, new = apart(find_side(options.base, archive), find_side(options.new, archive))
        others = find_history(archive, (base, new))
        progress.step("comparing the two sides")
        saved = config.near(config.current().baselines) / new.runs[-1].slug / SELFTEST_FILE
        remarks = selftest_notes(new, (saved, options.out / SELFTEST_FILE))
        compared = compare(base.frame, new.frame, to_frame(others), across_gpus=options.across_gpus)
        found = report(Comparison(base, new, compared, remarks), others, strict=options.strict)
    return files.deliver(found, options.out, files.FORMATS, everything=options.all, summary=True)
