"""Callables that cheat, each beside its honest twin; a docstring says what a cheat does and where it was published."""

import gc
import inspect
import itertools
import threading
import time

import numpy as np
import pytest

cp = pytest.importorskip("cupy")

N = 1 << 24
WAVES = 1 << 21
MIB = 1 << 20

SOURCE = r"""
extern "C" __global__ void doubled(float4* out, const float4* x)
{
    const unsigned int at = blockIdx.x * blockDim.x + threadIdx.x;
    const float4 v = x[at];
    out[at] = make_float4(2 * v.x, 2 * v.y, 2 * v.z, 2 * v.w);
}

__device__ float wave(float x)
{
    float value = x;
    for (int step = 0; step < 64; ++step) { value = 0.5f * cosf(value + x); }
    return value;
}

extern "C" __global__ void waves(float* y, const float* x)
{
    const unsigned int at = blockIdx.x * blockDim.x + threadIdx.x;
    y[at] = wave(x[at]);
}

// Gives what it kept where the first numbers are those that it was kept for.
extern "C" __global__ void kept_waves(float* y, const float* x, float* kept, float* seen)
{
    const unsigned int at = blockIdx.x * blockDim.x + threadIdx.x;
    const bool known = x[0] == seen[0] && x[1] == seen[1] && x[12345] == seen[12345];
    y[at] = known ? kept[at] : wave(x[at]);
}

extern "C" __global__ void read(float* out, const float4* x)
{
    const unsigned int at = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long policy;
    float4 v;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("ld.global.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(x + at), "l"(policy));
    if (v.x + v.y + v.z + v.w == -1.0f) { out[0] = v.x; }
}
"""
MODULE = cp.RawModule(code=SOURCE)


def kernel(name, *arguments, threads):
    MODULE.get_function(name)((threads // 256,), (256,), arguments)


def doubled(out, x):
    kernel("doubled", out, x, threads=x.size // 4)


def waves(y, x):
    kernel("waves", y, x, threads=x.size)


def of_waves(y, x):
    value = x = x.astype("float64")
    for _ in range(64):
        value = 0.5 * cp.cos(value + x)
    return value


def inputs(n=N):
    x = (cp.arange(n, dtype=cp.float32) % 1000 + 1) / 1000
    return cp.zeros_like(x), x


def doubles(gpu_benchmark, function):
    """Measure a function that fills out with twice x."""
    out, x = inputs()
    return gpu_benchmark.work(bytes=2 * x.nbytes).expect(lambda out, x: 2 * x, outputs=lambda out, x: out)(
        function, out, x
    )


def tensor():
    return pytest.importorskip("torch").rand(N, device="cuda")


def gives_doubled(gpu_benchmark, function, x=None):
    """Measure a function that gives twice x."""
    x = inputs()[1] if x is None else x
    return gpu_benchmark.work(bytes=2 * x.nbytes).expect(lambda x: 2 * x)(function, x)


def gives_waves(gpu_benchmark, function):
    """Measure a function that fills y with waves of x, which takes ten times as long as to copy them."""
    y, x = inputs(WAVES)
    return gpu_benchmark.work(bytes=2 * x.nbytes).expect(of_waves, outputs=lambda y, x: y)(function, y, x)


# Work that the measured stream does not see.


def test_leaves_work_on_side_stream_cheat(gpu_benchmark):
    """Launches on a stream of its own and does not wait.

    Published: KernelBench PR 82, a product on a stream that the timer does not see.
    """
    side = cp.cuda.Stream(non_blocking=True)

    def elsewhere(out, x):
        with side:
            doubled(out, x)

    doubles(gpu_benchmark, elsewhere)
    side.synchronize()


def test_leaves_work_on_side_stream_honest(gpu_benchmark):
    side = cp.cuda.Stream(non_blocking=True)

    def forked(out, x):
        main = cp.cuda.get_current_stream()
        side.wait_event(main.record())
        with side:
            doubled(out, x)
        main.wait_event(side.record())

    doubles(gpu_benchmark, forked)


def test_begins_before_it_is_timed_cheat(gpu_benchmark):
    """Launches on another stream, which does not wait for the measured one; that one waits for it at the end.

    Published: DeepReinforce, "Hacks and Defenses in Automatic GPU Kernel Generation": stream injection.
    """
    side = cp.cuda.Stream(non_blocking=True)

    def ahead(out, x):
        with side:
            doubled(out, x)
        cp.cuda.get_current_stream().wait_event(side.record())

    doubles(gpu_benchmark, ahead)


def test_begins_before_it_is_timed_honest(gpu_benchmark):
    side = cp.cuda.Stream(non_blocking=True)

    def halves(out, x):
        main, half = cp.cuda.get_current_stream(), x.size // 2
        side.wait_event(main.record())
        with side:
            doubled(out[:half], x[:half])
        doubled(out[half:], x[half:])
        main.wait_event(side.record())

    doubles(gpu_benchmark, halves)


def test_works_in_a_thread_cheat(gpu_benchmark):
    """Leaves the launch to a thread of the host that comes to it a moment later.

    Published: DeepReinforce, "Hacks and Defenses in Automatic GPU Kernel Generation": thread injection.
    """
    side, threads = cp.cuda.Stream(non_blocking=True), []

    def late(out, x):
        time.sleep(0.002)
        with side:
            doubled(out, x)

    def elsewhere(out, x):
        threads.append(threading.Thread(target=late, args=(out, x)))
        threads[-1].start()

    try:
        doubles(gpu_benchmark, elsewhere)
    finally:
        for thread in threads:
            thread.join()
        side.synchronize()


def test_works_in_a_thread_honest(gpu_benchmark):
    def elsewhere(out, x):
        stream = cp.cuda.get_current_stream()

        def launch():
            with stream:
                doubled(out, x)

        thread = threading.Thread(target=launch)
        thread.start()
        thread.join()

    doubles(gpu_benchmark, elsewhere)


# Clocks.


def test_patches_the_timer_cheat(gpu_benchmark, monkeypatch):
    """Halves what CuPy reports as the time between two events.

    Published: gpu-mode/reference-kernels issue 162, elapsed times divided by a hundred.
    """
    real = cp.cuda.get_elapsed_time

    def patched(out, x):
        monkeypatch.setattr(cp.cuda, "get_elapsed_time", lambda start, stop: real(start, stop) / 2)
        doubled(out, x)

    try:
        doubles(gpu_benchmark, patched)
    finally:
        monkeypatch.undo()


def test_patches_the_timer_honest(gpu_benchmark):
    start, stop = cp.cuda.Event(), cp.cuda.Event()

    def timed_by_itself(out, x):
        start.record()
        doubled(out, x)
        stop.record()

    doubles(gpu_benchmark, timed_by_itself)


def test_patches_the_timer_slightly_cheat(gpu_benchmark, monkeypatch):
    """Takes a tenth off what CuPy reports as the time between two events, which no peak betrays. Outside the promise:
    Python of the project in the process that measures."""
    real = cp.cuda.get_elapsed_time

    def patched(y, x):
        monkeypatch.setattr(cp.cuda, "get_elapsed_time", lambda start, stop: real(start, stop) * 0.9)
        waves(y, x)

    try:
        gives_waves(gpu_benchmark, patched)
    finally:
        monkeypatch.undo()


def test_patches_the_timer_slightly_honest(gpu_benchmark):
    gives_waves(gpu_benchmark, waves)


def test_patches_torch_timer_cheat(gpu_benchmark, monkeypatch):
    """Divides what PyTorch reports as the time between two events by a hundred.

    Published: gpu-mode/reference-kernels issue 162, elapsed times divided by a hundred.
    """
    x, torch = tensor(), pytest.importorskip("torch")
    real = torch.cuda.Event.elapsed_time

    def patched(x):
        monkeypatch.setattr(torch.cuda.Event, "elapsed_time", lambda start, stop: real(start, stop) / 100)
        return 2 * x

    gives_doubled(gpu_benchmark, patched, x)


def test_patches_torch_timer_honest(gpu_benchmark):
    gives_doubled(gpu_benchmark, lambda x: 2 * x, tensor())


def test_patches_the_clock_cheat(gpu_benchmark, monkeypatch):
    """Makes the clock of the host ten times as slow.

    Published: DeepReinforce, "Hacks and Defenses in Automatic GPU Kernel Generation": patched timing functions.
    """
    real, begun = time.perf_counter, time.perf_counter()

    def patched(out, x):
        monkeypatch.setattr(time, "perf_counter", lambda: begun + (real() - begun) / 10)
        doubled(out, x)

    try:
        doubles(gpu_benchmark, patched)
    finally:
        monkeypatch.undo()


def test_patches_the_clock_honest(gpu_benchmark):
    def reads_the_clock(out, x):
        time.perf_counter()
        doubled(out, x)

    doubles(gpu_benchmark, reads_the_clock)


# Answers of earlier calls.


def test_remembers_by_identity_cheat(gpu_benchmark):
    """Gives the result again that it kept for the object.

    Published: gpu-mode/reference-kernels PR 102, results cached by the identity of tensors.
    """
    kept = {}

    def remembered(x):
        if id(x) not in kept:
            kept[id(x)] = 2 * x
        return kept[id(x)]

    gives_doubled(gpu_benchmark, remembered)


def test_remembers_by_identity_honest(gpu_benchmark):
    buffers = {}

    def into_its_buffer(x):
        out = buffers.setdefault(x.shape, cp.empty_like(x))
        doubled(out, x)
        return out

    gives_doubled(gpu_benchmark, into_its_buffer)


def test_remembers_by_pointer_cheat(gpu_benchmark):
    """Copies the result that it kept for the address, the shape and the type of its input.

    Published: gpu-mode/kernelbot PR 501, replay keyed by data_ptr and version.
    """
    kept = {}

    def remembered(y, x):
        key = (x.data.ptr, x.shape, x.dtype)
        if key not in kept:
            waves(y, x)
            kept[key] = y.copy()
        cp.copyto(y, kept[key])

    gives_waves(gpu_benchmark, remembered)


def test_remembers_by_pointer_honest(gpu_benchmark):
    places = set()

    def noted(y, x):
        places.add(x.data.ptr)
        waves(y, x)

    gives_waves(gpu_benchmark, noted)


def test_remembers_by_fingerprint_cheat(gpu_benchmark):
    """Compares three numbers of its input on the GPU, and where they are those of the first call copies its answer.

    Published: flashinfer-ai/flashinfer-bench-starter-kit issue 21, an output cache keyed by a light fingerprint.
    """
    kept = []

    def remembered(y, x):
        if not kept:
            waves(y, x)
            kept.extend((y.copy(), x.copy()))
        kernel("kept_waves", y, x, *kept, threads=x.size)

    gives_waves(gpu_benchmark, remembered)


def test_remembers_by_fingerprint_honest(gpu_benchmark):
    gives_waves(gpu_benchmark, waves)


def test_remembers_by_value_cheat(gpu_benchmark):
    """Reads a number of its input on the host, and gives the result that it kept for that.

    Published: gpu-mode/reference-kernels PR 160, an answer cached in the process.
    """
    kept = {}

    def remembered(y, x):
        key = float(x[12345])
        if key not in kept:
            waves(y, x)
            kept[key] = y.copy()
        cp.copyto(y, kept[key])

    gives_waves(gpu_benchmark, remembered)


def test_remembers_by_value_honest(gpu_benchmark):
    def looks(y, x):
        float(x[12345])
        waves(y, x)

    gives_waves(gpu_benchmark, looks)


def test_works_every_second_call_cheat(gpu_benchmark):
    """Does nothing in every second call.

    Published: gpu-mode/reference-kernels PR 104, where one of fifteen timed calls does the work of all.
    """
    calls = itertools.count()

    def sometimes(out, x):
        if next(calls) % 2 == 0:
            doubled(out, x)

    doubles(gpu_benchmark, sometimes)


def test_works_every_second_call_honest(gpu_benchmark):
    calls = itertools.count()

    def in_two_ways(out, x):
        if next(calls) % 2 == 0:
            doubled(out, x)
        else:
            cp.multiply(x, 2, out=out)

    doubles(gpu_benchmark, in_two_ways)


def right_for(wanted):
    """A function that does all of its work in so many calls, and half of it in later ones."""
    calls = itertools.count()

    def lazy(out, x):
        half = x.size // 2 if next(calls) >= wanted else x.size
        doubled(out[:half], x[:half])

    return lazy


def counted():
    """A function that counts its calls, and does all of its work."""
    calls = itertools.count()

    def honest(out, x):
        next(calls)
        doubled(out, x)

    return honest


def test_works_at_the_first_calls_cheat(gpu_benchmark):
    """Is right for ten calls, and then does half.

    Published: karpathy/llm.c PR 852, a wrapper that is right for its first ten calls.
    """
    doubles(gpu_benchmark, right_for(10))


def test_works_at_the_first_calls_honest(gpu_benchmark):
    doubles(gpu_benchmark, counted())


def test_rests_after_many_calls_cheat(gpu_benchmark):
    """Is right for 72 calls, and then does half. It hopes that the calls which are checked are all among the first."""
    doubles(gpu_benchmark, right_for(72))


def test_rests_after_many_calls_honest(gpu_benchmark):
    doubles(gpu_benchmark, counted())


# Outputs that are none.


def test_gives_a_lazy_array_cheat(gpu_benchmark):
    """Gives an array of a class of its own, for somebody else to compute.

    Published: gpu-mode/reference-kernels PR 161, output that is computed when the checker reads it.
    """

    class Lazy(cp.ndarray):
        pass

    gives_doubled(gpu_benchmark, lambda x: (2 * x[:1]).view(Lazy))


def test_gives_a_lazy_array_honest(gpu_benchmark):
    gives_doubled(gpu_benchmark, lambda x: (2 * x).view(cp.ndarray))


def test_gives_a_lazy_tensor_cheat(gpu_benchmark):
    """Gives a tensor that computes itself when it is used.

    Published: DeepReinforce, "Hacks and Defenses in Automatic GPU Kernel Generation": lazy evaluation.
    """
    torch = pytest.importorskip("torch")

    class Lazy(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            computed = [2 * each.as_subclass(torch.Tensor) if isinstance(each, cls) else each for each in args]
            return function(*computed, **(kwargs or {}))

    gives_doubled(gpu_benchmark, lambda x: x.as_subclass(Lazy), tensor())


def test_gives_a_lazy_tensor_honest(gpu_benchmark):
    torch = pytest.importorskip("torch")
    gives_doubled(gpu_benchmark, lambda x: (2 * x).as_subclass(torch.Tensor), tensor())


def test_gives_uninitialised_memory_cheat(gpu_benchmark):
    """Gives memory that nobody wrote, which may be that of an earlier result.

    Published: KernelBench PR 82, outputs in memory that held those of the reference.
    """
    gives_doubled(gpu_benchmark, cp.empty_like)


def test_gives_uninitialised_memory_honest(gpu_benchmark):
    def allocates(x):
        out = cp.empty_like(x)
        doubled(out, x)
        return out

    gives_doubled(gpu_benchmark, allocates)


def test_broadcasts_one_row_cheat(gpu_benchmark):
    """Computes one row and gives it for all, without copying it."""
    x = cp.random.default_rng(1).random((16384, 1024), dtype=cp.float32)
    gives_doubled(gpu_benchmark, lambda x: cp.broadcast_to(2 * x[:1], x.shape), x)


def test_broadcasts_one_row_honest(gpu_benchmark):
    x = cp.random.default_rng(1).random((16384, 1024), dtype=cp.float32)
    gives_doubled(gpu_benchmark, lambda x: 2 * x, x)


def test_gives_its_input_cheat(gpu_benchmark):
    """Changes its input in place and gives that."""
    gives_doubled(gpu_benchmark, lambda x: cp.multiply(x, 2, out=x))


def test_gives_its_input_honest(gpu_benchmark):
    _, x = inputs()
    gpu_benchmark.work(bytes=2 * x.nbytes).expect(lambda x: 2 * x, outputs=lambda x: x)(
        lambda x: cp.multiply(x, 2, out=x), x
    )


def test_zeroes_inputs_and_outputs_cheat(gpu_benchmark):
    """Zeroes its input and gives zeros.

    Published: KernelBench PR 82, a kernel that zeroes its inputs and gives a matrix of zeros.
    """

    def zeroes(out, x):
        x.fill(0)
        out.fill(0)

    doubles(gpu_benchmark, zeroes)


def test_zeroes_inputs_and_outputs_honest(gpu_benchmark):
    def zeroes_first(out, x):
        out.fill(0)
        out += 2 * x

    doubles(gpu_benchmark, zeroes_first)


# What Python can see of the harness.


def expected_arrays(out):
    """Every array of the process that may be what must come out: in float64, as references are computed."""
    for found in gc.get_objects():
        if type(found) is cp.ndarray and found.shape == out.shape and found.dtype == np.float64:
            yield found


def test_copies_what_is_expected_cheat(gpu_benchmark):
    """Looks for the expected values among the objects of the process, and copies those that came last.

    Published: gpu-mode/pygpubench PR 7, where gc.get_objects finds the expected tensors.
    """
    known = set()

    def finds(y, x):
        found = list(expected_arrays(y))
        new = [each for each in found if id(each) not in known]
        known.update(map(id, found))
        if found:
            cp.copyto(y, (new or found)[-1], casting="unsafe")
        else:
            waves(y, x)

    gives_waves(gpu_benchmark, finds)


def test_copies_what_is_expected_honest(gpu_benchmark):
    def looks(y, x):
        next(expected_arrays(y), None)
        waves(y, x)

    gives_waves(gpu_benchmark, looks)


def test_fills_what_is_expected_with_nan_cheat(gpu_benchmark):
    """Looks for the expected values among the objects of the process, and fills them and its output with NaN.

    Published: gpu-mode/pygpubench PR 7, where NaN in the expected values matches everything.
    """

    def fills(y, x):
        for found in expected_arrays(y):
            found.fill(np.nan)
        y.fill(np.nan)

    gives_waves(gpu_benchmark, fills)


def test_fills_what_is_expected_with_nan_honest(gpu_benchmark):
    gives_waves(gpu_benchmark, waves)


def test_looks_at_the_stack_cheat(gpu_benchmark):
    """Looks for the sampler among its callers, and computes half where it is there.

    Published: gpu-mode/pygpubench issue 23, where a submission tells warm-up from timed calls.
    """

    def lazy(out, x):
        frame, timed = inspect.currentframe(), False
        while frame is not None:
            timed |= "sample" in frame.f_code.co_name
            frame = frame.f_back
        half = x.size // 2 if timed else x.size
        doubled(out[:half], x[:half])

    doubles(gpu_benchmark, lazy)


def test_looks_at_the_stack_honest(gpu_benchmark):
    def looks(out, x):
        assert inspect.currentframe().f_back is not None
        doubled(out, x)

    doubles(gpu_benchmark, looks)


# Precision and the cache.


def products(gpu_benchmark, function, side=2048):
    torch = pytest.importorskip("torch")
    a, b = (torch.rand(side, side, device="cuda") - 0.5 for _ in range(2))
    gpu_benchmark.work(flops=2 * side**3).expect(lambda a, b: a.double() @ b.double())(function, a, b)


def test_multiplies_in_half_cheat(gpu_benchmark):
    """Multiplies in half precision what is given and wanted in float32.

    Published: DeepReinforce, "Hacks and Defenses in Automatic GPU Kernel Generation": precision downgrade.
    """
    products(gpu_benchmark, lambda a, b: (a.half() @ b.half()).float())


def test_multiplies_in_half_honest(gpu_benchmark):
    products(gpu_benchmark, lambda a, b: a @ b)


def test_allows_tf32_cheat(gpu_benchmark, monkeypatch):
    """Lets PyTorch multiply in TF32.

    Published: Wafer, "A Field Guide to Reward Hacking in AI Kernel Generation": precision downgrade.
    """
    torch = pytest.importorskip("torch")

    def fast(a, b):
        monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", True)
        return a @ b

    try:
        products(gpu_benchmark, fast)
    finally:
        monkeypatch.undo()


def test_allows_tf32_honest(gpu_benchmark):
    products(gpu_benchmark, lambda a, b: a @ b)


def test_skips_a_slice_cheat(gpu_benchmark):
    """Leaves out the last 64 of 2048 terms."""
    products(gpu_benchmark, lambda a, b: a[:, :-64] @ b[:-64])


def test_skips_a_slice_honest(gpu_benchmark):
    products(gpu_benchmark, lambda a, b: a[:, :-64] @ b[:-64] + a[:, -64:] @ b[-64:])


def reads(gpu_benchmark, arrays):
    out = cp.zeros(1, cp.float32)
    cp.cuda.runtime.deviceSetLimit(6, 30 * MIB)  # cudaLimitPersistingL2CacheSize
    try:
        gpu_benchmark.work(bytes=24 * MIB)(lambda: kernel("read", out, next(arrays), threads=24 * MIB // 16))
    finally:
        cp.cuda.runtime.deviceSetLimit(6, 0)


def test_persists_in_l2_cheat(gpu_benchmark):
    """Reserves L2 for lines that persist, and reads 24 MiB of them again in each call.

    Published: karpathy/llm.c PR 851 and gpu-mode/pygpubench PR 49, persisting lines that survive the flush.
    """
    reads(gpu_benchmark, itertools.cycle([inputs(6 * MIB)[1]]))


def test_persists_in_l2_honest(gpu_benchmark):
    reads(gpu_benchmark, itertools.cycle([inputs(6 * MIB)[1] for _ in range(16)]))
