"""The modules of this repository's families, as the tool loads them: a second import would be a second module."""

from __future__ import annotations

from pathlib import Path

from peakgate.spec.catalogue import module_at

KERNELS = Path(__file__).parents[2] / "kernels"

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
