"""``peakgate floors``: propose floors from saved runs, or keep runs as references."""

from __future__ import annotations

from collections.abc import Sequence

from peakgate.base import config, progress
from peakgate.base.streams import say
from peakgate.base.verdict import ExitCode
from peakgate.runfile.options import FORMS, READING, add_run_names, run_name, verb_parser
from peakgate.runfile.saved import keep


def main(verb: str, arguments: Sequence[str]) -> int:
    """Propose floors from the named runs, with ``--write`` change floors.toml, with ``--keep`` keep the runs."""
    parser = verb_parser(
        verb,
        "Propose floors from 5 or more sessions, as a diff; 2 are enough for a first look. With --keep, copy the runs "
        f"to baselines/<gpu>/runs as references instead. Each RUN is {FORMS}.",
        "exit codes: 0 proposed, written or kept, 2 bad input",
    )
    add_run_names(parser)
    parser.add_argument("--lower", action="store_true", help="take floors lower than today's too")
    parser.add_argument("--write", action="store_true", help="change floors.toml, from 5 or more sessions")
    parser.add_argument("--all", action="store_true", help="name every case that keeps or lacks a floor")
    parser.add_argument("--keep", action="store_true", help="keep the runs, without samples; propose no floors")
    options = parser.parse_args(arguments)
    if options.keep and (options.lower or options.write or options.all):
        parser.error("--keep proposes no floors: leave out --lower, --write and --all")
    for wanted in options.run_names:
        run_name(wanted)
    with progress.shown(READING):  # pandas takes a second to import: after the arguments are known to be right
        from peakgate.compare.floors import proposals  # noqa: PLC0415
        from peakgate.runfile.find import named_runs  # noqa: PLC0415
    if options.keep:
        for path, new in keep(named_runs(options), config.near(config.current().baselines)).items():
            say(f"{'kept' if new else 'kept before'}: {path}")
        return ExitCode.OK
    return proposals.write(options)
