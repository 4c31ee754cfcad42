"""Read the JSON of nvbench (also through cuda-bench), Google Benchmark and pytest-benchmark; what it lacks is None.

The formats are those of nvbench's ``json_printer`` (values as text, a list of tagged summaries per state, samples as
float32 in a separate file), of Google Benchmark's JSON reporter, and of ``--benchmark-json``.
"""

from __future__ import annotations

import array
import math
import re
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from peakgate.base import records
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import LARGEST_FILE_BYTES, read_limited
from peakgate.base.formatting import short
from peakgate.base.records import Finite, Number, Whole
from peakgate.spec.recorded import case_parts

_FORBIDDEN = re.compile(r"[^A-Za-z0-9_.-]+")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_SHORTEST_S = 1e-9
"""The shortest time that a run file may hold."""
_FITS = ("BigO", "RMS")
"""Rows of Google Benchmark that describe a fitted curve: no measurement."""
_AGGREGATE = re.compile(r"(.+)_(mean|median|stddev|cv|BigO|RMS)")
"""The name of an aggregate, the only sign of one in files without ``run_type`` (before 2018)."""
_SAMPLES = ("nv/json/bin:nv/cold/sample_times", "nv/json/bin:sample_times")


@dataclass(frozen=True, slots=True)
class ForeignMeasured:
    """One benchmark of such a file, in seconds and bytes per second; ``problem`` says why there is no time.

    ``median_s`` is the mean if the file has no median; ``how`` says which, and how it was measured.
    """

    family: str
    stage: str
    size: str
    median_s: float | None = None
    rounds: int | None = None
    samples_s: tuple[float, ...] = ()
    iqr_s: float | None = None
    bytes_per_s: float | None = None
    peak_fraction: float | None = None
    sm_clock_hz: float | None = None
    how: str = ""
    problem: str | None = None

    @property
    def case(self) -> str:
        name = f"{self.family}.{self.stage}"
        return f"{name}-{self.size}" if self.size else name


@dataclass(frozen=True, slots=True)
class ForeignRun:
    """The run of one GPU in one file; ``gpu`` has the keys of ``machine_info.gpu`` that the file gives.

    ``device`` is ``cpu`` if host code was timed: ``gpu`` then has the processor's name, and as uuid the host name.
    ``number`` is the GPU's number if the file has several GPUs.
    """

    tool: str
    version: str | None
    taken: str | None
    whole: bool
    gpu: Mapping[str, Any]
    measured: tuple[ForeignMeasured, ...] = field(default=())
    device: str = "gpu"
    number: int | None = None
    commit: str | None = None


class NvbenchValue(Struct):
    """A value in a summary of nvbench; numbers are text."""

    name: str
    value: str | int | float


class Summary(Struct):
    """A summary of nvbench. Versions of 2021, whose summaries have no tags, are not supported."""

    tag: str
    data: list[NvbenchValue] | None = None


class Axis(Struct):
    """The value of an axis of nvbench."""

    name: str
    value: Any


class NvbenchState(Struct):
    """One measurement of nvbench."""

    device: int
    axis_values: list[Axis] | None = None
    is_skipped: bool | None = None
    skip_reason: str | None = None
    summaries: list[Summary] | None = None


class NvbenchDevice(Struct):
    """A GPU as nvbench describes it."""

    id: int
    name: str
    sm_version: Whole | None = None
    global_memory_bus_bandwidth: Number | None = None
    sm_default_clock_rate: Number | None = None
    number_of_sms: Whole | None = None
    global_memory_size: Whole | None = None
    l2_cache_size: Whole | None = None
    global_memory_bus_width: Whole | None = None
    ecc_state: bool | None = None

    def described(self) -> dict[str, Any]:
        """Its properties under the names of ``machine_info.gpu``."""
        sm_version, bandwidth, clock_hz = self.sm_version, self.global_memory_bus_bandwidth, self.sm_default_clock_rate
        return {
            "name": self.name,
            "compute_capability": f"{sm_version // 100}.{sm_version % 100 // 10}" if sm_version else None,
            "sm_count": self.number_of_sms,
            "memory_bytes": self.global_memory_size,
            "l2_bytes": self.l2_cache_size,
            "memory_bus_bits": self.global_memory_bus_width,
            "peak_gbs": bandwidth / 1e9 if bandwidth else None,
            "sm_clock_default_mhz": clock_hz / 1e6 if clock_hz else None,
            "ecc": self.ecc_state,
        }


class Version(Struct):
    """A version of nvbench."""

    string: str | None = None


class Meta(Struct):
    """``meta`` of nvbench."""

    version: dict[str, Version | None] | None = None
    argv: list[str] | None = None


class HostStats(Struct):
    """``stats`` of pytest-benchmark, in seconds."""

    median: Finite
    iqr: Finite | None = None
    rounds: Whole | None = None
    data: list[Finite] | None = None


class ForeignBenchmark(Struct):
    """A benchmark of nvbench with its ``states``, or of pytest-benchmark with its ``stats``.

    Of Google Benchmark it is one repetition or aggregate. A failed benchmark has no time.
    """

    name: str
    states: list[NvbenchState] | None = None
    fullname: str | None = None
    stats: HostStats | None = None
    family_index: int | None = None
    run_name: str | None = None
    run_type: str | None = None
    aggregate_name: str | None = None
    real_time: Finite | None = None
    time_unit: Literal["ns", "us", "ms", "s"] = "ns"
    bytes_per_second: Finite | None = None
    repetitions: Whole | None = None
    error_occurred: bool | None = None
    error_message: str | None = None
    skipped: Any = None
    skip_message: str | None = None

    @property
    def seconds(self) -> float:
        if self.real_time is None:
            raise PeakgateError(f"{self.name} has no real_time; write the file again", Code.RECORD)
        return self.real_time * _SECONDS[self.time_unit]


class Context(Struct):
    """``context`` of Google Benchmark."""

    library_version: str | None = None
    date: str | None = None


class HostMachine(Struct):
    """``machine_info`` of pytest-benchmark."""

    cpu: dict[str, Any] | None = None
    processor: str | None = None
    node: str | None = None

    @property
    def name(self) -> str | None:
        """The processor's name, or the host name if that is unknown."""
        cpu = self.cpu or {}
        names = (cpu.get("brand_raw"), cpu.get("brand"), self.processor, self.node)
        return next((name for name in names if isinstance(name, str) and name), None)


class HostCommit(Struct):
    """``commit_info`` of pytest-benchmark."""

    id: str | None = None


class ForeignDocument(Struct):
    """A file of one of the tools.

    Google Benchmark's has a ``context``, nvbench's ``devices``, pytest-benchmark's ``machine_info``.
    """

    context: Context | None = None
    devices: list[NvbenchDevice] | None = None
    benchmarks: list[ForeignBenchmark] | None = None
    meta: Meta | None = None
    machine_info: HostMachine | None = None
    commit_info: HostCommit | None = None
    datetime: str | None = None
    version: str | None = None
    peakgate_schema: Any = None


def read_foreign(data: bytes, path: Path) -> list[ForeignRun]:
    """The runs in a file's content, one per GPU; ``path`` is the file, next to which nvbench's sample files are.

    PeakgateError if the content is in none of the formats, lacks what its format requires, or has no benchmark.
    """
    options = (
        "--json FILE of nvbench, --benchmark_out=FILE of Google Benchmark, --benchmark-json=FILE of pytest-benchmark"
    )
    remedy = f"write it again: {options}"
    found = records.decode(data, ForeignDocument, path, remedy)
    if found.peakgate_schema is not None:
        raise PeakgateError(f"{path}: is a run of Peakgate, which every verb reads as it is", Code.RECORD)
    if found.benchmarks is not None and found.devices is not None:
        runs = _nvbench(found.devices, found.benchmarks, found.meta or Meta(), path.parent)
    elif found.benchmarks is not None and found.context is not None:
        context, measured = found.context, _google(found.benchmarks)
        runs = [ForeignRun("google-benchmark", context.library_version, context.date, True, {}, measured)]
    elif found.benchmarks is not None and found.machine_info is not None:
        runs = [_pytest(found, found.benchmarks, found.machine_info)]
    else:
        raise PeakgateError(
            f"{path}: neither nvbench's JSON (devices, benchmarks), nor Google Benchmark's (context, benchmarks), nor "
            f"pytest-benchmark's (machine_info, benchmarks); {remedy}",
            Code.RECORD,
        )
    runs = [replace(run, measured=tuple(map(_plausible, run.measured))) for run in runs if run.measured]
    if not runs:
        raise PeakgateError(f"{path}: has no benchmark; measure again, and see what its filter matches", Code.TOO_FEW)
    return runs


def _plausible(measured: ForeignMeasured) -> ForeignMeasured:
    """The measurement, without a time that is shorter than a run file may hold."""
    if measured.median_s is None or measured.median_s >= _SHORTEST_S:
        return measured
    problem = f"its time is {measured.median_s * 1e9:.3g} ns, expected at least 1 ns"
    return ForeignMeasured(measured.family, measured.stage, measured.size, problem=problem)


def _pytest(found: ForeignDocument, benchmarks: Sequence[ForeignBenchmark], machine: HostMachine) -> ForeignRun:
    measured = []
    for benchmark in benchmarks:
        stats = benchmark.stats
        if stats is None:
            raise PeakgateError(f"{benchmark.name} has no stats; write the file again", Code.RECORD)
        measured.append(
            ForeignMeasured(
                *case_parts(benchmark.fullname or benchmark.name),
                median_s=stats.median,
                rounds=stats.rounds,
                samples_s=tuple(stats.data or ()),
                iqr_s=stats.iqr,
                how="pytest-benchmark, the host's clock, median of the rounds",
            )
        )
    return ForeignRun(
        "pytest-benchmark",
        found.version,
        found.datetime,
        True,
        {key: value for key, value in (("name", machine.name), ("uuid", machine.node)) if value},
        tuple(measured),
        device="cpu",
        commit=found.commit_info.id if found.commit_info else None,
    )


def _nvbench(
    described: Sequence[NvbenchDevice], benchmarks: Sequence[ForeignBenchmark], meta: Meta, folder: Path
) -> list[ForeignRun]:
    release = (meta.version or {}).get("nvbench")
    version = release.string if release else None
    whole = not {"-b", "--benchmark", "-a", "--axis"} & set(meta.argv or ())
    devices = {device.id: device for device in described}
    by_device: dict[int, list[ForeignMeasured]] = {}
    for benchmark in benchmarks:
        for state in benchmark.states or ():
            if state.device not in devices:
                raise PeakgateError(
                    f"{benchmark.name} ran on device {state.device}, which is not described", Code.RECORD
                )
            by_device.setdefault(state.device, []).append(_state(benchmark.name, state, folder))
    return [
        ForeignRun(
            "nvbench",
            version,
            None,
            whole,
            devices[number].described(),
            tuple(measured),
            number=number if len(by_device) > 1 else None,
        )
        for number, measured in by_device.items()
    ]


def _state(benchmark: str, state: NvbenchState, folder: Path) -> ForeignMeasured:
    axes = [f"{axis.name}_{axis.value}" for axis in state.axis_values or () if axis.name != "Device"]
    names = (_spelled(benchmark).replace(".", "_"), "nvbench", "-".join(map(_spelled, axes)))
    if state.is_skipped:
        return ForeignMeasured(*names, problem=f"skipped: {state.skip_reason or 'no reason is given'}")
    values = {each.tag: {entry.name: str(entry.value) for entry in each.data or ()} for each in state.summaries or ()}
    try:
        return _timed(names, values, folder)
    except NotFinite as error:
        return ForeignMeasured(*names, problem=str(error))


def _timed(names: tuple[str, str, str], values: Mapping[str, Mapping[str, str]], folder: Path) -> ForeignMeasured:
    """A state's measurement from its summaries; NotFinite if a value in them is not a finite number."""
    samples = next((_samples(values[tag], folder) for tag in _SAMPLES if tag in values), ())
    mean, median = (_number(values, f"nv/cold/time/gpu/{what}") for what in ("mean", "median"))
    if samples:
        middle, what = statistics.median(samples), "median of the samples"
    elif median is not None:
        middle, what = median, "median"
    elif mean is not None:
        middle, what = mean, "mean"
    else:
        return ForeignMeasured(*names, problem="no cold measurement of the GPU's time")
    size = _number(values, "nv/cold/sample_size")
    iqr = _number(values, "nv/cold/time/gpu/iqr/absolute")
    return ForeignMeasured(
        *names,
        median_s=middle,
        rounds=len(samples) or (None if size is None else int(size)),
        samples_s=samples,
        iqr_s=iqr if len(samples) < 2 else _iqr(samples),
        bytes_per_s=_number(values, "nv/cold/bw/global/bytes_per_second"),
        peak_fraction=_number(values, "nv/cold/bw/global/utilization"),
        sm_clock_hz=_number(values, "nv/cold/sm_clock_rate/mean"),
        how=f"nvbench, cold, {what}",
    )


def _number(values: Mapping[str, Mapping[str, str]], tag: str) -> float | None:
    text = values.get(tag, {}).get("value")
    return None if text is None else _finite(text, tag)


class NotFinite(PeakgateError):
    """A value of nvbench that is not a finite number."""


def _finite(text: str, name: str) -> float:
    """The text as a float; NotFinite unless it is a finite number."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise NotFinite(f"{name} is {short(text)}, expected a finite number; measure again", Code.RECORD)
    return number


def _samples(values: Mapping[str, str], folder: Path) -> tuple[float, ...]:
    """Times in seconds from a file of little-endian float32 next to the JSON, or next to its folder.

    PeakgateError if the file is missing, or its length is not the one that the JSON gives.
    """
    name, count = values.get("filename", ""), int(_finite(values.get("size", ""), "the number of samples"))
    places = [folder / name, folder.parent / name]
    try:
        path = next((place for place in places if place.is_file()), None)
    except ValueError:  # a name that no file can have
        path = None
    if path is None:
        raise PeakgateError(f"its samples are in {short(name)}, which is missing; copy that too", Code.UNREADABLE)
    content = read_limited(path, LARGEST_FILE_BYTES, inside=folder.parent)
    read = array.array("f", content[: len(content) // 4 * 4])
    if sys.byteorder == "big":
        read.byteswap()
    if len(read) != count:
        raise PeakgateError(f"{path}: {len(read)} samples, the JSON says {count}; copy both again", Code.MALFORMED)
    return tuple(read)


def _google(benchmarks: Sequence[ForeignBenchmark]) -> tuple[ForeignMeasured, ...]:
    """Measurements of Google Benchmark's rows: those of one name and family together.

    Two families of one name are two measurements of one name, which the caller refuses.
    """
    groups: dict[tuple[int | None, str], list[ForeignBenchmark]] = {}
    for entry in benchmarks:
        if entry.run_type is None and (aggregate := _AGGREGATE.fullmatch(entry.name)):
            entry.run_name, entry.aggregate_name, entry.run_type = aggregate[1], aggregate[2], "aggregate"
        if entry.aggregate_name not in _FITS:
            groups.setdefault((entry.family_index, entry.run_name or entry.name), []).append(entry)
    return tuple(_repetitions(name, entries) for (_, name), entries in groups.items())


def _repetitions(name: str, entries: Sequence[ForeignBenchmark]) -> ForeignMeasured:
    family, _, arguments = name.partition("/")
    names = (_spelled(family).replace(".", "_"), "google-benchmark", _spelled(arguments.replace("/", "-")))
    failed = [entry for entry in entries if entry.error_occurred or entry.skipped]
    if failed:
        reported = failed[0].error_message or failed[0].skip_message or "no reason is given"
        return ForeignMeasured(*names, problem=f"failed or skipped: {reported}")
    single = [entry for entry in entries if entry.run_type in (None, "iteration")]
    clock = "manual time" if "manual_time" in name else "wall time"
    if single:
        samples = tuple(entry.seconds for entry in single)
        rates = [entry.bytes_per_second for entry in single if entry.bytes_per_second is not None]
        return ForeignMeasured(
            *names,
            median_s=statistics.median(samples),
            rounds=len(samples),
            samples_s=samples,
            iqr_s=_iqr(samples) if len(samples) > 1 else None,
            bytes_per_s=statistics.median(rates) if rates else None,
            how=f"Google Benchmark, {clock}, median of {len(samples)} repetitions",
        )
    by_kind = {entry.aggregate_name: entry for entry in entries}
    chosen = next((by_kind[kind] for kind in ("median", "mean") if kind in by_kind), None)
    if chosen is None:
        return ForeignMeasured(*names, problem="neither repetitions nor their median or mean")
    return ForeignMeasured(
        *names,
        median_s=chosen.seconds,
        rounds=chosen.repetitions,
        bytes_per_s=chosen.bytes_per_second,
        how=f"Google Benchmark, {clock}, {chosen.aggregate_name} of the repetitions",
    )


def _iqr(samples: Sequence[float]) -> float:
    first, _, third = statistics.quantiles(samples, n=4, method="inclusive")
    return third - first


def _spelled(text: object) -> str:
    """The text with characters that case ids cannot have replaced by ``_``."""
    return _FORBIDDEN.sub("_", str(text)).strip("_") or "_"
