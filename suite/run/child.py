"""The supervisor's child, which measures: ``python -m peakgate.run.child SUPERVISOR ROOT [PYTEST-ARGUMENT...]``."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

from peakgate.common.processes import end_with_parent
from peakgate.device import driver
from peakgate.verdict import ExitCode

DEVICE = "--peakgate-device="


def main(arguments: Sequence[str]) -> int:
    """Measure; ended by the kernel when the supervisor is gone, whatever ended that."""
    supervisor, root, *given = arguments
    if not end_with_parent(int(supervisor)):
        return ExitCode.INTERRUPTED
    begin_on_gpu(given)
    from peakgate.run import pytest_run  # noqa: PLC0415  (pytest takes long to import)

    return pytest_run.measure([*pytest_run.fixed_arguments(Path(root)), *given])


def begin_on_gpu(given: Sequence[str]) -> None:
    """Begin what takes long on the GPU beside pytest's imports."""
    choice = next((each.removeprefix(DEVICE) for each in given if each.startswith(DEVICE)), "auto")
    index = driver.named_gpu(choice)
    if index is not None and driver.cuda_driver_version() is not None:
        with contextlib.suppress(ImportError):  # opening the device reports it
            from peakgate.device import warmup  # noqa: PLC0415  (a run without a GPU does without)

            warmup.begin(index)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
