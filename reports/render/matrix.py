"""Stage by size: the TFLOP/s of families whose stages compute on problems of several sizes, sgemm above all."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from peakgate.reports.runfile import CaseResult, Run


@dataclass(frozen=True, slots=True)
class Matrix:
    """``rows`` are (stage, TFLOP/s of its best case by size); None where the run has none. ``best`` is by size."""

    family: str
    sizes: tuple[str, ...]
    rows: tuple[tuple[str, tuple[float | None, ...]], ...]
    best: tuple[float | None, ...]


def matrices(run: Run) -> tuple[Matrix, ...]:
    """One for each family with cases bound by arithmetic at two sizes or more, stages in the order of the run."""
    families: dict[str, list[CaseResult]] = {}
    for result in run.cases.values():
        if result.bound == "compute" and result.family and result.stage and result.tflops:
            families.setdefault(result.family, []).append(result)
    found = (_matrix(family, results) for family, results in families.items())
    return tuple(matrix for matrix in found if len(matrix.sizes) > 1)


def _matrix(family: str, results: Iterable[CaseResult]) -> Matrix:
    rates: dict[tuple[str, str], float] = {}
    for result in results:
        key = (str(result.stage), result.size or "")
        rates[key] = max(rates.get(key, 0.0), result.tflops or 0.0)
    stages = tuple(dict.fromkeys(stage for stage, _ in rates))
    sizes = tuple(sorted(dict.fromkeys(size for _, size in rates), key=_volume))
    rows = tuple((stage, tuple(rates.get((stage, size)) for size in sizes)) for stage in stages)
    best = tuple(
        max((rate for rate in column if rate), default=None) for column in zip(*(r for _, r in rows), strict=True)
    )
    return Matrix(family, sizes, rows, best)


def _volume(size: str) -> tuple[float, str]:
    """``4096`` is a cube, ``1000x200x300`` is what it says; labels without figures come first."""
    sides = [int(side) for side in re.findall(r"\d{1,9}", size)]
    return (sides[0] ** 3 if len(sides) == 1 else math.prod(sides) if sides else 0), size
