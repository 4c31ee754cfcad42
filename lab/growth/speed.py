"""How long reports take here: wall and CPU seconds, and their ratio to reading the archive's files with msgspec alone.

``nox -s speed``; with ``--growth`` or ``--page``, see growth.py. Every command runs once to warm up, then three times;
the quickest counts. Compare the ratios between machines or under load: both terms were measured in the same minute.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "helpers"))

from synthetic_runs import document, save  # noqa: E402  # the repository is no installed package

from lab.growth import growth  # noqa: E402  # as below

REPEATS = 3
VERDICTS = (0, 1, 3)
"""How a comparison ends that was made: pass, regression, could not decide."""

FIRST_DAY = datetime(2026, 1, 1, tzinfo=UTC)


def archive(folder: Path, runs: int, cases: int) -> Path:
    """``runs`` synthetic runs of ``cases`` cases an hour apart, three of each commit."""
    random = Random(1)  # noqa: S311  # times of a synthetic run
    base = {f"transpose.stage_{n % 20}-{4096 + n}-32x8": 40.0 * (1 + 5 * random.random()) for n in range(cases)}
    for run in range(runs):
        times = {case: time_us * (1 + random.gauss(0, 0.004)) for case, time_us in base.items()}
        taken = (FIRST_DAY + timedelta(hours=run)).isoformat()
        save(folder, f"{run:04d}", document(times, commit=f"{run // 3:040x}") | {"datetime": taken})
    return folder


def measure(
    arguments: Sequence[str], cache: Path, *, cold: bool = False, repeats: int = REPEATS
) -> tuple[float, float]:
    """Wall and CPU seconds of the quickest of several runs; ``cold`` ones find no index of the archive."""
    found = []
    for _ in range(1 + repeats):
        if cold:
            (cache / "history.json").unlink(missing_ok=True)
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        environment = os.environ | {"PEAKGATE_CACHE": str(cache), "PYTHONDONTWRITEBYTECODE": ""}
        command = [sys.executable, *arguments]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        if done.returncode not in VERDICTS or "Traceback" in done.stderr:
            sys.exit(f"{' '.join(arguments)}: exits {done.returncode}, so its time says nothing: {done.stderr}")
        wall_s, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append((wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    return min(found[1:])


def main(wanted: Sequence[str]) -> None:
    """Measure, and print one line per command; --growth and --page are what ``growth`` says instead."""
    if "--growth" in wanted:

        def cpu_s(arguments: Sequence[str], cache: Path, cold: bool) -> float:
            return measure(arguments, cache, cold=cold, repeats=1)[1]

        machine = f"{len(os.sched_getaffinity(0))} processors that other work shared"
        growth.write_record(growth.RECORDS[0], "CPU", machine, growth.reports(archive, cpu_s))
    if wanted:
        growth.write_page()
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        out, cache = f"--out={folder / 'out'}", folder / "cache"
        large = archive(folder / "large", 1000, 300)
        pair = [str(file) for file in sorted(archive(folder / "pair", 2, 700).glob("*.json"))]
        kept = sorted(map(str, (ROOT / "baselines").glob("*/runs/*-full.json*")))[-2:]
        compare, of_large = ["-m", "peakgate", "compare"], ["latest~1", "latest", "--runs", str(large)]
        reading = "import msgspec, sys; [msgspec.json.decode(open(path, 'rb').read()) for path in sys.argv[1:]]"
        lines = {
            "1000 runs x 300 cases read with msgspec": (["-c", reading, *map(str, large.glob("*.json"))], False),
            "import of pandas and SciPy": (["-c", "import pandas; from scipy import special"], False),
            "compare, two kept runs, every output": ([*compare, *kept, out], False),
            "compare, two kept runs, terminal only": ([*compare, *kept, "--no-files"], False),
            "compare, 2 x 700 cases, every output": ([*compare, *pair, out], False),
            "compare, 2 x 700 cases, terminal only": ([*compare, *pair, "--no-files"], False),
            "compare, two of 1000 runs x 300 cases": ([*compare, *of_large, "--no-files"], False),
            "history, 1000 runs x 300 cases, indexed": (
                ["-m", "peakgate", "history", "--runs", str(large), out],
                False,
            ),
            "history, 1000 runs x 300 cases, first time": (
                ["-m", "peakgate", "history", "--runs", str(large), out],
                True,
            ),
        }
        measured = {what: measure(arguments, cache, cold=cold) for what, (arguments, cold) in lines.items()}
    reference_s = next(iter(measured.values()))[1]
    sys.stdout.write(f"{'':<44}{'wall s':>8}{'CPU s':>8}{'ratio':>8}\n")
    for what, (wall_s, used_s) in measured.items():
        sys.stdout.write(f"{what:<44}{wall_s:>8.2f}{used_s:>8.2f}{used_s / reference_s:>8.1f}\n")
    sys.stdout.write(f"{len(os.sched_getaffinity(0))} processors, {json.dumps(os.getloadavg())} loaded\n")


if __name__ == "__main__":
    main(sys.argv[1:])
