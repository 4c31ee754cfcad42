from importlib import metadata

import pytest

from peakgate.device import driver
from peakgate.device.interface import KernelCrash, KernelFault, failure


@pytest.mark.parametrize("name", ["cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY"])
def test_a_full_gpu_is_no_fault_of_the_kernel(name):
    found = failure(RuntimeError(f"{name}: out of memory"))
    assert isinstance(found, MemoryError)
    assert str(found).startswith(name)


@pytest.mark.parametrize("message", ["cudaErrorIllegalAddress: an illegal memory access was encountered", ""])
def test_any_other_error_is_the_kernels(message):
    found = failure(RuntimeError(message))
    assert isinstance(found, KernelFault)
    assert str(found) == message


def test_a_fault_that_takes_the_context_with_it_is_a_crash():
    assert isinstance(failure(RuntimeError("cudaErrorIllegalAddress: illegal"), lost=True), KernelCrash)
    assert isinstance(failure(RuntimeError("cudaErrorMemoryAllocation: memory"), lost=True), MemoryError)


def test_the_version_of_cublas_is_that_of_its_wheel(monkeypatch):
    installed = {"nvidia-cublas-cu12": "12.9.2.10"}

    def version(wheel):
        if wheel not in installed:
            raise metadata.PackageNotFoundError(wheel)
        return installed[wheel]

    monkeypatch.setattr(metadata, "version", version)
    assert driver.cublas_version() == "12.9.2.10"
    installed["nvidia-cublas"] = "13.8.0.4"
    assert driver.cublas_version() == "13.8.0.4"
    installed.clear()
    assert driver.cublas_version() is None
