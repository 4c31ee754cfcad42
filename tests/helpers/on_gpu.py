"""A pytest plug-in, ``-p on_gpu``: tests of the emulator load their kernels on the GPU, through CuPy, in its place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cupy
import numpy as np
import pytest

import peakgate_emulator as emulator

UNSUPPORTED = (
    "not supported on .target",
    "requires .target",
    "Unknown modifier",
    "requires PTX ISA",
    "Unexpected instruction types",  # such as bf16x2 to e4m3x2 before compute capability 10.0
)


class OnGpu:
    """A kernel on the GPU that is launched as ``EmulatedKernel`` is: arrays are copied there and back."""

    def __init__(self, source: Path, kernel: str, defines: Sequence[tuple[str, str]] = (), **build: Any) -> None:
        """Compile it; skips the test if an instruction is not of this GPU's architecture."""
        text = source.read_text(encoding="utf-8")
        options = ["-std=c++17", *(f"-D{name}={value}" for name, value in defines)]
        options += [f"-I{folder}" for folder in build.get("include", ())]
        named = () if 'extern "C"' in text else (kernel,)
        try:
            module = cupy.RawModule(code=text, options=tuple(options), name_expressions=named)
            self._function = module.get_function(kernel)
        except cupy.cuda.compiler.CompileException as error:
            if any(said in str(error) for said in UNSUPPORTED):
                pytest.skip(f"not on this GPU: {str(error).splitlines()[0]}")
            raise

    def launch(self, grid: Any, block: Any, arguments: Sequence[Any], **options: Any) -> None:
        """Run it and copy each array back."""
        there = [cupy.asarray(each) if isinstance(each, np.ndarray) else each for each in map(as_bits, arguments)]
        self._function(grid, block, tuple(there), shared_mem=options.get("shared_bytes", 0))
        for given, after in zip(arguments, there, strict=True):
            if isinstance(given, np.ndarray):
                as_bits(given)[...] = after.get()


def as_bits(value: Any) -> Any:
    """An array of a type that CuPy lacks as words of its size; other values as they are."""
    if isinstance(value, np.ndarray) and value.dtype.kind not in "biufc":
        return value.view(f"u{value.dtype.itemsize}")
    return value


def pytest_configure() -> None:
    """Replace what loads and what builds ahead."""
    emulator.load = OnGpu  # type: ignore[assignment]
    emulator.prebuild = list  # type: ignore[assignment]
