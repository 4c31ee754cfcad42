"""Kernels of the tests in the emulator: the files in ``emulated``, and what launches of them find."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from peakgate import emulator
from peakgate.emulator import DefectKind, EmulatedKernel, KernelDefect

CUDA = Path(__file__).with_name("emulated")
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
