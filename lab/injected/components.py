"""Limits of timing short kernels: samples of many processes under several timing methods.

``python -m lab.injected.components FOLDER --seconds N`` measures on GPU 0, one process after the other,
and writes the samples of every ten processes into a file of FOLDER: a row per batch, with the times of its samples in
nanoseconds, in order. ``limits`` makes tables of them.

Ways of timing: as `bench` does (``plain``); on other events and flush buffers (``events``) or another stream
(``stream``); after a random number of empty launches (``padded``); in longer batches (``long``); at one placement
(``inplace``); with code loaded anew (``code``); between two kernels that read the GPU's clock (``stamps``); and many
launches of a CUDA graph between two events (``graph``), which is another quantity: nothing is flushed and launches
overlap.

Every fourth process measures arrays of 1 GiB instead, where they were allocated (``stay``) and at many places
(``moved``).
"""

from __future__ import annotations

import argparse
import itertools
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import cupy
import numpy as np
import pandas as pd

from lab.injected.campaign import steps
from peakgate.case import Scale, Tier
from peakgate.device import caches, gpu
from peakgate.device import stream as module
from peakgate.device.stream import SampleStream
from peakgate.measure.data import random_offsets
from peakgate.measure.sampling import SamplingPlan
from peakgate.spec import catalogue

COLUMNS = ["process", "way", "kernel", "group", "batch", "clock_mhz", "times_ns"]
COPIES = {
    f"copy-{duration}-{share}": (duration, share) for duration, share in ((5, 0), (5, 10), (15, 0), (15, 5), (50, 0))
}
ROUNDS, BATCHES, BATCH, LONG_BATCH, GRAPH_LAUNCHES = 8, 10, 6, 24, 20
ROOM_BYTES, PIECE_BYTES = 2 << 30, 32 << 20
AHEAD = 3
PROCESSES_PER_FILE = 10
EMPTY = 'extern "C" __global__ void empty() {}'

LARGE = tuple(f"transpose.{stage}_row-16384-16x16" for stage in ("naive", "unroll4", "diagonal"))
LARGE_ROOM_BYTES, LARGE_PLACES, LARGE_BATCH = 12 << 30, 14, 3

Launch = Callable[[], None]
Row = tuple[str, str, int, int, float, str]


class Bench:
    """The kernels, memory and streams of one process."""

    def __init__(self) -> None:
        cupy.cuda.Device(0).use()
        self.l2_bytes = int(cupy.cuda.runtime.getDeviceProperties(0)["l2CacheSize"])
        self.rng = np.random.default_rng()
        self.room = cupy.empty(ROOM_BYTES, np.uint8)
        noise = cupy.asarray(self.rng.integers(256, size=PIECE_BYTES, dtype=np.uint8))
        for at in range(0, ROOM_BYTES, PIECE_BYTES):
            self.room[at : at + PIECE_BYTES].data.copy_from_device(noise.data, PIECE_BYTES)
        self.loaded = 0
        self.copies = self.code()
        self.empty = cupy.RawModule(code=EMPTY).get_function("empty")
        timing = Path(module.__file__).with_name("timing.cu").read_text(encoding="utf-8")
        self.stamp = cupy.RawModule(code=timing).get_function("stamp")
        self.samples = self.new_stream()

    def code(self) -> Any:
        """The copy's function, loaded anew."""
        assert steps.STAGE.source is not None
        code = steps.STAGE.source.read_text(encoding="utf-8")
        self.loaded += 1  # CuPy gives equal code the module that is loaded already
        return cupy.RawModule(code=f"{code}\n// {self.loaded}\n").get_function(steps.STAGE.kernel)

    def new_stream(self) -> Any:
        """Events, a flush buffer and a flag of its own."""
        return SampleStream(self.l2_bytes, LONG_BATCH)

    def kernel(self, name: str, copies: Any = None) -> Launch:
        """One launch of a kernel, its arrays placed at random."""
        if name == "nothing":
            return lambda: None
        if name == "empty":
            return lambda: self.empty((1,), (32,), ())
        duration_us, share = COPIES[name]
        quads = steps.QUADS_BY_DURATION[duration_us]
        sizes = [16 * quads, 16 * quads, 8 * steps.BLOCKS]
        offsets = random_offsets(sizes, ROOM_BYTES, self.rng)
        assert offsets is not None
        out, given, cycles = (self.room[at : at + size] for at, size in zip(offsets, sizes, strict=True))
        arguments = (out, given, np.uint64(quads), np.int32(steps.links(duration_us, share)), cycles)
        function = copies or self.copies

        def launch() -> None:
            function((steps.BLOCKS,), (steps.THREADS,), arguments)

        launch()
        return launch

    def batches(
        self, way: str, kernel: str, count: int, *, group: int = 0, first: int = 0, size: int = BATCH, **how: Any
    ) -> Iterator[Row]:
        """So many batches; ``how``: ``samples``, a ``launch`` that stays, what runs ``before``, ``copies``."""
        samples = how.get("samples") or self.samples
        for batch in range(first, first + count):
            launch = how.get("launch") or self.kernel(kernel, how.get("copies"))
            taken = samples.batch([launch] * size, blocked=True, before=how.get("before"))
            clocks = [clock for _, clock in taken if clock is not None]
            clock_mhz = float(np.median(clocks)) if clocks else 0.0
            yield row(way, kernel, (group, batch), [us for us, _ in taken], clock_mhz)

    def padding(self) -> None:
        """Up to 15 empty launches."""
        for _ in range(int(self.rng.integers(16))):
            self.empty((1,), (32,), ())

    def graph(self, kernel: str, placements: int, replays: int) -> Iterator[Row]:
        """Time per launch of a graph of launches, after one flush."""
        start, stop, flush = cupy.cuda.Event(), cupy.cuda.Event(), cupy.empty(4 * self.l2_bytes, np.uint8)
        for placement in range(placements):
            with cupy.cuda.Stream(non_blocking=True) as stream:
                launch = self.kernel(kernel)
                stream.synchronize()
                stream.begin_capture()
                for _ in range(GRAPH_LAUNCHES):
                    launch()
                graph = stream.end_capture()
                graph.launch(stream)
                times = []
                for _ in range(replays):
                    flush.data.memset_async(0, flush.nbytes, stream)
                    start.record(stream)
                    graph.launch(stream)
                    stop.record(stream)
                    stream.synchronize()
                    times.append(cupy.cuda.get_elapsed_time(start, stop) * 1e3 / GRAPH_LAUNCHES)
            yield row("graph", kernel, (placement, 0), times)

    def stamps(self, kernel: str, count: int) -> Iterator[Row]:
        """Time between two kernels before and after that read the GPU's clock."""
        stamps, flush = cupy.empty((2 * BATCH, 3), np.uint64), cupy.empty(4 * self.l2_bytes, np.uint8)
        stream = cupy.cuda.get_current_stream()
        for batch in range(count):
            launch = self.kernel(kernel)
            for index in range(BATCH):
                flush.data.memset_async(0, flush.nbytes, stream)
                self.stamp((1,), (1,), (stamps[2 * index],))
                launch()
                self.stamp((1,), (1,), (stamps[2 * index + 1],))
            ns = cupy.asnumpy(stamps)[:, 1].astype(np.int64)
            yield row("stamps", kernel, (0, batch), list((ns[1::2] - ns[::2]) / 1e3))


def row(way: str, kernel: str, place: tuple[int, int], times_us: Sequence[float], clock_mhz: float = 0.0) -> Row:
    """One batch as it is saved; ``place``: its group and number."""
    return way, kernel, *place, round(clock_mhz, 1), " ".join(f"{1e3 * time_us:.0f}" for time_us in times_us)


def measured() -> Iterator[Row]:
    """Everything that one process measures."""
    bench = Bench()
    for _ in range(400):
        bench.samples.clock_mhz()
    kernels = ("nothing", "empty", *COPIES)
    for turn, kernel in itertools.product(range(ROUNDS), kernels):
        yield from bench.batches("plain", kernel, BATCHES, group=turn)
    for kernel in ("empty", "copy-5-0", "copy-15-0"):
        yield from bench.batches("padded", kernel, 30, before=bench.padding)
    for kernel in ("empty", "copy-5-0"):
        yield from bench.batches("long", kernel, 15, size=LONG_BATCH)
        yield from bench.stamps(kernel, 20)
    for kernel, place in itertools.product(("copy-5-0", "copy-15-0"), range(4)):
        yield from bench.batches("inplace", kernel, 10, group=place, launch=bench.kernel(kernel))
    for again in range(3):
        copies, samples = bench.code(), bench.new_stream()
        yield from bench.batches("code", "copy-5-0", 20, group=again, copies=copies)
        for kernel in ("empty", "copy-5-0"):
            yield from bench.batches("events", kernel, 20, group=again, samples=samples)
        with cupy.cuda.Stream(non_blocking=True):
            samples = bench.new_stream()
            for kernel in ("empty", "copy-5-0"):
                yield from bench.batches("stream", kernel, 20, group=again, samples=samples)
        cupy.cuda.runtime.deviceSynchronize()
    for kernel in ("empty", "copy-5-0"):
        yield from bench.batches("plain", kernel, BATCHES, group=ROUNDS)
    for kernel in ("copy-5-0", "copy-15-0"):
        yield from bench.graph(kernel, 3, 12)


def large() -> Iterator[Row]:
    """Cases whose arrays fill the room of `bench`: where they are, moved about in a larger one, and where they were."""
    caches._ROOM_BYTES = LARGE_ROOM_BYTES  # noqa: SLF001  (nobody else moves arrays of 1 GiB)
    device = gpu.GpuDevice(0)
    device.warm_up()
    known = {case.id: case for case in catalogue.cases(Scale.BENCH, Tier.GATE)}
    for name in LARGE:
        launchable = device.prepare(known[name])
        for group, moved in enumerate((False, True, False)):
            launchable.movable = moved
            count = LARGE_BATCH * (LARGE_PLACES if moved else 4)
            plan = SamplingPlan(min_samples=count, max_samples=count, budget_us=math.inf, batch=LARGE_BATCH)
            times = launchable.sample(plan).times_us
            for at in range(0, len(times), LARGE_BATCH):
                batch = times[at : at + LARGE_BATCH]
                yield row("moved" if moved else "stay", name, (group, at // LARGE_BATCH), batch)


def worker(file: Path, number: int) -> None:
    """Wait for the turn, then measure into ``file``; a failure ends it, and what was measured before is kept."""
    sys.stdin.readline()
    rows: list[Row] = []
    try:
        for each in large() if number % 4 == 3 else measured():
            rows.append(each)  # noqa: PERF402  (what was measured before a failure is kept)
    finally:
        pd.DataFrame(rows, columns=COLUMNS[1:]).to_csv(file, index=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure processes until the time is over."""
    parser = argparse.ArgumentParser(prog="python -m lab.injected.components", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where to write the samples")
    parser.add_argument("--seconds", type=float, default=120.0, help="wall time to use (default: 120)")
    parser.add_argument("--worker", type=Path, metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        worker(options.worker, int(options.worker.stem.rpartition("-")[2]))
        return 0
    end, longest = time.monotonic() + options.seconds, 0.0
    waiting: list[tuple[Path, subprocess.Popen[bytes]]] = []
    done: list[pd.DataFrame] = []
    options.folder.mkdir(parents=True, exist_ok=True)
    for number in itertools.count():
        while len(waiting) < AHEAD:
            file = options.folder / f"process-{number + len(waiting):03d}.csv"
            command = [sys.executable, "-m", "lab.injected.components", str(options.folder)]
            waiting.append((file, subprocess.Popen([*command, "--worker", str(file)], stdin=subprocess.PIPE)))
        file, process = waiting.pop(0)
        start = time.monotonic()
        if start + 1.2 * longest > end:
            waiting.append((file, process))
            break
        process.communicate(b"\n")
        longest = max(longest, time.monotonic() - start) if number else 0.0
        if file.is_file():
            done.append(pd.read_csv(file).assign(process=number)[COLUMNS])
            file.unlink()
        if number % PROCESSES_PER_FILE == PROCESSES_PER_FILE - 1:
            save(options.folder, done)
        sys.stdout.write(f"process {number}: exit {process.returncode}, {time.monotonic() - start:.2f} s\n")
        sys.stdout.flush()
    for _, process in waiting:
        process.kill()
        process.wait()
    save(options.folder, done)
    return 0


def save(folder: Path, done: list[pd.DataFrame]) -> None:
    """Write what the processes measured so far; files of samples once more until they are full."""
    for first in range(0, len(done), PROCESSES_PER_FILE):
        compression = {"method": "gzip", "mtime": 0}
        together = pd.concat(done[first : first + PROCESSES_PER_FILE])
        together.to_csv(folder / f"samples-{first // PROCESSES_PER_FILE}.csv.gz", index=False, compression=compression)


if __name__ == "__main__":
    sys.exit(main())
