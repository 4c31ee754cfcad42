"""The short form of a family, as a ``family.py`` imports it, from the modules of ``spec/`` that define it.

With the records of the long form, so that one module has all that a family may need.
"""

from peakgate.spec.arguments import Surface, Texture
from peakgate.spec.case import (
    Argument,
    Array,
    Buffer,
    Case,
    Data,
    Family,
    KernelLaunch,
    Launch,
    Magnitudes,
    Reference,
    RefusedCase,
    Role,
    Scalar,
    Scale,
    Sized,
    Stage,
    Struct,
    TensorMapArgument,
    Tier,
    Work,
)
from peakgate.spec.family import StageKernel, family, kernel, stage
from peakgate.spec.groups import TOLERANCES, Check, Compile, tolerance_of_sums
from peakgate.spec.operands import Extent, In, InOut, LaunchOf, Out, Scratch, Temp, TensorMap, Value, launch
from peakgate.spec.sweep import EDGES, Axis, Size, Sizes

__all__ = [
    "EDGES",
    "TOLERANCES",
    "Argument",
    "Array",
    "Axis",
    "Buffer",
    "Case",
    "Check",
    "Compile",
    "Data",
    "Extent",
    "Family",
    "In",
    "InOut",
    "KernelLaunch",
    "Launch",
    "LaunchOf",
    "Magnitudes",
    "Out",
    "Reference",
    "RefusedCase",
    "Role",
    "Scalar",
    "Scale",
    "Scratch",
    "Size",
    "Sized",
    "Sizes",
    "Stage",
    "StageKernel",
    "Struct",
    "Surface",
    "Temp",
    "TensorMap",
    "TensorMapArgument",
    "Texture",
    "Tier",
    "Value",
    "Work",
    "family",
    "kernel",
    "launch",
    "stage",
    "tolerance_of_sums",
]
