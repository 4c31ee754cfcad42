"""Cases on several GPUs: what one GPU can show with two streams of its own, and the collectives where two are there.

Run on a machine with NVIDIA GPUs: ``pytest -m gpu -s tests/device/test_several_gpus_gpu.py``.
"""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

LINKS = Path(__file__).parents[1] / "data" / "links" / "bench_links.py"


@pytest.fixture
def pair():
    """Samples of two streams of the current GPU as if each were that of one GPU; and both streams."""
    import cupy  # noqa: PLC0415

    from peakgate.device.choose import open_device  # noqa: PLC0415
    from peakgate.device.stream import SampleStream, _Place  # noqa: PLC0415

    device, _ = open_device("gpu")
    first, second = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    with first:
        stream = SampleStream(device.facts.l2_bytes, 4, device.gpus)
    with second:
        stream._places.append(_Place(device.facts.l2_bytes, 4))
    return stream, first, second


@pytest.fixture
def spin():
    """A kernel that takes so many microseconds and then writes a number."""
    import cupy  # noqa: PLC0415

    kernel = cupy.RawKernel(
        r"""
extern "C" __global__ void spin(int* out, const int value, const long long nanoseconds)
{
    long long begun, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begun));
    do { asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); } while (now - begun < nanoseconds);
    *out = value;
}""",
        "spin",
    )

    def launch(out, value, microseconds):
        kernel((1,), (1,), (out, cupy.int32(value), cupy.int64(microseconds * 1000)))

    launch(cupy.zeros(1, "int32"), 0, 1)
    return launch


@pytest.mark.gpu(here=True)
def test_a_sample_takes_as_long_as_the_slowest_takes(pair, spin):
    import cupy  # noqa: PLC0415

    stream, first, second = pair
    out = cupy.zeros(2, "int32")

    def launch():
        for each, microseconds in ((first, 50), (second, 400)):
            with each:
                spin(out[:1], 1, microseconds)

    times_us = [time_us for time_us, _ in stream.batch([launch] * 4, blocked=True)]
    assert all(390 < time_us < 440 for time_us in times_us)
    assert 390 < stream.trial(launch, 4, limit_ns=200_000_000).event_us < 440
    assert "2 GPUs" in stream.method(blocked=True, moved=False)


@pytest.mark.gpu(here=True)
def test_all_begin_and_go_on_together(pair, spin):
    import cupy  # noqa: PLC0415

    stream, first, second = pair
    slow, seen_at_start, seen_afterwards = (cupy.zeros(4, "int32") for _ in range(3))
    at = iter(range(4))

    def before():
        with first:
            spin(slow[:1], 1, 500)

    def launch():
        index = next(at)
        with second:
            cupy.cuda.runtime.memcpyAsync(
                seen_at_start.data.ptr + 4 * index, slow.data.ptr, 4, cupy.cuda.runtime.memcpyDeviceToDevice, second.ptr
            )
        with first:
            spin(slow[:1], 2, 500)

    def after(index):
        cupy.cuda.runtime.memcpyAsync(
            seen_afterwards.data.ptr + 4 * index, slow.data.ptr, 4, cupy.cuda.runtime.memcpyDeviceToDevice, second.ptr
        )

    behind = {index: partial(after, index) for index in range(4)}
    taken = stream.batch([launch] * 4, blocked=True, before=before, after=behind)
    times_us = [time_us for time_us, _ in taken]
    assert seen_at_start.tolist() == [1] * 4
    assert seen_afterwards.tolist() == [2] * 4
    assert all(490 < time_us < 540 for time_us in times_us)  # not what came before it


def bench(folder, text, *arguments):
    """A run of one file of benchmark tests: by the last part of their ids what was measured, not measured, skipped."""
    (folder / "bench_it.py").write_text(text)
    (folder / "peakgate.toml").write_text('benchmarks = ["bench_it.py"]\n')
    command = [sys.executable, "-m", "peakgate", "bench", "--benchmark-json=run.json", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    document = folder / ".peakgate" / "out" / "bench.json"
    assert document.exists(), done.stdout + done.stderr
    verdict = json.loads(document.read_text())
    found = {each["case"].partition(".")[2]: each for each in verdict["cases"]}
    failed = {case: each["verdict"] for case, each in found.items() if each["time_us"] is None}
    if failed.keys() == found.keys():  # nothing to save a run of
        return done, {}, failed, {}
    saved = json.loads((folder / "run.json").read_text())
    print(*(each["extra_info"] for each in saved["benchmarks"]), failed)  # noqa: T201
    entries = {each["extra_info"]["case"].partition(".")[2]: each["extra_info"] for each in saved["benchmarks"]}
    skipped = {case.partition(".")[2]: reason for case, reason in saved["peakgate"]["skipped"].items()}
    return done, entries, failed, skipped


def test_a_group_of_one_gpu_is_right_and_larger_ones_skipped(tmp_path):
    done, entries, failed, skipped = bench(tmp_path, LINKS.read_text())
    assert (done.returncode, failed) == (0, {}), done.stdout + done.stderr
    assert set(entries) == {"bench_all_reduce-1gpu", "bench_all_gather-1gpu"}
    for name, entry in entries.items():
        assert (entry["verdict"], entry["gpus"], entry["relative_error"]) == ("NO_FLOOR", 1, 0.0), name
        assert entry["peak_fraction"] is None, name
        assert entry["timed_launches_checked"] > 0, name
    assert all(reason.startswith("needs ") for reason in skipped.values())
    assert {"bench_peer_copy-2gpu", "bench_all_reduce-8gpu"} <= set(skipped)


TWICE = """
from peakgate.device.gpu import GpuDevice

made = GpuDevice.__init__
GpuDevice.__init__ = lambda self, index, **given: made(self, index, index, **given)
"""

PAIRS = """
import pytest

FLOATS = 1 << 24


def copied(out, x, count=FLOATS):
    for target, source in zip(out, reversed(x), strict=True):
        with target.device:
            target[:count] = source[:count]


@pytest.fixture
def arrays(gpu_benchmark):
    cp = gpu_benchmark.xp
    assert len(gpu_benchmark.gpus) == 2
    return tuple([cp.random.default_rng(at).random(FLOATS, "float32") for at in each] for each in ((1, 2), (3, 4)))


# A part of the bytes: one GPU that stands for both is faster than NVLinks.
exchanged = pytest.mark.peakgate(gpus=2, bytes=lambda _, x: x[0].nbytes // 8, reference=lambda _, x: x[::-1])


@exchanged
def bench_exchange(gpu_benchmark, arrays):
    gpu_benchmark(copied, *arrays)


@exchanged
def bench_leaves_the_last(gpu_benchmark, arrays):
    gpu_benchmark(lambda out, x: copied(out, x, FLOATS - 1), *arrays)


@exchanged
def bench_keeps_the_first(gpu_benchmark, arrays):
    done = []

    def once(out, x):
        if not done:
            copied(out, x)
        done.append(1)

    gpu_benchmark(once, *arrays)
"""


def test_a_case_on_two_gpus_is_proven_and_timed(tmp_path):
    (tmp_path / "conftest.py").write_text(TWICE)
    done, entries, failed, _ = bench(tmp_path, PAIRS)
    assert done.returncode == 1, done.stdout + done.stderr
    assert failed == {"bench_leaves_the_last-2gpu": "WRONG", "bench_keeps_the_first-2gpu": "WRONG"}
    entry = entries["bench_exchange-2gpu"]
    assert (entry["verdict"], entry["gpus"], entry["relative_error"]) == ("NO_FLOOR", 2, 0.0)
    assert "2 GPUs" in entry["sampling"]
    assert "fresh inputs" in entry["sampling"]
    assert entry["timed_launches_checked"] > 0


def test_collectives_and_a_peer_copy_are_below_the_links_peak(tmp_path):
    from peakgate.device.driver import gpu_count  # noqa: PLC0415

    if gpu_count() < 2:
        pytest.skip(f"needs 2 GPUs, {gpu_count()} is here")
    wrong = LINKS.read_text().replace("[sum(x)] * len(x)", "[x[0]] * len(x)")
    done, entries, failed, _ = bench(tmp_path, LINKS.read_text(), "--device", "gpu:0,1", "-k", "2gpu")
    assert (done.returncode, failed) == (0, {}), done.stdout + done.stderr
    assert len(entries) == 3
    for name, entry in entries.items():
        assert (entry["verdict"], entry["gpus"], entry["host_bound"]) == ("NO_FLOOR", 2, False), name
        assert entry["bound"] in ("nvlink", None), name
        assert entry["peak_fraction"] is None or 0.3 < entry["peak_fraction"] < 1.0, name
    done, _, failed, _ = bench(tmp_path, wrong, "--device", "gpu:0,1", "-k", "all_reduce-2gpu")
    assert (done.returncode, set(failed.values())) == (1, {"WRONG"}), done.stdout + done.stderr
