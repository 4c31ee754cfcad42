"""Block sizes that the occupancy family calls proposed: the driver proposes them too."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import CFUNCTYPE, c_int, c_size_t, c_void_p, cast

import pytest
from family_modules import occupancy as family

from peakgate.case import Scale
from peakgate.judge.occupancy import max_potential_block_size

pytestmark = pytest.mark.gpu(here=True)

NO_SHARED = 0
CASES = {case.id: case for case in family.FAMILY.cases(Scale.BENCH)}


@pytest.fixture(scope="module")
def device():
    from peakgate.device.gpu import GpuDevice  # noqa: PLC0415  (it needs CuPy)

    return GpuDevice(0)


def asked(function: int, shared: int | Callable[[int], int]) -> int:
    """Threads that the driver proposes for a function, with dynamic shared memory that is fixed or grows with them."""
    from cuda.bindings import driver  # noqa: PLC0415  (it needs a driver)

    grows = CFUNCTYPE(c_size_t, c_int)(shared) if callable(shared) else None
    error, _, threads = driver.cuOccupancyMaxPotentialBlockSize(
        driver.CUfunction(function),
        driver.CUoccupancyB2DSize(cast(grows, c_void_p).value if grows else 0),
        0 if callable(shared) else shared,
        0,
    )
    assert error == driver.CUresult.CUDA_SUCCESS
    return int(threads)


@pytest.mark.parametrize(
    ("name", "shared"),
    [
        ("occupancy.square-256MiB-1024-proposed", NO_SHARED),
        ("occupancy.staged-256MiB-896-e32-proposed", family.staged_shared_bytes),
    ],
)
def test_driver_calculator_and_case_agree(device, name, shared):
    case = CASES[name]
    built = device.code.build(case)
    threads = asked(device.code.functions(built, case)[0].ptr, shared)
    calculated = max_potential_block_size(
        device.capability,
        built.resources.registers,
        built.resources.static_shared_bytes,
        dynamic_shared=shared,
    )
    assert calculated.threads_per_block == threads
    if device.capability == family.PROPOSED_FOR:
        assert case.launch.threads_per_block == threads


def test_cupy_proposes_the_same_without_shared_memory(device):
    import cupy  # noqa: PLC0415

    case = CASES["occupancy.square-256MiB-1024-proposed"]
    function = device.code.functions(device.code.build(case), case)[0].ptr
    assert cupy.cuda.driver.occupancyMaxPotentialBlockSize(function, NO_SHARED, 0)[1] == asked(function, NO_SHARED)
