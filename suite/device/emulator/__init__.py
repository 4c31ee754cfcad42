"""Runs unmodified CUDA kernels on the CPU and finds what is wrong with them; README.md says how, and how far."""

from peakgate.device.emulator.arguments import Given, TexelArray
from peakgate.device.emulator.build import DEFAULT_CAPABILITY, BuildOptions, prebuild
from peakgate.device.emulator.compiler import Compiler, KernelBuildError, available_compilers, find_compiler
from peakgate.device.emulator.defects import Defect, DefectKind, KernelDefect
from peakgate.device.emulator.launch import ACCESS_BUDGET, MAX_COOPERATIVE_THREADS, EmulatedKernel, load
from peakgate.device.emulator.trace import SharedAccess, Trace

__all__ = [
    "ACCESS_BUDGET",
    "DEFAULT_CAPABILITY",
    "MAX_COOPERATIVE_THREADS",
    "BuildOptions",
    "Compiler",
    "Defect",
    "DefectKind",
    "EmulatedKernel",
    "Given",
    "KernelBuildError",
    "KernelDefect",
    "SharedAccess",
    "TexelArray",
    "Trace",
    "available_compilers",
    "find_compiler",
    "load",
    "prebuild",
]
