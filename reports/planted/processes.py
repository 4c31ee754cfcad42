"""What the processes of the planted-truth campaign measured, and the files that hold it.

A process measured every case of its experiment once; two of them, base and head, are a pair. ``<experiment>.csv.gz``
has a row a process and case with the statistics of its samples, ``<experiment>-samples.csv.gz`` the samples themselves
of the first pairs, a row a process and case too.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pandas as pd
from peakgate.common.errors import PeakgateError
from peakgate.common.files import write_whole
from peakgate.reports.ab.schedule import Stage, Which
from peakgate.reports.runs.runfile import UNUSABLE

SAMPLE_PAIRS = 20
MOST_SAMPLES = 60
"""Samples are kept of the first so many pairs, and of each case the first so many of a process: more would not fit."""

LARGEST_BYTES = 2_000_000
"""A repository is no place for a file larger than this."""

KEYS = ("stage", "pair", "side", "case")
TIMES_US = {
    "median_us": "median",
    "mean_us": "mean",
    "stddev_us": "stddev",
    "min_us": "min",
    "q1_us": "q1",
    "q3_us": "q3",
}
"""Column to the name that pytest-benchmark gives this statistic, which it states in seconds."""

SUMMARY_COLUMNS = (*KEYS, *TIMES_US, "rounds")
SAMPLES_COLUMNS = (*KEYS, "samples_ns")
SIGNIFICANT = 7
"""Digits kept of a time: 0.1 ns of 1 ms, finer than the clock."""


class Experiment(StrEnum):
    """What was measured: one tree against itself, against one with slowed copies, with all mutants, with one mutant.

    PAIRS are many more screening pairs of the slowed copies than a gate takes, to draw gates from; they decide nothing.
    Processes are kept of SAME, and of STEPS and PAIRS together.
    """

    SAME = "same"
    STEPS = "steps"
    PAIRS = "pairs"
    MUTANTS = "mutants"
    ONE = "one"


@dataclass(frozen=True, slots=True)
class Process:
    """One process: its place in the experiment, pairs counted from 0, and its run file as pytest-benchmark wrote it."""

    pair: int
    side: Which
    document: Mapping[str, Any]
    stage: Stage = Stage.SCREEN


@dataclass(frozen=True, slots=True)
class Processes:
    """All processes of one experiment.

    ``summary`` has SUMMARY_COLUMNS, times in microseconds; ``samples`` has SAMPLES_COLUMNS, where ``samples_ns`` is an
    array of whole nanoseconds in the order they were taken. Cases that a process could not measure, or distrusted, are
    not there.
    """

    summary: pd.DataFrame
    samples: pd.DataFrame


def from_runs(
    processes: Iterable[Process], *, sample_pairs: int = SAMPLE_PAIRS, most_samples: int = MOST_SAMPLES
) -> Processes:
    """The record of these processes, samples kept of the first ``sample_pairs`` pairs; run files are read one by one.

    A PeakgateError names a run file that lacks what pytest-benchmark writes, or the samples that are to be kept.
    """
    summary: list[tuple[Any, ...]] = []
    samples: list[tuple[Any, ...]] = []
    for process in processes:
        for case, stats in _measured(process):
            key = (process.stage.value, process.pair, process.side.value, case)
            try:
                summary.append((*key, *(1e6 * stats[name] for name in TIMES_US.values()), stats["rounds"]))
                if process.pair < sample_pairs:
                    samples.append((*key, np.rint(1e9 * np.array(stats["data"][:most_samples])).astype(np.int64)))
            except KeyError as missing:
                _refuse(process, f"stats of {case} have no {missing}; give the run as it was measured, samples and all")
    return Processes(
        pd.DataFrame(summary, columns=list(SUMMARY_COLUMNS)), pd.DataFrame(samples, columns=list(SAMPLES_COLUMNS))
    )


def write(folder: Path, experiment: Experiment, processes: Processes) -> tuple[Path, Path]:
    """Write both files and give their paths; the same processes make the same bytes.

    A PeakgateError names a file that would be too large for a repository; then neither is written.
    """
    joined = processes.samples.assign(samples_ns=[" ".join(map(str, row)) for row in processes.samples["samples_ns"]])
    contents = dict(zip(_paths(folder, experiment), map(_packed, (processes.summary, joined)), strict=True))
    for path, content in contents.items():
        if len(content) > LARGEST_BYTES:
            raise PeakgateError(f"{path}: {len(content)} bytes, over {LARGEST_BYTES}; keep fewer pairs or samples")
    for path, content in contents.items():
        write_whole(path, content)
    summary, samples = contents
    return summary, samples


def read(folder: Path, experiment: Experiment) -> Processes:
    """What ``write`` wrote there; a PeakgateError names a file that is missing or is not of this form."""
    summary, samples = (
        _unpacked(path, columns)
        for path, columns in zip(_paths(folder, experiment), (SUMMARY_COLUMNS, SAMPLES_COLUMNS), strict=True)
    )
    try:
        arrays = [np.array(text.split(), dtype=np.int64) for text in samples["samples_ns"].astype(str)]
    except ValueError as error:
        raise _unreadable(_paths(folder, experiment)[1], error) from error
    return Processes(summary, samples.assign(samples_ns=pd.Series(arrays, index=samples.index, dtype=object)))


def _paths(folder: Path, experiment: Experiment) -> tuple[Path, Path]:
    return folder / f"{experiment}.csv.gz", folder / f"{experiment}-samples.csv.gz"


def _measured(process: Process) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Case and statistics of what the process timed and trusts."""
    benchmarks = process.document.get("benchmarks")
    if not isinstance(benchmarks, list):
        _refuse(process, "no benchmarks in it; give a pytest-benchmark run")
    for benchmark in benchmarks:
        extra = benchmark.get("extra_info", {})
        if "case" not in extra or "stats" not in benchmark:
            _refuse(process, "a benchmark without extra_info.case or stats; give a run saved by the suite")
        if extra.get("verdict") not in UNUSABLE:
            yield str(extra["case"]), benchmark["stats"]


def _packed(frame: pd.DataFrame) -> bytes:
    text = frame.to_csv(index=False, float_format=f"%.{SIGNIFICANT}g", lineterminator="\n")
    return gzip.compress(text.encode(), mtime=0)


def _unpacked(path: Path, columns: Iterable[str]) -> pd.DataFrame:
    try:
        frame = pd.read_csv(io.BytesIO(gzip.decompress(path.read_bytes())), dtype=dict.fromkeys(TIMES_US, np.float64))
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise _unreadable(path, error) from error
    if list(frame.columns) != list(columns):
        raise PeakgateError(f"{path}: columns {', '.join(map(str, frame.columns))}; expected {', '.join(columns)}")
    return frame


def _unreadable(path: Path, error: Exception) -> PeakgateError:
    return PeakgateError(
        f"{path}: cannot be read ({error}); restore it, or measure with `python -m reports.planted.campaign`"
    )


def _refuse(process: Process, problem: str) -> NoReturn:
    raise PeakgateError(f"the run of {process.stage} pair {process.pair}, {process.side}: {problem}")
