"""Tests the committed floors on GPUs: unchanged code must pass on each, slowed kernels must not.

    python -m lab.floors.measure OUT [--device gpu:0 --device gpu:1] [--sessions N]    unchanged code, N gates per GPU
    python -m lab.floors.measure OUT --mutants [--device gpu:0]                        slowed kernels

Run files without samples are written to OUT/runs and OUT/mutants, and the outcome of each process to
OUT/sessions.jsonl, one line each. The contents of OUT are committed in this folder; `python -m lab.fill floors` writes
their tables.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from lab import records
from lab.injected import campaign, mutants
from lab.pages import read_json
from peakgate.base import config
from peakgate.base.errors import PeakgateError, refused
from peakgate.base.files import write_whole
from peakgate.base.verdict import ExitCode
from peakgate.case import Scale, Tier
from peakgate.spec import catalogue

JUDGED = (ExitCode.OK, ExitCode.REGRESSION, ExitCode.UNDECIDED)
LINES = "sessions.jsonl"


def session(out: Path, folder: str, device: str, project: Path, *options: str) -> None:
    """Run one ``peakgate bench`` and save its run file and outcome. PeakgateError if it judged nothing."""
    with tempfile.TemporaryDirectory() as name:
        run = Path(name, "run.json")
        command = [sys.executable, "-m", "peakgate", "bench", f"--device={device}", f"--out={name}"]
        command += [f"--benchmark-json={run}", f"--benchmark-storage={Path(name, 'saved')}", *options]
        started = time.monotonic()
        done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
        seconds = round(time.monotonic() - started, 1)
        if done.returncode not in JUDGED or not run.exists():
            log = done.stdout + done.stderr
            raise PeakgateError(f"{' '.join(command)}: exit {done.returncode}: {log[-2000:]}")
        document, verdict = read_json(run), read_json(Path(name, "bench.json"))
    file = records.pack_run(out / folder, document, device).relative_to(out).as_posix()
    line = {
        "file": file,
        "device": device,
        "uuid": document["machine_info"]["gpu"].get("uuid"),
        "exit_code": done.returncode,
        "seconds": seconds,
        "verdicts": verdict["verdicts"],
        "not_passed": [case["case"] for case in verdict["cases"] if case["verdict"] not in ("PASS", "NO_FLOOR")],
        "restarts": verdict["restarts"],
    }
    with (out / LINES).open("a") as lines:
        lines.write(json.dumps(line) + "\n")
    sys.stdout.write(json.dumps(line)[:1000] + "\n")
    sys.stdout.flush()


def slowed(out: Path, device: str, chosen: Sequence[str], options: Sequence[str]) -> None:
    """Measure the cases of every mutant's stage: once unchanged, once with all mutants applied, each in one run."""
    own = config.required()
    listed = [each for each in mutants.read(mutants.LIST) if not chosen or each.name in chosen]
    scale = Scale.SMALL if device == "cpu" else Scale.BENCH
    touched = mutants.touched(listed, catalogue.cases(scale, Tier.GATE), own)
    stages = {mutant: sorted(cases) for mutant, cases in touched.items()}
    write_whole(out / "mutants.json", json.dumps({"schema": 1, "mutants": stages}, indent=1) + "\n")
    with tempfile.TemporaryDirectory() as scratch:
        wanted = Path(scratch, "cases.txt")
        write_whole(wanted, "".join(f"{case}\n" for case in sorted(set().union(*touched.values()))))
        session(out, "mutants/honest", device, own.root, f"--peakgate-cases={wanted}", *options)
        copy = campaign.copied(own, Path(scratch, "project"))
        mutants.apply(copy, listed, own)
        session(out, "mutants/slowed", device, copy, f"--peakgate-cases={wanted}")  # no commit has this code


def main() -> int:
    """Measure as the options say; exit code 2 if a run judged nothing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--device", action="append", help="gpu:N or cpu, again for more (default: gpu:0)")
    parser.add_argument("--sessions", type=int, default=2, help="gates of unchanged code per GPU (default: 2)")
    parser.add_argument("--mutants", action="store_true", help="slowed kernels instead")
    parser.add_argument("--mutant", action="append", default=[], metavar="NAME", help="only this one, again for more")
    parser.add_argument("--commit", help="the commit at hand, where git cannot know it")
    options = parser.parse_args()
    out, devices = options.out.absolute(), options.device or ["gpu:0"]
    os.environ.setdefault("PEAKGATE_CACHE", str(config.required().root / ".cache"))
    named = [f"--peakgate-commit={options.commit}"] if options.commit else []
    try:
        if options.mutants:
            slowed(out, devices[0], options.mutant, named)
        else:
            for _ in range(options.sessions):
                for device in devices:
                    session(out, "runs", device, config.required().root, *named)
    except PeakgateError as error:
        return refused(error)
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
