"""The work of a launch, and the types of its operations."""

from __future__ import annotations

from dataclasses import dataclass

from peakgate.spec import fields
from peakgate.spec.fields import check
from peakgate.spec.recorded import TENSOR_MATH

MATH = ("fp32", *TENSOR_MATH)

MATH_OF_INPUTS = {"bfloat16": "bf16", "float16": "fp16", "float8_e4m3fn": "fp8", "float8_e5m2": "fp8"}
"""The default type of operations by input type. Not int8: arrays of bytes may be images or masks."""


def default_roof(math: str | None) -> str:
    """The default roof of a case by the type of its operations."""
    return math if math in TENSOR_MATH else "copy"


@dataclass(frozen=True, slots=True)
class Work:
    """Minimum work of one launch: bytes through device memory, and operations (int8 operations count as flops).

    ``math`` is the type, one of MATH, whose peak applies to the operations; None: that of the inputs (``Case.math``).
    ``peak_tflops`` is the peak if it is not that of a type. Raises ValueError for invalid values.
    """

    bytes: int
    flops: int = 0
    peak_tflops: float | None = None
    math: str | None = None

    def __post_init__(self) -> None:
        check(self, WORK_FIELDS, "work")

    @property
    def claimed(self) -> bool:
        """Whether any work is declared; without work there is no fraction of peak."""
        return bool(self.bytes or self.flops)


WORK_FIELDS: fields.Kinds = {
    "bytes": fields.WHOLE_COUNT,
    "flops": fields.COUNT,
    "peak_tflops": fields.POSITIVE | fields.NOTHING,
    "math": fields.one_of(MATH) | fields.NOTHING,
}
