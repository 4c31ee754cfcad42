"""Copies that take a known share longer if a file named ``slower`` is in the working directory.

The project with that file is the head of an ``ab``. The block label is the injected slowdown in per mille of the whole
time; 0 is not slowed. At benchmark scale only.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from peakgate.case import Buffer, Case, Family, Launch, Role, Scalar, Scale, Stage, Tier, Work

NAME = "steps"
STAGE = Stage("delayed_copy", "a copy of known length", Path(__file__).with_name("delayed_copy.cu"))
MARK = Path("slower")
PER_MILLE = (0, 5, 10, 20, 30, 50)
REPEATS = 4
BLOCKS, THREADS = 1056, 256
"""Eight blocks for each of an H200's 132 SMs: all resident, so a delay at the start delays the whole launch."""

QUADS_BY_DURATION = {5: 70_000, 15: 1_218_000, 50: 5_645_000, 150: 18_265_000, 1000: 124_319_000}
"""By microseconds: the number of 16-byte elements copied in about that time on an H200."""

NS_PER_LINK = 14.65
"""Nanoseconds per link of the chain at an H200's 1980 MHz: 29 cycles."""

CYCLES = Buffer(Role.SCRATCH, (BLOCKS,), "int64")
"""Receives the SM cycles of each block before it copies: scratch, since they differ from launch to launch."""


def cases(scale: Scale) -> Iterator[Case]:
    """Every duration with every slowdown, several times."""
    if scale is not Scale.BENCH:
        return
    for duration_us in QUADS_BY_DURATION:
        for per_mille in PER_MILLE:
            for repeat in range(REPEATS):
                yield copy(duration_us, per_mille, repeat, slower=MARK.exists())


def copy(duration_us: int, per_mille: int, repeat: int, *, slower: bool) -> Case:
    """A copy of about that duration, delayed by the share if ``slower``."""
    quads = QUADS_BY_DURATION[duration_us]
    return Case(
        family=NAME,
        stage=STAGE,
        launch=Launch((BLOCKS, 1, 1), (THREADS, 1, 1)),
        arguments=(
            Buffer(Role.OUT, (4 * quads,)),
            Buffer(Role.IN, (4 * quads,)),
            Scalar(quads, "uint64"),
            Scalar(links(duration_us, per_mille) if slower else 0),
            CYCLES,
        ),
        work=Work(bytes=32 * quads),
        reference=lambda _xp, inputs: inputs,
        size=f"{duration_us}us",
        block=f"{per_mille}pm",
        variant=str(repeat),
        tier=Tier.GATE,
    )


def links(duration_us: int, per_mille: int) -> int:
    """Number of links of the chain that take this share of the duration."""
    return round(per_mille * duration_us / NS_PER_LINK)


def probes(_case: Case) -> Iterator[Case]:
    """No edge-case problems: the copy takes any length by its own loop."""
    return iter(())


FAMILY = Family(NAME, "copies of known length", (STAGE,), cases, probes)
