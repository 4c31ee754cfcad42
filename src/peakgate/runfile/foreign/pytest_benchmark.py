"""pytest-benchmark's JSON, as ``--benchmark-json`` writes it: times of host code."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from peakgate.base.records import Finite, Whole
from peakgate.runfile.foreign import ForeignMeasured, ForeignRun
from peakgate.spec.recorded import case_parts


class HostStats(Struct):
    """``stats`` of pytest-benchmark, in seconds."""

    median: Finite
    iqr: Finite | None = None
    rounds: Whole | None = None
    data: list[Finite] | None = None


class HostBenchmark(Struct):
    """A benchmark and its times."""

    name: str
    stats: HostStats
    fullname: str | None = None


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


class HostDocument(Struct):
    """The file."""

    machine_info: HostMachine
    benchmarks: list[HostBenchmark]
    commit_info: HostCommit | None = None
    datetime: str | None = None
    version: str | None = None


def run(document: HostDocument) -> ForeignRun:
    """The run in a file; its GPU is the host, with the processor's name and as uuid the host name."""
    machine, commit = document.machine_info, document.commit_info
    measured = tuple(
        ForeignMeasured(
            *case_parts(benchmark.fullname or benchmark.name),
            median_s=benchmark.stats.median,
            rounds=benchmark.stats.rounds,
            samples_s=tuple(benchmark.stats.data or ()),
            iqr_s=benchmark.stats.iqr,
            how="pytest-benchmark, the host's clock, median of the rounds",
        )
        for benchmark in document.benchmarks
    )
    return ForeignRun(
        "pytest-benchmark",
        document.version,
        document.datetime,
        True,
        {key: value for key, value in (("name", machine.name), ("uuid", machine.node)) if value},
        measured,
        device="cpu",
        commit=commit.id if commit else None,
    )
