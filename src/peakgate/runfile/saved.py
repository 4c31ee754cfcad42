"""Read and check one saved run, and keep runs as references beside the floors."""

from __future__ import annotations

import gzip
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, TypeGuard

from msgspec import structs

from peakgate.base import records
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import LARGEST_FILE_BYTES, read_limited, write_whole
from peakgate.base.formatting import short
from peakgate.base.records import Number
from peakgate.base.verdict import FAULTY, OVER_PEAK, Verdict
from peakgate.runfile.schema import (
    About,
    Benchmark,
    CaseRecord,
    CommitInfo,
    Imported,
    RunDocument,
    Unmeasured,
    columns,
)
from peakgate.spec.recorded import ARITHMETIC_ROOFS, EMULATOR_SLUG, means

# For normally distributed samples: IQR over standard deviation, and the standard error of the median times sqrt(n)
# over standard deviation.
IQR_IN_SDS = 1.349
MEDIAN_ERROR_IN_SDS = 1.2533

FEWEST_SAMPLES = 3
LARGEST_RELATIVE_SD = 10.0  # noisier samples decide nothing anyway; the limit keeps their logarithms finite
CLOCK_SKEW = timedelta(hours=1)  # allowed difference between this machine's clock and that of the one that measured

UNUSABLE = FAULTY | {Verdict.INCONCLUSIVE}
"""Verdicts of a run that leave a case without a usable time."""

REMEDY = "name a whole run that this version of Peakgate saved, or measure again"

LARGEST_KEPT_BYTES = 4_000_000
"""Larger runs do not belong in a repository, which keeps many."""


class ForeignFileError(PeakgateError):
    """A JSON file that is not a run of Peakgate: a search skips it, however new it is."""


class CaseResult(CaseRecord, frozen=True, kw_only=True):
    """One case of one run: its record, with the statistics of its samples from ``stats``.

    ``sampling_error`` is computed from the interquartile range, which a few disturbed samples do not widen.
    """

    time_us: float
    samples: int
    sampling_error: Annotated[
        Number | None, means("relative standard error of the median; missing with fewer than three samples", 3)
    ]
    min_us: Annotated[Number | None, means("shortest time", 39)] = None
    mean_us: Annotated[Number | None, means("mean time", 40)] = None
    max_us: Annotated[Number | None, means("longest time", 41)] = None

    @property
    def sample_sd(self) -> float | None:
        """The relative SD of the samples, from their interquartile range; None with fewer than three."""
        return self.sampling_error and self.sampling_error * math.sqrt(self.samples) / MEDIAN_ERROR_IN_SDS


CASE_COLUMNS = columns(CaseRecord, CaseResult)


@dataclass(frozen=True, slots=True)
class Run:
    """One session: every case measured once, on one GPU, at one commit.

    ``whole`` is False if only a selection of the tier's cases was run, so that an absent case is not a missing one.
    ``gpu`` is ``machine_info.gpu`` as saved. ``imported``: another tool measured it, see ``peakgate import``.
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
    imported: bool = False

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
    def memory_roof_gbs(self) -> float | None:
        """The fastest memory rate that the run measured on the GPU."""
        measured = self.gpu.get("roofs") or {}
        return max((rate for name, rate in measured.items() if rate and name not in ARITHMETIC_ROOFS), default=None)

    @property
    def emulated(self) -> bool:
        return self.slug == EMULATOR_SLUG

    @property
    def times_us(self) -> Mapping[str, float]:
        """Medians of the cases with a usable time, without host-bound ones."""
        decided = (each for each in self.cases.values() if each.verdict not in UNUSABLE and not each.host_bound)
        return {each.case: each.time_us for each in decided if each.case not in self.unmeasured}


def commit_label(commit: str, dirty: bool) -> str:
    """The commit's first twelve digits, and whether the tree had changes on top of it."""
    return commit[:12] + (" with uncommitted changes" if dirty else "")


def run_files(folder: Path) -> list[Path]:
    """Every file below a folder that may be a run, compressed ones included."""
    return [*folder.rglob("*.json"), *folder.rglob("*.json.gz")]


def now() -> datetime:
    """The current time, with which a run's date is compared."""
    return datetime.now(UTC)


def load_run(path: Path) -> Run:
    """Read and check the run at ``path``; PeakgateError if the file is invalid."""
    try:
        document = records.read(path, RunDocument, REMEDY)
    except records.RecordError as error:
        required = {"benchmarks", "machine_info", "peakgate_schema"}
        if isinstance(error.document, dict) and {"exit_code", "command"} <= error.document.keys():
            raise ForeignFileError(
                f"{path}: not a run, but what a command decided; give a run, such as latest, or one below .benchmarks/",
                Code.NO_RUN,
            ) from None
        if isinstance(error.document, dict) and (missing := required - error.document.keys()):
            raise ForeignFileError(
                f"{path}: not a run of Peakgate: it has no {' or '.join(sorted(missing))}; `peakgate import` converts "
                "what other tools wrote",
                Code.NO_RUN,
            ) from None
        raise
    return run_of(document, path)


def run_of(document: RunDocument, path: Path) -> Run:
    """The run that a document is; a PeakgateError names the file that it is from and what contradicts it."""
    gpu = document.machine_info.gpu
    for number, benchmark in enumerate(document.benchmarks):
        for field, given, expected in contradictions(benchmark, gpu):
            where = f"benchmarks[{number}].{field} ({short(benchmark.extra_info.case)})"
            raise PeakgateError(
                f"{path}: {where} is {short(given)}, expected {expected}; restore the file, or measure again",
                Code.NO_RUN,
            )
    try:
        taken = datetime.fromisoformat(document.datetime)
    except ValueError:
        raise PeakgateError(
            f"{path}: datetime is {short(document.datetime)}, expected an ISO date and time; {REMEDY}", Code.RECORD
        ) from None
    about, commit = document.peakgate or About(), document.commit_info or CommitInfo()
    run = Run(
        path=path,
        taken=taken if taken.tzinfo else taken.replace(tzinfo=UTC),
        commit=commit.id or "unknown",
        dirty=commit.dirty is True,
        benchmark_version=document.version or "unknown",
        tier=about.tier and about.tier.value,
        whole=about.whole,
        device=about.device,
        gpu=gpu,
        cases={each.extra_info.case: _result(each) for each in document.benchmarks},
        unmeasured={each.case: each for each in about.not_measured},
        imported=isinstance(about.imported, Imported),
    )
    if (problem := _contradiction(run, document)) is not None:
        raise PeakgateError(f"{path}: {problem}; measure again", Code.NO_RUN)
    return run


def _result(benchmark: Benchmark) -> CaseResult:
    stats, samples, error = benchmark.stats, int(benchmark.stats.rounds or 0), None
    if stats.iqr is not None and samples >= FEWEST_SAMPLES:
        relative_sd = min(stats.iqr / IQR_IN_SDS / stats.median, LARGEST_RELATIVE_SD)
        error = MEDIAN_ERROR_IN_SDS * relative_sd / math.sqrt(samples)
    timed: dict[str, Any] = {"time_us": stats.median * 1e6, "samples": samples, "sampling_error": error}
    for name, time_s in (("min_us", stats.min), ("mean_us", stats.mean), ("max_us", stats.max)):
        timed[name] = None if time_s is None else time_s * 1e6
    return CaseResult(**{**structs.asdict(benchmark.extra_info), **timed})


def _contradiction(run: Run, document: RunDocument) -> str | None:
    """What is implausible about a run, such as a future date or another GPU's folder; None if nothing is."""
    folder = run.path.absolute().parent
    kept = folder.name == "runs" and folder.parent.parent.name == "baselines"
    if run.taken > now() + CLOCK_SKEW:
        return f"taken at {run.taken:%Y-%m-%d %H:%M}, which is in the future: delete it, or set that clock"
    if kept and folder.parent.name != run.slug:
        return f"a run of {run.slug} among those of {folder.parent.name}: keep it under baselines/{run.slug}/runs"
    if run.whole and document.peakgate is not None and document.peakgate.partial is not None:
        return f"marked whole, but partial: {short(document.peakgate.partial)}"
    if len(run.cases) < len(document.benchmarks):
        counts = Counter(each.extra_info.case for each in document.benchmarks)
        return f"case {short(counts.most_common(1)[0][0])} is in it twice"
    for left in run.unmeasured.values():
        if left.verdict not in UNTIMED:
            expected = ", ".join(sorted(UNTIMED))
            return f"peakgate.not_measured has {short(left.case)} as {left.verdict}, expected one of {expected}"
    return None


def keep(runs: Sequence[Run], baselines: Path) -> dict[Path, bool]:
    """Write each run to ``<baselines>/<gpu>/runs/<when>-<tier>.json.gz``; returns the paths, and whether each is new.

    Only samples and white space are removed. A run already kept there, packed or as ``.json``, is left as it is. A
    PeakgateError names an emulated run, one that is too large, or one whose path holds another run; then nothing is
    written.
    """
    kept: dict[Path, bool] = {}
    new: dict[Path, bytes] = {}
    for run in runs:
        if run.emulated:
            raise PeakgateError(f"{run.path}: emulated times cannot be a reference; keep runs of a GPU", Code.EMULATED)
        plain = baselines / run.slug / "runs" / f"{run.taken:%Y%m%dT%H%M%S}-{run.tier or 'run'}.json"
        packed = plain.with_name(f"{plain.name}.gz")
        content = trimmed(records.read(run.path, dict[str, Any], REMEDY)).encode()
        if len(content) > LARGEST_KEPT_BYTES:
            raise PeakgateError(
                f"{run.path}: over {LARGEST_KEPT_BYTES} bytes even without samples; keep fewer cases", Code.UNREADABLE
            )
        there = next((path for path in (packed, plain) if path.exists()), None)
        if there is None:
            new[packed] = gzip.compress(content, mtime=0)
        elif records.unpacked(read_limited(there, LARGEST_FILE_BYTES), there, REMEDY) != content:
            raise PeakgateError(f"{there}: holds another run; saved runs are never overwritten", Code.TAKEN)
        kept[there or packed] = there is None
    for path, content in new.items():
        write_whole(path, content)
        load_run(path)
    return kept


def trimmed(document: dict[str, Any]) -> str:
    """The run file as text without samples; each benchmark and each other section is one line."""
    benchmarks = [
        benchmark | {"stats": {name: value for name, value in benchmark["stats"].items() if name != "data"}}
        for benchmark in document["benchmarks"]
    ]
    sections = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in document.items() if name != "benchmarks"]
    lines = ",\n  ".join(json.dumps(benchmark) for benchmark in benchmarks)
    return "{\n " + ",\n ".join([*sections, f'"benchmarks": [\n  {lines}\n ]']) + "\n}\n"


UNTIMED = FAULTY | {Verdict.NO_FLOOR, Verdict.INCONCLUSIVE}
"""The verdicts of a case without a time."""

OF_A_RUN = UNTIMED | {Verdict.PASS, Verdict.BELOW_FLOOR}
"""The verdicts of a run; all others are verdicts of a comparison."""

PEAKS = {"memory": "peak_gbs", "link": "peak_link_gbs", "nvlink": "peak_nvlink_gbs"}
"""The GPU's peak by the ``bound`` of a case whose fraction of peak is a fraction of a data rate."""

WRITTEN = {"time_us": 5e-5, "gbs": 5e-3, "tflops": 5e-5, "peak_fraction": 5e-6, "roof_fraction": 5e-6}
"""The largest rounding error of a figure in a run file."""


def contradictions(benchmark: Benchmark, gpu: Mapping[str, Any]) -> Iterator[tuple[str, object, str]]:
    """Path within the benchmark, value and expectation of each value that contradicts others of the file.

    A rate is work over the median, a fraction of peak is the rate over the limiting peak, a roof fraction is the rate
    over that roof, and a verdict follows from fraction and floor: an edited file contradicts itself. ``gpu`` is
    ``machine_info.gpu``.
    """
    info, stats = benchmark.extra_info, benchmark.stats
    least, most = (stats.median if each is None else each for each in (stats.min, stats.max))
    if not least <= stats.median <= most:
        yield "stats.median", stats.median, f"a time from stats.min, {least:.6g}, to stats.max, {most:.6g}"
    for name, wanted, why in computed(info, stats.median * 1e6, gpu):
        given = getattr(info, name)
        # Two ways to compute a figure may differ by the rounding of doubles, in addition to the file's rounding.
        if given is not None and not math.isclose(given, wanted, rel_tol=1e-6, abs_tol=1.01 * WRITTEN[name]):
            yield f"extra_info.{name}", given, f"{wanted:.9g}, {why}"

    fraction, error, floor, verdict = info.peak_fraction, info.relative_error, info.floor, info.verdict
    if verdict not in OF_A_RUN:
        yield "extra_info.verdict", verdict.value, f"one of a run: {', '.join(sorted(OF_A_RUN))}"
    if verdict in FAULTY:  # its figures may be any
        return
    if fraction is not None and fraction > OVER_PEAK:
        yield "extra_info.peak_fraction", fraction, f"at most {OVER_PEAK}: a greater one is impossible"
    if info.error_over_bound is not None:
        name, error, most = "error_over_bound", info.error_over_bound, 1.0
    else:
        # Older runs have neither the error of each element nor a tolerance. An error larger than the largest expected
        # value exceeds every tolerance.
        name, most = "relative_error", 1.0 if info.tolerance is None else info.tolerance
    if error is not None and error > most:
        yield f"extra_info.{name}", error, f"at most {most:.3g} without the verdict WRONG"
    if floor is not None and fraction is None and verdict in (Verdict.PASS, Verdict.BELOW_FLOOR):
        yield "extra_info.peak_fraction", None, f"a fraction of peak, which {verdict} at a floor is judged by"
    if floor is None or fraction is None:
        return
    rounding = 1.01 * WRITTEN["peak_fraction"]
    allowed = {Verdict.PASS} if fraction >= floor + rounding else {Verdict.BELOW_FLOOR}
    allowed |= {Verdict.PASS} if fraction >= floor - rounding else set()
    if verdict not in allowed | {Verdict.INCONCLUSIVE}:
        judged = f"{' or '.join(sorted(allowed))} at {fraction:.5g} of peak with a floor of {floor:.5g}"
        yield "extra_info.verdict", verdict.value, judged


def computed(info: CaseRecord, median_us: float, gpu: Mapping[str, Any]) -> Iterator[tuple[str, float, str]]:
    """Name, value and origin of each figure that follows from others; rates of imported runs are not recomputed."""
    yield "time_us", median_us, "the median in stats"
    gbs = None if info.bytes is None else info.bytes / median_us / 1e3
    tflops = None if info.flops is None else info.flops / median_us / 1e6
    if gbs is not None:
        yield "gbs", gbs, "its bytes over the median"
    if tflops is not None:
        yield "tflops", tflops, "its flops over the median"
    if info.bound == "compute":  # its own peak, that of the type of its operations, or that of FP32
        by_type = gpu.get("peak_tensor_tflops") or {}
        rate, peak = tflops, info.peak_tflops or by_type.get(info.math) or gpu.get("peak_tflops")
    else:
        rate, peak = gbs, gpu.get(PEAKS.get(info.bound or "", ""))
    if _is_rate(peak) and rate is not None:
        yield "peak_fraction", rate / peak, f"its rate of {rate:.6g} over the peak of {peak:.6g}"
    roof = (gpu.get("roofs") or {}).get(info.roof)
    rate = tflops if (info.roof or "").split("_")[0] in ARITHMETIC_ROOFS else gbs
    if _is_rate(roof) and rate is not None:
        yield "roof_fraction", rate / roof, f"its rate of {rate:.6g} over the roof {info.roof} of {roof:.6g}"


def _is_rate(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
