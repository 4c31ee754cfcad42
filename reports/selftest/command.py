"""``python -m reports selftest``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from peakgate.common.errors import PeakgateError
from peakgate.common.files import write_whole
from peakgate.judge.floors import load_floors
from peakgate.project import config
from peakgate.reports.locate import FORMS, Archive, Side, add_runs, find_side, without_copies
from peakgate.reports.runfile import Run
from peakgate.reports.selftest import carry, face, record
from peakgate.reports.selftest.resample import FEWEST_SESSIONS, Design, measure
from peakgate.verdict import ExitCode

BASELINES = Path("baselines")


def judge(arguments: Sequence[str]) -> ExitCode:
    """Judge saved sessions: ``RUN... [options]``."""
    parser = argparse.ArgumentParser(
        prog="peakgate selftest",
        description="Judge sessions of one commit on one runner against each other: how often the gate calls unchanged "
        "code slower, what it can resolve, which floors are too tight. At least 5 sessions, better 10. Each RUN is "
        f"{FORMS}.",
        epilog="exit codes: 0 the gate can be trusted here, 2 bad input, 3 it cannot",
    )
    parser.add_argument("run_names", metavar="RUN", nargs="+")
    parser.add_argument("--sessions", type=int, metavar="N", help="use the newest N of them")
    add_runs(parser)
    parser.add_argument("--baselines", type=Path, default=BASELINES, metavar="DIR", help="holds <gpu>/floors.toml")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the written report (default: the project's)")
    parser.add_argument("--save", action="store_true", help="write baselines/<gpu>/selftest.json too")
    options = parser.parse_args(arguments)
    options.out = options.out or config.near(config.current().out)
    return _selftest(options)


def remarks(new: Side, out: Path) -> tuple[str, ...]:
    """What the newest selftest saved for this side's GPU model said, in the baselines or in ``out``."""
    return record.notes(new, (BASELINES / new.runs[-1].slug / record.FILE, out / record.FILE))


def _selftest(options: argparse.Namespace) -> ExitCode:
    archive = Archive(options.runs)
    runs = without_copies(run for wanted in options.run_names for run in find_side(wanted, archive).runs)
    runs.sort(key=lambda run: run.taken)
    if options.sessions is not None:
        runs = runs[-max(options.sessions, 1) :]
    if len(runs) < FEWEST_SESSIONS:
        raise PeakgateError(
            f"selftest: {len(runs)} sessions, at least {FEWEST_SESSIONS} are needed, better 10; `nox -s selftest`"
            " measures them"
        )
    check_alike(runs)
    folder = options.baselines / runs[-1].slug
    sds = carry.session_sds(runs)
    if not sds:
        raise PeakgateError("selftest: no case was timed in two of the sessions; give sessions of the same cases")
    found = record.Selftest(
        runs=tuple(runs),
        measured=tuple(measure(design, runs) for design in Design),
        floors=carry.tight_floors(runs, sds, load_floors(folder / "floors.toml")),
        thresholds=carry.tight_thresholds(runs, sds),
    )
    written = [options.out / record.FILE, *([folder / record.FILE] if options.save else [])]
    for path in written:
        write_whole(path, record.to_json(found))
    face.show(found, written)
    return found.exit_code


def check_alike(runs: Sequence[Run]) -> None:
    """Refuse sessions that are not one code on one runner: a difference between them would be no false alarm."""
    first = runs[0]
    if first.emulated:
        raise PeakgateError(f"{first.path}: emulated times are not judged; a selftest needs runs of a GPU")
    for run in runs[1:]:
        for what, one, other in (
            ("chip", first.uuid, run.uuid),
            ("driver", first.driver, run.driver),
            ("commit", first.commit, run.commit),
            ("GPU model", first.slug, run.slug),
        ):
            if one != other:
                raise PeakgateError(
                    f"{run.path}: {what} {other}, but {first.path.name} has {one}; give sessions of one commit on one"
                    " runner"
                )
        for case, result in run.cases.items():
            before = first.cases.get(case)
            if before and before.fingerprint != result.fingerprint:
                raise PeakgateError(
                    f"{run.path}: {case} is not the machine code of {first.path.name}; give sessions of unchanged code"
                )
