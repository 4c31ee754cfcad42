"""``python -m suite``: one run of the kernels, with this project's exit codes.

Arguments are pytest's and pytest-benchmark's, and ours: ``--device``, ``--tier``, ``--strict-gate``, ``--baselines``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from suite.verdict import ExitCode

_BENCH = Path(__file__).with_name("bench_kernels.py")
NOTHING_SELECTED = (
    "no case was selected: -k takes parts of case ids, --collect-only lists them "
    "(the emulator has small sizes of its own)\n"
)

CRASHED = os.EX_SOFTWARE
"""A defect of this project, not of what it measured: none of the four verdicts."""

_FROM_PYTEST = {
    pytest.ExitCode.INTERRUPTED: ExitCode.INTERRUPTED,
    pytest.ExitCode.USAGE_ERROR: ExitCode.BAD_INPUT,
    pytest.ExitCode.NO_TESTS_COLLECTED: ExitCode.BAD_INPUT,
}


class _Crash:
    """Notes a crash of pytest itself, whose exit status is the number of our UNDECIDED."""

    happened = False

    def pytest_internalerror(self) -> None:
        self.happened = True


def main(arguments: list[str]) -> int:
    """Run the kernel benchmarks; 0 pass, 1 regression, 2 bad input, 3 could not decide."""
    judged = [str(_BENCH), "--benchmark-autosave", "--benchmark-quiet", "-q", "--no-header"]
    crash = _Crash()
    status = pytest.main([*judged, *arguments], plugins=[crash])
    if crash.happened:
        return CRASHED
    if status == pytest.ExitCode.NO_TESTS_COLLECTED:
        sys.stderr.write(NOTHING_SELECTED)
    return int(_FROM_PYTEST.get(status, status))  # type: ignore[call-overload]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
