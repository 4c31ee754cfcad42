"""Read what nvbench (also by cuda-bench) and Google Benchmark write as JSON; what a file does not say stays None.

Both formats were read from their own writers: nvbench's ``json_printer`` (values as text, a list of tagged summaries
per state, samples as float32 in a file of their own) and Google Benchmark's JSON reporter.
"""

from __future__ import annotations

import array
import re
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from peakgate.common.errors import PeakgateError

_FORBIDDEN = re.compile(r"[^A-Za-z0-9_.-]+")
_SELECTING = frozenset({"-b", "--benchmark", "-a", "--axis"})
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_SAMPLES = ("nv/json/bin:nv/cold/sample_times", "nv/json/bin:sample_times")


@dataclass(frozen=True, slots=True)
class Measured:
    """One benchmark of such a file, in seconds and bytes per second; ``problem`` says why there is no time.

    ``median_s`` is the mean where the file has no median; ``how`` says which, and how it was taken.
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
    """What one file says of one GPU; ``gpu`` as ``machine_info.gpu`` names it, without a name where none is said."""

    tool: str
    version: str | None
    taken: str | None
    whole: bool
    gpu: Mapping[str, Any]
    measured: tuple[Measured, ...] = field(default=())


def read_foreign(document: Mapping[str, Any], folder: Path) -> list[ForeignRun]:
    """The runs in a parsed file, one per GPU; ``folder`` is where its files of samples are.

    PeakgateError where it is neither format, or lacks what the format always has.
    """
    try:
        if isinstance(document.get("context"), dict) and isinstance(document.get("benchmarks"), list):
            return [_google(document)]
        if isinstance(document.get("devices"), list) and isinstance(document.get("benchmarks"), list):
            return _nvbench(document, folder)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise PeakgateError(f"not whole: {type(error).__name__}: {error}; write it again") from None
    raise PeakgateError("neither nvbench's JSON (devices, benchmarks) nor Google Benchmark's (context, benchmarks)")


def _nvbench(document: Mapping[str, Any], folder: Path) -> list[ForeignRun]:
    meta = document.get("meta") or {}
    version = ((meta.get("version") or {}).get("nvbench") or {}).get("string")
    whole = not _SELECTING & set(meta.get("argv") or ())
    devices = {device["id"]: device for device in document["devices"]}
    by_device: dict[int, list[Measured]] = {}
    for benchmark in document["benchmarks"]:
        for state in benchmark.get("states") or ():
            by_device.setdefault(state["device"], []).append(_state(benchmark["name"], state, folder))
    return [
        ForeignRun("nvbench", version, None, whole, _device(devices[number]), tuple(measured))
        for number, measured in by_device.items()
    ]


def _device(device: Mapping[str, Any]) -> dict[str, Any]:
    sm_version, bandwidth = device.get("sm_version"), device.get("global_memory_bus_bandwidth")
    clock_hz = device.get("sm_default_clock_rate")
    return {
        "name": str(device["name"]),
        "compute_capability": f"{sm_version // 100}.{sm_version % 100 // 10}" if sm_version else None,
        "sm_count": device.get("number_of_sms"),
        "memory_bytes": device.get("global_memory_size"),
        "l2_bytes": device.get("l2_cache_size"),
        "memory_bus_bits": device.get("global_memory_bus_width"),
        "peak_gbs": bandwidth / 1e9 if bandwidth else None,
        "sm_clock_default_mhz": clock_hz / 1e6 if clock_hz else None,
        "ecc": device.get("ecc_state"),
    }


def _state(benchmark: str, state: Mapping[str, Any], folder: Path) -> Measured:
    axes = [f"{axis['name']}_{axis['value']}" for axis in state.get("axis_values") or () if axis["name"] != "Device"]
    names = (_spelled(benchmark).replace(".", "_"), "nvbench", "-".join(map(_spelled, axes)))
    if state.get("is_skipped"):
        return Measured(*names, problem=f"skipped: {state.get('skip_reason') or 'no reason is given'}")
    summaries = state.get("summaries") or []
    if isinstance(summaries, Mapping):
        raise PeakgateError("written by an nvbench of 2021, whose summaries carry no tags; measure with a newer one")
    values = {summary["tag"]: _values(summary) for summary in summaries}
    samples = next((_samples(values[tag], folder) for tag in _SAMPLES if tag in values), ())
    mean, median = (_number(values, f"nv/cold/time/gpu/{what}") for what in ("mean", "median"))
    if samples:
        middle, what = statistics.median(samples), "median of the samples"
    elif median is not None:
        middle, what = median, "median"
    elif mean is not None:
        middle, what = mean, "mean"
    else:
        return Measured(*names, problem="no cold measurement of the GPU's time")
    size = _number(values, "nv/cold/sample_size")
    iqr = _number(values, "nv/cold/time/gpu/iqr/absolute")
    return Measured(
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


def _values(summary: Mapping[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in summary.get("data") or ()}


def _number(values: Mapping[str, Mapping[str, str]], tag: str) -> float | None:
    text = values.get(tag, {}).get("value")
    return None if text is None else float(text)


def _samples(values: Mapping[str, str], folder: Path) -> tuple[float, ...]:
    """Times in seconds from a file of little-endian float32 beside the JSON, or beside its folder.

    PeakgateError where it is not there or not of the length that the JSON says.
    """
    name, count = values["filename"], int(values["size"])
    places = [folder / name, folder.parent / name]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise PeakgateError(f"its samples are in {name}, which is not beside it; copy that too")
    read = array.array("f", path.read_bytes())
    if sys.byteorder == "big":
        read.byteswap()
    if len(read) != count:
        raise PeakgateError(f"{path}: {len(read)} samples, the JSON says {count}; copy both again")
    return tuple(read)


def _google(document: Mapping[str, Any]) -> ForeignRun:
    context = document["context"]
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for entry in document["benchmarks"]:
        by_name.setdefault(str(entry.get("run_name") or entry["name"]), []).append(entry)
    measured = tuple(_repetitions(name, entries) for name, entries in by_name.items())
    return ForeignRun("google-benchmark", context.get("library_version"), context.get("date"), True, {}, measured)


def _repetitions(name: str, entries: Sequence[Mapping[str, Any]]) -> Measured:
    family, _, arguments = name.partition("/")
    names = (_spelled(family).replace(".", "_"), "google-benchmark", _spelled(arguments.replace("/", "-")))
    failed = [entry for entry in entries if entry.get("error_occurred") or entry.get("skipped")]
    if failed:
        reported = failed[0].get("error_message") or failed[0].get("skip_message") or "no reason is given"
        return Measured(*names, problem=f"failed or skipped: {reported}")
    single = [entry for entry in entries if entry.get("run_type", "iteration") == "iteration"]
    clock = "manual time" if "manual_time" in name else "wall time"
    if single:
        samples = tuple(_seconds(entry) for entry in single)
        rates = [float(entry["bytes_per_second"]) for entry in single if "bytes_per_second" in entry]
        return Measured(
            *names,
            median_s=statistics.median(samples),
            rounds=len(samples),
            samples_s=samples,
            iqr_s=_iqr(samples) if len(samples) > 1 else None,
            bytes_per_s=statistics.median(rates) if rates else None,
            how=f"Google Benchmark, {clock}, median of {len(samples)} repetitions",
        )
    by_kind = {str(entry.get("aggregate_name")): entry for entry in entries}
    chosen = next((by_kind[kind] for kind in ("median", "mean") if kind in by_kind), None)
    if chosen is None:
        return Measured(*names, problem="neither repetitions nor their median or mean")
    rate = chosen.get("bytes_per_second")
    return Measured(
        *names,
        median_s=_seconds(chosen),
        rounds=chosen.get("repetitions"),
        bytes_per_s=None if rate is None else float(rate),
        how=f"Google Benchmark, {clock}, {chosen['aggregate_name']} of the repetitions",
    )


def _seconds(entry: Mapping[str, Any]) -> float:
    return float(entry["real_time"]) * _SECONDS[str(entry.get("time_unit", "ns"))]


def _iqr(samples: Sequence[float]) -> float:
    first, _, third = statistics.quantiles(samples, n=4, method="inclusive")
    return third - first


def _spelled(text: object) -> str:
    """In the alphabet of case ids."""
    return _FORBIDDEN.sub("_", str(text)).strip("_") or "_"
