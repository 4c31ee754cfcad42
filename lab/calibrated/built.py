"""The calibrated kernels as machine code."""

from __future__ import annotations

from lab.calibrated.pattern import Kernel
from peakgate.base.files import cache_folder, write_whole
from peakgate.compile.cubin import Cubin, cubin
from peakgate.spec.case import Stage


def built(kernel: Kernel, capability: tuple[int, int]) -> Cubin:
    """The kernel's machine code; BuildError where it does not compile."""
    source = cache_folder() / "calibrated" / f"{kernel.name}.cu"
    if not source.exists() or source.read_text(encoding="utf-8") != kernel.text:
        write_whole(source, kernel.text)
    return cubin(Stage(kernel.name, "", source=source, options=("--generate-line-info",)), (), capability)
