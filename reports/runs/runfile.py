"""Read one saved run: pytest-benchmark's own JSON with what Peakgate adds, checked before anything trusts it."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import orjson
from peakgate.case import EMULATOR_SLUG, SCHEMA
from peakgate.common.errors import PeakgateError
from peakgate.common.text import counted
from peakgate.reports.runs import strict
from peakgate.verdict import FAULTY, Verdict

IQR_IN_SDS = 1.349
MEDIAN_ERROR_IN_SDS = 1.2533
"""For normal noise: the interquartile range, and the standard error of a median times the root of the count."""

FEWEST_SAMPLES = 3

LARGEST_RELATIVE_SD = 10.0
"""Noisier samples than this decide nothing either way; their logarithms stay finite."""

UNUSABLE = FAULTY | {Verdict.INCONCLUSIVE}
"""Verdicts of a run that leave a case without a usable time."""


class ForeignFileError(PeakgateError):
    """A JSON file that is no run of this tool: a search passes it over, however new it is."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One case as one run measured it; None where the run does not say.

    ``time_us`` is the median; ``sampling_error`` the relative standard error of that median, from the samples'
    interquartile range, which a few disturbed samples do not widen; None with fewer than three samples.
    """

    case: str
    time_us: float
    samples: int
    sampling_error: float | None
    verdict: Verdict | None
    reason: str
    family: str | None
    stage: str | None
    size: str | None
    block: str | None
    variant: str | None
    dtype: str | None
    tier: str | None
    bound: str | None
    roof: str | None
    fingerprint: str | None
    occupancy_limiter: str | None
    gbs: float | None
    tflops: float | None
    peak_fraction: float | None
    roof_fraction: float | None
    floor: float | None
    registers: float | None
    spill_bytes: float | None
    shared_bytes: float | None
    occupancy: float | None
    sm_clock_mhz: float | None
    discarded: float | None
    relative_error: float | None
    tolerance: float | None = None
    bytes: float | None = None
    flops: float | None = None
    sampling: str | None = None
    timer: str | None = None
    trimmed_mean_us: float | None = None
    control_us: float | None = None
    """What its process measured of the control kernel right after it."""

    host_bound: bool = False
    """The host has as much part in the time as the GPU."""

    @property
    def below_floor(self) -> bool:
        """Whether the run itself found the case below its floor."""
        return self.verdict is Verdict.BELOW_FLOOR

    @property
    def library(self) -> bool:
        """Whether the driver or a vendor's library did it: a GPU run records the machine code of every kernel."""
        return self.fingerprint is None and self.registers is None


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """A case the run could not time, and why: WRONG results, or no answer."""

    case: str
    verdict: Verdict
    reason: str


@dataclass(frozen=True, slots=True)
class Run:
    """One session: every case measured once, on one GPU, at one commit.

    ``whole`` is False when only a selection of the tier's cases was run: a case it lacks was not looked for.
    ``gpu`` is ``machine_info.gpu`` as saved. ``notes`` are oddities that do not keep the run from being read.
    """

    path: Path
    taken: datetime
    commit: str
    dirty: bool
    benchmark_version: str
    tier: str | None
    whole: bool
    device: str | None
    gpu: Mapping[str, Any]
    cases: Mapping[str, CaseResult]
    unmeasured: Mapping[str, Unmeasured]
    notes: tuple[str, ...] = ()

    @property
    def commit_label(self) -> str:
        """The commit's first twelve digits, and whether the tree had changes on top of it."""
        return self.commit[:12] + (" with uncommitted changes" if self.dirty else "")

    @property
    def slug(self) -> str:
        return str(self.gpu["slug"])

    @property
    def uuid(self) -> str | None:
        return None if self.gpu.get("uuid") is None else str(self.gpu["uuid"])

    @property
    def driver(self) -> str | None:
        return None if self.gpu.get("driver") is None else str(self.gpu["driver"])

    @property
    def emulated(self) -> bool:
        return self.slug == EMULATOR_SLUG


TEXTS = (
    *("family", "stage", "size", "block", "variant", "dtype", "tier", "bound", "roof", "fingerprint"),
    *("occupancy_limiter", "sampling", "timer"),
)
NUMBERS = (
    *("gbs", "tflops", "peak_fraction", "roof_fraction", "floor", "registers", "spill_bytes", "shared_bytes"),
    *("occupancy", "sm_clock_mhz", "discarded", "relative_error", "tolerance", "bytes", "flops"),
    *("trimmed_mean_us", "control_us"),
)

PLAIN_NUMBERS, LARGEST = frozenset({int, float}), sys.float_info.max
"""A truth value is no number, and neither is an infinity."""


def now() -> datetime:
    """The time to which a run's date is compared."""
    return datetime.now(UTC)


def load_run(path: Path) -> Run:
    """Read and check the run at ``path``; a PeakgateError names the file and what is wrong with it."""
    document = load_document(path)
    facts = session_facts(path, document)
    if problem := strict.wrong_date(facts["taken"], now()):
        refuse(path, problem, "delete it, or set the clock of the machine that measured")
    cases, notes = _cases(path, document["benchmarks"])
    return Run(
        **facts,
        benchmark_version=text_of(path, document, "version", "the file") or "unknown",
        device=text_of(path, about(path, document), "device", "peakgate"),
        gpu=document["machine_info"]["gpu"],
        cases=cases,
        unmeasured=_unmeasured(path, about(path, document).get("not_measured", [])),
        notes=notes,
    )


def load_document(path: Path) -> Mapping[str, Any]:
    """The JSON of a run file whose schema and GPU are known; a PeakgateError names what is wrong with any other."""
    document = _parse(path)
    if "benchmarks" not in document or "machine_info" not in document:
        raise ForeignFileError(
            f"{path}: not a pytest-benchmark file (no benchmarks or machine_info); name a run that was saved whole"
        )
    if "peakgate_schema" not in document:
        raise ForeignFileError(
            f"{path}: a pytest-benchmark file, not a Peakgate run (no peakgate_schema); name one saved by the suite"
        )
    if document["peakgate_schema"] != SCHEMA:
        refuse(
            path,
            f"peakgate_schema is {strict.short(document['peakgate_schema'])}, this version reads {SCHEMA}",
            "use the Peakgate version that wrote it, or measure again",
        )
    gpu = _mapping(path, _mapping(path, document["machine_info"], "machine_info").get("gpu"), "machine_info.gpu")
    if problem := strict.wrong_gpu(gpu):
        refuse(path, problem, "measure again: a run without its GPU cannot be compared")
    if problem := strict.wrong_folder(path, gpu["slug"]):
        refuse(path, problem, f"keep it under baselines/{gpu['slug']}/runs")
    if not isinstance(document["benchmarks"], list) or not document["benchmarks"]:
        refuse(path, "no benchmarks in it", "measure again: an empty run cannot be compared")
    return document


def session_facts(path: Path, document: Mapping[str, Any]) -> dict[str, Any]:
    """What every reader needs of a run besides its cases, by the names of ``Run``'s fields."""
    commit = _mapping(path, document.get("commit_info") or {}, "commit_info")
    section = about(path, document)
    if problem := strict.wrong_tier(section.get("tier")):
        refuse(path, problem, "measure again")
    if not isinstance(section.get("whole", True), bool):
        refuse(path, f"whole is {strict.short(section['whole'])}, not true or false", "measure again")
    if section.get("partial") is not None and section.get("whole") is not False:
        refuse(path, f"marked whole, but partial: {strict.short(section['partial'])}", "measure again")
    return {
        "path": path,
        "taken": _moment(path, document.get("datetime")),
        "commit": text_of(path, commit, "id", "commit_info") or "unknown",
        "dirty": bool(commit.get("dirty", False)),
        "tier": text_of(path, section, "tier", "peakgate"),
        "whole": section.get("whole") is not False,
    }


def about(path: Path, document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The section that Peakgate adds to the document."""
    return _mapping(path, document.get("peakgate") or {}, "peakgate")


def _parse(path: Path) -> Mapping[str, Any]:
    """The JSON in a file, by the quick parser; what it rejects (NaN, a byte order mark, an error) by Python's own."""
    try:
        content = path.read_bytes()
        try:
            document = orjson.loads(content)
        except orjson.JSONDecodeError:
            document = json.loads(content.decode("utf-8-sig"))
    except OSError as error:
        refuse(path, f"cannot be read ({error.strerror})", "give the path of a saved run")
    except UnicodeDecodeError:
        refuse(path, "not text in UTF-8", "give the path of a saved run (*.json)")
    except json.JSONDecodeError as error:
        refuse(
            path,
            f"truncated or invalid JSON at line {error.lineno}, column {error.colno} ({error.msg})",
            "restore it or measure again",
        )
    except (RecursionError, ValueError) as error:
        refuse(path, f"JSON that no run file holds ({error})", "give the path of a saved run")
    return _mapping(path, document, "the top level")


def _cases(path: Path, benchmarks: Sequence[object]) -> tuple[Mapping[str, CaseResult], tuple[str, ...]]:
    cases: dict[str, CaseResult] = {}
    disagreeing = []
    for index, entry in enumerate(benchmarks):
        extra, case, median_s = read_median(path, entry, index)
        result = _case(path, entry, extra, case, median_s)
        if result.case in cases:
            refuse(path, f"case {result.case} is in it twice", "measure again: a case id names one benchmark")
        cases[result.case] = result
        claimed = _number(path, extra, "time_us", result.case)
        if claimed is not None and not math.isclose(claimed, result.time_us, rel_tol=1e-3):
            disagreeing.append(result.case)
    if not disagreeing:
        return cases, ()
    where = f"{counted(len(disagreeing), 'case')} (first: {disagreeing[0]})"
    note = f"{path}: time_us is not stats.median in {where}; the stats count"
    return cases, (note,)


def read_median(path: Path, benchmark: object, index: int) -> tuple[Mapping[str, Any], str, float]:
    """The ``extra_info`` of benchmark number ``index``, its case id and its median in seconds, checked."""
    record = _mapping(path, benchmark, "benchmarks[{}]", index)
    extra = _mapping(path, record.get("extra_info"), "benchmarks[{}].extra_info", index)
    case = extra.get("case")
    if not isinstance(case, str) or not case or strict.too_long(case):
        refuse(path, f"benchmarks[{index}] has no extra_info.case", "name a run saved by the suite")
    median_s = _number(path, _mapping(path, record.get("stats"), "stats of {}", case), "median", case)
    if median_s is None or median_s <= 0:
        refuse(path, f"stats.median of {case} is {median_s!r}, not a time in seconds", "measure again")
    if problem := strict.wrong_time(median_s):
        refuse(path, f"stats.median of {case}: {problem}", "measure again")
    return extra, case, median_s


def _case(path: Path, benchmark: Any, extra: Mapping[str, Any], case: str, median_s: float) -> CaseResult:
    stats = benchmark["stats"]
    samples = int(_number(path, stats, "rounds", case) or 0)
    iqr_s = _number(path, stats, "iqr", case)
    sampling_error = None
    if iqr_s is not None and samples >= FEWEST_SAMPLES:
        relative_sd = min(iqr_s / IQR_IN_SDS / median_s, LARGEST_RELATIVE_SD)
        sampling_error = MEDIAN_ERROR_IN_SDS * relative_sd / math.sqrt(samples)
    verdict = extra.get("verdict")
    recorded: dict[str, Any] = {name: text_of(path, extra, name, case) for name in TEXTS}
    recorded |= {name: _number(path, extra, name, case) for name in NUMBERS}
    judged = None if verdict is None else _verdict(path, verdict, case)
    figures = {name: recorded[name] for name in ("peak_fraction", "floor", "relative_error", "tolerance")}
    if problem := strict.wrong_figures(judged, **figures):
        refuse(path, f"{case}: {problem}", "measure again: its figures contradict each other")
    return CaseResult(
        case=case,
        time_us=median_s * 1e6,
        samples=samples,
        sampling_error=sampling_error,
        verdict=judged,
        reason=text_of(path, extra, "reason", case) or "",
        host_bound=extra.get("host_bound") is True,
        **recorded,
    )


def _unmeasured(path: Path, entries: object) -> Mapping[str, Unmeasured]:
    if not isinstance(entries, list):
        refuse(path, "peakgate.not_measured is not a list", "measure again")
    found: dict[str, Unmeasured] = {}
    for index, entry in enumerate(entries):
        record = _mapping(path, entry, f"not_measured[{index}]")
        case = record.get("case")
        if not isinstance(case, str) or not case or strict.too_long(case):
            refuse(path, f"not_measured[{index}] names no case", "measure again")
        found[case] = Unmeasured(
            case, _verdict(path, record.get("verdict"), case), text_of(path, record, "reason", case) or ""
        )
    return found


def _verdict(path: Path, value: object, case: str) -> Verdict:
    try:
        return Verdict(str(value))
    except ValueError:
        known = ", ".join(Verdict)
        refuse(
            path,
            f"verdict {strict.short(value)} of {case} is none of {known}",
            "use the Peakgate version that wrote it",
        )


def _mapping(path: Path, value: object, where: str, *of: object) -> Mapping[str, Any]:
    """The value if it is a table; ``where`` it stands is composed of its ``{}`` and ``of`` in an error alone."""
    if not isinstance(value, dict):
        refuse(path, f"{where.format(*of)} is not a table", "name a run saved by the suite")
    return value


def _number(path: Path, record: Mapping[str, Any], name: str, case: str) -> float | None:
    value = record.get(name)
    if value is not None and not (type(value) in PLAIN_NUMBERS and 0 <= value <= LARGEST):
        refuse(path, f"{name} of {case} is {strict.short(value)}, not a finite number from 0 up", "measure again")
    return value


def text_of(path: Path, record: Mapping[str, Any], name: str, where: str) -> str | None:
    """The text under that name, None where there is none; anything else is refused."""
    value = record.get(name)
    if value is not None and (not isinstance(value, str) or (strict.too_long(value) and name != "reason")):
        refuse(
            path,
            f"{name} of {where} is {strict.short(value)}, not text of at most {strict.LONGEST_TEXT} letters",
            "name a run saved by the suite",
        )
    return value


def _moment(path: Path, value: object) -> datetime:
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        refuse(path, f"datetime is {strict.short(value)}, not an ISO date and time", "measure again")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def refuse(path: Path, problem: str, remedy: str) -> NoReturn:
    """Raise the error of a run file: which file, what is wrong with it, what to do."""
    raise PeakgateError(f"{path}: {problem}; {remedy}")
