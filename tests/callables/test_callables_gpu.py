"""``gpu_benchmark`` on a GPU: callables of every framework that is installed, and ten traps of which none passes.

Run on a machine with an NVIDIA GPU: ``pytest -m gpu -s tests/callables/test_callables_gpu.py``; with -s each run and
each verdict is printed.
"""

import importlib.util
import itertools
import json
import os
import random
import subprocess
import sys

import pytest

pytestmark = pytest.mark.gpu

HEAD = """
import itertools
import time

import cupy as cp
import numpy as np
import pytest

N = 1 << 26
MIB = 1 << 20
COPY = cp.RawKernel(r'''
extern "C" __global__ void copy(float4* out, const float4* in)
{
    const unsigned int at = blockIdx.x * blockDim.x + threadIdx.x;
    out[at] = in[at];
}''', "copy")


def inputs(n=N):
    return cp.arange(n, dtype=cp.float32) % 1000 + 1, cp.zeros(n, cp.float32)


def copy(out, x):
    COPY((x.size // 1024,), (256,), (out, x))


def moves(x, *_):
    return 2 * x.nbytes
"""

TRAPS = (
    HEAD
    + r"""
class LazyArray(cp.ndarray):
    pass


@pytest.mark.peakgate(bytes=lambda x: 2 * x.nbytes, reference=lambda x: 2 * x)
def test_lazy_result(gpu_benchmark):
    x, _ = inputs()
    gpu_benchmark(lambda x: LazyArray(1, x.dtype, (2 * x[:1]).data), x)


@pytest.mark.peakgate(bytes=lambda x: 2 * x.nbytes, reference=lambda x: 2 * x)
def test_cached_result(gpu_benchmark):
    kept = {}
    def cached(x):
        if "result" not in kept:
            kept["result"] = 2 * x
        return kept["result"]
    gpu_benchmark(cached, inputs()[0])


@pytest.mark.parametrize("joined", ["never", "at-the-end"])
def test_side_stream(gpu_benchmark, joined):
    x, out = inputs()
    side = cp.cuda.Stream(non_blocking=True)
    done = cp.cuda.Event(disable_timing=True)
    def elsewhere(out, x):
        with side:
            copy(out, x)
            done.record(side)
        if joined != "never":
            cp.cuda.get_current_stream().wait_event(done)
    gpu_benchmark.work(bytes=2 * x.nbytes)(elsewhere, out, x)


@pytest.mark.peakgate(bytes=lambda x: x.nbytes, reference=lambda x: float(x.max()))
def test_inner_synchronisation(gpu_benchmark):
    gpu_benchmark(lambda x: float(x.max().item()), inputs()[0])


READ = cp.RawKernel(r'''
extern "C" __global__ void read(float* out, const float4* in, const int pinned)
{
    const unsigned int at = blockIdx.x * blockDim.x + threadIdx.x;
    float4 v;
    if (pinned) {
        unsigned long long policy;
        asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
        asm volatile("ld.global.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
                     : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(in + at), "l"(policy));
    } else {
        v = in[at];
    }
    if (v.x + v.y + v.z + v.w < 0.0f) { out[0] = v.x; }
}''', "read")


@pytest.mark.parametrize("lines", ["persisting", "persisting-elsewhere", "ordinary"])
def test_l2(gpu_benchmark, lines):
    # 24 MiB: most of it would stay in an L2 of 50 MiB where lines may persist, and be read from there. Elsewhere is in
    # arrays that no sample shares with the sixteen before it.
    arrays = itertools.cycle([inputs(6 * MIB)[0] for _ in range(16 if lines == "persisting-elsewhere" else 1)])
    out, pinned = cp.zeros(1, cp.float32), lines != "ordinary"
    cp.cuda.runtime.deviceSetLimit(6, 30 * MIB if pinned else 0)  # cudaLimitPersistingL2CacheSize
    try:
        gpu_benchmark.work(bytes=24 * MIB)(
            lambda: READ((6 * MIB // 1024,), (256,), (out, next(arrays), np.int32(pinned)))
        )
    finally:
        cp.cuda.runtime.deviceSetLimit(6, 0)


def test_wrong_after_the_first_call(gpu_benchmark):
    x, out = inputs()
    calls = []
    def once(out, x):
        calls.append(1)
        if len(calls) == 1:
            copy(out, x)
    gpu_benchmark.work(bytes=2 * x.nbytes).expect(lambda out, x: x)(once, out, x)


def test_over_peak_claim(gpu_benchmark):
    x, out = inputs()
    gpu_benchmark.work(bytes=1000 * 2 * x.nbytes).expect(lambda out, x: x)(copy, out, x)


@pytest.mark.peakgate(bytes=lambda x: 2 * x.nbytes, reference=lambda x: 2 * x)
def test_changed_input(gpu_benchmark):
    def emptying(x):
        result = 2 * x
        x.fill(0)
        return result
    gpu_benchmark(emptying, inputs()[0])


def test_first_call_compilation(gpu_benchmark):
    x, out = inputs()
    made = {}
    def compiled_late(out, x):
        if "kernel" not in made:
            time.sleep(0.5)
            source = 'extern "C" __global__ void late%d(float4* o, const float4* i) {' % time.time_ns()
            source += " const unsigned int at = blockIdx.x * blockDim.x + threadIdx.x; o[at] = i[at]; }"
            made["kernel"] = cp.RawKernel(source, source.split()[4].partition("(")[0])
        made["kernel"]((x.size // 1024,), (256,), (out, x))
    gpu_benchmark.work(bytes=2 * x.nbytes).expect(lambda out, x: x)(compiled_late, out, x)


@pytest.mark.peakgate(bytes=lambda x: 2 * x.nbytes, reference=lambda x: 2 * x)
def test_output_aliases_input(gpu_benchmark):
    gpu_benchmark(lambda x: cp.multiply(x, 2, out=x), inputs()[0])
"""
)

HONEST = (
    HEAD
    + """
def test_cupy_returns(gpu_benchmark):
    gpu_benchmark.work(bytes=moves).expect(lambda x: x + 1)(lambda x: x + 1, inputs()[0])


def test_cupy_into_an_array(gpu_benchmark):
    x, out = inputs()
    gpu_benchmark.work(bytes=2 * x.nbytes).expect(lambda: x + 1)(lambda: cp.add(x, 1, out=out))


def test_raw_kernel(gpu_benchmark):
    x, out = inputs()
    gpu_benchmark.work(bytes=2 * x.nbytes).expect(lambda out, x: x)(copy, out, x)


def test_raw_kernel_on_a_stream_given(gpu_benchmark):
    x, out = inputs()
    stream = cp.cuda.Stream(non_blocking=True)
    cp.cuda.runtime.deviceSynchronize()
    def on(stream, out, x):
        COPY((x.size // 1024,), (256,), (out, x), stream=stream)
    gpu_benchmark.work(bytes=2 * x.nbytes).expect(lambda stream, out, x: x)(on, stream, out, x)


def test_joined_side_stream(gpu_benchmark):
    x, out = inputs()
    side = cp.cuda.Stream(non_blocking=True)
    def forked(out, x):
        main = cp.cuda.get_current_stream()
        side.wait_event(main.record())
        with side:
            copy(out, x)
        main.wait_event(side.record())
    gpu_benchmark.work(bytes=2 * x.nbytes).expect(lambda out, x: x)(forked, out, x)


def test_in_place(gpu_benchmark):
    x, _ = inputs()
    gpu_benchmark.work(bytes=moves).expect(lambda x: x * 2, outputs=lambda x: x)(lambda x: cp.multiply(x, 2, out=x), x)


def test_histogram_of_indices(gpu_benchmark):
    x = (cp.arange(N // 4, dtype=cp.int64) * 7919) % 256
    gpu_benchmark.work(bytes=x.nbytes).expect(lambda x: cp.bincount(x, minlength=256))(
        lambda x: cp.bincount(x, minlength=256), x
    )


def test_torch_softmax(gpu_benchmark):
    torch = pytest.importorskip("torch")
    x = torch.randn(8192, 1024, device="cuda")
    gpu_benchmark.work(bytes=lambda x, d: 2 * x.nbytes).expect(
        lambda x, d: torch.exp(x.double()) / torch.exp(x.double()).sum(1, keepdim=True)
    )(torch.softmax, x, 1)


def test_torch_bfloat16(gpu_benchmark):
    torch = pytest.importorskip("torch")
    x = torch.randn(4096, 4096, device="cuda").bfloat16()
    gpu_benchmark.work(bytes=moves).expect(lambda x: torch.relu(x.float()))(torch.relu, x)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_torch_8_bit_float(gpu_benchmark, name):
    torch = pytest.importorskip("torch")
    x = torch.randn(4096, 4096, device="cuda").to(getattr(torch, name))
    gpu_benchmark.work(bytes=moves).expect(lambda x: x.float())(lambda x: x.clone(), x)


def test_torch_on_its_own_stream(gpu_benchmark):
    torch = pytest.importorskip("torch")
    x = torch.randn(4096, 4096, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        gpu_benchmark.work(bytes=moves).expect(lambda x: x + 1)(lambda x: x + 1, x)


def test_torch_many_kernels(gpu_benchmark):
    torch = pytest.importorskip("torch")
    x = torch.randn(8192, 1024, device="cuda")
    gpu_benchmark.expect(lambda x: torch.sort(x, 1, descending=True).values[:, :8])(
        lambda x: torch.topk(x, 8, 1).values, x
    )


def test_numba(gpu_benchmark):
    try:
        from numba import cuda
        @cuda.jit
        def scale(out, x):
            at = cuda.grid(1)
            if at < x.size:
                out[at] = 2 * x[at]
        x = cuda.to_device(np.arange(1 << 24, dtype=np.float32))
        out = cuda.device_array_like(x)
        scale[x.size // 256, 256](out, x)
        cuda.synchronize()
    except Exception as error:  # versions of Numba-CUDA, NumPy and CUDA that do not go together
        pytest.skip(f"Numba-CUDA cannot launch a kernel here: {type(error).__name__}: {error}")
    gpu_benchmark.work(bytes=lambda out, x: 2 * x.nbytes).expect(lambda out, x: 2 * cp.asarray(x))(
        lambda out, x: scale[x.size // 256, 256](out, x), out, x
    )
"""
)

TRITON = """
import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")
import triton.language as tl

@triton.jit
def softmax_kernel(out, x, columns, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + column, mask=column < columns, other=-float("inf"))
    values = tl.exp(values - tl.max(values, 0))
    tl.store(out + row * columns + column, values / tl.sum(values, 0), mask=column < columns)


def softmax(out, x):
    softmax_kernel[(x.shape[0],)](out, x, x.shape[1], BLOCK=1024)


@pytest.mark.peakgate(bytes=lambda out, x: 2 * x.nbytes, reference=lambda out, x: torch.softmax(x.double(), 1))
def test_softmax(gpu_benchmark):
    x = torch.randn(8192, 1000, device="cuda")
    gpu_benchmark(softmax, torch.empty_like(x), x)
"""

FLOOR = 0.97
"""What no honest callable of these reaches; one that hides its work does."""


def bench(folder, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", "peakgate", "bench", "--device=gpu", *arguments],
        cwd=folder,
        env=os.environ | {"NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    sys.stdout.write(f"\n$ peakgate bench {' '.join(arguments)}\n{done.stdout}{done.stderr}")
    sys.stdout.write(f"exit code {done.returncode}\n")
    report = folder / ".peakgate" / "out" / "bench.json"
    assert report.is_file(), done.stdout + done.stderr
    cases = {case["case"].partition(".")[2]: case for case in json.loads(report.read_text())["cases"]}
    sys.stdout.writelines(f"{name}: {case['verdict']}, {case['reason']}\n" for name, case in cases.items())
    return done, cases


@pytest.fixture
def project(tmp_path):
    def write(**files):
        (tmp_path / "peakgate.toml").write_text('benchmarks = ["b"]')
        (tmp_path / "b").mkdir()
        for name, text in files.items():
            (tmp_path / "b" / f"{name}.py").write_text(text)
        return tmp_path

    return write


EXPECTED = {
    "test_lazy_result": ("WRONG", "which may compute its values lazily"),
    "test_cached_result": ("WRONG", "timed call"),
    "test_side_stream-never": ("INCONCLUSIVE", "works on other streams"),
    "test_side_stream-at-the-end": ("INCONCLUSIVE", "works on other streams"),
    "test_inner_synchronisation": ("NO_FLOOR", "waits for the host"),
    "test_l2-persisting": ("BELOW_FLOOR", "of peak"),
    "test_l2-persisting-elsewhere": ("BELOW_FLOOR", "of peak"),
    "test_l2-ordinary": ("BELOW_FLOOR", "of peak"),
    "test_wrong_after_the_first_call": ("WRONG", "in a second call"),
    "test_over_peak_claim": ("IMPOSSIBLE", "nothing exceeds the peak"),
    "test_changed_input": ("WRONG", "changes an array that its reference reads"),
    "test_first_call_compilation": ("BELOW_FLOOR", "of peak"),
    "test_output_aliases_input": ("WRONG", "changes an array that its reference reads"),
}


def test_of_ten_traps_none_passes(project):
    from peakgate.device import driver  # noqa: PLC0415

    folder = project(test_traps=TRAPS)
    floors = folder / "baselines" / driver.slug(driver.gpu_name(0)) / "floors.toml"
    floors.parent.mkdir(parents=True)
    held = "\n".join(f'"b-test_traps.{name}" = {FLOOR}' for name in EXPECTED)
    floors.write_text(f'schema = 1\ngpu = "{floors.parent.name}"\n\n[floors]\n{held}\n')
    done, cases = bench(folder, f"--benchmark-json={folder / 'run.json'}")
    assert done.returncode == 1, done.stdout + done.stderr
    assert set(cases) == set(EXPECTED), done.stdout
    passed = [name for name, case in cases.items() if case["verdict"] == "PASS"]
    assert passed == []
    found = {name: (case["verdict"], EXPECTED[name][1] in case["reason"]) for name, case in cases.items()}
    assert found == {name: (verdict, True) for name, (verdict, _) in EXPECTED.items()}, cases
    saved = json.loads((folder / "run.json").read_text())
    times_us = {
        entry["extra_info"]["case"].partition(".")[2]: entry["extra_info"]["time_us"] for entry in saved["benchmarks"]
    }
    # A kernel that marks its lines may read a little faster than one that does not: the flush's dirty lines are not in
    # the part of the L2 that is set aside. It must not read faster what it read before than what is new to it.
    assert times_us["test_l2-persisting"] > 0.95 * times_us["test_l2-persisting-elsewhere"]  # lines outlived the flush
    assert times_us["test_first_call_compilation"] < 10_000  # the compilation takes half a second


def test_callables_of_every_framework_are_right_and_read_below_the_peak(project):
    installed = importlib.util.find_spec("torch") is not None and importlib.util.find_spec("triton") is not None
    folder = project(test_honest=HONEST, **({"test_triton": TRITON} if installed else {}))
    done, cases = bench(folder, f"--benchmark-json={folder / 'run.json'}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {case["verdict"] for case in cases.values()} == {"NO_FLOOR"}, cases
    saved = json.loads((folder / "run.json").read_text())
    by_case = {entry["extra_info"]["case"]: entry["extra_info"] for entry in saved["benchmarks"]}
    infos = {case.rpartition(".")[2]: info for case, info in by_case.items()}
    assert len(infos) == len(cases)
    for name, info in infos.items():
        assert info["relative_error"] is not None, name
        assert "fresh inputs" in info["sampling"], (name, info["sampling"])
        # What works in place has no input of its own that could be given other elements, and its record says so.
        assert ("not checked" in info["sampling"]) is (name == "test_in_place"), (name, info["sampling"])
        assert info["host_bound"] is False or name == "test_histogram_of_indices", name
        if info["peak_fraction"] is not None and not info["host_bound"]:
            assert 0.02 < info["peak_fraction"] < 1.0, (name, info["peak_fraction"])
    for name in ("test_raw_kernel", "test_raw_kernel_on_a_stream_given", "test_joined_side_stream"):
        assert infos[name]["peak_fraction"] > 0.6, (name, infos[name]["peak_fraction"])


def test_disabled_benchmarks_run_once_and_are_checked(project):
    folder = project(test_honest=HONEST)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--benchmark-disable",
        "-k",
        "cupy or raw_kernel",
        "b/test_honest.py",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.gpu(here=True)
def test_a_call_is_compared_with_what_it_was_given_after_batches_that_nobody_judged():
    import cupy  # noqa: PLC0415

    from peakgate.callables.call import Call  # noqa: PLC0415
    from peakgate.callables.gpu_call import GpuCall, find_out, one_stream  # noqa: PLC0415
    from peakgate.callables.output_check import OutputCheck  # noqa: PLC0415
    from peakgate.callables.settings import Given, case_of  # noqa: PLC0415
    from peakgate.device.choose import open_device  # noqa: PLC0415
    from peakgate.device.interface import SampleChecker  # noqa: PLC0415
    from peakgate.measure.sampling import SamplingPlan  # noqa: PLC0415

    device, _ = open_device("gpu")
    x, out = cupy.arange(1 << 20, dtype="float32") % 1000 + 1, cupy.zeros(1 << 20, "float32")
    call = Call(lambda out, x: cupy.multiply(x, 2, out=out), (out, x), {})
    plan = SamplingPlan(min_samples=24, max_samples=24, batch=3)
    answers, wrong = itertools.cycle([False, True, True]), []
    proving = OutputCheck(call, Given(reference=lambda _, x: 2 * x, outputs=lambda out, _: out))

    class TwoOfThreeBatches(SampleChecker):
        def least(self, _launch_us):
            return 5

        def candidates(self, _count, _launch_us):
            return next(answers)

        def check(self, launch):
            wrong.append(proving.timed(launch).mismatch)

    with one_stream(device, 0, plan.batch) as stream:
        call.run()
        call.learn()
        behaviour = find_out(stream, call, plan)
        timed = GpuCall(device, case_of("b/t.py::test_t"), call, stream, behaviour, outputs=proving.outputs, fresh=True)
        draws = random.Random(20261123)
        timed.sample(plan, TwoOfThreeBatches(draws.randrange))
    assert wrong == [None] * 5
