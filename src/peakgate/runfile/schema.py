"""The schema of the run file: the one list of its fields, used to write, read and document it.

A run file is pytest-benchmark's JSON. Peakgate fills in ``extra_info`` of each benchmark (``CaseRecord``),
``machine_info.gpu`` (``Gpu``), ``peakgate`` (``About``) and the schema's number. Each field has a type, which is
checked when a file is read, and a meaning; units are part of the names. Fields that older files lack have a default,
which means that the value is unknown. A new field of a case is added here, and its value in ``session.outcome``.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple, TypedDict, get_type_hints

from msgspec import UNSET, Meta, Struct, UnsetType

from peakgate.base.records import Finite, Name, Number, Text
from peakgate.base.verdict import Verdict
from peakgate.spec.recorded import CaseCounters, Energy, Metric, Tier, TunedChoice, WorkNote, means

TEXT, NUMBER, FLAG, ANY = "string", "float64", "bool", "object"

Slug = Annotated[
    str,
    Meta(
        max_length=100,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*\Z",
        description="a plain folder name: no separator, no leading dot, no two dots in a row",
    ),
]
SHORTEST_S = 1e-9
"""The shortest time that a run file may hold."""
Median = Annotated[
    float, Meta(ge=SHORTEST_S, le=1e6, description="a kernel's time in seconds, from 1 ns to eleven days")
]
Fact = Text | int | float | bool | None


class Unmeasured(Struct, frozen=True):
    """A case that the run could not time."""

    case: Annotated[Name, means("the case id")]
    verdict: Annotated[Verdict, means("its verdict")]
    reason: Annotated[str, means("why")] = ""


class CaseRecord(Struct, frozen=True, kw_only=True):
    """One case: ``extra_info`` of its benchmark. What is unknown or not claimed is null."""

    # What the case is, as its family or its test states.
    case: Annotated[Name, means("the case id", 0)]
    family: Annotated[Text | None, means("the family, or the file of a benchmark test", 6)] = None
    stage: Annotated[Text | None, means("the kernel's stage", 7)] = None
    size: Annotated[Text | None, means("the size's part of the case id", 8)] = None
    block: Annotated[Text | None, means("the block's part of the case id", 9)] = None
    variant: Annotated[Text | None, means("the variant's part of the case id", 10)] = None
    state: Annotated[Text | None, means("state of the caches, or how it is launched: `cold`, `warm` or `graph`")] = None
    gpus: Annotated[Number | None, means("how many GPUs it runs on")] = None
    metric: Annotated[
        Metric | None, means("what its time is: `gpu`, or `launch`, the time that a call takes on the host", 42)
    ] = "gpu"
    parts: Annotated[tuple[Name, ...] | None, means("the cases that it is made of; twice those it runs twice")] = None
    dtype: Annotated[Text | None, means("the type of its elements", 11)] = None
    tier: Annotated[Text | None, means("the tier that it belongs to", 13)] = None
    host_bound: Annotated[bool, means("its time depends on the host as much as on the GPU", 38)] = False

    # The work of one launch, as the family states it.
    bytes: Annotated[Number | None, means("least number of bytes that it must move", 34)] = None
    flops: Annotated[Number | None, means("least number of operations that it must do", 35)] = None
    peak_tflops: Annotated[Number | None, means("the peak that the case states for its operations")] = None
    math: Annotated[Text | None, means("the type of its operations, whose peak it is compared with", 12)] = None
    math_given: Annotated[bool | None, means("that type is stated, not inferred from the inputs")] = None

    # Its time.
    time_us: Annotated[Number | None, means("median time; missing where the case was not timed", 1)] = None
    median_interval_us: Annotated[
        tuple[Number, Number] | None, means("95 % interval of the median within the process")
    ] = None
    trimmed_mean_us: Annotated[
        Number | None, means("mean of the middle 90 % of the samples, which `ab` compares", 36)
    ] = None
    control_us: Annotated[
        Number | None, means("trimmed mean of the control kernel, timed by the same process right after it", 37)
    ] = None
    first_us: Annotated[Number | None, means("median right after a cache flush, for states other than cold")] = None
    footprint_bytes: Annotated[Number | None, means("memory that one launch is known to use")] = None
    activity_us: Annotated[Number | None, means("time of some of the samples by CUPTI, the second clock")] = None

    # Rates, computed from work and median, and the verdict on them.
    gbs: Annotated[Number | None, means("bytes over the median time, in GB/s", 19)] = None
    tflops: Annotated[Number | None, means("operations over the median time, in TFLOP/s", 20)] = None
    peak_fraction: Annotated[Number | None, means("fraction of the theoretical peak that limits it", 21)] = None
    bound: Annotated[Text | None, means("which peak limits it: `memory`, `compute`, `link` or `nvlink`", 14)] = None
    roof_fraction: Annotated[Number | None, means("fraction of the measured roof", 22)] = None
    roof: Annotated[Text | None, means("the measured roof that it is compared with", 15)] = None
    floor: Annotated[Number | None, means("least fraction of peak that passed at the time of the run", 23)] = None
    verdict: Annotated[Verdict, means("the run's own verdict", 4)]
    reason: Annotated[str, means("why", 5)] = ""
    energy: Annotated[Energy | None, means("energy of one launch, if the run measured it")] = None

    # Its machine code, as the compiler and the driver report it, or what a callable's autotuners chose. Of several
    # launches, registers to occupancy are those of the one with the lowest occupancy.
    registers: Annotated[Number | None, means("registers per thread", 24)] = None
    spill_bytes: Annotated[Number | None, means("bytes per thread of register spills", 25)] = None
    static_shared_bytes: Annotated[Number | None, means("shared memory per block that the kernel declares")] = None
    dynamic_shared_bytes: Annotated[Number | None, means("shared memory per block that the launch adds")] = None
    shared_bytes: Annotated[Number | None, means("shared memory per block, both together", 26)] = None
    occupancy: Annotated[
        Number | None, means("theoretical occupancy, from 0 to 1; columns of tensor memory do not count", 27)
    ] = None
    occupancy_limiter: Annotated[Text | None, means("what limits the occupancy", 17)] = None
    fingerprint: Annotated[
        Text | None,
        means("hash of the machine code; of a callable, of that of all its kernels and of their launches", 16),
    ] = None
    kernels: Annotated[
        dict[Text, Text | None] | None,
        means("digest of the machine code of each kernel that a callable launches, by name; null if unknown", 42),
    ] = None
    tuned: Annotated[tuple[TunedChoice, ...] | None, means("what autotuners chose for its call")] = None

    # How it was sampled.
    sm_clock_mhz: Annotated[Number | None, means("median SM clock while it was timed", 28)] = None
    power_w: Annotated[Number | None, means("median power while it was timed, for cases on tensor cores", 29)] = None
    power_bound: Annotated[bool | None, means("the power limit lowered the clock")] = None
    samples: Annotated[Number | None, means("samples kept", 2)] = None
    discarded: Annotated[Number | None, means("samples dropped, such as throttled ones", 30)] = None
    sampling: Annotated[Text | None, means("how it was timed, and in which state of the caches", 18)] = None
    pair_ratios: Annotated[
        tuple[Number, ...] | None,
        means("this build's time over the other build's, of each interleaved pair of samples"),
    ] = None

    # Whether its results are right.
    relative_error: Annotated[
        Number | None, means("largest absolute error over the largest absolute value of the reference", 31)
    ] = None
    tolerance: Annotated[Number | None, means("the largest tolerance of an output", 33)] = None
    error_over_bound: Annotated[Number | None, means("largest error of an element over its bound", 32)] = None
    varying_elements: Annotated[Number | None, means("elements that differ between two launches on the same data")] = (
        None
    )
    probes: Annotated[Number | None, means("edge-size problems that its build solved", 43)] = None
    timed_launches_checked: Annotated[Number | None, means("timed launches whose output was compared")] = None
    predicted: Annotated[dict[str, Finite] | None, means("predictions of the family's models, by name")] = None

    # Read in a separate launch after the run.
    counters: Annotated[CaseCounters | None, means("hardware counters of one launch")] = None


class Stats(Struct):
    """pytest-benchmark's statistics of one case, in seconds."""

    median: Annotated[Median, means("median time")]
    min: Annotated[Number | None, means("shortest time")] = None
    max: Annotated[Number | None, means("longest time")] = None
    mean: Annotated[Number | None, means("mean time")] = None
    rounds: Annotated[Number | None, means("samples kept")] = None
    iqr: Annotated[Number | None, means("interquartile range of the samples")] = None


class Benchmark(Struct):
    """One entry of ``benchmarks``: a case that was timed."""

    extra_info: CaseRecord
    stats: Stats


class GpuModel(TypedDict):
    """What every run records about its GPU."""

    slug: Annotated[Slug, means("GPU", 0)]


class Gpu(GpuModel, total=False):
    """``machine_info.gpu``: what NVML and CUDA report, theoretical peaks, and the roofs that the run measured.

    A field with a column is ``gpu_NAME`` in a DataFrame of runs; reports call it by its meaning.
    """

    uuid: Annotated[Fact, means("GPU uuid", 1)]
    name: Annotated[Fact, means("GPU name", 2)]
    driver: Annotated[Fact, means("driver", 3)]
    cuda_driver: Annotated[Fact, means("CUDA driver", 4)]
    nvrtc: Annotated[Fact, means("NVRTC", 5)]
    cupy: Annotated[Fact, means("CuPy", 6)]
    cublas: Annotated[Fact, means("cuBLAS", 7)]
    vbios: Annotated[Fact, means("VBIOS", 8)]
    sm_clock_max_mhz: Annotated[Fact, means("SM clock, most (MHz)", 9)]
    sm_clock_mhz: Annotated[Fact, means("SM clock, applied (MHz)", 10)]
    memory_clock_max_mhz: Annotated[Fact, means("memory clock, most (MHz)", 11)]
    power_limit_w: Annotated[Fact, means("power limit (W)", 12)]
    ecc: Annotated[Fact, means("ECC", 13)]
    mig: Annotated[Fact, means("MIG", 14)]
    peak_gbs: Annotated[Fact, means("peak of the memory (GB/s)", 15)]
    peak_tflops: Annotated[Fact, means("peak of FP32 (TFLOP/s)", 16)]
    torch: Annotated[Fact, means("PyTorch", 17)]
    triton: Annotated[Fact, means("Triton", 18)]
    ptxas: Annotated[Fact, means("Triton's ptxas", 19)]
    helion: Annotated[Fact, means("Helion", 20)]
    cutlass_dsl: Annotated[Fact, means("CUTLASS DSL", 21)]
    cuda_tile: Annotated[Fact, means("cuTile", 22)]
    tileiras: Annotated[Fact, means("tileiras", 23)]
    tilelang: Annotated[Fact, means("TileLang", 24)]
    warp: Annotated[Fact, means("Warp", 25)]
    jax: Annotated[Fact, means("JAX", 26)]
    numba_cuda: Annotated[Fact, means("Numba-CUDA", 27)]
    peak_tensor_tflops: Annotated[dict[str, Number | None] | None, means("peaks of the tensor cores by type (TFLOP/s)")]
    peak_link_gbs: Annotated[Fact, means("peak of the link to the host (GB/s)")]
    peak_nvlink_gbs: Annotated[Fact, means("peak of NVLink (GB/s)")]
    peak_derivation: Annotated[Fact, means("how the peaks follow from the facts")]
    index: Annotated[Fact, means("CUDA index")]
    uuids: Annotated[list[Text] | None, means("uuids of all GPUs of the run")]
    compute_capability: Annotated[Fact, means("compute capability")]
    sm_count: Annotated[Fact, means("SMs")]
    memory_bus_bits: Annotated[Fact, means("width of the memory bus (bits)")]
    memory_bytes: Annotated[Fact, means("memory (bytes)")]
    l2_bytes: Annotated[Fact, means("L2 cache (bytes)")]
    compiler: Annotated[Fact, means("compiler of the emulator")]
    preflight: Annotated[dict[str, Any] | None, means("state of the GPU before the run")]
    roofs: Annotated[dict[str, Number | None] | None, means("measured roofs by name (GB/s or TFLOP/s)")]


GENERATORS = {
    "torch": ("torch", "torch"),
    "triton": ("triton", "triton"),
    "ptxas": ("triton", ""),
    "helion": ("helion", "helion"),
    "cutlass_dsl": ("cutlass", "nvidia-cutlass-dsl"),
    "cuda_tile": ("cuda.tile", "cuda-tile"),
    "tileiras": ("cuda.tile", "nvidia-cuda-tileiras"),
    "tilelang": ("tilelang", "tilelang"),
    "warp": ("warp", "warp-lang"),
    "jax": ("jax", "jax"),
    "numba_cuda": ("numba.cuda", "numba-cuda"),
}
"""Fields for what generates kernels, each with a module and the package whose version decides what that compiles.

They are of the packages that a run's benchmark tests imported; the version of ptxas is Triton's to say.
"""

ENVIRONMENT = (
    *("driver", "cuda_driver", "nvrtc", "cupy", "cublas", "vbios", "power_limit_w", "ecc", "mig"),
    *GENERATORS,
)
"""Properties of a run's machine that its times may depend on and that no commit changes."""


class Machine(Struct):
    """``machine_info``."""

    gpu: Gpu


class CommitInfo(Struct):
    """``commit_info``, from pytest-benchmark or ``--commit``."""

    id: Annotated[Text | None, means("the commit measured")] = None
    dirty: Annotated[bool | None, means("the tree had uncommitted changes")] = None


class Imported(Struct):
    """The file from which ``peakgate import`` made a run."""

    tool: Annotated[Text, means("the tool that measured")]
    version: Annotated[Text | None, means("its version")]
    file: Annotated[Text, means("name of its file")]
    sha256: Annotated[Text, means("digest of that file")]
    datetime_from: Annotated[Text, means("where the date comes from")]


class CountersReport(Struct, kw_only=True):
    """Result of ``bench --counters``, besides the counters of each case."""

    problem: Annotated[Text | None, means("why counters are missing, and what to do; null if all could be read")] = None
    not_counted: Annotated[dict[str, str], means("cases without counters, and why")] = {}
    notes: Annotated[list[WorkNote], means("declared work that differs from what was counted")] = []


class About(Struct, kw_only=True):
    """The section ``peakgate``: the options of the run, its outcome, and its wall time by phase."""

    version: Annotated[Text | None, means("version of Peakgate that wrote the file")] = None
    device: Annotated[Text | None, means("`gpu` or `cpu`")] = None
    tier: Annotated[Tier | None, means("the tier that was run")] = None
    seed: Annotated[int | None, means("seed of the input data and of the order of the cases")] = None
    whole: Annotated[bool, means("all cases of the tier were selected, so that an absent case is missing")] = True
    partial: Annotated[Any, means("what a stopped run lacks; null if it is complete")] = None
    verdicts: Annotated[dict[str, int] | None, means("number of cases by verdict")] = None
    not_measured: Annotated[tuple[Unmeasured, ...], means("cases without a time")] = ()
    skipped: Annotated[dict[str, str] | None, means("cases that the device cannot run, and why")] = None
    wall_s: Annotated[dict[str, Number] | None, means("wall time by phase")] = None
    restarts: Annotated[tuple[str, ...], means("why further processes were started")] = ()
    imported: Annotated[Imported | UnsetType, means("the file of another tool that it was imported from")] = UNSET
    counters: Annotated[CountersReport | UnsetType, means("result of reading counters, if requested")] = UNSET


class RunDocument(Struct):
    """A run file."""

    machine_info: Machine
    benchmarks: Annotated[list[Benchmark], Meta(min_length=1, description="a list of at least one benchmark")]
    datetime: Annotated[Text, means("when the run was taken, ISO")]
    peakgate_schema: Annotated[Literal[1], means("number of the schema, raised when a field changes its meaning")]
    commit_info: CommitInfo | None = None
    version: Annotated[Text | None, means("version of pytest-benchmark")] = None
    peakgate: About | None = None


class BenchVerdict(Struct):
    """The fields read from ``bench.json``, which a run writes even if it timed nothing."""

    cases: list[Unmeasured]
    other_builds: list[Unmeasured] = []


class FrameColumn(NamedTuple):
    """A column of a DataFrame of runs."""

    dtype: str
    meaning: str


DTYPES = {
    str: TEXT,
    Metric | None: TEXT,
    Text | None: TEXT,
    dict[Text, Text | None] | None: TEXT,
    Verdict: TEXT,
    Number: NUMBER,
    Number | None: NUMBER,
    bool: FLAG,
    Fact: ANY,
}


def columns(*records: type) -> dict[str, FrameColumn]:
    """The fields of these records that are columns, in the order of their positions."""
    placed = []
    for record in records:
        for name, hint in get_type_hints(record, include_extras=True).items():
            meta = getattr(hint, "__metadata__", [None])[-1]
            if meta is not None and (meta.extra or {}).get("column") is not None:
                placed.append((meta.extra["column"], name, FrameColumn(DTYPES[hint.__origin__], meta.title)))
    return {name: column for _, name, column in sorted(placed)}


COUNTER_COLUMNS = columns(CaseCounters)

GPU_COLUMNS = {name: column._replace(dtype=ANY) for name, column in columns(Gpu).items()}
