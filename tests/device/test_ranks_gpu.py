"""A collective in a process per GPU, by torchrun.

Run on a machine with two NVIDIA GPUs: ``pytest -m gpu -s tests/device/test_ranks_gpu.py``.
"""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from peakgate.device.driver import gpu_count

pytestmark = pytest.mark.gpu

ALL_REDUCE = Path(__file__).parents[1] / "data" / "ranks" / "bench_all_reduce.py"

CASE = "bench_ranks.bench_all_reduce-2gpu-ranks"
PORT = 29_400 + os.getpid() % 500


@pytest.fixture
def torchrun(tmp_path):
    """A run of two processes over a file of benchmark tests, and its run file, None without one."""
    if find_spec("torch") is None:
        pytest.skip("needs PyTorch")

    def run(text, **environment):
        (tmp_path / "peakgate.toml").write_text('benchmarks = ["bench_ranks.py"]\n')
        (tmp_path / "bench_ranks.py").write_text(text)
        launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-port={PORT}"]
        measured = ["-m", "pytest", "-p", "peakgate.run.plugin", "bench_ranks.py", "--benchmark-json=run.json"]
        done = subprocess.run(  # noqa: PLW1510
            [*launcher, *measured],
            cwd=tmp_path,
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
        )
        print(done.stdout)  # noqa: T201
        saved = tmp_path / "run.json"
        written = saved.read_text() if saved.exists() else ""  # pytest-benchmark before 5.3 creates it at its start
        return done, json.loads(written) if written else None

    return run


@pytest.fixture
def pair():
    """Skip without two GPUs."""
    if gpu_count() < 2:
        pytest.skip(f"needs 2 GPUs, {gpu_count()} is here")


def test_an_all_reduce_of_two_processes_is_proven_and_timed(pair, torchrun):
    done, saved = torchrun(ALL_REDUCE.read_text())
    assert done.returncode == 0, done.stdout
    (entry,) = (each["extra_info"] for each in saved["benchmarks"])
    assert (entry["case"], entry["verdict"], entry["gpus"]) == (CASE, "NO_FLOOR", 2)
    assert not entry["host_bound"]
    assert entry["timed_launches_checked"] > 0
    assert "2 processes" in entry["sampling"]
    assert "fresh inputs" in entry["sampling"]
    assert entry["bound"] in ("nvlink", None)
    assert entry["peak_fraction"] is None or 0.2 < entry["peak_fraction"] < 1.0
    assert set(saved["peakgate"]["skipped"]) == {CASE.replace("2gpu", f"{count}gpu") for count in (4, 8)}
    assert saved["peakgate"]["partial"] is None


WRONG = """

@pytest.mark.peakgate(gpus=2, reference=sum_of_all, outputs=lambda x: x)
@pytest.mark.parametrize("from_call", [1, 12])
def bench_wrong(gpu_benchmark, gpu, from_call):
    calls = []

    def reduced(x):
        dist.all_reduce(x)
        calls.append(1)
        if dist.get_rank() == 1 and len(calls) >= from_call:
            x[FLOATS // 2] += 1

    gpu_benchmark(reduced, torch.ones(FLOATS, device=gpu))
"""


def test_a_result_that_is_wrong_in_one_process_is_wrong(pair, torchrun):
    done, saved = torchrun(ALL_REDUCE.read_text() + WRONG)
    assert done.returncode == 1, done.stdout
    assert [each["extra_info"]["verdict"] for each in saved["benchmarks"]] == ["NO_FLOOR"]
    failed = saved["peakgate"]["not_measured"]
    assert [each["verdict"] for each in failed] == ["WRONG", "WRONG"]
    assert all(each["reason"].startswith("rank 1: ") for each in failed)


RAISES = """

@pytest.mark.peakgate(gpus=2)
def bench_raises(gpu_benchmark, gpu):
    calls = []

    def reduced(x):
        calls.append(1)
        if dist.get_rank() == 1 and len(calls) >= 3:
            raise LookupError("one call too many")
        dist.all_reduce(x)

    gpu_benchmark(reduced, torch.ones(FLOATS, device=gpu))
"""


def test_a_process_that_raises_before_a_collective_ends_the_other(pair, torchrun):
    done, saved = torchrun(ALL_REDUCE.read_text() + RAISES)
    assert (done.returncode != 0, saved) == (True, None), done.stdout
    assert "not measured: rank 1: bench_ranks.bench_raises-2gpu-ranks: LookupError" in done.stdout


def test_two_processes_on_one_gpu_are_refused(torchrun):
    seen = os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0]
    done, saved = torchrun(ALL_REDUCE.read_text(), CUDA_VISIBLE_DEVICES=seen)
    assert (done.returncode != 0, saved) == (True, None), done.stdout
    assert "1 GPU" in done.stdout
