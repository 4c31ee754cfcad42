"""Measure unchanged code again and again, a fresh process each time, then judge the sessions against each other.

``python -m reports.selftest.sessions [--sessions 10] [--save] [--out DIR] [arguments of the suite]``
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from reports.__main__ import main as reports_main
from reports.runfile import load_run
from reports.selftest.resample import FEWEST_SESSIONS
from suite.errors import PeakgateError, refused
from suite.verdict import ExitCode

RUNS = "runs"
SUITE = (sys.executable, "-m", "suite")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the sessions and return the exit code of their selftest, or of the session that left no run."""
    parser = argparse.ArgumentParser(prog="nox -s selftest --", description=__doc__, allow_abbrev=False)
    parser.add_argument("--sessions", type=_enough, default=10, metavar="N", help="how many (default: 10)")
    parser.add_argument("--save", action="store_true", help="write baselines/<gpu>/selftest.json too")
    parser.add_argument("--out", type=Path, default=Path("reports/out"), metavar="DIR", help="folder of the reports")
    options, for_suite = parser.parse_known_args(arguments)
    folder = options.out / "selftest" / f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
    try:
        measure(folder, options.sessions, for_suite)
    except PeakgateError as error:
        return refused(error)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    saving = ["--save"] if options.save else []
    return reports_main(["selftest", str(folder / RUNS), "--out", str(options.out), *saving])


def measure(folder: Path, sessions: int, for_suite: Sequence[str], suite: Sequence[str] = SUITE) -> None:
    """Leave one run file a session below ``folder``.

    A session whose verdict is not a pass counts like any other. One that leaves no run is a PeakgateError: the suite
    has said why. So is a first session that is emulated.
    """
    (folder / RUNS).mkdir(parents=True, exist_ok=True)
    for number in range(1, sessions + 1):
        sys.stderr.write(f"session {number} of {sessions}\n")
        run = folder / RUNS / f"session_{number:02d}.json"
        done = subprocess.run(
            [
                *suite,
                f"--benchmark-json={run}",
                f"--benchmark-storage={folder / 'storage'}",
                f"--out={folder}",
                *for_suite,
            ],
            check=False,
        )
        if done.returncode == ExitCode.INTERRUPTED:
            raise KeyboardInterrupt
        if not run.is_file() or run.stat().st_size == 0:
            raise PeakgateError(
                f"session {number} of {sessions} left no run in {folder} (exit code {done.returncode}); mend what the"
                " suite says above"
            )
        if number == 1 and load_run(run).emulated:
            raise PeakgateError("emulated times are not judged: a selftest needs a GPU; see what `nvidia-smi` says")


def _enough(text: str) -> int:
    number = int(text)
    if number < FEWEST_SESSIONS:
        raise argparse.ArgumentTypeError(f"{text}: expected {FEWEST_SESSIONS} or more")
    return number


if __name__ == "__main__":
    sys.exit(main())
