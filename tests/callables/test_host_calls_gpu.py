"""``metric="launch"`` on a GPU: what calls take on the host, and ways to seem to take less, of which none passes.

Run on a machine with an NVIDIA GPU: ``pytest -m gpu -s tests/callables/test_host_calls_gpu.py``.
"""

import importlib.util
import json

import pytest
from test_callables_gpu import HEAD, TRITON, bench, project

pytestmark = pytest.mark.gpu

__all__ = ["project"]

HONEST = (
    HEAD
    + """
def waits(microseconds):
    end = time.perf_counter() + microseconds / 1e6
    while time.perf_counter() < end:
        pass


both = pytest.mark.peakgate(reference=lambda out, x: x, metric=["gpu", "launch"])


@both
def test_raw_kernel(gpu_benchmark):
    x, out = inputs(1 << 20)
    gpu_benchmark(copy, out, x)


@both
def test_of_slow_python(gpu_benchmark):
    x, out = inputs(1 << 20)
    def slow(out, x):
        waits(50)
        copy(out, x)
    gpu_benchmark(slow, out, x)


@both
def test_of_a_long_kernel(gpu_benchmark):
    x, out = inputs(1 << 28)
    gpu_benchmark(copy, out, x)


@both
def test_of_many_launches(gpu_benchmark):
    x, out = inputs(1 << 20)
    def many(out, x):
        for _ in range(400):
            copy(out, x)
    gpu_benchmark(many, out, x)


@pytest.mark.peakgate(reference=lambda x: x * 2, outputs=lambda x: x, metric="launch")
def test_in_place(gpu_benchmark):
    gpu_benchmark(lambda x: cp.multiply(x, 2, out=x), inputs(1 << 20)[0])
"""
)

TRAPS = (
    HEAD
    + """
import threading

launch = pytest.mark.peakgate(reference=lambda x: 2 * x, metric="launch")


@launch
def test_stored_result(gpu_benchmark):
    kept = {}
    gpu_benchmark(lambda x: kept.setdefault("result", 2 * x) if not kept else kept["result"], inputs(1 << 20)[0])


@launch
def test_stored_between_versions(gpu_benchmark):
    # What a tensor's version tells of: other inputs by its framework, and not those that the GPU changes.
    torch = pytest.importorskip("torch")
    kept = {}
    def versioned(x):
        if kept.get("version") != x._version:
            kept.update(version=x._version, result=2 * x)
        return kept["result"]
    gpu_benchmark(versioned, torch.arange(1 << 20, device="cuda", dtype=torch.float32))


@launch
def test_waits(gpu_benchmark):
    def waiting(x):
        result = 2 * x
        cp.cuda.get_current_stream().synchronize()
        return result
    gpu_benchmark(waiting, inputs(1 << 20)[0])


@pytest.mark.peakgate(reference=lambda x: float(x.max()), metric="launch")
def test_reads_a_number(gpu_benchmark):
    gpu_benchmark(lambda x: float(x.max().item()), inputs(1 << 20)[0])


@launch
def test_wrong(gpu_benchmark):
    gpu_benchmark(lambda x: 3 * x, inputs(1 << 20)[0])


@pytest.mark.peakgate(reference=lambda out, x: x, metric="launch")
def test_later_in_a_thread(gpu_benchmark):
    x, out = inputs(1 << 20)
    def later(out, x):
        def run():
            time.sleep(0.005)
            copy(out, x)
        threading.Thread(target=run).start()
    gpu_benchmark(later, out, x)
"""
)


def test_the_time_of_a_call_is_that_of_the_host_alone(project):
    installed = importlib.util.find_spec("torch") is not None and importlib.util.find_spec("triton") is not None
    of_triton = TRITON.replace("bytes=lambda out, x: 2 * x.nbytes", 'metric=["gpu", "launch"]')
    folder = project(test_honest=HONEST, **({"test_triton": of_triton} if installed else {}))
    done, cases = bench(folder, f"--benchmark-json={folder / 'run.json'}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {case["verdict"] for case in cases.values()} == {"NO_FLOOR"}, cases
    saved = json.loads((folder / "run.json").read_text())
    by_case = {entry["extra_info"]["case"]: entry["extra_info"] for entry in saved["benchmarks"]}
    infos = {case.rpartition(".")[2]: info for case, info in by_case.items()}
    for name, info in infos.items():
        assert info["metric"] == ("launch" if name.endswith("-launch") else "gpu"), name
        if info["metric"] == "launch":
            assert (info["host_bound"], info["peak_fraction"], info["gbs"]) == (False, None, None), name
            assert info["timed_launches_checked"] >= 8, name
            assert 1.0 < info["time_us"] < 20_000.0, (name, info["time_us"])
    times = {name: info["time_us"] for name, info in infos.items()}
    assert 45 < times["test_of_slow_python-launch"] - times["test_raw_kernel-launch"] < 65, times
    assert times["test_of_slow_python"] == pytest.approx(times["test_raw_kernel"], rel=0.1), times
    assert times["test_of_a_long_kernel-launch"] < times["test_of_a_long_kernel"] / 4, times
    assert times["test_of_many_launches-launch"] > 50 * times["test_raw_kernel-launch"], times


def test_no_call_seems_to_take_less_than_it_does(project):
    folder = project(test_traps=TRAPS)
    done, cases = bench(folder, f"--benchmark-json={folder / 'run.json'}")
    assert done.returncode == 1, done.stdout + done.stderr
    expected = {
        "test_stored_result-launch": ("WRONG", "timed call"),
        "test_stored_between_versions-launch": ("WRONG", "timed call"),
        "test_waits-launch": ("INCONCLUSIVE", "no launch"),
        "test_reads_a_number-launch": ("INCONCLUSIVE", "no launch"),
        "test_wrong-launch": ("WRONG", ""),
    }
    assert cases.pop("test_later_in_a_thread-launch")["verdict"] in {"WRONG", "INCONCLUSIVE"}, cases
    if importlib.util.find_spec("torch") is None:
        del expected["test_stored_between_versions-launch"]
    found = {name: (case["verdict"], expected[name][1] in case["reason"]) for name, case in cases.items()}
    assert found == {name: (verdict, True) for name, (verdict, _) in expected.items()}, cases
