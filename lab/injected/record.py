"""The record of a campaign: a folder from which the page's tables are computed.

``injected.json`` has GPU, driver, commits, ground truth and whole runs of ``ab``; ``mutants.json`` the verdicts on
slowdown mutants; ``same.csv.gz`` and ``steps.csv.gz`` one row per process and case.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from lab import records
from peakgate.base.errors import PeakgateError

SCHEMA = 1
FACTS, MUTANTS = "injected.json", "mutants.json"
STEP = re.compile(r"steps\.[a-z_]+-(?P<duration>\d+)us-(?P<share>\d+)pm-\d+")
COLUMNS = ["stage", "pair", "side", "case", "time_us", "control_us"]
"""Columns of a row per process and case, in the order of measurement; the last three are those of ``Timed``."""

Form = TypeVar("Form")


class Experiment(StrEnum):
    """Kinds of head: unchanged, slowed copies, all slowdown mutants.

    SAME_PAIRS and PAIRS are screening pairs of unchanged code and of the slowed copies, with every case in each, from
    which gates are resampled.
    """

    SAME = "same"
    SAME_PAIRS = "same-pairs"
    STEPS = "steps"
    PAIRS = "pairs"
    MUTANTS = "mutants"


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """A duration and an injected slowdown, in per mille of that duration."""

    duration_us: int
    permille: int


@dataclass(frozen=True, slots=True)
class Gate:
    """One whole ``ab``: exit code, number of cases, pairs of processes, wall time, and verdicts other than SAME."""

    experiment: Experiment
    exit_code: int
    cases: int
    screening_pairs: int
    confirming_pairs: int
    seconds: float
    verdicts: Mapping[str, str]


def cell_of(case: str) -> Cell | None:
    """The cell of a slowed copy, by its case id; None for another case."""
    named = STEP.fullmatch(case)
    return None if named is None else Cell(int(named["duration"]), int(named["share"]))


def read_json(path: Path, form: Callable[[Any], Form]) -> Form:
    """Read a JSON file, packed or not, and convert it. Raises PeakgateError if it is missing or has another form."""
    try:
        return form(json.loads(records.unpack(path) if path.suffix == ".xz" else path.read_bytes()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise PeakgateError(
            f"{path}: {error!r}; expected a file of a campaign or its record: restore it, or measure that experiment"
            " again with `python -m lab.injected.campaign`"
        ) from error


def read_facts(folder: Path) -> tuple[list[Gate], dict[Cell, float]]:
    """The whole runs of ``ab``, and the ground truth of the slowed copies: ln(head / base) by cell.

    Schema 1 calls the ground truth ``planted``.
    """

    def form(content: Mapping[str, Any]) -> tuple[list[Gate], dict[Cell, float]]:
        if content["schema"] != SCHEMA:
            raise ValueError(f"schema {content['schema']!r}, this version reads {SCHEMA}")
        truth = {Cell(each["duration_us"], each["permille"]): each["log_shift"] for each in content["planted"]}
        known = [each for each in content["gates"] if each["experiment"] in tuple(Experiment)]  # "one" is of wall times
        return [Gate(**{**each, "experiment": Experiment(each["experiment"])}) for each in known], truth

    return read_json(folder / FACTS, form)


def write_times(folder: Path, experiment: Experiment, times: pd.DataFrame) -> Path:
    """Write a frame of COLUMNS and return the path; equal frames produce equal bytes."""
    path = folder / f"{experiment}.csv.gz"
    compression = {"method": "gzip", "mtime": 0}
    times.to_csv(path, index=False, float_format="%.7g", lineterminator="\n", compression=compression)
    return path


def read_times(folder: Path, experiment: Experiment) -> pd.DataFrame:
    """Read what ``write_times`` wrote. Raises PeakgateError if the file is missing or lacks one of COLUMNS."""
    path = folder / f"{experiment}.csv.gz"
    try:
        return pd.read_csv(path, usecols=COLUMNS)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise PeakgateError(f"{path}: cannot be read ({error}); name the folder of a record, or restore it") from error
