"""Google Benchmark's JSON, as its reporter writes it: a row for each repetition and each aggregate."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.records import Finite, Whole
from peakgate.runfile.foreign import ForeignMeasured, ForeignRun, iqr, spelled

_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_FITS = ("BigO", "RMS")
"""Rows of Google Benchmark that describe a fitted curve: no measurement."""
_AGGREGATE = re.compile(r"(.+)_(mean|median|stddev|cv|BigO|RMS)")
"""The name of an aggregate, the only sign of one in files without ``run_type`` (before 2018)."""


class Context(Struct):
    """``context`` of Google Benchmark."""

    library_version: str | None = None
    date: str | None = None


class GoogleRow(Struct):
    """A repetition or an aggregate of a benchmark. A failed one has no time."""

    name: str
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


class GoogleDocument(Struct):
    """The file."""

    context: Context
    benchmarks: list[GoogleRow]


def run(document: GoogleDocument) -> ForeignRun:
    """The run in a file, which does not say what it ran on: rows of one name and family are one measurement.

    Two families of one name are two measurements of one name, which the caller refuses.
    """
    groups: dict[tuple[int | None, str], list[GoogleRow]] = {}
    for row in document.benchmarks:
        if row.run_type is None and (aggregate := _AGGREGATE.fullmatch(row.name)):
            row.run_name, row.aggregate_name, row.run_type = aggregate[1], aggregate[2], "aggregate"
        if row.aggregate_name not in _FITS:
            groups.setdefault((row.family_index, row.run_name or row.name), []).append(row)
    measured = tuple(_repetitions(name, rows) for (_, name), rows in groups.items())
    context = document.context
    return ForeignRun("google-benchmark", context.library_version, context.date, True, {}, measured)


def _repetitions(name: str, rows: Sequence[GoogleRow]) -> ForeignMeasured:
    family, _, arguments = name.partition("/")
    names = (spelled(family).replace(".", "_"), "google-benchmark", spelled(arguments.replace("/", "-")))
    failed = [row for row in rows if row.error_occurred or row.skipped]
    if failed:
        reported = failed[0].error_message or failed[0].skip_message or "no reason is given"
        return ForeignMeasured(*names, problem=f"failed or skipped: {reported}")
    single = [row for row in rows if row.run_type in (None, "iteration")]
    clock = "manual time" if "manual_time" in name else "wall time"
    if single:
        samples = tuple(row.seconds for row in single)
        rates = [row.bytes_per_second for row in single if row.bytes_per_second is not None]
        return ForeignMeasured(
            *names,
            median_s=statistics.median(samples),
            rounds=len(samples),
            samples_s=samples,
            iqr_s=iqr(samples) if len(samples) > 1 else None,
            bytes_per_s=statistics.median(rates) if rates else None,
            how=f"Google Benchmark, {clock}, median of {len(samples)} repetitions",
        )
    by_kind = {row.aggregate_name: row for row in rows}
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
