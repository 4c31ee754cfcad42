"""Which build of a vendor's library a run uses: it has no fingerprint, since its machine code is not ours."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version

from peakgate.device import driver

CUBLAS_WHEELS = ("nvidia-cublas", "nvidia-cublas-cu12")


def cublas_version() -> str | None:
    """The version of the cuBLAS wheel that is installed; None where the library comes from elsewhere."""
    for wheel in CUBLAS_WHEELS:
        try:
            return version(wheel)
        except PackageNotFoundError:
            continue
    return None


def library_behind(operation: str) -> str:
    """What does the work of an operation of the device (``operations.names``), with its version.

    A cuBLAS that is no wheel is the machine's, and so the same for all processes of one environment.
    """
    if operation == "cublas_sgemm":
        return f"cuBLAS {cublas_version() or 'of the machine'}"
    found = re.search(r"\d+\.\d+[.\d]*", driver.driver_version() or "")
    return f"driver {found[0] if found else 'of the machine'}"
