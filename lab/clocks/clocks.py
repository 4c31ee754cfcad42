"""Kernels of 5 to 75 µs by several clocks: ``python -m lab.clocks.clocks FILE [--ncu]``, on a GPU that is free.

CUDA events as `bench` places them, as nvbench's cold measurement does, and with a pause or a read of other memory
behind the flush; the duration of the kernel alone in each of these states by CUPTI, where PyTorch has its profiler,
and, added to the record with ``--ncu``, by Nsight Compute. ``lab.clocks.page`` shows them.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import cupy
import cupyx.profiler
import numpy as np

from lab.clocks.page import NCU_LAUNCHES, SAMPLES
from peakgate.base.files import write_whole
from peakgate.base.processes import run_in_group
from peakgate.base.text import say
from peakgate.device import stream as device_stream
from peakgate.device.gpu import GpuDevice
from peakgate.device.launcher import GpuLaunchable
from peakgate.measure.sampling import SamplingPlan
from peakgate.run import ncu
from peakgate.spec import catalogue
from peakgate.spec.case import Case

CASES = (
    *("transpose.smem_pad-2048-32x8", "transpose.hinted-2048-256x1", "transpose.smem-4096-16x16"),
    *("roof.copy_float4-16MiB", "roof.copy_float4-64MiB", "roof.read_float4-256MiB", "reduce.shuffles-64MiB-sum"),
    *("sgemm.split_k-256", "sgemm.cublas-256", "sgemm.double_buffer-256", "sgemm.tiled-256"),
)
EMPTY = "a kernel that does nothing"
ROUNDS, PROFILED_ROUNDS = 12, 4
PAUSE_NS = 20_000
HOLD_LIMIT_NS = 1_000_000_000
NCU_LIMIT_S = 60.0
KERNELS = """
extern "C" __global__ void empty() {}

extern "C" __global__ void pause(unsigned long long nanoseconds)
{
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - start < nanoseconds);
}

extern "C" __global__ void touch(const float4* data, unsigned long long count, float* never_written)
{
    float sum = 0;
    for (unsigned long long at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += gridDim.x * blockDim.x) {
        const float4 four = data[at];
        sum += four.x + four.y + four.z + four.w;
    }
    if (sum == 1.0f) {
        *never_written = sum;
    }
}
"""
HELPERS = frozenset({"hold", "stamp", "pause", "touch"})
"""Kernels that are not the case's."""

Launch = Callable[[], None]
Times = dict[str, list[float]]
"""Microseconds by way."""


class Ways:
    """Ways to time a launch by events; each takes a launch and gives the microseconds of some samples."""

    def __init__(self, device: GpuDevice) -> None:
        source = Path(device_stream.__file__).with_name("timing.cu").read_text(encoding="utf-8")
        own = cupy.RawModule(code=KERNELS)
        self._hold = cupy.RawModule(code=source).get_function("hold")
        self._pause, self._touch, self._empty = (own.get_function(name) for name in ("pause", "touch", "empty"))
        self._samples = device.sample_stream(SAMPLES)
        self._l2_bytes = device.facts.l2_bytes
        self._written = cupy.empty(4 * self._l2_bytes, cupy.uint8)
        self._read = cupy.zeros(4 * self._l2_bytes, cupy.uint8)
        self._flag_memory = cupy.cuda.alloc_pinned_memory(64)
        self._flag = np.frombuffer(self._flag_memory, np.int32, 1)
        self._start, self._stop = cupy.cuda.Event(), cupy.cuda.Event()
        self.every: Mapping[str, Callable[[Launch], list[float]]] = {
            "bench": lambda launch: self._batch(launch, None),
            "pause": lambda launch: self._batch(launch, self.pause),
            "read": lambda launch: self._batch(launch, self.read),
            "nvbench": lambda launch: [self._cold(launch, self._l2_bytes) for _ in range(SAMPLES)],
            "nvbench, our flush": lambda launch: [self._cold(launch, 4 * self._l2_bytes) for _ in range(SAMPLES)],
        }

    def empty(self) -> None:
        self._empty((1,), (32,), ())

    def pause(self) -> None:
        self._pause((1,), (1,), (np.uint64(PAUSE_NS),))

    def read(self) -> None:
        """Read as much as the flush writes: what the L2 then holds need not be written back."""
        self._touch((1056,), (512,), (self._read, np.uint64(self._read.nbytes // 16), self._read))

    def flush(self, nbytes: int) -> None:
        self._written.data.memset_async(0, nbytes, cupy.cuda.get_current_stream())

    def _batch(self, launch: Launch, prime: Launch | None) -> list[float]:
        """As `bench` takes a batch, with something else between the flush and the launch."""
        return [time_us for time_us, _ in self._samples.batch([launch] * SAMPLES, blocked=True, prime=prime)]

    def _cold(self, launch: Launch, flushed_bytes: int) -> float:
        """As nvbench takes a cold sample: flush, wait, block the stream, event, launch, event, release."""
        stream = cupy.cuda.get_current_stream()
        self.flush(flushed_bytes)
        stream.synchronize()
        self._flag[0] = 0
        self._hold((1,), (1,), (np.uint64(self._flag_memory.ptr), np.uint64(HOLD_LIMIT_NS)))
        self._start.record(stream)
        launch()
        self._stop.record(stream)
        self._flag[0] = 1
        stream.synchronize()
        return float(cupy.cuda.get_elapsed_time(self._start, self._stop) * 1e3)


def by_events(ways: Ways, launch: Launch, rounds: int) -> Times:
    """Samples of each way, in rounds whose order turns."""
    found: Times = {name: [] for name in ways.every}
    names = list(ways.every)
    for at in range(rounds):
        for name in names[at % len(names) :] + names[: at % len(names)]:
            found[name] += [round(time_us, 3) for time_us in ways.every[name](launch)]
    return found


def by_cupti(ways: Ways, launch: Launch) -> Times | None:
    """How long the case's kernels ran, by CUPTI, in the state of each way; None without PyTorch."""
    try:
        import torch  # noqa: PLC0415  (optional)
    except ImportError:
        return None
    found: Times = {}
    for name, way in ways.every.items():
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiled:
            for _ in range(PROFILED_ROUNDS):
                way(launch)
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder, "trace.json")
            profiled.export_chrome_trace(str(trace))
            events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
        kernels = sorted((each["ts"], each["dur"], each["name"]) for each in events if each.get("cat") == "kernel")
        own = [(start, took) for start, took, called in kernels if called not in HELPERS]
        found[name] = spans(own, PROFILED_ROUNDS * SAMPLES)
    return found


def spans(kernels: Sequence[tuple[float, float]], samples: int) -> list[float]:
    """From the start of the first to the end of the last of each sample's kernels, which are as many in each."""
    each, left = divmod(len(kernels), samples)
    if left or not each:
        raise ValueError(f"{len(kernels)} kernels were recorded in {samples} samples")
    grouped = [kernels[at : at + each] for at in range(0, len(kernels), each)]
    return [round(group[-1][0] + group[-1][1] - group[0][0], 3) for group in grouped]


def by_ncu(folder: Path) -> dict[str, list[float]]:
    """Durations of all launches of ``profiled`` in order, by what ncu does to the caches; empty without ncu."""
    program = ncu.find()
    found: dict[str, list[float]] = {}
    for caches in ("none", "all") if program else ():
        assert program is not None
        target = [sys.executable, "-m", "lab.clocks.clocks", "--profiled"]
        line = ncu.command(program, target, (), ("gpu__time_duration.sum",))
        line[1:1] = ["--cache-control", caches]
        with (folder / "ncu.csv").open("wb") as out, (folder / "ncu.log").open("wb") as log:
            run_in_group(line, NCU_LIMIT_S, env=dict(os.environ), stdout=out, stderr=log)
        text = (folder / "ncu.csv").read_text(encoding="utf-8", errors="replace")
        found[caches] = [row["gpu__time_duration.sum"] / 1e3 for row in ncu.parse(text)]
        if not found[caches]:
            say(f"ncu: {text[-300:]} {(folder / 'ncu.log').read_text(encoding='utf-8', errors='replace')[-300:]}")
    return found


def profiled() -> None:
    """Under ncu: each case's launches right behind our flush, and behind a read of other memory."""
    device, ways, launches = opened()
    for launch, _ in launches.values():
        launch()
        for state in ("written", "read"):
            for _ in range(NCU_LAUNCHES):
                ways.flush(4 * device.facts.l2_bytes)
                if state == "read":
                    ways.read()
                cupy.cuda.runtime.deviceSynchronize()
                with cupyx.profiler.profile():
                    launch()
                    cupy.cuda.runtime.deviceSynchronize()


def opened() -> tuple[GpuDevice, Ways, dict[str, tuple[Launch, GpuLaunchable | None]]]:
    """The device, the ways, and a launch of each case on arrays that stay where they are."""
    device = GpuDevice(0)
    known: dict[str, Case] = {case.id: case for case in catalogue.cases(device.scale) if isinstance(case, Case)}
    device.prebuild([known[name] for name in CASES], checked=False)
    device.warm_up()
    ways = Ways(device)
    ways.empty()
    ready: dict[str, tuple[Launch, GpuLaunchable | None]] = {EMPTY: (ways.empty, None)}
    for name in CASES:
        launchable = device.prepare(known[name])
        launchable.run()
        ready[name] = (launchable.launch, launchable)
    return device, ways, ready


def measure(file: Path) -> None:
    """Every case by every clock; the record is written anew after each."""
    device, ways, launches = opened()
    record: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": os.environ.get("PEAKGATE_COMMIT", ""),
        "gpu": device.describe(),
        "cases": {},
    }

    def keep() -> None:
        write_whole(file, lzma.compress(json.dumps(record).encode()))

    for name, (launch, launchable) in launches.items():
        events = by_events(ways, launch, ROUNDS)
        row: dict[str, Any] = {"events_us": events}
        if launchable is not None:
            samples = launchable.sample(SamplingPlan())
            row |= {"sampled_us": samples.median_us, "sampled_mean_us": samples.trimmed_mean_us}
        record["cases"][name] = row
        say(f"{name}: " + ", ".join(f"{way} {statistics.median(found):.2f}" for way, found in events.items()))
        keep()
    for name, (launch, _) in launches.items():  # CUPTI stays in a process once it was used
        try:
            found = by_cupti(ways, launch)
        except (ValueError, RuntimeError, KeyError) as error:
            say(f"{name}: CUPTI: {error}")
            continue
        if found is not None:
            record["cases"][name]["cupti_us"] = found
            say(f"{name}, CUPTI: " + ", ".join(f"{way} {statistics.median(each):.2f}" for way, each in found.items()))
        keep()


def add_ncu(file: Path) -> None:
    """Add what ncu says to the record of ``measure``."""
    record = json.loads(lzma.decompress(file.read_bytes()))
    with tempfile.TemporaryDirectory() as folder:
        record["ncu_us"] = by_ncu(Path(folder))
    say(f"ncu: {record['ncu_us']}")
    write_whole(file, lzma.compress(json.dumps(record).encode()))


def main(arguments: Sequence[str]) -> int:
    """Measure, or be what ncu profiles."""
    parser = argparse.ArgumentParser(prog="python -m lab.clocks.clocks", description=__doc__)
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--ncu", action="store_true", help="add what Nsight Compute says to the record")
    parser.add_argument("--profiled", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.profiled:
        profiled()
    elif options.ncu:
        add_ncu(options.file)
    else:
        measure(options.file)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
