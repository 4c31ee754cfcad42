"""The roofs of a run: the rates that the GPU at hand reaches today, measured before any case is compared with them.

Four kernels (copy, read, write, fma) and the driver's own device-to-device copy. A roof's name is its kind and the
bytes of its largest array: ``copy_1GiB``, ``read_256MiB``, ``fma``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from peakgate.core.case import Argument, Buffer, Case, Launch, Role, Scalar, Stage, Work
from peakgate.device.interface import Device
from peakgate.judge.metrics import metrics
from peakgate.measure.sampling import SamplingPlan

ROOFS_FOLDER = Path(__file__).parent
THREADS = 256
SIZES = {"16MiB": 16 << 20, "64MiB": 64 << 20, "256MiB": 256 << 20, "1GiB": 1 << 30}
"""Of the largest array. Copies of 4 GiB run no faster than those of 1 GiB and take four times as long."""

QUADS_PER_THREAD, MAX_GRID_STRIDE_BLOCKS = 4, 16_384
"""A thread of a grid-stride launch moves at least so many float4; so many blocks are 15 full waves of 132 SMs."""

FMA_THREADS, FMA_ROUNDS, FMA_CHAINS, FMA_PAIRS = 1 << 24, 16, 8, 32
"""16 rounds make the one store per thread vanish beside 16384 operations."""

_PLAN = SamplingPlan(min_samples=6, max_samples=36, budget_us=4_000)


def roof_cases() -> list[Case]:
    """Every roof on each of its sizes. They are timed, not checked: tests of the tool prove them."""
    found = [fma_case(FMA_THREADS)]
    for size, nbytes in SIZES.items():
        found += [copy_case(size, nbytes), memcpy_case(size, nbytes), read_case(size, nbytes), write_case(size, nbytes)]
    return found


def copy_case(size: str, nbytes: int) -> Case:
    """Every float read once and written once."""
    quads = nbytes // 16
    arguments = (Buffer(Role.OUT, (quads, 4)), Buffer(Role.IN, (quads, 4)), Scalar(quads, "uint64"))
    return _case("copy", size, -(-quads // THREADS), arguments, Work(2 * nbytes))


def memcpy_case(size: str, nbytes: int) -> Case:
    """As ``copy_case``, by the driver."""
    arguments = (Buffer(Role.OUT, (nbytes // 4,)), Buffer(Role.IN, (nbytes // 4,)))
    return _case("copy", size, 1, arguments, Work(2 * nbytes), operation="memcpy")


def read_case(size: str, nbytes: int) -> Case:
    """Every float read once; one sum written per warp."""
    quads = nbytes // 16
    blocks = _grid_stride(quads)
    sums = blocks * THREADS // 32
    arguments = (Buffer(Role.OUT, (sums,)), Buffer(Role.IN, (quads, 4)), Scalar(quads, "uint64"))
    return _case("read", size, blocks, arguments, Work(nbytes + 4 * sums))


def write_case(size: str, nbytes: int) -> Case:
    """Every float written once."""
    quads = nbytes // 16
    return _case(
        "write", size, _grid_stride(quads), (Buffer(Role.OUT, (quads, 4)), Scalar(quads, "uint64")), Work(nbytes)
    )


def fma_case(threads: int, rounds: int = FMA_ROUNDS) -> Case:
    """One float written per thread; an FMA is two operations, a pair two FMAs, and each thread has eight chains."""
    flops = 2 * 2 * FMA_PAIRS * rounds * FMA_CHAINS * threads
    arguments = (Buffer(Role.OUT, (threads,)), Scalar(rounds))
    return _case("fma", "", threads // THREADS, arguments, Work(4 * threads, flops))


def measure_roofs(device: Device, cases: Sequence[Case]) -> dict[str, float]:
    """The best rate of each kind and size: GB/s, for ``fma`` TFLOP/s.

    Empty on a device without peaks: an emulated rate is no roof.
    """
    if device.peaks is None:
        return {}
    roofs: dict[str, float] = {}
    for case in cases:
        if device.refusal(case):
            continue
        figures = metrics(case, device.prepare(case).sample(_PLAN), device.peaks, {})
        name, rate = ("fma", figures.tflops) if case.roof == "fma" else (f"{case.roof}_{case.size}", figures.gbs)
        roofs[name] = max(rate, roofs.get(name, 0.0))
    return {name: round(rate, 3) for name, rate in sorted(roofs.items())}


def _case(
    roof: str, size: str, blocks: int, arguments: tuple[Argument, ...], work: Work, *, operation: str | None = None
) -> Case:
    name = operation or f"{roof}_roof"
    stage = Stage(name, "", operation=operation, source=None if operation else ROOFS_FOLDER / f"{name}.cu")
    return Case(
        family="roof",
        stage=stage,
        launch=Launch((blocks, 1, 1), (THREADS, 1, 1)),
        arguments=arguments,
        work=work,
        reference=None,
        size=size,
        roof=roof,
    )


def _grid_stride(quads: int) -> int:
    return min(-(-quads // (QUADS_PER_THREAD * THREADS)), MAX_GRID_STRIDE_BLOCKS)
