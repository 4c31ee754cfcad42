"""The work of a launch, and the types in which operations are done."""

from __future__ import annotations

from dataclasses import dataclass

from peakgate.spec import fields
from peakgate.spec.fields import check
from peakgate.spec.recorded import TENSOR_MATH

MATH = ("fp32", *TENSOR_MATH)

MATH_OF_INPUTS = {"bfloat16": "bf16", "float16": "fp16", "float8_e4m3fn": "fp8", "float8_e5m2": "fp8"}
"""Type of operations that inputs of one type suggest. Not int8: arrays of bytes are images and masks too."""


def default_roof(math: str | None) -> str:
    """The measured roof of a case whose type of operations is given, where nothing names its roof."""
    return math if math in TENSOR_MATH else "copy"


@dataclass(frozen=True, slots=True)
class Work:
    """Minimum work of one launch: bytes through device memory, operations (those on int8 count as flops do).

    ``math`` is the type, one of MATH, whose peak its operations have; None: what the inputs suggest (``Case.math``).
    ``peak_tflops`` is that peak where it is no type's. ValueError for what is none.
    """

    bytes: int
    flops: int = 0
    peak_tflops: float | None = None
    math: str | None = None

    def __post_init__(self) -> None:
        check(self, WORK_FIELDS, "work")

    @property
    def claimed(self) -> bool:
        """Whether any work is claimed; without there is no peak to compare with."""
        return bool(self.bytes or self.flops)


WORK_FIELDS: fields.Kinds = {
    "bytes": fields.COUNT,
    "flops": fields.COUNT,
    "peak_tflops": fields.POSITIVE | fields.NOTHING,
    "math": fields.one_of(MATH) | fields.NOTHING,
}
