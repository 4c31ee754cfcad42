"""Startup cost of a process, and work another process may do beside a measurement without disturbing it.

``python -m lab.starts.overlap OUT [steps] [disturbance] [compiles]`` on a GPU that is free; each part writes
OUT/<part>.json. The record of an H200, with runs before and after, is starts.json; ``--page`` fills the tables of this
folder's page from it.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.pages import fill_page, read_json, table
from lab.starts import live, rates
from lab.starts.replicates import layout, pairs, spreads
from peakgate.measure.sampling import SamplingPlan

SIZES = {"64KiB": 64 << 10, "8MiB": 8 << 20, "64MiB": 64 << 20, "512MiB": 512 << 20}
"""Bytes of the device-to-device copies that are timed: 3 to 250 microseconds on an H200."""

ROUNDS, BLOCK_S = 4, 1.5
"""Blocks of each condition, alternated, and their length."""

SIBLINGS = 5

STEPS = """
import json, sys, time
at = [time.perf_counter()]; found = {}
def step(name):
    now = time.perf_counter(); found[name] = round(now - at[0], 4); at[0] = now
import cupy; step("import of CuPy")
import numpy as np, pytest, pytest_benchmark.plugin, peakgate.device.gpu, peakgate.run.kernel_run; step("other imports")
cupy.cuda.runtime.getDeviceCount(); step("driver found (cuInit)")
cupy.cuda.Device(0).use(); cupy.cuda.runtime.free(0); step("CUDA context")
from peakgate.device.gpu import GpuDevice
from peakgate.device.driver import cublas_version
cublas_version(); step("cuBLAS version")
device = GpuDevice(0); step("device facts")
device.warm_up(); step("warm up: timing kernels, flush buffer, clock")
room = cupy.empty(2 << 30, np.uint8); step("2 GiB allocated")
room[:1 << 20].fill(0); cupy.cuda.Device(0).synchronize(); step("first kernel of CuPy")
from peakgate.device import driver, nvml
before = len(nvml.load(0).processes); driver.destroy_context(0); step("context destroyed")
found["processes on the GPU before and after"] = 100 * before + len(nvml.load(0).processes)
print(json.dumps(found)); sys.stdout.flush()
import os; os._exit(0)
"""

SIBLING = """
import sys, cupy
cupy.cuda.runtime.getDeviceCount()
print("ready", flush=True)
sys.stdin.readline()
cupy.cuda.Device(0).use(); array = cupy.empty(256 << 20, cupy.uint8); array.data.memset(0, array.nbytes)
cupy.cuda.runtime.deviceSynchronize()
print("there", flush=True)
sys.stdin.readline()
import os; os._exit(0)
"""

COMPILE = """
import sys, time, cupy
cupy.cuda.Device(0).use(); cupy.cuda.runtime.free(0)
array = cupy.empty(8, cupy.float32)
start = time.perf_counter()
for number in sys.argv[1:]:
    cupy.ElementwiseKernel("T x", "T y", f"y = x * T({number}) + T(1)", f"own_{number}")(array)
cupy.cuda.runtime.deviceSynchronize()
print(time.perf_counter() - start)
"""


def steps() -> dict[str, Any]:
    """Seconds of each step of a process that measures, five times; the second and later ones find warm caches."""
    found = []
    for _ in range(5):
        start = time.perf_counter()
        said = subprocess.run([sys.executable, "-c", STEPS], capture_output=True, text=True, check=True).stdout
        whole = time.perf_counter() - start
        timed = json.loads(said.splitlines()[-1])
        found.append(timed | {"everything else (start, exit)": round(whole - sum(timed.values()) % 100, 4)})
    return {"seconds": found}


def disturbance() -> dict[str, Any]:
    """Medians of batches of timed copies: alone, beside contexts that come and go, an idle context, and imports."""
    import cupy  # noqa: PLC0415  (the other parts' processes are to find the GPU free)

    from peakgate.device.stream import SampleStream  # noqa: PLC0415

    stream = SampleStream(64 << 20, 6)
    arrays = {name: (cupy.zeros(size, cupy.uint8), cupy.zeros(size, cupy.uint8)) for name, size in SIZES.items()}

    def copy(name: str) -> Callable[[], None]:
        to, origin = arrays[name]
        return lambda: to.data.copy_from_device_async(origin.data, to.nbytes, cupy.cuda.get_current_stream())

    launches = {name: copy(name) for name in SIZES}
    conditions = {"alone": _alone, "contexts": _contexts, "idle context": _idle_context, "imports": _imports}
    taken: dict[str, dict[str, list[list[float]]]] = {each: {name: [] for name in SIZES} for each in conditions}
    for _ in range(ROUNDS):
        for condition, beside in conditions.items():
            with beside() as act:
                medians: dict[str, list[float]] = {name: [] for name in SIZES}
                until = time.perf_counter() + BLOCK_S
                while time.perf_counter() < until:
                    act(1 - (until - time.perf_counter()) / BLOCK_S)
                    for name, launch in launches.items():
                        times_us = [time_us for time_us, _ in stream.batch([launch] * 6, blocked=True)]
                        medians[name].append(statistics.median(times_us))
            for name in SIZES:
                taken[condition][name].append(medians[name])
    return {condition: {name: _summary(blocks) for name, blocks in each.items()} for condition, each in taken.items()}


def _summary(blocks: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Each block's median, and the scatter of the batches' medians around it in percent."""
    middles = [statistics.median(block) for block in blocks]
    spread = [math.log(value / middle) for block, middle in zip(blocks, middles, strict=True) for value in block]
    return {
        "block medians (us)": [round(middle, 4) for middle in middles],
        "batches": sum(map(len, blocks)),
        "sd of batches (%)": round(100 * statistics.stdev(spread), 3),
        "batches off by more than 5 % (%)": round(100 * sum(abs(each) > 0.05 for each in spread) / len(spread), 3),
    }


Act = Callable[[float], None]


@contextmanager
def _alone() -> Iterator[Act]:
    yield lambda _share: None


@contextmanager
def _siblings(count: int) -> Iterator[list[subprocess.Popen[str]]]:
    started = [
        subprocess.Popen([sys.executable, "-c", SIBLING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    try:
        for each in started:
            _answered(each)
        yield started
    finally:
        for each in started:
            each.kill()
            each.communicate()


def _answered(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    process.stdout.readline()


def _say(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


@contextmanager
def _contexts() -> Iterator[Act]:
    """Contexts are made and destroyed one after the other, all over the block."""
    with _siblings(SIBLINGS) as waiting:
        pending = [(number / (2 * SIBLINGS), waiting[number // 2]) for number in range(2 * SIBLINGS)]

        def act(share: float) -> None:
            while pending and pending[0][0] <= share:
                _say(pending.pop(0)[1])

        yield act


@contextmanager
def _idle_context() -> Iterator[Act]:
    with _siblings(2) as waiting:
        for each in waiting:
            _say(each)
            _answered(each)
        yield lambda _share: None


@contextmanager
def _imports() -> Iterator[Act]:
    """Four processes that import what a run imports, over and over."""
    loop = "import subprocess, sys\nwhile True: subprocess.run([sys.executable, '-c', 'import cupy, pytest, pandas'])"
    started = [subprocess.Popen([sys.executable, "-c", loop], start_new_session=True) for _ in range(4)]
    try:
        yield lambda _share: None
    finally:
        for each in started:
            os.killpg(each.pid, 9)
            each.wait()


def compiles() -> dict[str, Any]:
    """Wall seconds in which CuPy compiles 16 small kernels with an empty cache: in one process, in several, in threads.

    The inner seconds are those from the CUDA context on, of the slowest process.
    """
    found: dict[str, Any] = {}
    for processes in (1, 4, 8, 16):
        with tempfile.TemporaryDirectory() as cache:
            environment = os.environ | {"CUPY_CACHE_DIR": cache}
            start = time.perf_counter()
            with ThreadPoolExecutor(processes) as pool:
                chunks = [[str(number) for number in range(first, 16, processes)] for first in range(processes)]
                commands = [[sys.executable, "-c", COMPILE, *chunk] for chunk in chunks]

                def run(command: Sequence[str], environment: dict[str, str] = environment) -> float:
                    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
                    return float(done.stdout)

                inner = list(pool.map(run, commands))
            whole = time.perf_counter() - start
            found[f"{processes} processes"] = {"wall_s": round(whole, 3), "inner_s": round(max(inner), 3)}
    return found


PARTS = {"steps": steps, "compiles": compiles, "disturbance": disturbance}


HERE = Path(__file__).resolve().parent


def page(record: dict[str, Any]) -> dict[str, str]:
    """The tables of the lab's page."""
    steps = record["steps of a process"]
    names = ("start", "build", "roofs", "prepare", "check", "sample", "check again")
    gate_rows = [
        (
            start if "(" in start else f"{start}, {which} ({record[which]['commit']})",
            gate.get("command_s", ""),
            gate["wall_s"],
            *(gate["steps_s"].get(name, "") for name in names),
        )
        for which in ("before", "between", "after")
        for start, gate in record.get(which, {}).items()
        if start.startswith(("cold", "warm"))
    ]
    phases = ("wall", "processes", "contexts", "sampling", "checks", "other", "idle")
    ab_rows = [
        (f"{what}{', stopped' if ab['stopped'] else ''}: {name}", *(row.get(column, "") for column in phases))
        for which in ("between", "after")
        for what, ab in record.get(which, {}).items()
        if what.startswith("ab ")
        for name, row in [("all", {"wall": ab["wall_s"]}), *ab["phases"].items()]
    ]
    beside = record["beside a measurement"]
    what = ("sd of batches (%)", "batches off by more than 5 % (%)")
    beside_rows = [
        (condition, size, f"{statistics.median(found['block medians (us)']):.2f}", *(found[name] for name in what))
        for condition, sizes in beside.items()
        for size, found in sizes.items()
    ]
    return {
        "starts-gate": table(("gate tier", "whole command", "until its report", *names), gate_rows),
        "starts-ab": table(("ab", *phases), ab_rows),
        "starts-steps": table(
            ("step", "s"),
            [
                (name, round(statistics.median(each[name] for each in steps), 3))
                for name in steps[0]
                if not name.startswith("processes")
            ],
        ),
        "starts-samples": fewer_samples(),
        "starts-replicates": spreads(),
        "starts-layout": layout(),
        "starts-pairs": pairs(),
        "starts-rates": rates.page(),
        "starts-live": live.page(),
        "starts-beside": table(("beside", "copy", "median us", *what), beside_rows),
    }


DURATIONS_US = (0, 100, 200, 400, 1000, 5000, 20_000)


def fewer_samples() -> str:
    """Pairs of unchanged code, each process's samples cut where the plan stops, by the case's duration."""
    import pandas as pd  # noqa: PLC0415  (the parts that measure do without)

    taken = pd.read_csv(HERE.parent / "injected" / "h200" / "same-samples.csv.xz")
    taken = taken[taken["stage"] == "screen"]
    samples_us = taken["samples_ns"].map(lambda text: [int(each) / 1e3 for each in text.split()])
    longer = SamplingPlan(min_samples=12, fair_samples=240, fair_us=20_000.0)
    plans = {"until 20 ms": longer, "until 8 ms": SamplingPlan()}
    for name, plan in plans.items():
        kept = samples_us.map(lambda samples, plan=plan: _cut(samples, plan))
        taken[name], taken[f"count {name}"] = kept.map(statistics.median).map(math.log), kept.map(len)
    base, head = (taken[taken["side"] == side].set_index(["case", "pair"]) for side in ("base", "head"))
    found = pd.DataFrame({"us": base["until 20 ms"].groupby("case").mean().map(math.exp)})
    for name in plans:
        off = 100 * (head[name] - base[name])
        found[name], found[f"most {name}"] = off.groupby("case").std(), off.abs().groupby("case").max()
        found[f"count {name}"] = base[f"count {name}"].groupby("case").mean()
    rows = []
    for interval, cases in found.groupby(pd.cut(found["us"], DURATIONS_US), observed=True):
        figures = [
            f"{figure:.3g}"
            for name in plans
            for figure in (
                cases[f"count {name}"].median(),
                cases[name].median(),
                cases[f"most {name}"].max(),
            )
        ]
        rows.append((f"{interval.left} to {interval.right} µs", len(cases), *figures))
    heads = [f"{what} {name}" for name in plans for what in ("samples", "SD of pairs (%)", "largest pair (%)")]
    return table(("a launch takes", "cases", *heads), rows)


def _cut(samples_us: Sequence[float], plan: SamplingPlan) -> Sequence[float]:
    """The samples up to where the plan is done."""
    batches: list[Sequence[float]] = []
    for start in range(0, len(samples_us), plan.batch):
        batches.append(samples_us[start : start + plan.batch])
        if plan.done(batches):
            break
    return [time_us for batch in batches for time_us in batch]


def main(out: Path, wanted: Sequence[str]) -> None:
    """Run the parts in turn; each is written as it ends."""
    out.mkdir(parents=True, exist_ok=True)
    for name in wanted or PARTS:
        start = time.perf_counter()
        result = PARTS[name]() | {"took_s": 0.0}
        result["took_s"] = round(time.perf_counter() - start, 1)
        (out / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["--page"]:
        fill_page(HERE / "README.md", page(read_json(HERE / "starts.json")))
    else:
        main(Path(sys.argv[1]), sys.argv[2:])
