"""Compiles the checked builds for a GPU and compares their launches with CUDA's limits, without a GPU.

The emulator uses the host's compiler and small sizes, so only this finds code that NVRTC rejects, and launches that
CUDA rejects at the measured sizes.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from peakgate.base import progress
from peakgate.base.errors import BuildError, PeakgateError
from peakgate.base.options import selector
from peakgate.compile.cubin import Cubin, Defines, cubin, installed_nvrtc
from peakgate.inspect.emulate import BuildReport, LaunchFinding
from peakgate.inspect.problems import BuildKey
from peakgate.judge.occupancy import launch_refusal
from peakgate.spec import catalogue
from peakgate.spec.case import Case, Scale, Stage, Tier
from peakgate.spec.catalogue import kernel_name
from peakgate_emulator.defects import DefectKind

LAUNCH_REFUSED = DefectKind.LAUNCH_REFUSED.words  # kind of a finding, here and in the emulator
LEAST_CAPABILITY = (9, 0)  # compiled for, unless a stage requires a newer one

Building = Mapping[tuple[Stage, Defines], Future[Cubin]]


def missing_nvrtc() -> str | None:
    """Why nothing can be compiled for a GPU; None if NVRTC is installed."""
    try:
        installed_nvrtc()
    except PeakgateError as error:
        return f"not compiled for a GPU: {error}"
    return None


def measured(keys: Collection[BuildKey], text: str, family_file: Path | None) -> list[Case]:
    """The measured and the small cases that ``-k text`` selects, or whose builds are checked."""
    selects = selector(text)
    found = [case for scale in Scale for case in catalogue.described(scale, file=family_file).cases]
    return [
        case
        for case in found
        if case.stage.source is not None
        and (BuildKey(case.family, case.stage.name, case.defines) in keys or selects(case.id))
    ]


@contextmanager
def compiled(cases: Sequence[Case], keys: Collection[BuildKey], jobs: int) -> Iterator[Building]:
    """Compile the checked builds, those of the gate, and their reference kernels, in background threads.

    They are compiled as for the GPU device: same options, cache, processes and limits.
    """
    wanted = {
        (each.stage, each.defines): each
        for case in cases
        if case.tier is Tier.GATE or BuildKey(case.family, case.stage.name, case.defines) in keys
        for each in (case, *([case.reference] if isinstance(case.reference, Case) else []))
    }
    pool = ThreadPoolExecutor(max_workers=min(jobs, os.cpu_count() or 1))
    try:
        yield {key: pool.submit(cubin, *key, capability_of(case)) for key, case in wanted.items()}
    finally:
        pool.shutdown(cancel_futures=True)


def reports(cases: Iterable[Case], building: Building, emulated: Iterable[BuildReport]) -> list[BuildReport]:
    """Reports on builds that do not compile and launches that CUDA rejects; waits for pending compilations.

    Kernels whose launch bounds the emulator found exceeded, ``emulated``, are not reported for them again.
    """
    reported = {each.kernel for each in emulated if any(found.kind == LAUNCH_REFUSED for found in each.findings)}
    for compilation in progress.each(building.values(), "compiling the kernels for a GPU", len(building), "build"):
        compilation.exception()
    found: dict[str, BuildReport] = {}
    for case in cases:
        name, sm = kernel_name(case), case.stage.architecture(capability_of(case))
        built: Cubin | None = None
        try:
            if begun := building.get((case.stage, case.defines)):
                built = begun.result()
            if isinstance(case.reference, Case) and (begun := building.get((case.reference.stage, case.defines))):
                begun.result()
        except BuildError as error:
            found.setdefault(name, BuildReport(name, 0, broken=f"does not build for {sm}: {error}"))
        findings = tuple(
            LaunchFinding(case.id, 0, LAUNCH_REFUSED, None, f"never launches on {sm}: {why}")
            for why in refusals(case, built, with_bounds=name not in reported)
        )
        if findings:
            known = found.get(name, BuildReport(name, 0))
            found[name] = BuildReport(name, 0, findings=(*known.findings, *findings), broken=known.broken)
    return list(found.values())


def refusals(case: Case, built: Cubin | None, *, with_bounds: bool) -> list[str]:
    """Why CUDA refuses launches of a case; without machine code, by the limits that hold for any kernel.

    ``with_bounds``: its ``__launch_bounds__`` are such a limit too.
    """
    found = []
    for each in case.launches:
        at = case.stage.kernels.index(each.kernel)
        compiler = {}
        if built is not None:
            resources = built.of_kernels[at]
            compiler = {"registers": resources.registers, "static_shared_bytes": resources.static_shared_bytes}
        bound = built.bounds[at] if built is not None and with_bounds else None
        with suppress(PeakgateError):  # a compute capability newer than the table has unknown limits
            if why := launch_refusal(capability_of(case), each.launch, bound=bound, **compiler):
                found.append(f"{each.kernel}: {why}" if case.stage.more else why)
    return found


def capability_of(case: Case) -> tuple[int, int]:
    """The compute capability that a case is compiled for."""
    return max(LEAST_CAPABILITY, case.stage.min_capability)
