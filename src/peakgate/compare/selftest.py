"""``peakgate selftest``: measure unchanged code repeatedly, each time in a new process, and judge the sessions."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

from peakgate.base import config, progress
from peakgate.base.errors import CannotDecide, Code, PeakgateError
from peakgate.base.files import make_folder
from peakgate.base.formatting import counted, percent
from peakgate.base.options import VerbParser, at_least
from peakgate.base.report import CellValue, Report, Table, write_json
from peakgate.base.verdict import ExitCode, Verdict, exit_code
from peakgate.compare import resample
from peakgate.compare.command import SELFTEST_FILE
from peakgate.judge.floors import load_floors
from peakgate.render import terminal
from peakgate.run.lock import device_uuid
from peakgate.runfile.find import Archive, find_side, named_runs
from peakgate.runfile.frame import records
from peakgate.runfile.options import FORMS, READING, add_out, add_run_names, verb_parser
from peakgate.runfile.saved import Run, load_run

RUNS = "runs"
NEEDS_GPU = "emulated times are not judged: a selftest needs a GPU; see `nvidia-smi`"
BENCH_COMMAND = (sys.executable, "-P", "-m", "peakgate", "bench")


def main(verb: str, arguments: Sequence[str]) -> int:
    """Measure sessions, or read those named, and return the exit code of their selftest."""
    if arguments and not arguments[0].startswith("-"):
        return judge(*saved_sessions(verb, arguments))
    parser = VerbParser(
        prog=f"peakgate {verb}",
        description="Measure unchanged code repeatedly, in a fresh process each time, and report how often the gate "
        "fails it and how small a slowdown is detected on this machine. With RUN ..., judge saved sessions instead. "
        "Other options go to `peakgate bench`.",
        epilog="exit codes: 0 the gate can be trusted here, 2 bad input, 3 it cannot",
        usage="%(prog)s [-h] [--sessions N] [--save] [--device DEVICE] [--out DIR] [RUN ...]",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--sessions", type=at_least(resample.FEWEST_SESSIONS), default=10, metavar="N", help="how many (default: 10)"
    )
    parser.add_argument("--save", action="store_true", help="also write baselines/<gpu>/selftest.json")
    parser.add_argument("--device", default="auto", help="the GPU: gpu or gpu:N (default: the first)")
    add_out(parser)
    options, for_bench = parser.parse_known_args(arguments)
    if options.device == "cpu":
        raise PeakgateError(NEEDS_GPU, Code.EMULATED)
    if device_uuid(options.device) is None:
        raise CannotDecide(f"--device {options.device}: no usable GPU; check nvidia-smi", Code.NO_GPU)
    folder = options.out / "selftest" / f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
    run_sessions(folder, options.sessions, [f"--device={options.device}", *for_bench])
    with progress.shown(READING):
        measured = find_side(str(folder / RUNS), Archive())
    return judge(measured.runs, options)


def run_sessions(folder: Path, sessions: int, for_bench: Sequence[str]) -> None:
    """Run ``peakgate bench`` once per session; the run files are written below ``folder``.

    A session that does not pass counts like any other. Raises PeakgateError for a session without a run file, or if the
    first one is emulated.
    """
    make_folder(folder / RUNS)
    for number in range(1, sessions + 1):
        sys.stderr.write(f"session {number} of {sessions}\n")
        run = folder / RUNS / f"session_{number:02d}.json"
        done = subprocess.run(
            [
                *BENCH_COMMAND,
                f"--benchmark-json={run}",
                f"--benchmark-storage={folder / 'storage'}",
                f"--out={folder}",
                *for_bench,
            ],
            check=False,
        )
        if done.returncode == ExitCode.INTERRUPTED:
            raise KeyboardInterrupt
        if not run.is_file() or run.stat().st_size == 0:
            raise PeakgateError(
                f"session {number} of {sessions} left no run in {folder} (exit code {done.returncode}); see above why",
                Code.PROCESS,
            )
        if number == 1 and load_run(run).emulated:
            raise PeakgateError(NEEDS_GPU, Code.EMULATED)


def saved_sessions(verb: str, arguments: Sequence[str]) -> tuple[list[Run], argparse.Namespace]:
    """The sessions that ``RUN ...`` names, oldest first, and the other options."""
    parser = verb_parser(
        verb,
        "Judge sessions of one commit on one runner against each other: how often the gate flags unchanged "
        "code, which change it detects, which floors are too tight. At least 5 sessions, better 10. Each RUN is "
        f"{FORMS}.",
        "exit codes: 0 the gate can be trusted here, 2 bad input, 3 it cannot",
    )
    add_run_names(parser)
    parser.add_argument("--sessions", type=int, metavar="N", help="use the newest N of them")
    add_out(parser)
    parser.add_argument("--save", action="store_true", help="also write baselines/<gpu>/selftest.json")
    options = parser.parse_args(arguments)

    runs = sorted(named_runs(options), key=lambda run: run.taken)
    if options.sessions is not None:
        runs = runs[-max(options.sessions, 1) :]
    return runs, options


def judge(runs: Sequence[Run], options: argparse.Namespace) -> ExitCode:
    """Judge sessions of one commit on one runner, oldest first; write and print the report."""
    if len(runs) < resample.FEWEST_SESSIONS:
        raise PeakgateError(
            f"selftest: {counted(len(runs), 'session')}, at least {resample.FEWEST_SESSIONS} are needed, better 10;"
            " `peakgate selftest` measures them",
            Code.TOO_FEW,
        )
    check_alike(runs)
    folder = config.near(config.current().baselines) / runs[-1].slug
    sds = resample.session_sds(runs)
    if not sds:
        raise PeakgateError(
            "selftest: no case was timed in two of the sessions; give sessions of the same cases", Code.NOT_ALIKE
        )
    record = report(
        runs,
        measured=[resample.measure(design, runs) for design in resample.SessionLayout],
        floors=resample.tight_floors(runs, sds, load_floors(folder / "floors.toml")),
        thresholds=resample.tight_thresholds(runs, sds),
    )
    written = [options.out / SELFTEST_FILE, *([folder / SELFTEST_FILE] if options.save else [])]
    for path in written:
        write_json(record, path)
    terminal.show(record)
    terminal.last_line(record, written=written)
    return record.exit_code


def check_alike(runs: Sequence[Run]) -> None:
    """Refuse sessions of different code or runners, whose differences would not be false positives."""
    first = runs[0]
    if first.emulated:
        raise PeakgateError(
            f"{first.path}: emulated times are not judged; a selftest needs runs of a GPU", Code.EMULATED
        )
    for run in runs[1:]:
        for what, one, other in (
            ("GPU", first.uuid, run.uuid),
            ("driver", first.driver, run.driver),
            ("commit", first.commit, run.commit),
            ("GPU model", first.slug, run.slug),
        ):
            if one != other:
                raise PeakgateError(
                    f"{run.path}: {what} {other}, but {first.path.name} has {one}; give sessions of one commit on one"
                    " runner",
                    Code.NOT_ALIKE,
                )
        for case, result in run.cases.items():
            before = first.cases.get(case)
            if before and before.fingerprint != result.fingerprint:
                raise PeakgateError(
                    f"{run.path}: {case} differs in machine code from {first.path.name}; give sessions of one code",
                    Code.NOT_ALIKE,
                )


# The largest acceptable false-positive rate of a gate.
MOST_FALSE_ALARMS = 0.05


def report(
    runs: Sequence[Run],
    measured: Sequence[resample.DesignResult],
    floors: pd.DataFrame,
    thresholds: pd.DataFrame,
) -> Report:
    """The report: gates of unchanged sessions by design, and the floors and thresholds that are too tight.

    INCONCLUSIVE if a design has too many false positives, or a floor is too tight.
    """
    too_many = any(each.rate > MOST_FALSE_ALARMS for each in measured)
    verdict = Verdict.INCONCLUSIVE if too_many or len(floors) else Verdict.PASS
    last = runs[-1]
    cases = sorted({case for each in measured for case in each.detectable_percent})
    facts = (
        f"{len(runs)} sessions of {last.slug}",
        f"driver {last.driver or 'unknown'}",
        f"commit {last.commit[:12]}",
    )
    tables = [
        Table("Gates of unchanged code", DESIGN_HEADINGS, [_design_row(each) for each in measured]),
        Table("Falsely flagged as slower", ("design", "case or session", "gates"), _false_positives(runs, measured)),
        Table(
            "Floors too tight for this runner (less than 3 SDs below the median session)",
            ("case", "floor", "median", "highest reliable", "sessions below"),
            [
                (each.case, *(f"{value:.3f}" for value in (each.floor, each.median, each.carried)), each.sessions_below)
                for each in records(floors)
            ],
        ),
        Table(
            "Cases noisier than the threshold of one run against one",
            ("case", "threshold", "3 SDs"),
            [(case, *map(percent, percents)) for case, *percents in thresholds.itertuples(index=False)],
        ),
    ]
    return Report(
        command="selftest",
        exit_code=exit_code({verdict}),
        verdict=verdict,
        about=(("selftest", ", ".join(facts)),),
        tables=[table for table in tables if table.rows],
        fields={
            "gpu": last.slug,
            **{name: getattr(last, name) for name in ("uuid", "driver", "commit")},
            "taken": last.taken.isoformat(),
            "sessions": [run.path.name for run in runs],
            "designs": [_design(each, runs) for each in measured],
            "floors_too_tight": floors.to_dict("records"),
            "thresholds_too_tight": thresholds.to_dict("records"),
            "smallest_detectable_change_percent": {
                case: {each.design.name.lower(): _rounded(each.detectable_percent.get(case)) for each in measured}
                for case in cases
            },
        },
    )


def _design(measured: resample.DesignResult, runs: Sequence[Run]) -> dict[str, Any]:
    changes = sorted(measured.detectable_percent.values())
    return {
        "design": measured.design,
        "gates": measured.gates,
        "alarms": measured.flagged,
        "false_alarm_rate": measured.rate,
        "false_alarm_rate_at_most": measured.at_most,
        "alarming_cases": dict(measured.flagged_cases),
        "alarming_sessions": {runs[index].path.name: count for index, count in measured.flagged_sessions.items()},
        "smallest_detectable_change_percent": {
            "median": _rounded(median(changes)) if changes else None,
            "worst": _rounded(changes[-1]) if changes else None,
        },
    }


def _rounded(percent: float | None) -> float | None:
    return None if percent is None else round(percent, 4)


DESIGN_HEADINGS = ("design", "gates", "failed", "rate", "rate at most (95 %)", "detects, median case", "worst case")


def _design_row(measured: resample.DesignResult) -> tuple[CellValue, ...]:
    changes = sorted(measured.detectable_percent.values())
    too_many = f", more than {100 * MOST_FALSE_ALARMS:.0f} %" if measured.rate > MOST_FALSE_ALARMS else ""
    return (
        measured.design,
        measured.gates,
        measured.flagged,
        percent(100 * measured.rate, ".1f") + too_many,
        None if measured.at_most is None else percent(100 * measured.at_most, ".0f"),
        percent(median(changes)) if changes else None,
        percent(changes[-1]) if changes else None,
    )


def _false_positives(runs: Sequence[Run], measured: Sequence[resample.DesignResult]) -> list[tuple[CellValue, ...]]:
    """By design, the flagged cases or else the suite, and the session that most of the flagged gates contain."""
    rows: list[tuple[CellValue, ...]] = []
    for each in measured:
        if each.flagged:
            cases = each.flagged_cases or {"the suite as a whole": each.flagged}
            rows += [(each.design, case, count) for case, count in cases.items()]
            session, count = next(iter(each.flagged_sessions.items()))
            rows.append((each.design, runs[session].path.name, count))
    return rows
