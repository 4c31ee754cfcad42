"""What launches find in their buffers: drawn by the host, different each time, and known again for the reference."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from peakgate.base.verdict import Verdict
from peakgate.device.cpu import CpuDevice
from peakgate.judge.floors import Floors
from peakgate.measure import refill
from peakgate.measure.data import input_array
from peakgate.session.prover import LEAST_COMPARED
from peakgate.session.session import Session
from peakgate.spec import dtypes
from peakgate.spec.case import Buffer, Case, Launch, Role, Scalar, Stage, Work

SIZES = st.integers(1, 5000)
SEEDS = st.integers(0, refill.SEEDS - 1)


def below(index, seed, end):
    """A whole number below ``end``, by whole numbers alone."""
    bits = (index + seed * 0x9E3779B9) % 2**32
    bits = (bits ^ bits >> 16) * 0x7FEB352D % 2**32
    bits = (bits ^ bits >> 15) * 0x846CA68B % 2**32
    return ((bits ^ bits >> 16) * end) >> 32


DTYPES = ("uint8", "uint16", "uint32", "uint64", "complex128")


@given(size=SIZES, dtype=st.sampled_from(DTYPES), pool_size=st.sampled_from([64, 100, 4096]), seed=SEEDS)
@example(size=4095, dtype="uint8", pool_size=100, seed=1)
@example(size=4096, dtype="uint8", pool_size=100, seed=1)
@example(size=1023, dtype="uint32", pool_size=100, seed=2)
@example(size=1030, dtype="uint32", pool_size=100, seed=3)
@example(size=513, dtype="uint64", pool_size=4096, seed=4)
@example(size=700, dtype="complex128", pool_size=99, seed=5)
def test_contents_follow_from_seeds_as_the_module_says(size, dtype, pool_size, seed):
    target = np.zeros(size, dtype)
    pool = np.arange(pool_size).astype(dtype) * (3 if dtype != "uint8" else 1)
    chunk = 32 // target.itemsize if target.nbytes >= 4096 else 1
    refill.fill(target, pool, seed)
    expected = [pool[below(at // chunk, seed, pool_size // chunk) * chunk + at % chunk] for at in range(size)]
    assert target.tolist() == expected
    keys = refill.round_keys((seed, 1, 2, 3))
    refill.change(target, pool, seed, keys)
    page = 4096 // target.itemsize
    for at in range(0, size, page):
        place, drawn = (int(each[0]) for each in refill.enciphered(*np.array([[at // page], [seed]], np.uint32), keys))
        expected[at + (place * min(page, size - at) >> 32)] = pool[drawn * pool_size >> 32]
    assert target.tolist() == expected


def test_the_cipher_is_speck_64_128_as_its_authors_printed_it():
    keys = refill.round_keys((0x03020100, 0x0B0A0908, 0x13121110, 0x1B1A1918))
    left, right = refill.enciphered(*np.array([[0x3B726574], [0x7475432D]], np.uint32), keys)
    assert (int(left[0]), int(right[0])) == (0x8C6FA548, 0x454E028B)


def test_places_of_changed_words_follow_from_no_other_page():
    page, pages = 1024, 64

    def places(word):
        target = np.zeros(page * pages, "uint32")
        refill.change(target, np.full(64, 1, "uint32"), 7, refill.round_keys((word, 0, 0, 0)))
        return np.flatnonzero(target) % page

    one, other = places(0), places(1)  # keys that differ in one bit
    assert len(one) == pages
    assert (one == other).sum() < 4
    offsets = [(one.astype("int64") - each) % page for each in (np.arange(pages), other)]
    assert all(np.unique(each).size > pages // 2 for each in offsets)


@pytest.mark.parametrize(
    ("shape", "dtype", "elements"),
    [
        ((10,), "float32", 4096),
        ((100, 50), "float32", 5000),
        ((1 << 22,), "float32", 2 << 20),
        ((1 << 22,), "float64", 1 << 20),
        ((64, 2), "int4", 8192),
        ((100, 200), "int4", 20000),
    ],
)
def test_a_pool_is_as_large_as_its_buffer_within_limits(shape, dtype, elements):
    pool = refill.pool_of(Buffer(Role.INOUT, shape, dtype))
    assert (pool.role, pool.shape, pool.dtype) == (Role.IN, (elements,), dtype)


def test_inputs_are_drawn_from_their_like_outputs_from_noise():
    buffers = {role: Buffer(role, (8,)) for role in Role}
    arguments = (Scalar(1), *buffers.values(), Buffer(Role.IN, (8,), data=2.0), Buffer(Role.INOUT, (8,), data=(0, 1)))
    case = Case("f", Stage("s", "", Path("s.cu")), Launch((1, 1, 1), (1, 1, 1)), arguments, Work(0), lambda *_: ())
    drawn = {Role.IN: "elements", Role.INOUT: "elements", Role.OUT: "noise", Role.TEMP: "noise"}
    expected = {at: drawn[role] for at, role in enumerate(buffers, 1) if role in drawn}

    def pools(case):
        return refill.pools(case, lambda dtype: "noise", lambda pool, at: "elements")

    assert pools(case) == expected | {len(Role) + 2: "elements"}
    saved = tuple(Path(f"{at}.npy") for at in range(3))
    noise = {at: kind for at, kind in expected.items() if kind == "noise"}
    assert pools(replace(case, reference=saved)) == noise


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "bool", "int32", "bfloat16"])
def test_noise_is_4_mib_of_random_bytes_but_for_exponents(dtype):
    found = refill.noise(np, dtype, 7)
    assert found.nbytes == 4 << 20
    part = dtypes.storage(dtype).itemsize // (2 if dtype == "complex64" else 1)
    by_place = found.view(np.uint8).reshape(-1, part)
    kinds = [np.unique(by_place[:, place]) for place in range(part)]
    high = range(256) if dtype == "int32" else [byte for byte in range(256) if byte & 0x7E == 0x7E]
    assert kinds[-1].tolist() == list(high)
    assert all(each.size == 256 for each in kinds[:-1])


@pytest.mark.parametrize("dtype", [*dtypes.BITS, "float16", "float32", "float64", "complex64"])
def test_noise_in_a_real_type_is_no_result(dtype):
    values = dtypes.decoded(np, refill.noise(np, dtype, 7), dtype)
    parts = values.view(values.real.dtype) if values.dtype.kind == "c" else values
    with np.errstate(invalid="ignore"):
        assert not (np.abs(parts) < dtypes.limits(dtype).largest * 2.0**-33).any()


def contents(buffers, arrays, *, saved=()):
    rng = np.random.default_rng(3)
    pools = {
        at: refill.noise(np, buffer.dtype, at)
        if buffer.role in (Role.OUT, Role.TEMP)
        else input_array(np, refill.pool_of(buffer), at)
        for at, buffer in buffers.items()
        if buffer.role is not Role.SCRATCH and at not in saved
    }
    pristine = {at: arrays[at].copy() for at in buffers if buffers[at].role in (Role.IN, Role.INOUT)}
    return refill.Contents(refill.HostRefiller(), buffers, pools, pristine, lambda end: int(rng.integers(end)))


ROLES = st.lists(st.sampled_from(list(Role)), min_size=1, max_size=4)


@given(roles=ROLES, launches=st.lists(st.booleans(), min_size=1, max_size=5), size=SIZES)
def test_what_a_launch_was_given_is_drawn_again(roles, launches, size):
    buffers = {2 * at: Buffer(role, (size,)) for at, role in enumerate(roles)}
    arrays = {at: np.zeros(size, "float32") for at in buffers}
    tested = contents(buffers, arrays)
    tested.begin(arrays)
    for launch, whole in enumerate(launches):
        tested.next(whole=whole)
        found = [array.copy() for at, array in arrays.items() if buffers[at].role in (Role.IN, Role.INOUT)]
        assert all(map(np.array_equal, found, tested.given(launch)))
        for at, array in arrays.items():
            if buffers[at].role is not Role.IN:
                array[...] = launch


class Recording(refill.HostRefiller):
    """NumPy's way, and what was asked of it: (place of the array's memory, what is done, seed)."""

    def __init__(self):
        self.asked = []

    def fill(self, arrays):
        self.asked += [("fill", target.ctypes.data, seed) for target, _, seed in arrays]
        super().fill(arrays)

    def change(self, arrays, keys):
        self.asked += [("change", target.ctypes.data, seed) for target, _, seed in arrays]
        super().change(arrays, keys)

    def copy(self, target, origin):
        self.asked.append(("copy", target.ctypes.data, 0))
        np.copyto(target, origin)


def test_each_buffer_is_drawn_or_changed_as_its_role_asks():
    roles = (Role.OUT, Role.IN, Role.INOUT, Role.TEMP, Role.IN, Role.INOUT, Role.SCRATCH)
    saved = (4, 5)
    buffers = {at: Buffer(role, (2000 + at,), data=1.0 if at in saved else None) for at, role in enumerate(roles)}
    arrays = {at: np.full(2000 + at, 5, "float32") for at in buffers}
    tested = contents(buffers, {at: np.ones(2000 + at, "float32") for at in buffers}, saved=saved)
    tested.refiller = Recording()
    asked_below = []
    draw = tested.draw
    tested.draw = lambda end: asked_below.append(end) or draw(end)
    places = {array.ctypes.data: at for at, array in arrays.items()}

    def done():
        kinds = {kind: sorted(places[place] for what, place, _ in asked if what == kind) for kind in ("fill", "change")}
        return kinds | {"copy": sorted(places[place] for what, place, _ in asked if what == "copy")}

    seeds = set()
    for step in ("begin", "whole", "in part", "whole by default"):
        tested.refiller.asked = asked = []
        before = {at: array.copy() for at, array in arrays.items()}
        if step == "begin":
            tested.begin(arrays)
            assert done() == {"fill": [0, 1, 2, 3], "change": [], "copy": [4, 5]}
            assert (arrays[4] == 1).all()
            assert not arrays[6].any()
        else:
            tested.next(whole=False) if step == "in part" else tested.next()
            whole = step != "in part"
            changed = [0, 3] if whole else [0, 1, 3]
            assert done() == {"fill": [1, 2] if whole else [2], "change": changed, "copy": [5]}
            now = {
                at: np.count_nonzero(array.view("uint32") != before[at].view("uint32")) for at, array in arrays.items()
            }
            assert all(0 < now[at] <= 2 for at in changed)
        drawn = [seed for what, _, seed in asked if what != "copy"]
        assert len(set(drawn)) == len(drawn)
        assert not seeds & set(drawn)
        seeds |= set(drawn)
    assert asked_below == [2**32] * (4 + refill.KEY_WORDS)
    assert tested.renewed
    assert tested.input_bytes == 4 * 2001
    assert [array is arrays[at] for array, at in zip(refill.outputs_of(buffers, arrays), (0, 2, 5), strict=True)]


def test_an_earlier_launch_is_known_after_later_ones():
    buffers = {0: Buffer(Role.IN, (4096,)), 1: Buffer(Role.INOUT, (4096,)), 2: Buffer(Role.IN, (4096,), data=1.0)}
    arrays = {at: np.ones(4096, "float32") for at in buffers}
    tested = contents(buffers, arrays, saved=(2,))
    tested.begin(arrays)
    found = []
    for whole in (False, True, False, False, True):
        tested.next(whole=whole)
        found.append([array.copy() for array in arrays.values()])
    for launch, expected in enumerate(found):
        assert all(map(np.array_equal, tested.given(launch), expected))
    assert not any(np.array_equal(one[1], other[1]) for one, other in pairwise(found))


@pytest.mark.parametrize(
    ("roles", "saved", "renewed"),
    [
        ([Role.OUT], (), True),
        ([Role.OUT, Role.IN], (), True),
        ([Role.OUT, Role.INOUT], (1,), False),
        ([Role.OUT, Role.IN, Role.IN], (1,), True),
        ([Role.SCRATCH, Role.IN], (1,), False),
    ],
)
def test_a_kept_answer_is_wrong_where_some_input_changes(roles, saved, renewed):
    buffers = {at: Buffer(role, (8,), data=1.0 if at in saved else None) for at, role in enumerate(roles)}
    arrays = {at: np.ones(8, "float32") for at in buffers}
    tested = contents(buffers, arrays, saved=saved)
    assert tested.renewed is renewed
    assert ("not excluded" in refill.replayed(tested)) is not renewed
    tested.begin(arrays)
    arrays[0][...] = 0
    tested.next()
    if roles[0] is Role.OUT:  # drawn whole beside inputs that stay
        assert (arrays[0] != 0).all() == (not renewed)


@pytest.mark.parametrize(
    ("data", "renewed"), [(None, True), ((0, 9), True), (2.0, False), (lambda xp, shape: xp.ones(shape), False)]
)
def test_only_random_inputs_are_renewed(data, renewed):
    assert refill.renewable(Buffer(Role.IN, (8,), "int32", data=data)) is renewed


SIZE = 4096
KERNELS = {
    "honest": "out[i] = 2 * in[i];",
    "sees_poison": "if (__float_as_uint(out[i]) == 0xFFFFFFFFu || i % 2) out[i] = 2 * in[i];",
    "counts_launches": "if (i == 0) ++state; if (state < 3) kept[i] = in[i]; out[i] = 2 * kept[i];",
    "keeps_by_a_sample": "if (kept[0] != in[0]) kept[i] = in[i]; out[i] = 2 * kept[i];",
    "writes_its_input": "const_cast<float*>(in)[i] = 0; out[i] = 0;",
    "leaves_what_was_there": "if (!(out[i] > -4 && out[i] < 4)) out[i] = 2 * in[i];",
}
SOURCE = """__device__ int state;
__device__ float kept[4096];
extern "C" __global__ void {name}(float* out, const float* in, int n)
{{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {{ {body} }}
}}
"""


def measured(folder, name, body, **changed):
    source = folder / f"{name}.cu"
    source.write_text(SOURCE.format(name=name, body=body))
    buffers = Buffer(Role.OUT, (SIZE,)), Buffer(Role.IN, (SIZE,), data=changed.pop("data", None))
    case = Case(
        family="dodges",
        stage=Stage(name, "", source),
        launch=Launch((SIZE // 64, 1, 1), (64, 1, 1)),
        arguments=(*buffers, Scalar(SIZE)),
        work=Work(8 * SIZE),
        reference=lambda xp, inputs: (2 * inputs[0],),
        tolerance=1e-6,
    )
    device = CpuDevice()
    session = Session(device, Floors(folder), case.tier, probes=lambda _: [], seed=1)
    return session.measured(replace(case, **changed))


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_that_is_idle_when_it_is_timed_is_wrong(tmp_path, name):
    outcome = measured(tmp_path, name, KERNELS[name])
    if name == "honest":
        assert outcome.judgement.verdict is Verdict.NO_FLOOR
        assert outcome.proof.timed == LEAST_COMPARED
        assert outcome.proof.ratio <= 1
    else:
        assert outcome.judgement.verdict is Verdict.WRONG, outcome.judgement


def test_the_record_says_where_a_replayed_answer_is_not_excluded(tmp_path):
    saved = tmp_path / "x.npy"
    np.save(saved, np.arange(SIZE, dtype="float32"))
    random = measured(tmp_path, "honest", KERNELS["honest"])
    stays = measured(tmp_path, "honest", KERNELS["honest"], data=saved)
    assert "replayed answer" not in random.samples.method
    assert "replayed answer" in stays.samples.method
    assert stays.judgement.verdict is Verdict.NO_FLOOR


def test_equal_seeds_give_equal_contents(tmp_path):
    proofs = [measured(tmp_path, "honest", "out[i] = 2.000001f * in[i];").proof for _ in range(2)]
    assert proofs[0] == proofs[1]
