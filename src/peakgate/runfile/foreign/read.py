"""Reads a file of another benchmark tool; what it lacks is None."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import Struct

from peakgate.base import records
from peakgate.base.errors import Code, PeakgateError
from peakgate.runfile.foreign import google_benchmark, nvbench, pytest_benchmark
from peakgate.runfile.foreign.measured import ForeignMeasured, ForeignRun
from peakgate.runfile.schema import SHORTEST_S

HOW_TO_WRITE = (
    "write it again: --json FILE of nvbench, --benchmark_out=FILE of Google Benchmark, --benchmark-json=FILE of "
    "pytest-benchmark"
)


class ToolKeys(Struct):
    """The keys by which the tools' files differ."""

    benchmarks: list[Any] | None = None
    devices: Any = None
    context: Any = None
    machine_info: Any = None
    peakgate_schema: Any = None


def read_foreign(data: bytes, path: Path) -> list[ForeignRun]:
    """The runs in a file's content, one per GPU; ``path`` is the file, next to which nvbench's sample files are.

    The content of a ``*.gz`` file is decompressed first.

    PeakgateError if the content is in none of the formats, lacks what its format requires, or has no benchmark.
    """
    data = records.unpacked(data, path, HOW_TO_WRITE)
    found = records.decode(data, ToolKeys, path, HOW_TO_WRITE)
    if found.peakgate_schema is not None:
        raise PeakgateError(f"{path}: is a run of Peakgate, which every verb reads as it is", Code.RECORD)
    if found.benchmarks is not None and found.devices is not None:
        runs = nvbench.runs(records.decode(data, nvbench.NvbenchDocument, path, HOW_TO_WRITE), path.parent)
    elif found.benchmarks is not None and found.context is not None:
        runs = [google_benchmark.run(records.decode(data, google_benchmark.GoogleDocument, path, HOW_TO_WRITE))]
    elif found.benchmarks is not None and found.machine_info is not None:
        runs = [pytest_benchmark.run(records.decode(data, pytest_benchmark.HostDocument, path, HOW_TO_WRITE))]
    else:
        raise PeakgateError(
            f"{path}: neither nvbench's JSON (devices, benchmarks), nor Google Benchmark's (context, benchmarks), nor "
            f"pytest-benchmark's (machine_info, benchmarks); {HOW_TO_WRITE}",
            Code.RECORD,
        )
    runs = [replace(run, measured=tuple(map(_plausible, run.measured))) for run in runs if run.measured]
    if not runs:
        raise PeakgateError(f"{path}: has no benchmark; measure again, and see what its filter matches", Code.TOO_FEW)
    return runs


def _plausible(measured: ForeignMeasured) -> ForeignMeasured:
    """The measurement, without a time that is shorter than a run file may hold."""
    if measured.median_s is None or measured.median_s >= SHORTEST_S:
        return measured
    problem = f"its time is {measured.median_s * 1e9:.3g} ns, expected at least 1 ns"
    return ForeignMeasured(measured.family, measured.stage, measured.size, problem=problem)
