"""nvbench's JSON (also through cuda-bench), as its ``json_printer`` writes it.

Values are text, a state has a list of tagged summaries, samples are float32 in a file beside the JSON.
"""

from __future__ import annotations

import array
import math
import statistics
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import LARGEST_FILE_BYTES, read_limited
from peakgate.base.formatting import short
from peakgate.base.records import Number, Whole
from peakgate.runfile.foreign import ForeignMeasured, ForeignRun, iqr, spelled

_SAMPLES = ("nv/json/bin:nv/cold/sample_times", "nv/json/bin:sample_times")


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


class NvbenchBenchmark(Struct):
    """A benchmark with its measurements."""

    name: str
    states: list[NvbenchState] | None = None


class NvbenchDocument(Struct):
    """The file."""

    devices: list[NvbenchDevice]
    benchmarks: list[NvbenchBenchmark]
    meta: Meta | None = None


def runs(document: NvbenchDocument, folder: Path) -> list[ForeignRun]:
    """The runs in a file, one per GPU; files of samples are in ``folder`` or beside it.

    PeakgateError if a device is not described, or a file of samples is missing or of another length.
    """
    meta = document.meta or Meta()
    release = (meta.version or {}).get("nvbench")
    version = release.string if release else None
    whole = not {"-b", "--benchmark", "-a", "--axis"} & set(meta.argv or ())
    devices = {device.id: device for device in document.devices}
    by_device: dict[int, list[ForeignMeasured]] = {}
    for benchmark in document.benchmarks:
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
    names = (spelled(benchmark).replace(".", "_"), "nvbench", "-".join(map(spelled, axes)))
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
    spread = _number(values, "nv/cold/time/gpu/iqr/absolute")
    return ForeignMeasured(
        *names,
        median_s=middle,
        rounds=len(samples) or (None if size is None else int(size)),
        samples_s=samples,
        iqr_s=iqr(samples) if len(samples) > 1 else spread,
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
