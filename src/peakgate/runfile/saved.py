"""Read one saved run: pytest-benchmark's own JSON with what Peakgate adds, checked before anything trusts it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Required, TypedDict

from msgspec import Meta, Struct, structs

from peakgate.base import records
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.records import Name, Number, Text
from peakgate.base.verdict import FAULTY, Verdict
from peakgate.runfile.figures import UNTIMED, contradictions
from peakgate.spec.case import EMULATOR_SLUG, Tier, TunedChoice

IQR_IN_SDS = 1.349
MEDIAN_ERROR_IN_SDS = 1.2533
"""For normal noise: the interquartile range, and the standard error of a median times the root of the count."""

FEWEST_SAMPLES = 3

LARGEST_RELATIVE_SD = 10.0
"""Noisier samples than this decide nothing either way; their logarithms stay finite."""

UNUSABLE = FAULTY | {Verdict.INCONCLUSIVE}
"""Verdicts of a run that leave a case without a usable time."""

CLOCK_SKEW = timedelta(hours=1)
"""How far the clocks of the machine that measured and of this one may differ."""

REMEDY = "name a whole run that this version of Peakgate saved, or measure again"

Slug = Annotated[
    str,
    Meta(
        max_length=100,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*\Z",
        description="a plain folder name: no separator, no leading dot, no two dots in a row",
    ),
]
Median = Annotated[float, Meta(ge=1e-9, le=1e6, description="a kernel's time in seconds, from 1 ns to eleven days")]
Fact = Text | int | float | bool | None


class ForeignFileError(PeakgateError):
    """A JSON file that is no run of this tool: a search passes it over, however new it is."""


class RunGpuFacts(TypedDict, total=False):
    """Facts of ``machine_info.gpu`` in a frame of runs, each in a column ``gpu_NAME``."""

    slug: Required[Slug]
    uuid: Fact
    name: Fact
    driver: Fact
    cuda_driver: Fact
    nvrtc: Fact
    cupy: Fact
    cublas: Fact
    vbios: Fact
    sm_clock_max_mhz: Fact
    sm_clock_mhz: Fact
    memory_clock_max_mhz: Fact
    power_limit_w: Fact
    ecc: Fact
    mig: Fact
    peak_gbs: Fact
    peak_tflops: Fact


ENVIRONMENT = ("driver", "cuda_driver", "nvrtc", "cupy", "cublas", "vbios", "power_limit_w", "ecc", "mig")
"""Facts of a run's machine that its times may depend on, and that no commit changes."""


class Gpu(RunGpuFacts, total=False):
    """Fields read from ``machine_info.gpu``."""

    peak_derivation: Fact
    peak_tensor_tflops: dict[str, Number | None] | None
    preflight: dict[str, Any] | None
    roofs: dict[str, Number | None] | None


class RecordedEnergy(Struct, frozen=True):
    """``energy`` of a case: of one launch, over loops, and the power of the GPU in them and without work."""

    joules: Number
    least_joules: Number
    most_joules: Number
    power_w: Number | None = None
    idle_w: Number | None = None


class RecordedCase(Struct, frozen=True):
    """Fields of one case in a run file other than its time; None if absent."""

    case: Name
    family: Text | None = None
    stage: Text | None = None
    size: Text | None = None
    block: Text | None = None
    variant: Text | None = None
    dtype: Text | None = None
    math: Text | None = None
    tier: Text | None = None
    bound: Text | None = None
    roof: Text | None = None
    fingerprint: Text | None = None
    occupancy_limiter: Text | None = None
    sampling: Text | None = None
    gbs: Number | None = None
    tflops: Number | None = None
    peak_fraction: Number | None = None
    roof_fraction: Number | None = None
    floor: Number | None = None
    registers: Number | None = None
    spill_bytes: Number | None = None
    shared_bytes: Number | None = None
    occupancy: Number | None = None
    sm_clock_mhz: Number | None = None
    power_w: Number | None = None
    discarded: Number | None = None
    relative_error: Number | None = None
    error_over_bound: Number | None = None
    """The largest error of an element over its bound; not in runs before 0.3, judged by the largest element."""

    tolerance: Number | None = None
    bytes: Number | None = None
    flops: Number | None = None
    trimmed_mean_us: Number | None = None
    control_us: Number | None = None
    """Time of the control kernel, measured by the same process right after it."""

    pair_ratios: tuple[Number, ...] | None = None
    """Of each pair that was sampled in turns with another build, this one's time over that one's."""

    tuned: tuple[TunedChoice, ...] | None = None
    """What tuners chose for its call."""

    energy: RecordedEnergy | None = None
    """Of one launch, where the run measured it."""

    verdict: Verdict | None = None
    reason: str = ""
    host_bound: bool = False
    """The host has as much part in the time as the GPU."""


_OTHERS = ("case", "pair_ratios", "tuned", "energy", "verdict", "reason", "host_bound")
_TYPES = {each.name: each.type for each in structs.fields(RecordedCase) if each.name not in _OTHERS}
TEXTS = tuple(name for name, kind in _TYPES.items() if kind == Text | None)
NUMBERS = tuple(name for name, kind in _TYPES.items() if name not in TEXTS)
"""Columns of a case that are texts, and that are numbers."""
_RECORDED = tuple(each.name for each in structs.fields(RecordedCase))


class CaseResult(RecordedCase, frozen=True, kw_only=True):
    """One case as one run measured it.

    ``time_us`` is the median; ``sampling_error`` the relative standard error of that median, from the samples'
    interquartile range, which a few disturbed samples do not widen; None with fewer than three samples.
    """

    time_us: float
    samples: int
    sampling_error: float | None

    @property
    def sample_sd(self) -> float | None:
        """The relative SD of the samples, from their interquartile range; None with fewer than three."""
        return self.sampling_error and self.sampling_error * math.sqrt(self.samples) / MEDIAN_ERROR_IN_SDS


class ExtraInfo(RecordedCase, frozen=True, kw_only=True):
    """``extra_info`` of a case, which a run always judges."""

    verdict: Verdict
    time_us: Number | None = None
    peak_tflops: Number | None = None
    """The peak that the case gives for its operations."""


class Unmeasured(Struct, frozen=True):
    """A case the run could not time, and why: WRONG results, or no answer."""

    case: Name
    verdict: Verdict
    reason: str = ""


class BenchVerdict(Struct):
    """Fields read from ``bench.json``, which a run writes even if it timed nothing."""

    cases: list[Unmeasured]
    other_builds: list[Unmeasured] = []


class Stats(Struct):
    """pytest-benchmark's figures of one case, in seconds."""

    median: Median
    min: Number | None = None
    max: Number | None = None
    rounds: Number | None = None
    iqr: Number | None = None


class Benchmark(Struct):
    """One entry of ``benchmarks``."""

    extra_info: ExtraInfo
    stats: Stats


class Machine(Struct):
    """``machine_info``."""

    gpu: Gpu


class CommitInfo(Struct):
    """``commit_info``."""

    id: Text | None = None
    dirty: bool | None = None


class About(Struct):
    """The section that Peakgate adds to the document."""

    tier: Tier | None = None
    device: Text | None = None
    whole: bool = True
    partial: Any = None
    not_measured: tuple[Unmeasured, ...] = ()


class RunDocument(Struct):
    """A run file."""

    peakgate_schema: Literal[1]
    machine_info: Machine
    benchmarks: Annotated[list[Benchmark], Meta(min_length=1, description="a list of at least one benchmark")]
    datetime: Text
    commit_info: CommitInfo | None = None
    peakgate: About | None = None
    version: Text | None = None


REQUIRED = {"benchmarks", "machine_info", "peakgate_schema"}
"""Keys of every run file, of any version."""


@dataclass(frozen=True, slots=True)
class Run:
    """One session: every case measured once, on one GPU, at one commit.

    ``whole`` is False when only a selection of the tier's cases was run: a case it lacks was not looked for.
    ``gpu`` is ``machine_info.gpu`` as saved.
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

    @property
    def commit_label(self) -> str:
        """The commit's first twelve digits, and whether the tree had changes on top of it."""
        return commit_label(self.commit, self.dirty)

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

    @property
    def times_us(self) -> Mapping[str, float]:
        """Medians of the cases that it could decide, without those whose time is the host's as much as the GPU's."""
        decided = (each for each in self.cases.values() if each.verdict not in UNUSABLE and not each.host_bound)
        return {each.case: each.time_us for each in decided if each.case not in self.unmeasured}


def commit_label(commit: str, dirty: bool) -> str:  # the two facts of a run that name its code
    """The commit's first twelve digits, and whether the tree had changes on top of it."""
    return commit[:12] + (" with uncommitted changes" if dirty else "")


def run_files(folder: Path) -> list[Path]:
    """Every file below a folder that may be a run, packed ones too."""
    return [*folder.rglob("*.json"), *folder.rglob("*.json.gz")]


def now() -> datetime:
    """The time to which a run's date is compared."""
    return datetime.now(UTC)


def load_run(path: Path) -> Run:
    """Read and check the run at ``path``; a PeakgateError names the file and what is wrong with it."""
    try:
        document = records.read(path, RunDocument, REMEDY)
    except records.RecordError as error:
        if isinstance(error.document, dict) and (missing := REQUIRED - error.document.keys()):
            raise ForeignFileError(
                f"{path}: no run of Peakgate: it has no {' or '.join(sorted(missing))}", Code.NO_RUN
            ) from None
        raise
    about, commit = document.peakgate or About(), document.commit_info or CommitInfo()
    _refuse_contradictions(path, document)
    results = [_result(each) for each in document.benchmarks]
    run = Run(
        path=path,
        taken=_moment(path, document.datetime),
        commit=commit.id or "unknown",
        dirty=commit.dirty is True,
        benchmark_version=document.version or "unknown",
        tier=about.tier and about.tier.value,
        whole=about.whole,
        device=about.device,
        gpu=document.machine_info.gpu,
        cases={each.case: each for each in results},
        unmeasured={each.case: each for each in about.not_measured},
    )
    problem = _contradiction(run, about.partial, results)
    if problem is not None:
        raise PeakgateError(f"{path}: {problem}; measure again", Code.NO_RUN)
    return run


def _refuse_contradictions(path: Path, document: RunDocument) -> None:
    """PeakgateError for the first figure that others of its benchmark do not allow."""
    for number, benchmark in enumerate(document.benchmarks):
        found = next(contradictions(benchmark, document.machine_info.gpu), None)
        if found is not None:
            where = f"benchmarks[{number}].{found.field} ({records.short(benchmark.extra_info.case)})"
            raise PeakgateError(
                f"{path}: {where} is {records.short(found.given)}, expected {found.expected}; restore the file, or "
                "measure again",
                Code.NO_RUN,
            )


def _moment(path: Path, text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        given = records.short(text)
        raise PeakgateError(
            f"{path}: datetime is {given}, expected an ISO date and time; {REMEDY}", Code.RECORD
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _result(benchmark: Benchmark) -> CaseResult:
    stats, samples, error = benchmark.stats, int(benchmark.stats.rounds or 0), None
    if stats.iqr is not None and samples >= FEWEST_SAMPLES:
        relative_sd = min(stats.iqr / IQR_IN_SDS / stats.median, LARGEST_RELATIVE_SD)
        error = MEDIAN_ERROR_IN_SDS * relative_sd / math.sqrt(samples)
    recorded = {name: getattr(benchmark.extra_info, name) for name in _RECORDED}
    return CaseResult(**recorded, time_us=stats.median * 1e6, samples=samples, sampling_error=error)


def _contradiction(run: Run, partial: object, results: Sequence[CaseResult]) -> str | None:
    """Contradiction in what a run says of itself: a date to come, another GPU's folder; None if there is none."""
    folder = run.path.absolute().parent
    kept = folder.name == "runs" and folder.parent.parent.name == "baselines"
    if run.taken > now() + CLOCK_SKEW:
        return f"taken at {run.taken:%Y-%m-%d %H:%M}, which is in the future: delete it, or set that clock"
    if kept and folder.parent.name != run.slug:
        return f"a run of {run.slug} among those of {folder.parent.name}: keep it under baselines/{run.slug}/runs"
    if run.whole and partial is not None:
        return f"marked whole, but partial: {records.short(partial)}"
    if len(run.cases) < len(results):
        twice = next(case for case, count in Counter(each.case for each in results).items() if count > 1)
        return f"case {records.short(twice)} is in it twice"
    left = next((each for each in run.unmeasured.values() if each.verdict not in UNTIMED), None)
    if left is not None:
        expected = ", ".join(sorted(UNTIMED))
        return f"peakgate.not_measured has {records.short(left.case)} as {left.verdict}, expected one of {expected}"
    return None
