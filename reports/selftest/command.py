"""``peakgate selftest``: measure unchanged code again and again, a fresh process each time, then judge the sessions."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from peakgate.common.errors import PeakgateError
from peakgate.common.files import write_whole
from peakgate.common.text import counted
from peakgate.judge.floors import load_floors
from peakgate.reports.options import add_baselines, add_out, add_run_names, at_least, named_runs, verb_parser
from peakgate.reports.render.selftest_note import FILE
from peakgate.reports.runs.find import FORMS
from peakgate.reports.runs.runfile import Run, load_run
from peakgate.reports.selftest import report, resample
from peakgate.reports.selftest.resample import FEWEST_SESSIONS, Design, measure
from peakgate.verdict import ExitCode

RUNS = "runs"
BENCH = (sys.executable, "-m", "peakgate", "bench")


def main(verb: str, arguments: Sequence[str]) -> int:
    """Run the sessions and return the exit code of their selftest, or of the session that left no run."""
    if arguments and not arguments[0].startswith("-"):
        return judge(arguments)
    parser = argparse.ArgumentParser(prog=f"peakgate {verb}", description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "--sessions", type=at_least(FEWEST_SESSIONS), default=10, metavar="N", help="how many (default: 10)"
    )
    parser.add_argument("--save", action="store_true", help="write baselines/<gpu>/selftest.json too")
    add_out(parser)
    options, for_bench = parser.parse_known_args(arguments)
    folder = options.out / "selftest" / f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
    run_sessions(folder, options.sessions, for_bench)
    saving = ["--save"] if options.save else []
    return judge([str(folder / RUNS), "--out", str(options.out), *saving])


def run_sessions(folder: Path, sessions: int, for_bench: Sequence[str], bench: Sequence[str] | None = None) -> None:
    """Leave one run file per session below ``folder``.

    A session whose verdict is not a pass counts like any other. One that leaves no run is a PeakgateError, as is a
    first session that is emulated.
    """
    (folder / RUNS).mkdir(parents=True, exist_ok=True)
    for number in range(1, sessions + 1):
        sys.stderr.write(f"session {number} of {sessions}\n")
        run = folder / RUNS / f"session_{number:02d}.json"
        done = subprocess.run(
            [
                *(bench or BENCH),
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
                f"session {number} of {sessions} left no run in {folder} (exit code {done.returncode}); see above why"
            )
        if number == 1 and load_run(run).emulated:
            raise PeakgateError("emulated times are not judged: a selftest needs a GPU; see what `nvidia-smi` says")


def judge(arguments: Sequence[str]) -> ExitCode:
    """Judge saved sessions: ``RUN... [options]``."""
    parser = verb_parser(
        "selftest",
        "Judge sessions of one commit on one runner against each other: how often the gate flags unchanged "
        "code, what it can resolve, which floors are too tight. At least 5 sessions, better 10. Each RUN is "
        f"{FORMS}.",
        "exit codes: 0 the gate can be trusted here, 2 bad input, 3 it cannot",
    )
    add_run_names(parser)
    parser.add_argument("--sessions", type=int, metavar="N", help="use the newest N of them")
    add_baselines(parser)
    add_out(parser)
    parser.add_argument("--save", action="store_true", help="write baselines/<gpu>/selftest.json too")
    options = parser.parse_args(arguments)

    runs = sorted(named_runs(options), key=lambda run: run.taken)
    if options.sessions is not None:
        runs = runs[-max(options.sessions, 1) :]
    if len(runs) < FEWEST_SESSIONS:
        raise PeakgateError(
            f"selftest: {counted(len(runs), 'session')}, at least {FEWEST_SESSIONS} are needed, better 10;"
            " `peakgate selftest` measures them"
        )
    check_alike(runs)
    folder = options.baselines / runs[-1].slug
    sds = resample.session_sds(runs)
    if not sds:
        raise PeakgateError("selftest: no case was timed in two of the sessions; give sessions of the same cases")
    found = report.Selftest(
        runs=tuple(runs),
        measured=tuple(measure(design, runs) for design in Design),
        floors=resample.tight_floors(runs, sds, load_floors(folder / "floors.toml")),
        thresholds=resample.tight_thresholds(runs, sds),
    )
    written = [options.out / FILE, *([folder / FILE] if options.save else [])]
    for path in written:
        write_whole(path, report.to_json(found))
    report.show(found, written)
    return found.exit_code


def check_alike(runs: Sequence[Run]) -> None:
    """Refuse sessions that are not one code on one runner: a difference between them would not be a false positive."""
    first = runs[0]
    if first.emulated:
        raise PeakgateError(f"{first.path}: emulated times are not judged; a selftest needs runs of a GPU")
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
                    " runner"
                )
        for case, result in run.cases.items():
            before = first.cases.get(case)
            if before and before.fingerprint != result.fingerprint:
                raise PeakgateError(
                    f"{run.path}: {case} is not the machine code of {first.path.name}; give sessions of unchanged code"
                )
