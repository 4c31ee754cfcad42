"""Copies that head makes slower by known shares: what ``ab`` has to find, and what it must leave alone.

A copy moves more floats where the tree it is measured in holds a file named ``slower``. With two copies of a tree:

    touch HEAD_DIR/slower
    PEAKGATE_FAMILIES=$PWD/reports/tests/planted_truth python -m reports ab \
        --base-dir BASE_DIR --head-dir HEAD_DIR -k steps. --measure-unchanged

The block label is the planted share in per mille of the whole time. On one NVIDIA H200 the 18 unchanged copies were
left alone; 2 % and more was found in 45 of 45 copies of 12 µs and up, 1 % in 15 of 15; of 7 µs, 3 % in 3 of 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from pathlib import Path

from suite.case import Buffer, Case, Family, Launch, Role, Scalar, Scale, Stage, Tier, Work
from suite.families.paths import KERNELS

NAME = "steps"
STAGE = Stage("copy_float", "a copy of known length", KERNELS / "roof" / "copy_float.cu")
MARK = Path("slower")
DURATIONS_US = (5, 10, 30, 100, 300, 1000)
SLOWER_BY = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05)
REPEATS = 3
THREADS = 256
OVERHEAD_US = 2.0
"""What a copy takes however short it is; only the rest grows with its length."""

FLOATS_PER_US = 330_000


def cases(scale: Scale) -> Iterator[Case]:
    """Every duration with every share, several times; at benchmark scale alone."""
    if scale is not Scale.BENCH:
        return
    for duration_us in DURATIONS_US:
        for slower_by in SLOWER_BY:
            for repeat in range(REPEATS):
                yield _copy(duration_us, slower_by, repeat)


def floats(duration_us: int, slower_by: float, *, marked: bool) -> int:
    """Length of a copy of about that duration, longer in a marked tree; a multiple of a warp."""
    growing_us = max(duration_us - OVERHEAD_US, 1.5)
    count = growing_us * FLOATS_PER_US
    if marked:
        count *= 1 + slower_by * duration_us / growing_us
    return round(count) // 32 * 32


def _copy(duration_us: int, slower_by: float, repeat: int) -> Case:
    count = floats(duration_us, slower_by, marked=MARK.exists())
    return Case(
        family=NAME,
        stage=STAGE,
        launch=Launch((ceil(count / THREADS), 1, 1), (THREADS, 1, 1)),
        arguments=(Buffer(Role.OUT, (count,)), Buffer(Role.IN, (count,)), Scalar(count, "uint64")),
        work=Work(bytes=8 * count),
        reference=lambda _xp, inputs: inputs,
        size=f"{duration_us}us",
        block=f"{1000 * slower_by:.0f}pm",
        variant=str(repeat),
        tier=Tier.GATE,
    )


def probes(_case: Case) -> Iterator[Case]:
    """None: the copy's own family proves its ragged ends."""
    return iter(())


FAMILY = Family(NAME, "copies of known length", (STAGE,), cases, probes)
