"""Scores a history rule on drawn histories: rates with exact intervals, by setting, as a CSV.

    python score.py OUT.csv --python ENVIRONMENT/bin/python          # everything
    python score.py OUT.csv --python ... --quick                                     # about a fifth of it
    python score.py OUT.csv --python ... --group key --group few                     # some groups
    python score.py OUT.csv --python ... --check                                     # frames against run files

The rule is called as documented, by ``peakgate.reports.trend`` and ``change_points`` on data frames, in the environment
of ``--python``. Seeds depend only on the setting and the number of the repetition, so two rules see the same histories.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path


def default_gates() -> Path:
    """The folder of recorded gates in the checkout that contains this file."""
    here = Path(__file__).resolve()
    folders = [parent / "baselines/nvidia-h200/runs" for parent in here.parents]
    return next((folder for folder in folders if folder.is_dir()), folders[0])


def main() -> int:
    """Parse the arguments and start trials.py in the environment of the rule, outside any repository."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the CSV to write; beside it a .jsonl of what was said of each history")
    parser.add_argument("--python", type=Path, help="the interpreter of the environment to score; else this one")
    parser.add_argument("--gates", type=Path, default=default_gates(), help="folder of the recorded gates")
    parser.add_argument("--group", action="append", help="only this group of settings; again for more")
    parser.add_argument("--quick", action="store_true", help="a fifth of the histories of half the settings")
    parser.add_argument("--times", type=float, default=1.0, help="so many times the repetitions")
    parser.add_argument("--check", action="store_true", help="only compare frames with run files, on some histories")
    parser.add_argument("--verbose", action="store_true", help="a line per setting")
    arguments = parser.parse_args()
    worker = Path(__file__).resolve().with_name("trials.py")
    command = [str((arguments.python or Path(sys.executable)).absolute()), str(worker), str(arguments.out.resolve())]
    command += ["--gates", str(arguments.gates.resolve()), "--times", str(arguments.times)]
    command += [part for group in arguments.group or () for part in ("--group", group)]
    command += [f"--{flag}" for flag in ("quick", "check", "verbose") if getattr(arguments, flag)]
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as empty:
        return subprocess.run(command, cwd=empty, env={**os.environ, **one_thread}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
