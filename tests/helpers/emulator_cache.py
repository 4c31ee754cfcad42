"""What is the same for every kernel, in a cache of a test's own: to build it takes seconds."""

from __future__ import annotations

import shutil
from pathlib import Path

from peakgate_emulator import available_compilers, headers
from peakgate_emulator.build import _precompiled, _written, build_runtime
from peakgate_emulator.compiler import kernel_flags


def with_runtime(cache: Path) -> None:
    """Put the emulator's runtime into a cache, and the precompiled header that all kernels include."""
    for compiler in available_compilers():
        runtime = build_runtime(compiler)
        folder = cache / runtime.parent.name
        folder.mkdir(parents=True, exist_ok=True)
        shared = runtime.parent.glob("shared-*.o")
        for built in (runtime, *shared):
            if not (folder / built.name).exists():
                shutil.copy(built, folder)
        if compiler.is_gcc:
            header = _precompiled(compiler, kernel_flags(compiler), _written(headers.emulator_headers())).parent
            if not (folder / header.name).exists():
                shutil.copytree(header, folder / header.name)
