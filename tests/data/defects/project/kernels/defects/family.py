"""Kernels with injected defects, in a project of their own: what the gate must not let pass.

``shifted`` computes something else; ``unguarded`` is right only on tidy sizes; ``unpadded`` is the padded transpose
with its padding taken away, right and slow.
"""

from math import ceil
from pathlib import Path

from peakgate.family import In, Out, Value, family, kernel

PADDED = Path(__file__).parents[6] / "kernels" / "transpose" / "10_smem_pad.cu"


def copy(name):
    return kernel(
        f"{name}.cu",
        arguments=lambda n: [Out(n), In(n), Value(n)],
        grid=lambda n: ceil(n / 128),
        block=128,
        bytes=lambda n: 8 * n,
        reference=lambda xp, x: x,
        sizes=[1024],
        small_sizes=[1024],
        edges=[1000],
        tolerance=0.0,
    )


FAMILY = family(
    copy("shifted"),
    copy("unguarded"),
    kernel(
        str(PADDED),
        name="smem_pad",
        arguments=lambda side: [Out(side, side), In(side, side), Value(side), Value(side)],
        grid=lambda side: (ceil(side / 32), ceil(side / 32)),
        block=(32, 8),
        block_in_id=True,
        variant="unpadded",
        defines={"BLOCK_X": 32, "BLOCK_Y": 8, "PAD": 0},
        bytes=lambda side: 8 * side * side,
        reference=lambda xp, x: x.T,
        sizes=[8192],
        small_sizes=[64],
        edges=[33],
        tolerance=0.0,
    ),
)
