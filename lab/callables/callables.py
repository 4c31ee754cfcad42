"""The sampler of gpu_benchmark beside triton's do_bench and nvbench (cuda-bench) on 12 callables: a table as JSON.

    python -m lab.callables.callables OUT.json

Needs a GPU, CuPy, torch and triton; nvbench's column is null, and stderr says why, where cuda-bench does not run.
Times in microseconds: medians of ours and of do_bench, the mean of nvbench's cold measurement, which gives no median
in all versions.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cupy as cp
import torch
import triton
import triton.language as tl

from peakgate.callables.call import Call
from peakgate.callables.gpu_call import GpuCall, find_out, one_stream, stream_handle
from peakgate.callables.naming import case_of
from peakgate.device.gpu import GpuDevice
from peakgate.measure.sampling import SamplingPlan

ROUNDS = 5
NVBENCH_LIMIT_S = 300


@triton.jit  # type: ignore[untyped-decorator]
def softmax_kernel(out, x, columns, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    """One program per row; Triton compiles annotations too, and knows none of Python's types."""
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + column, mask=column < columns, other=-float("inf"))
    values = tl.exp(values - tl.max(values, 0))
    tl.store(out + row * columns + column, values / tl.sum(values, 0), mask=column < columns)


def callables() -> dict[str, Callable[[], Any]]:
    """Twelve, from about 5 us to 5 ms on an H200."""
    x, ones = torch.randn(8192, 1024, device="cuda"), torch.ones(1024, device="cuda")
    out, small = torch.empty_like(x), torch.randn(256, 256, device="cuda")
    half, wide = torch.randn(2048, 2048, device="cuda").half(), torch.randn(4096, 4096, device="cuda")
    large = torch.randn(1 << 28, device="cuda")
    a = cp.arange(1 << 24, dtype=cp.float32)
    b, big = cp.empty_like(a), cp.arange(1 << 29, dtype=cp.float32)
    copied = cp.empty_like(big)
    source = 'extern "C" __global__ void add(float* o, const float* i, int n)'
    source += "{ int t = blockIdx.x * blockDim.x + threadIdx.x; if (t < n) o[t] = i[t] + 1; }"
    add = cp.RawKernel(source, "add")
    return {
        "torch.relu-256x256": lambda: torch.relu(small),
        "triton.softmax-8192x1024": lambda: softmax_kernel[(8192,)](out, x, 1024, BLOCK=1024),
        "torch.softmax-8192x1024": lambda: torch.softmax(x, 1),
        "torch.matmul-half-2048": lambda: torch.matmul(half, half),
        "torch.layer_norm-8192x1024": lambda: torch.nn.functional.layer_norm(x, (1024,), ones, ones),
        "cupy.rawkernel-16M": lambda: add((65536,), (256,), (b, a, 1 << 24)),
        "cupy.add-16M": lambda: cp.add(a, 1, out=b),
        "cupy.sum-16M": a.sum,
        "torch.topk-8192x1024": lambda: torch.topk(x, 8, 1),
        "torch.exp-256M": lambda: torch.exp(large),
        "cupy.multiply-512M": lambda: cp.multiply(big, 2, out=copied),
        "torch.matmul-4096": lambda: torch.matmul(wide, wide),
    }


def ours(device: GpuDevice, name: str, function: Callable[[], Any]) -> dict[str, Any]:
    """Our median of several samplings, how they scatter, and how long one takes."""
    plan, medians, start = SamplingPlan(), [], time.perf_counter()
    for _ in range(ROUNDS):
        call = Call(function, (), {})
        with one_stream(device, stream_handle(call), plan.batch) as stream:
            call.run()
            cp.cuda.runtime.deviceSynchronize()
            call.learn()
            behaviour = find_out(stream, call, plan)
            launchable = GpuCall(device, case_of(f"c.py::{name}"), call, stream, behaviour)
            samples = launchable.sample(plan)
        medians.append(samples.median_us)
    return {
        "ours_us": statistics.median(medians),
        "spread_percent": 100 * (max(medians) - min(medians)) / statistics.median(medians),
        "seconds_each": (time.perf_counter() - start) / ROUNDS,
        "sampling": samples.method,
    }


def nvbench() -> dict[str, float]:
    """Mean cold times by name, of a process of its own: cuda-bench takes over the command line.

    Empty where that process fails or writes something else than expected; stderr says why.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "nvbench.json")
        command = [sys.executable, __file__, "--nvbench", "--json", str(file)]
        try:
            subprocess.run(command, check=True, stdout=sys.stderr, timeout=NVBENCH_LIMIT_S)
            return cold_means_us(json.loads(file.read_text()))
        except (subprocess.SubprocessError, OSError, ValueError, LookupError, TypeError, StopIteration) as error:
            sys.stderr.write(f"nvbench: no times: {type(error).__name__}: {error}\n")
            return {}


def cold_means_us(document: Any) -> dict[str, float]:
    """The mean cold times in microseconds by name, of nvbench's JSON."""
    found = {}
    for benchmark in document["benchmarks"]:
        for summary in benchmark["states"][0]["summaries"] or ():
            if summary["tag"] == "nv/cold/time/gpu/mean":
                value = next(entry["value"] for entry in summary["data"] if entry["name"] == "value")
                found[benchmark["name"]] = float(value) * 1e6
    return found


def run_nvbench(arguments: list[str]) -> None:
    """Register every callable with cuda-bench and run it."""
    from cuda import bench  # noqa: PLC0415  (optional)

    def registered(name: str, function: Callable[[], Any]) -> Callable[[Any], None]:
        def benchmark(state: Any) -> None:
            def launch(launched: Any) -> None:
                stream = launched.get_stream()
                handle = stream.addressof() if hasattr(stream, "addressof") else stream.__cuda_stream__()[1]
                with cp.cuda.Stream.from_external(stream), torch.cuda.stream(torch.cuda.ExternalStream(handle)):
                    function()

            state.exec(launch)

        benchmark.__name__ = _plain(name)
        return benchmark

    for name, function in callables().items():
        function()
        torch.cuda.synchronize()
        bench.register(registered(name, function))
    bench.run_all_benchmarks(["callables", *arguments])


def _plain(name: str) -> str:
    return "".join(character if character.isalnum() else "_" for character in name)


def main() -> None:
    """Measure and write the table."""
    if sys.argv[1:2] == ["--nvbench"]:
        run_nvbench(sys.argv[2:])
        return
    device = GpuDevice(0)
    device.warm_up()
    rows = {}
    others = nvbench()
    for name, function in callables().items():
        rows[name] = ours(device, name, function)
        rows[name]["do_bench_us"] = 1e3 * triton.testing.do_bench(function, warmup=25, rep=100, return_mode="median")
        rows[name]["nvbench_us"] = others.get(_plain(name))
        sys.stderr.write(f"{name}: {rows[name]}\n")
    Path(sys.argv[1]).write_text(json.dumps({"gpu": device.describe(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
