"""Runs unmodified CUDA kernels on the CPU and finds their defects (README.md).

Its names are imported on first use, so that reading sources does not import the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from peakgate_emulator.arguments import GivenArgument, Place, Pointing, TexelArray, TexelView, TileArray, TileView
    from peakgate_emulator.build import DEFAULT_CAPABILITY, BuildOptions, prebuild
    from peakgate_emulator.compiler import Compiler, available_compilers, find_compiler
    from peakgate_emulator.defects import DefectKind, EmulatorDefect, KernelDefect
    from peakgate_emulator.errors import EmulatorError, KernelBuildError, LaunchNotEnded
    from peakgate_emulator.launch import MAX_COOPERATIVE_THREADS, EmulatedKernel, load

_PLACES = {
    "arguments": ("GivenArgument", "Place", "Pointing", "TexelArray", "TexelView", "TileArray", "TileView"),
    "build": ("DEFAULT_CAPABILITY", "BuildOptions", "prebuild"),
    "compiler": ("Compiler", "available_compilers", "find_compiler"),
    "defects": ("DefectKind", "EmulatorDefect", "KernelDefect"),
    "errors": ("EmulatorError", "KernelBuildError", "LaunchNotEnded"),
    "launch": ("MAX_COOPERATIVE_THREADS", "EmulatedKernel", "load"),
}

__all__ = [
    "DEFAULT_CAPABILITY",
    "MAX_COOPERATIVE_THREADS",
    "BuildOptions",
    "Compiler",
    "DefectKind",
    "EmulatedKernel",
    "EmulatorDefect",
    "EmulatorError",
    "GivenArgument",
    "KernelBuildError",
    "KernelDefect",
    "LaunchNotEnded",
    "Place",
    "Pointing",
    "TexelArray",
    "TexelView",
    "TileArray",
    "TileView",
    "available_compilers",
    "find_compiler",
    "load",
    "prebuild",
]


def __getattr__(name: str) -> Any:
    place = next((module for module, names in _PLACES.items() if name in names), None)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{place}"), name)
