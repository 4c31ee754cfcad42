"""Parameters of a kernel by subject: how its outputs are checked, and how its source is compiled."""

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
    "float8_e4m3fn": 2.0**-4,
    "float8_e5m2": 2.0**-3,
    "float32": 1e-5,
    "float64": 1e-12,
    "complex64": 1e-5,
    "complex128": 1e-12,
}
"""By an output's type, where a family gives neither ``tolerance`` nor ``terms``: sums of up to some ten thousand terms
in float32 (float64), in any order; of short types intermediate results that are rounded to them. Integers are equal."""

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
    """How far each element of an output may be off its reference.

    By ``tolerance * max(|ref|, magnitude)``, besides the rounding of its type (see ``peakgate.judge.correctness``).
    ``tolerance``, a number or one per output, is by default that of each output's type (TOLERANCES), equal values for
    integers; with ``terms``, how many terms are summed into an element in float32 (float64 for that type), it is what
    such sums need, on tensor cores where the case's type of operations is theirs. ``scale(xp, *inputs)`` gives the
    magnitude, the size of what is summed: ``xp.sqrt((a * a) @ (b * b))`` of a product of matrices; without it, it is
    estimated. ``atol`` and ``rtol`` in their place are NumPy's: ``atol + rtol * |ref|``. ``terms`` may be a function of
    a size.
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
        """One tolerance where all outputs have the same, else one for each; ``terms`` are those of the size.

        ``math`` is the type of the operations, where a family says it.
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

    ``entry`` names the kernel to launch, ``softmax<float, 256>`` say, where it is not named like the file; ``defines``
    are macros; ``options`` go to the compiler, ``include`` are folders seen from the family's, ``constants`` fill
    ``__constant__`` variables and come last among the reference's inputs. ``cooperative`` launches all blocks at once,
    so that they may wait for each other. ``min_capability`` is the lowest compute capability that has every
    instruction it uses, ``"8.0"`` or ``(8, 0)``; with ``"9.0a"`` it is compiled for the architecture-specific features
    of 9.0 (``wgmma``, ``setmaxnreg``), and runs on GPUs of 9.0 alone. ``defines`` may be a function of the axes.
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
        """What a ``Stage`` has of it, with paths seen from ``folder``."""
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
    """The group that is given, or one of its fields where these are parameters of their own."""
    own = {each.name: plain[each.name] for each in fields_of(group) if each.name in plain}
    if given is not None and own:
        raise ValueError(
            f"kernel: {next(iter(own))} is given beside {name}; expected it in {name}={group.__name__}(...)"
        )
    return group(**own) if given is None else given


def refuse_unknown(plain: Mapping[str, Any], known: Collection[str]) -> None:
    """ValueError for the first parameter that ``kernel`` does not have."""
    every = {*known, *Plain.__annotations__}
    for name in plain:
        if name not in every:
            raise ValueError(f"kernel: no parameter is named {name!r}{nearest(name, every)}")


def output_types(arguments: Sequence[Argument]) -> list[str]:
    """The type of each output; float32 where there is none."""
    written = [buffer for buffer in arguments if isinstance(buffer, Buffer) and buffer.role in (Role.OUT, Role.INOUT)]
    return [buffer.dtype for buffer in written] or ["float32"]


CUT_SUMS = ("tf32", "bf16", "fp16")
"""The types of operations whose sums tensor cores cut to float32 instead of rounding them."""


def tolerance_of_sums(dtype: str, terms: int, math: str | None = None) -> float:
    """The tolerance of sums of ``terms`` products, in an order of the kernel's choice: ``u * (8 + 5 * sqrt(terms))``.

    ``u`` is the unit roundoff of the sums: float64's for float64, float32's for every other type that rounds. A sum in
    sequence has a rounding error of some ``0.3 * u * sqrt(terms)`` of its magnitude, up to nine times that in 16
    million of them; the functions in a product's place add some units.

    With the ``math`` of tensor cores ``u * terms / 8`` is added. They add 16 products at a time, or fewer, and cut each
    partial sum towards zero (M. Fasi, N. J. Higham, M. Mikaitis, S. Pranesh, Numerical behavior of NVIDIA tensor cores,
    2021): up to two units at each of the ``terms / 16`` steps, in one direction as long as the sum keeps its sign.
    Without this share some of a hundred million sums of 16384 terms are beyond the tolerance on an H200, also those of
    cuBLAS.
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
