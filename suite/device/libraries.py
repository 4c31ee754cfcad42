"""Which build of a vendor's library a run uses: it has no fingerprint, since its machine code is not ours."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

CUBLAS_WHEELS = ("nvidia-cublas", "nvidia-cublas-cu12")


def cublas_version() -> str | None:
    """The version of the cuBLAS wheel that is installed; None where the library comes from elsewhere."""
    for wheel in CUBLAS_WHEELS:
        try:
            return version(wheel)
        except PackageNotFoundError:
            continue
    return None
