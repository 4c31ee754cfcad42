"""Kernels with injected defects, in a project of their own: what the gate must not let pass.

``shifted`` computes something else; ``unguarded`` is right only on tidy sizes; ``unpadded`` is the padded transpose
with its padding taken away, right and slow.
"""

from collections.abc import Iterator
from math import ceil
from pathlib import Path

from peakgate.case import Buffer, Case, Family, Launch, Role, Scalar, Scale, Stage, Tier, Work

HERE = Path(__file__).parent
COPIES = tuple(Stage(name, "wrong on purpose", HERE / f"{name}.cu") for name in ("shifted", "unguarded"))
UNPADDED = Stage("smem_pad", "slow on purpose: PAD=0", HERE.parents[5] / "kernels" / "transpose" / "10_smem_pad.cu")
BLOCK = 128


def _copy(stage: Stage, n: int) -> Case:
    return Case(
        family="defects",
        stage=stage,
        launch=Launch((ceil(n / BLOCK), 1, 1), (BLOCK, 1, 1)),
        arguments=(Buffer(Role.OUT, (n,)), Buffer(Role.IN, (n,)), Scalar(n)),
        work=Work(2 * 4 * n),
        reference=lambda xp, inputs: inputs,
        size=str(n),
        tier=Tier.GATE,
    )


def _unpadded(side: int) -> Case:
    tiles = ceil(side / 32)
    return Case(
        family="defects",
        stage=UNPADDED,
        launch=Launch((tiles, tiles, 1), (32, 8, 1)),
        arguments=(Buffer(Role.OUT, (side, side)), Buffer(Role.IN, (side, side)), Scalar(side), Scalar(side)),
        work=Work(2 * 4 * side * side),
        reference=lambda xp, inputs: [inputs[0].T],
        size=str(side),
        block="32x8",
        variant="unpadded",
        defines=(("BLOCK_X", "32"), ("BLOCK_Y", "8"), ("PAD", "0")),
        tier=Tier.GATE,
    )


def cases(scale: Scale) -> Iterator[Case]:
    for stage in COPIES:
        yield _copy(stage, 1024)
    yield _unpadded(8192 if scale is Scale.BENCH else 64)


def probes(case: Case) -> Iterator[Case]:
    yield _unpadded(33) if case.stage is UNPADDED else _copy(case.stage, 1000)


FAMILY = Family("defects", "injected defects", (*COPIES, UNPADDED), cases, probes)
