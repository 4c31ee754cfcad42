"""A stage (one kernel file and its lesson), the launches of its kernels, and the work of a launch."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from peakgate.base.errors import PeakgateError
from peakgate.base.files import read_text
from peakgate.base.formatting import shown
from peakgate.spec import fields
from peakgate.spec.arguments import Buffer
from peakgate.spec.fields import check, several, tuple_of
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


@dataclass(frozen=True, slots=True)
class Launch:
    """Grid in blocks, block in threads, dynamic shared memory in bytes; raises ValueError for invalid numbers."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int = 0

    def __post_init__(self) -> None:
        check(self, LAUNCH_FIELDS, "a launch")

    @property
    def threads_per_block(self) -> int:
        return math.prod(self.block)


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """One of a case's launches: a kernel of the stage's file, its shape, and the indices of its arguments."""

    kernel: str
    launch: Launch
    takes: tuple[int, ...]

    def __post_init__(self) -> None:
        check(self, KERNEL_LAUNCH_FIELDS, "a launch")


LONGEST_DECLARATION = 500
"""Characters before a kernel's name in which its ``__global__`` is looked for."""


class SourceLine(NamedTuple):
    """A line of a file, and its text without indentation."""

    path: Path
    line: int = 1
    text: str = ""


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a family.

    - ``source``: its ``.cu`` file, or None for an ``operation``: a memcpy or library call that is a reference
      implementation.
    - ``entry``: the kernel in it that is launched, by default the stage's name: a name or a template-id such as
      ``softmax<float, 256>``, with its namespace or parameter types (``scale<3>(float*, int)``) if ambiguous.
    - ``more``: the other kernels of the file, for cases of several launches.
    - ``include``: further include folders; ``options``: further options of NVRTC, of which the emulator uses macros and
      the language standard.
    - ``constants``: ``__constant__`` or ``__device__`` variables, filled with input data before the launch; they are
      the last inputs of the reference.
    - ``cooperative``: a cooperative launch, which the emulator does not support.
    - ``min_capability``: the lowest compute capability with every instruction that it uses; ``specific``: it uses the
      architecture-specific features of that capability (``sm_90a``), which other GPUs lack.
    - ``host_bound``: its time depends on the host as much as on the GPU; measured in the full tier, never in the gate.
    """

    name: str
    lesson: str
    source: Path | None = None
    operation: str | None = None
    min_capability: tuple[int, int] = (7, 5)
    specific: bool = False
    cooperative: bool = False
    host_bound: bool = False
    entry: str = ""
    more: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    include: tuple[Path, ...] = ()
    constants: tuple[tuple[str, Buffer], ...] = ()

    @property
    def kernel(self) -> str:
        """The C++ name of the kernel that is launched."""
        return self.entry or self.name

    @property
    def kernels(self) -> tuple[str, ...]:
        """Every kernel that is launched, the main one first."""
        return (self.kernel, *self.more)

    @property
    def functions(self) -> tuple[str, ...]:
        """The kernels' names without namespaces, template arguments and parameters."""
        return tuple(re.split("[<(]", name)[0].strip().rpartition("::")[2] for name in self.kernels)

    @property
    def source_line(self) -> SourceLine | None:
        """The line of its source that defines the kernel, or else names it first; None for an operation."""
        if self.source is None:
            return None
        text = ""
        with suppress(PeakgateError):  # of a file that cannot be read
            text = read_text(self.source)
        named = [found.start() for found in re.finditer(rf"\b{re.escape(self.functions[0])}\s*\(", text)]
        before = {at: text[max(0, at - LONGEST_DECLARATION) : at] for at in named}  # not by one pattern: quadratic
        defined = (at for at in named if "__global__" in re.split("[;{}]", before[at])[-1])
        at = next(defined, next(iter(named), 0))
        return SourceLine(self.source, text.count("\n", 0, at) + 1)

    @property
    def needs(self) -> str:
        """The compute capability that it needs, ``8.0``; ``9.0a`` for architecture-specific features."""
        return f"{'.'.join(map(str, self.min_capability))}{'a' * self.specific}"

    def runs_on(self, capability: tuple[int, int]) -> bool:
        """Whether a GPU of this compute capability can run it."""
        return capability == self.min_capability if self.specific else capability >= self.min_capability

    def architecture(self, capability: tuple[int, int]) -> str:
        """The compilation target for this compute capability: ``sm_90``, or ``sm_90a`` if it is specific."""
        return f"sm_{capability[0]}{capability[1]}{'a' * self.specific}"

    def __post_init__(self) -> None:
        check(self, STAGE_FIELDS, f"stage {shown(self.name)}")
        if (self.source is None) == (self.operation is None):
            raise ValueError(f"stage {self.name}: give either a source or an operation, not both and not neither")


LAUNCH_FIELDS: fields.Kinds = {
    **dict.fromkeys(("grid", "block"), tuple_of(*[fields.EXTENT] * 3)),
    "shared_bytes": fields.SHARED_BYTES,
}
KERNEL_LAUNCH_FIELDS: fields.Kinds = {
    "kernel": fields.WORD,
    "launch": fields.instance(Launch, "a Launch"),
    "takes": several(fields.whole(0, fields.MOST_VALUES)),
}
STAGE_FIELDS: fields.Kinds = {
    "name": fields.WORD,
    "lesson": fields.TEXT,
    "source": fields.PATH | fields.NOTHING,
    "operation": fields.WORD | fields.NOTHING,
    "min_capability": fields.CAPABILITY,
    **dict.fromkeys(("specific", "cooperative", "host_bound"), fields.FLAG),
    "entry": fields.TEXT,
    "more": several(fields.WORD),
    "options": several(fields.WORD),
    "include": several(fields.PATH),
    "constants": several(tuple_of(fields.WORD, fields.instance(Buffer, "a Buffer"))),
}
WORK_FIELDS: fields.Kinds = {
    "bytes": fields.WHOLE_COUNT,
    "flops": fields.COUNT,
    "peak_tflops": fields.POSITIVE | fields.NOTHING,
    "math": fields.one_of(MATH) | fields.NOTHING,
}
