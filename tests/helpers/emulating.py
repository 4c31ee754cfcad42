"""Kernels of the tests in the emulator: the files in ``emulated``, and what launches of them find."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import peakgate_emulator as emulator
from peakgate_emulator import DefectKind, EmulatedKernel, KernelDefect, TileArray, TileView

CUDA = Path(__file__).parents[1] / "data" / "emulated"
COMPILERS = emulator.available_compilers()
ONE = (1, 1, 1)

every_compiler = pytest.mark.parametrize("compiler", COMPILERS, ids=lambda compiler: compiler.name)


def loaded(file: str, macros: Mapping[str, str] | None = None, entry: str = "", **options: Any) -> EmulatedKernel:
    """A kernel of ``emulated``, called as its file is unless an entry is given, under these macros."""
    return emulator.load(CUDA / f"{file}.cu", entry or file, tuple((macros or {}).items()), **options)


@contextmanager
def finds(*kinds: DefectKind) -> Iterator[Any]:
    """A launch in which a defect of one of these kinds is found; none, where no kind is given."""
    if not kinds:
        yield None
        return
    with pytest.raises(KernelDefect) as caught:
        yield caught
    assert {defect.kind for defect in caught.value.defects} & {*kinds}, caught.value.defects


def tiles(array: np.ndarray[Any, Any], box: tuple[int, ...], swizzle: int = 0) -> TileArray:
    """A whole array as a tensor map shows it, copied in boxes of this shape."""
    return TileArray(array, TileView(array.shape, array.strides[:-1], box, swizzle))


def rows(name: str) -> list[str]:
    """The lines of a file of ``data``, without its comments and empty lines."""
    text = (Path(__file__).parents[1] / "data").joinpath(name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("# ")]
