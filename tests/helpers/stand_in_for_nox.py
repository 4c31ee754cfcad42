"""nox where nothing may be installed and no GPU is there: the sessions or what they start, with this interpreter.

The GPU's place is taken by the emulator, on one small case (`bench`), by a saved experiment (`gate`, whose `ab` is
decided anew), and by the kept runs (`selftest`, of two divisions in each design). Sessions that take minutes are only
looked up. Every call is a line of $STAND_IN_LOG.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

FILE: list[str] = []
"""Another noxfile than that of the working directory."""

RUN = {"bench", "compare", "history", "gate", "selftest"}
SELFTEST = """
import sys
from peakgate.cli import main
from peakgate.compare import resample
resample.MOST_RESAMPLES = 2
sys.exit(main(["selftest", *sys.argv[1:]]))
"""
ANYWHERE = ["--no-venv", "--no-install"]
"""Options with which nox uses the environment that it is started in."""
NOX = [sys.executable, "-m", "nox", *ANYWHERE]


def main(arguments: list[str]) -> int:
    """Run the sessions; 0 or, as nox does for every failure, 1."""
    if arguments[:2] == ANYWHERE:
        del arguments[:2]
    with Path(os.environ["STAND_IN_LOG"]).open("a", encoding="utf-8") as log:
        log.write(" ".join(arguments) + "\n")
    if arguments[0] == "-f":
        FILE.extend(arguments[:2])
        arguments = arguments[2:]
    assert arguments[0] == "-s"
    if arguments[-1] == "--install-only":
        return _known(arguments[1:-1])
    options, _, given = " ".join(arguments[1:]).partition(" -- ")
    sessions = options.split()
    return int(any([_session(session, given.split()) for session in sessions if session in RUN] + [_known(sessions)]))


def _known(sessions: list[str]) -> int:
    """Whether the noxfile has them all; those that are not run here are only looked up."""
    text = Path(FILE[1] if FILE else "noxfile.py").read_text(encoding="utf-8")
    return int(any(f"\ndef {session}(session: nox.Session)" not in text for session in sessions))


def _session(session: str, given: list[str]) -> int:
    if session == "gate":
        return _ends([sys.executable, str(Path(__file__).with_name("stand_in_for_gate.py")), *given])
    if session == "selftest":
        return _ends([sys.executable, "-P", "-c", SELFTEST, *_kept_of_one_gpu(), "--sessions=5"])
    if session == "bench":
        given = ["cpu" if word == "gpu:0" else word for word in given] + ["-k", os.environ.get("STAND_IN_K", "memcpy")]
        return _ends([sys.executable, "-P", "-m", "peakgate", "bench", *given])
    return _ends([*NOX, *FILE, "-s", session, "--", *given])


def _kept_of_one_gpu() -> list[str]:
    """The kept sessions of the GPU that was measured last: a self-test is of one GPU."""
    kept = sorted(Path("baselines/nvidia-h200/runs").glob("*-gate.json.gz"))
    gpus = [json.loads(gzip.decompress(path.read_bytes()))["machine_info"]["gpu"]["uuid"] for path in kept]
    return [str(path) for path, gpu in zip(kept, gpus, strict=True) if gpu == gpus[-1]]


def _ends(command: list[str]) -> int:
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
