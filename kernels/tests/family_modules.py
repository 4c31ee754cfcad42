"""The modules of this repository's families, as the tool loads them: a second import would be a second module."""

from __future__ import annotations

from pathlib import Path

from peakgate.core.catalogue import module_at

KERNELS = Path(__file__).parents[1]

access, attention, hgemm, norm, occupancy, quantize, reduce, roof, sgemm, transpose = (
    module_at(KERNELS / name / "family.py")
    for name in (
        "access",
        "attention",
        "hgemm",
        "norm",
        "occupancy",
        "quantize",
        "reduce",
        "roof",
        "sgemm",
        "transpose",
    )
)
