"""Runs unmodified CUDA kernels on the CPU and finds what is wrong with them; README.md says how, and how far."""

from suite.device.emulator.build import DEFAULT_CAPABILITY, BuildOptions, prebuild
from suite.device.emulator.compiler import Compiler, available_compilers, find_compiler
from suite.device.emulator.defects import Defect, DefectKind, KernelDefect
from suite.device.emulator.launch import EmulatedKernel, load
from suite.device.emulator.toolchain import KernelBuildError

__all__ = [
    "DEFAULT_CAPABILITY",
    "BuildOptions",
    "Compiler",
    "Defect",
    "DefectKind",
    "EmulatedKernel",
    "KernelBuildError",
    "KernelDefect",
    "available_compilers",
    "find_compiler",
    "load",
    "prebuild",
]
