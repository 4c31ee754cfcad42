"""What launches find in their buffers: drawn by the host, different each time, and known again for the reference."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from peakgate.core import dtypes
from peakgate.core.case import Buffer, Case, Launch, Role, Scalar, Stage, Work
from peakgate.core.verdict import Verdict
from peakgate.device.cpu import CpuDevice
from peakgate.judge.correctness import Check
from peakgate.judge.floors import Floors
from peakgate.measure import refill
from peakgate.measure.data import input_array
from peakgate.run.session import CHECKING_S, Session, _TimedChecks

SIZES = st.integers(1, 5000)
SEEDS = st.integers(0, refill.SEEDS - 1)


@given(size=SIZES, seed=SEEDS, itemsize=st.sampled_from([1, 2, 4, 8, 16]))
def test_all_of_an_array_is_drawn_from_the_pool(size, seed, itemsize):
    dtype = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64", 16: "complex128"}[itemsize]
    pool = np.arange(4096).astype(dtype) if itemsize > 1 else np.arange(4096).astype("uint8") | 1
    target = np.zeros(size, dtype) - np.ones(1, dtype)
    again = np.zeros_like(target)
    refill.fill(target, pool, seed)
    refill.fill(again, pool, seed)
    assert np.isin(target, pool).all()
    assert np.array_equal(target, again)


@given(size=SIZES, seed=SEEDS)
def test_a_change_replaces_one_element_of_each_page(size, seed):
    target, pool = np.zeros(size, "float32"), np.ones(4096, "float32")
    refill.change(target, pool, seed)
    pages = [target[start : start + 1024].sum() for start in range(0, size, 1024)]
    assert pages == [1] * len(pages)


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
def test_what_a_launch_was_given_is_drawn_again_whatever_kernels_wrote(roles, launches, size):
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


def test_scratch_keeps_its_state_within_a_batch_and_is_zero_at_its_start():
    arrays = {0: np.ones(8, "float32")}
    tested = contents({0: Buffer(Role.SCRATCH, (8,))}, arrays)
    tested.begin(arrays)
    assert not arrays[0].any()
    arrays[0][3] = 5
    tested.next()
    assert arrays[0][3] == 5


def test_inputs_that_stay_are_given_back_and_outputs_are_filled_whole_beside_them():
    buffers = {0: Buffer(Role.OUT, (4096,)), 1: Buffer(Role.IN, (4096,), data=1.0)}
    arrays = {0: np.zeros(4096, "float32"), 1: np.ones(4096, "float32")}
    tested = contents(buffers, arrays, saved=(1,))
    tested.begin(arrays)
    arrays[0][...] = 0
    tested.next()
    assert (arrays[0] != 0).all()
    assert (arrays[1] == 1).all()
    assert not tested.renewed


@pytest.mark.parametrize(
    ("data", "renewed"), [(None, True), ((0, 9), True), (2.0, False), (lambda xp, shape: xp.ones(shape), False)]
)
def test_only_random_inputs_are_renewed(data, renewed):
    assert refill.renewable(Buffer(Role.IN, (8,), "int32", data=data)) is renewed


@pytest.mark.parametrize("dtype", ["int4", "bfloat16", "float64"])
def test_a_pool_holds_elements_of_the_same_kind(dtype):
    pool = input_array(np, refill.pool_of(Buffer(Role.IN, (64, 2), dtype)), 1)
    assert pool.dtype == dtypes.storage(dtype)
    assert pool.size == 4096


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
def test_a_kernel_that_does_not_do_its_work_when_it_is_timed_is_wrong(tmp_path, name):
    outcome = measured(tmp_path, name, KERNELS[name])
    if name == "honest":
        assert outcome.judgement.verdict is Verdict.NO_FLOOR
        assert outcome.proof.timed == 3
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


def test_where_a_reference_takes_long_ever_fewer_launches_are_compared():
    case = Case("f", Stage("s", "", Path("s.cu")), Launch((1, 1, 1), (1, 1, 1)), (), Work(0), reference=lambda *_: ())
    checks = _TimedChecks(
        Session(CpuDevice(), Floors(Path()), case.tier, seed=1), case, None, lambda _: Check(0.0, 0.0, None)
    )
    assert all(checks.witness.wanted() for _ in range(100))
    checks.spent_s = 10 * CHECKING_S
    assert 50 < sum(checks.witness.wanted() for _ in range(1000)) < 200
