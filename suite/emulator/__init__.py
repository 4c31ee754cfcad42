"""Runs unmodified CUDA kernels on the CPU and finds what is wrong with them; README.md says how, and how far."""

from peakgate.emulator.arguments import GivenArgument, Pointing, TexelArray, TileArray
from peakgate.emulator.build import DEFAULT_CAPABILITY, BuildOptions, prebuild
from peakgate.emulator.compiler import Compiler, KernelBuildError, available_compilers, find_compiler
from peakgate.emulator.defects import DefectKind, EmulatorDefect, KernelDefect
from peakgate.emulator.launch import MAX_COOPERATIVE_THREADS, EmulatedKernel, LaunchNotEnded, load

__all__ = [
    "DEFAULT_CAPABILITY",
    "MAX_COOPERATIVE_THREADS",
    "BuildOptions",
    "Compiler",
    "DefectKind",
    "EmulatedKernel",
    "EmulatorDefect",
    "GivenArgument",
    "KernelBuildError",
    "KernelDefect",
    "LaunchNotEnded",
    "Pointing",
    "TexelArray",
    "TileArray",
    "available_compilers",
    "find_compiler",
    "load",
    "prebuild",
]
