"""The supervisor's child, which measures: ``python -m peakgate.run.child SUPERVISOR ROOT [PYTEST-ARGUMENT...]``.

Where nothing is in the caches yet, the processes that compile begin before pytest is imported, and import beside it.
"""

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
    begin_compilers(given)
    from peakgate.run import pytest_run  # noqa: PLC0415  (pytest takes long to import)

    return pytest_run.measure([*pytest_run.fixed_arguments(Path(root)), *given])


def begin_compilers(given: Sequence[str]) -> None:
    """Start the processes that compile, of kernels and of references, each where its cache is empty."""
    choice = next((each.removeprefix(DEVICE) for each in given if each.startswith(DEVICE)), "auto")
    index = driver.named_gpu(choice)
    if index is not None and index < driver.gpu_count():
        from peakgate.device import references  # noqa: PLC0415  (a run without a GPU needs neither)

        references.begin(index)
        with contextlib.suppress(ImportError):  # the first build reports it
            from peakgate.build import nvrtc_process  # noqa: PLC0415

            nvrtc_process.begin()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
