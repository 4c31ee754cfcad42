"""Two groups of a kernel's parameters: how its outputs are checked, and how its source is compiled."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import fields as fields_of
from math import sqrt
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from peakgate.base.formatting import nearest, shown
from peakgate.spec import fields
from peakgate.spec.arguments import Argument, Buffer, Role
from peakgate.spec.case import is_allowance
from peakgate.spec.dtypes import Array, unit_of_sums
from peakgate.spec.fields import FLAG, FUNCTION, TEXT, WORD, Kind, check, mapping, several
from peakgate.spec.operands import LISTS, in_folder

TOLERANCES = {
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
    "float8_e4m3fn": 2.0**-8,
    "float8_e5m2": 2.0**-8,
    "float4_e2m1fn": 2.0**-8,
    "float32": 1e-5,
    "float64": 1e-12,
    "complex64": 1e-5,
    "complex128": 1e-12,
}
"""Default tolerance by output type, without ``tolerance`` and ``terms``: enough for sums of up to some ten thousand
terms in float32 (float64), in any order; for short types enough for intermediate results rounded to them,
for 8-bit and 4-bit floats to bfloat16. Integers and scales (float8_e8m0fnu) must be equal."""

_FIRST_SPECIFIC = (9, 0)
"""The first compute capability with architecture-specific features."""

FEW = Kind(
    f"a value, or a list of at most {fields.LONGEST_LINE}, one for each output",
    lambda value: not isinstance(value, Sequence) or len(value) <= fields.LONGEST_LINE,
)
_TEXTS = several(TEXT, LISTS)
_ANY_TEXT = TEXT | Kind("a number or a flag", lambda value: isinstance(value, int | float | np.generic))


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The allowed error of each element of an output.

    The bound is ``tolerance * max(|ref|, magnitude)`` plus the rounding of the type (``peakgate.judge.correctness``).
    ``tolerance``, a number or one per output, is by default that of each output's type (TOLERANCES), 0 for integers.
    ``terms``, a number or a function of a size, is the number of terms summed into an element in float32 (float64 for
    that type); the tolerance is then what such sums need, including those of tensor cores. ``scale(xp, *inputs)``
    returns the magnitude of the terms, such as ``xp.sqrt((a * a) @ (b * b))`` for a matrix product; without it the
    magnitude is estimated. With ``atol`` or ``rtol`` the bound is NumPy's ``atol + rtol * |ref|`` instead.
    """

    tolerance: float | Sequence[float] | None = None
    terms: Callable[..., int] | int | None = None
    scale: Callable[..., Array | tuple[Array | None, ...]] | None = None
    atol: float = 0.0
    rtol: float | None = None

    def __post_init__(self) -> None:
        check(self, {"tolerance": FEW}, "check")

    def tolerances(
        self, arguments: Sequence[Argument], terms: int | None, math: str | None = None
    ) -> float | tuple[float, ...]:
        """One tolerance if all outputs have the same, else one for each; ``terms`` is that of the size.

        ``math`` is the type of the operations, None if the family does not give it.
        """
        if terms is not None and not is_allowance(terms):
            raise ValueError(f"terms is {shown(terms)}; expected a finite number from 0 up")
        given: Any = self.tolerance
        if given is not None:
            return tuple(given) if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str) else given
        types = output_types(arguments)
        found = [TOLERANCES.get(each, 0.0) if terms is None else tolerance_of_sums(each, terms, math) for each in types]
        return found[0] if len(set(found)) == 1 else tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compile:
    """How the source of a kernel is compiled.

    ``entry`` names the kernel to launch, such as ``softmax<float, 256>``; by default it is the one kernel of the file,
    or of several the one that is named like the file.
    ``defines`` are macros, or a function of the axes; ``options`` go to the compiler; ``include`` are folders relative
    to the family's. ``constants`` fill ``__constant__`` variables and are the last inputs of the reference.
    ``cooperative`` is a cooperative launch, whose blocks may synchronize with each other. ``min_capability`` is the
    lowest compute capability with every instruction it uses, ``"8.0"`` or ``(8, 0)``; ``"9.0a"`` compiles for the
    architecture-specific features of 9.0 (``wgmma``, ``setmaxnreg``) and runs on GPUs of 9.0 only.
    """

    entry: str = ""
    defines: Mapping[str, object] | Callable[..., Mapping[str, object]] = field(default_factory=dict)
    options: Sequence[str] = ()
    include: Sequence[str] = ()
    constants: Mapping[str, Buffer] = field(default_factory=dict)
    cooperative: bool = False
    min_capability: tuple[int, int] | str = (7, 5)

    def __post_init__(self) -> None:
        check(self, COMPILE_FIELDS, "compile")

    def of_stage(self, folder: Path) -> dict[str, Any]:
        """The fields of a ``Stage``, with paths relative to ``folder``."""
        given = self.min_capability
        match = re.fullmatch(r"(\d+)\.(\d)(a?)", given) if isinstance(given, str) else None
        found = (int(match[1]), int(match[2])) if match else given
        specific = bool(match and match[3])
        if isinstance(found, str) or (specific and found < _FIRST_SPECIFIC):
            raise ValueError(f"min_capability is {given!r}; expected '8.0' say, or from '9.0a' on with an a")
        placed = {name: in_folder(buffer, folder, "{size}") for name, buffer in self.constants.items()}
        return {
            "min_capability": found,
            "specific": specific,
            "options": tuple(self.options),
            "include": tuple(folder / path for path in self.include),
            "constants": tuple(placed.items()),
            "cooperative": self.cooperative,
        }


class Plain(TypedDict, total=False):
    """The fields of ``Check`` and ``Compile`` as parameters of ``kernel``."""

    tolerance: float | Sequence[float] | None
    terms: Callable[..., int] | int | None
    scale: Callable[..., Array | tuple[Array | None, ...]] | None
    atol: float
    rtol: float | None
    entry: str
    defines: Mapping[str, object] | Callable[..., Mapping[str, object]]
    options: Sequence[str]
    include: Sequence[str]
    constants: Mapping[str, Buffer]
    cooperative: bool
    min_capability: tuple[int, int] | str


def gathered(group: type[Any], name: str, given: Any, plain: Mapping[str, Any]) -> Any:
    """The group as given, or made of its fields that were given as parameters; raises ValueError for both."""
    own = {each.name: plain[each.name] for each in fields_of(group) if each.name in plain}
    if given is not None and own:
        raise ValueError(
            f"kernel: {next(iter(own))} is given beside {name}; expected it in {name}={group.__name__}(...)"
        )
    return group(**own) if given is None else given


def refuse_unknown(plain: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise ValueError for the first parameter that ``kernel`` does not have."""
    every = {*known, *Plain.__annotations__}
    for name in plain:
        if name not in every:
            raise ValueError(f"kernel: no parameter is named {name!r}{nearest(name, every)}")


def output_types(arguments: Sequence[Argument]) -> list[str]:
    """The type of each output; float32 if there is no output."""
    written = [buffer for buffer in arguments if isinstance(buffer, Buffer) and buffer.role in (Role.OUT, Role.INOUT)]
    return [buffer.dtype for buffer in written] or ["float32"]


CUT_SUMS = ("tf32", "bf16", "fp16")
"""The types whose sums tensor cores truncate to float32 instead of rounding them."""


def tolerance_of_sums(dtype: str, terms: int, math: str | None = None) -> float:
    """The tolerance of sums of ``terms`` products in any order: ``u * (8 + 5 * sqrt(terms))``.

    ``u`` is the unit roundoff of the sums: that of float64 for float64, that of float32 for other floating-point types.
    A sequential sum has a rounding error of some ``0.3 * u * sqrt(terms)`` of its magnitude, up to nine times that
    among 16 million sums; other functions in place of the product add some units.

    With tensor cores (``math``) ``u * terms / 8`` is added. They add at most 16 products at a time and truncate each
    partial sum towards zero (M. Fasi, N. J. Higham, M. Mikaitis, S. Pranesh, Numerical behavior of NVIDIA tensor cores,
    2021): up to two units in each of the ``terms / 16`` steps, in one direction while the sum keeps its sign. Without
    this part some of 10^8 sums of 16384 terms exceed the tolerance on an H200, also those of cuBLAS.
    """
    if dtype not in TOLERANCES:
        return 0.0
    cut = terms / 8 if math in CUT_SUMS else 0.0
    return unit_of_sums(dtype) * (8 + 5 * sqrt(terms) + cut)


COMPILE_FIELDS: fields.Kinds = {
    "entry": TEXT,
    "defines": mapping(fields.MACRO, _ANY_TEXT) | FUNCTION,
    **dict.fromkeys(("options", "include"), _TEXTS),
    "constants": mapping(WORD, fields.instance(Buffer, "an array, as In gives it")),
    "cooperative": FLAG,
    "min_capability": fields.CAPABILITY | WORD,
}
