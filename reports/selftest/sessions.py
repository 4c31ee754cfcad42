"""``peakgate selftest``: measure unchanged code again and again, a fresh process each time, then judge the sessions.

Arguments that are not ours are those of ``peakgate bench``. With saved runs named first (``peakgate selftest RUN...``)
nothing is measured: those are judged.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from peakgate.common.errors import PeakgateError
from peakgate.project import config
from peakgate.reports.runfile import load_run
from peakgate.reports.selftest.command import judge
from peakgate.reports.selftest.resample import FEWEST_SESSIONS
from peakgate.verdict import ExitCode

RUNS = "runs"
BENCH = (sys.executable, "-m", "peakgate", "bench")


def main(verb: str, arguments: Sequence[str]) -> int:  # noqa: ARG001  (one verb)
    """Run the sessions and return the exit code of their selftest, or of the session that left no run."""
    if arguments and not arguments[0].startswith("-"):
        return judge(arguments)
    parser = argparse.ArgumentParser(prog="peakgate selftest", description=__doc__, allow_abbrev=False)
    parser.add_argument("--sessions", type=_enough, default=10, metavar="N", help="how many (default: 10)")
    parser.add_argument("--save", action="store_true", help="write baselines/<gpu>/selftest.json too")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the reports (default: the project's)")
    options, for_bench = parser.parse_known_args(arguments)
    options.out = options.out or config.near(config.current().out)
    folder = options.out / "selftest" / f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
    measure(folder, options.sessions, for_bench)
    saving = ["--save"] if options.save else []
    return judge([str(folder / RUNS), "--out", str(options.out), *saving])


def measure(folder: Path, sessions: int, for_bench: Sequence[str], bench: Sequence[str] | None = None) -> None:
    """Leave one run file a session below ``folder``.

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


def _enough(text: str) -> int:
    number = int(text)
    if number < FEWEST_SESSIONS:
        raise argparse.ArgumentTypeError(f"{text}: expected {FEWEST_SESSIONS} or more")
    return number
