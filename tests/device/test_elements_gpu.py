"""Input data and comparisons by our own kernels against NumPy: ``pytest -m gpu tests/device/test_elements_gpu.py``."""

import math

import numpy as np
import pytest

from peakgate.judge.correctness import ErrorBound, Largest, bound_of, compare
from peakgate.measure import data, refill
from peakgate.spec import dtypes
from peakgate.spec.case import Buffer, Role

pytestmark = pytest.mark.gpu(here=True)


@pytest.fixture
def elements():
    from peakgate.device import elements  # noqa: PLC0415  (it needs CuPy)

    return elements


@pytest.mark.parametrize("dtype", dtypes.KNOWN)
@pytest.mark.parametrize(("shape", "seed"), [((2,), 0), ((1000, 34), 3), ((5_000_002,), 1009)])
def test_random_data_are_numpys_bit_for_bit(elements, dtype, shape, seed):
    found = elements.random_array(shape, dtype, seed).get()
    wanted = data.random_array(np, shape, dtype, seed)
    assert found.dtype == wanted.dtype
    assert found.tobytes() == wanted.tobytes()


EXACT = ErrorBound()


def test_other_types_take_the_general_way(elements):
    import cupy  # noqa: PLC0415

    assert elements.compared(cupy.zeros(3, "int64"), cupy.zeros(3, "int64"), EXACT, None) is None
    cube = cupy.zeros((3, 4, 5), "float32")
    assert elements.compared(cube, cupy.zeros((5, 4, 3), "float32").T, EXACT, None) is None


@pytest.mark.parametrize("dtype", sorted(dtypes.RAW))
def test_types_that_numpy_lacks_are_filled_as_on_the_host(dtype):
    import cupy  # noqa: PLC0415

    low = {"uint4": -0.0, dtypes.SCALE: 0.25}.get(dtype, -2)
    for described in ({}, {"data": 3}, {"data": (low, 5)}):
        buffer = Buffer(Role.IN, (33, 64), dtype, **described)
        assert (data.input_array(cupy, buffer, 7).get() == data.input_array(np, buffer, 7)).all()
    stored = dtypes.storage(dtype)
    patterns = np.arange(1 << 8 * stored.itemsize).astype(stored)
    wanted = dtypes.decoded(np, patterns, dtype)
    found = dtypes.decoded(cupy, cupy.asarray(patterns), dtype).get()
    assert found.dtype == wanted.dtype
    assert found.tobytes() == wanted.tobytes()
    spread = np.linspace(-9, 9, 200_002) if dtype in dtypes.PACKED else np.geomspace(1e-42, 3.4e38, 200_002)
    normal = np.where(np.abs(wanted) < 1.2e-38, 0, wanted)  # CuPy flushes smaller ones of float32
    floats = spread.astype("float32") if dtype in dtypes.PACKED else spread[spread > 1.2e-38].astype("float32")
    for values in (normal, spread, -spread, floats):
        there = dtypes.encoded(cupy, cupy.asarray(values), dtype).get()
        assert (there == dtypes.encoded(np, values, dtype)).all()


@pytest.mark.parametrize("types", [("float32", "float32"), ("float32", "float64"), ("float16", "float64")])
@pytest.mark.parametrize("shape", [(1, 1), (7, 5), (1024, 1025), (3_000_017, 1)])
def test_the_largest_figures_are_numpys(elements, types, shape):
    import cupy  # noqa: PLC0415

    rng = np.random.default_rng(1)
    found, wanted = (rng.uniform(-100, 100, shape).astype(each) for each in types)
    bound, magnitude = ErrorBound(1e-3, 1e-2, 1e-1), rng.uniform(0, 200, (shape[0], 1))
    difference = np.abs(found.astype(np.float64) - wanted)
    for view in (wanted, np.asfortranarray(wanted)):
        for weight in (None, magnitude):
            size = np.abs(wanted.astype(np.float64))
            allowed = 1e-3 + 1e-2 * size + 1e-1 * (size if weight is None else np.fmax(size, weight))
            there = cupy.asarray(view, order="A")
            on_gpu = None if weight is None else cupy.asarray(weight)
            got = elements.compared(cupy.asarray(found), there, bound, on_gpu)
            assert got.difference == np.max(difference)
            assert got.reference == np.max(size)
            assert got.ratio == pytest.approx(np.max(difference / allowed), rel=1e-12)


def test_one_element_that_differs_is_found_wherever_it_is(elements):
    import cupy  # noqa: PLC0415

    base = cupy.ones((513, 129), "float32")
    for at in (0, 1, 255, 256, 513 * 129 - 1):
        for value, difference in ((1.5, 0.5), (math.inf, math.inf), (-0.0, 1.0)):
            output = base.copy()
            output.reshape(-1)[at] = value
            assert elements.compared(output, base, EXACT, None) == Largest(math.inf, difference, 1.0)
        output.reshape(-1)[at] = math.nan
        assert math.isnan(elements.compared(output, base, EXACT, None).ratio)
        assert math.isnan(elements.compared(base, output, EXACT, None).reference)


def test_a_check_on_the_gpu_reports_what_one_on_the_host_does(elements):
    import cupy  # noqa: PLC0415

    reference = np.random.default_rng(1).uniform(-1, 1, (256, 300))
    output = reference.astype("float32")
    output[40] *= 1.001
    bound, magnitude = bound_of(1e-5, "float32", "float64"), np.full((256, 1), 2.0)
    here = compare(np, output, reference, bound, magnitudes=lambda: [magnitude])
    there = compare(
        cupy,
        cupy.asarray(output),
        cupy.asarray(reference),
        bound,
        magnitudes=lambda: [cupy.asarray(magnitude)],
        compared=elements.compared,
    )
    assert there.mismatch == here.mismatch
    assert there.ratio == pytest.approx(here.ratio, rel=1e-9)


@pytest.mark.parametrize("nbytes", [1, 7, 8, 13, 4096, 3_000_005])
def test_the_first_difference_is_found_in_its_word(elements, nbytes):
    import cupy  # noqa: PLC0415

    one = np.random.default_rng(1).integers(256, size=nbytes, dtype=np.uint8)
    assert elements.first_difference(cupy.asarray(one), cupy.asarray(one)) is None
    for byte in {0, nbytes // 2, nbytes - 1}:
        other = one.copy()
        other[[byte, nbytes - 1]] ^= 1
        found = elements.first_difference(cupy.asarray(one), cupy.asarray(other))
        assert found <= byte < found + 8


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64", "complex128", "int4"])
@pytest.mark.parametrize("shape", [(2,), (33, 62), (1023, 130), (3_000_002,)])
def test_refills_are_numpys_bit_for_bit(elements, dtype, shape):
    import cupy  # noqa: PLC0415

    buffer = Buffer(Role.IN, shape, dtype)
    pool = data.input_array(np, refill.pool_of(buffer), 3)
    wanted = np.zeros(*buffer.storage)
    arrays = [(cupy.asarray(wanted), cupy.asarray(pool)) for _ in range(9)]
    refill.fill(wanted, pool, 5)
    elements.refill([(there, its_pool, 5) for there, its_pool in arrays])
    assert all(there.get().tobytes() == wanted.tobytes() for there, _ in arrays)
    keys = refill.round_keys((7, 8, 9, 10))
    elements.change([(there, its_pool, 100 + at) for at, (there, its_pool) in enumerate(arrays)], keys)
    for at, (there, _) in enumerate(arrays):
        changed = wanted.copy()
        refill.change(changed, pool, 100 + at, keys)
        assert there.get().tobytes() == changed.tobytes()


def test_arrays_of_all_sizes_are_filled_at_once(elements):
    import cupy  # noqa: PLC0415

    pool = np.arange(8192, dtype="uint32")
    sizes = (("uint8", 0), ("uint16", 1), ("uint8", 3_000_001), ("uint64", 77))
    wanted = [np.zeros(size, dtype) for dtype, size in sizes]
    there = [cupy.asarray(each) for each in wanted]
    pools = [pool.view(each.dtype) for each in wanted]
    elements.refill([(each, cupy.asarray(its), 7) for each, its in zip(there, pools, strict=True)])
    for each, its in zip(wanted, pools, strict=True):
        refill.fill(each, its, 7)
    assert [each.get().tobytes() for each in there] == [each.tobytes() for each in wanted]


def test_a_refill_begins_on_any_byte(elements):
    import cupy  # noqa: PLC0415

    pool = np.arange(8192, dtype="uint32").view("uint8")
    there, wanted = cupy.zeros(4099, "uint8")[3:], np.zeros(4096, "uint8")
    elements.refill([(there, cupy.asarray(pool), 9)])
    refill.fill(wanted, pool, 9)
    assert (there.get() == wanted).all()
