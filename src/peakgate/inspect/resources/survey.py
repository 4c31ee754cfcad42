"""Compiles kernels for architectures and collects registers, spills and occupancy."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from peakgate.base import progress
from peakgate.base.errors import BuildError
from peakgate.base.options import OLDEST_CAPABILITY
from peakgate.compile import cubin
from peakgate.compile.cubin import Defines
from peakgate.inspect.resources.baseline import BuildTarget, Survey, TheoreticalOccupancy, Usage
from peakgate.judge.occupancy import LIMITS, TENSOR_COLUMNS, Resources
from peakgate.spec.case import Case, Launch, Stage

ARCHITECTURES = (75, 80, 86, 89, 90, 100, 120)
"""Compiled for by default; a stage with architecture-specific features also for its own."""

KNOWN_ARCHITECTURES = tuple(
    sorted(major * 10 + minor for major, minor in LIMITS if (major, minor) >= OLDEST_CAPABILITY)
)


@dataclass(frozen=True, slots=True)
class SurveyedBuild:
    """One compilation: a stage with its defines, and the launches whose occupancy is computed."""

    kernel: str
    stage: Stage
    defines: Defines
    launches: tuple[Launch, ...]


def builds(cases: Iterable[Case]) -> list[SurveyedBuild]:
    """The distinct builds of the cases, sorted by name; library calls have none.

    Of several launches with the same block, the one with the least dynamic shared memory counts. Each kernel of a stage
    with several is a separate build.
    """
    stages: dict[str, tuple[Stage, Defines]] = {}
    launches: dict[str, dict[str, Launch]] = {}
    for case in cases:
        if case.stage.source is None:
            continue
        for kernel, each in zip(build_keys(case), case.launches, strict=True):
            alone = case.stage if not case.stage.more else replace(case.stage, entry=each.kernel, more=())
            stages.setdefault(kernel, (alone, case.defines))
            of_block = launches.setdefault(kernel, {})
            known = of_block.get(block_label(each.launch))
            if known is None or each.launch.shared_bytes < known.shared_bytes:
                of_block[block_label(each.launch)] = each.launch
    return [
        SurveyedBuild(kernel, stage, defines, tuple(launch for _, launch in sorted(launches[kernel].items())))
        for kernel, (stage, defines) in sorted(stages.items())
    ]


def build_keys(case: Case) -> list[str]:
    """A key per launch: ``family.stage``, ``:kernel`` if the stage has several, then ``+NAME=VALUE`` per define."""
    defines = "".join(f"+{name}={value}" for name, value in case.defines)
    return [
        f"{case.family}.{case.stage.name}{f':{each.kernel}' if case.stage.more else ''}{defines}"
        for each in case.launches
    ]


def block_label(launch: Launch) -> str:
    """A block's extents without trailing ones: ``256``, ``32x8``."""
    extents = list(launch.block)
    while len(extents) > 1 and extents[-1] == 1:
        extents.pop()
    return "x".join(map(str, extents))


def capability(sm: int) -> tuple[int, int]:
    """The compute capability: (9, 0) for 90, (12, 0) for 120."""
    return sm // 10, sm % 10


def targets(stage: Stage, architectures: Collection[int]) -> list[int]:
    """Those of the architectures that a stage runs on; without a choice of them (all default ones) also its own."""
    major, minor = stage.min_capability
    own = {major * 10 + minor} if stage.specific and set(ARCHITECTURES) <= set(architectures) else set()
    return sorted(sm for sm in {*architectures, *own} if stage.runs_on(capability(sm)))


def survey(
    wanted: Sequence[SurveyedBuild], architectures: Sequence[int] = ARCHITECTURES, jobs: int | None = None
) -> Survey:
    """Compile each build for each architecture that supports it, ``jobs`` at a time (default: one per core).

    NVRTC releases the interpreter's lock, so threads use all cores. Builds that do not compile are in ``broken``;
    PeakgateError if NVRTC is not installed.
    """
    nvrtc = cubin.installed_nvrtc()

    def compiled(made: SurveyedBuild, sm: int) -> Usage | str:
        try:
            return _usage(made, sm, cubin.cubin(made.stage, made.defines, capability(sm)).resources)
        except BuildError as error:
            return str(error)

    todo = [(made, sm) for made in wanted for sm in targets(made.stage, architectures)]
    with ThreadPoolExecutor(max_workers=jobs or os.cpu_count()) as pool:
        compiling = pool.map(lambda item: compiled(*item), todo)
        found = list(progress.each(compiling, "compiling the kernels", len(todo), "build"))
    results = {BuildTarget(made.kernel, sm): result for (made, sm), result in zip(todo, found, strict=True)}
    return Survey(
        nvrtc=nvrtc.version(),
        options=cubin.OPTIONS,
        usage={target: result for target, result in results.items() if isinstance(result, Usage)},
        broken={target: result for target, result in results.items() if isinstance(result, str)},
    )


def sharing_tensor_memory(made: SurveyedBuild, found: Survey) -> list[str]:
    """A line per block of a kernel that allocates tensor memory and of which an SM has room for several.

    Their columns do not count for the occupancy: neither the compiler nor the launch gives their number.
    """
    usage = [(target.sm, found.usage[target]) for target in found.usage if target.kernel == made.kernel]
    on = {sm: each.resources for sm, each in usage if sm // 10 == 10}
    source = made.stage.source
    files = cubin.source_files(source, made.stage.include) if on and source else ()
    if not any("tcgen05.alloc" in file.read_text(encoding="utf-8") for file in files):
        return []
    blocks = {
        block_label(launch): max(each.occupancy(capability(sm), launch).blocks_per_sm for sm, each in on.items())
        for launch in made.launches
    }
    return [
        f"{made.kernel} at block {label}: of the {count} blocks that fit on an SM, one waits in tcgen05.alloc if each "
        f"allocates more than {TENSOR_COLUMNS // count} of its {TENSOR_COLUMNS} columns of tensor memory"
        for label, count in blocks.items()
        if count > 1
    ]


def usage_anew(made: SurveyedBuild, sm: int) -> Usage:
    """Resource usage after recompiling without the cache; BuildError if it does not compile."""
    return _usage(made, sm, cubin.compiled_anew(made.stage, made.defines, capability(sm)))


def _usage(made: SurveyedBuild, sm: int, resources: Resources) -> Usage:
    by_block: dict[str, TheoreticalOccupancy] = {}
    for launch in made.launches:
        filled = resources.occupancy(capability(sm), launch)
        by_block[block_label(launch)] = TheoreticalOccupancy(round(filled.fraction, 4), "+".join(filled.limiters))
    return Usage(resources, by_block)
