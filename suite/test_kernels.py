"""Every case of every family in kernels/: proven right, then timed, then compared with its floor."""

from peakgate.run.bench_kernels import run, test_kernel

__all__ = ["run", "test_kernel"]
