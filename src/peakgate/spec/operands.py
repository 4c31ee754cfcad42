"""The arguments of a kernel as a family lists them, and launches as it describes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

from peakgate.base.formatting import shown
from peakgate.spec import fields
from peakgate.spec.arguments import StridedMapArgument, Surface, TensorMapArgument, TexelBuffer, Texture
from peakgate.spec.case import Argument, Buffer, Data, KernelLaunch, Launch, Role, Scalar, Struct
from peakgate.spec.fields import NOTHING, TEXT, WORD, Kind, check, several

Extent = int | tuple[int, ...]
"""The extents of a grid or block: one number, or up to three."""
ArgumentList = Sequence["Argument | TensorMap"] | Mapping[str, "Argument | TensorMap"]
"""The result of ``arguments`` for a size: a list, or a dict by name."""
AtSize = Callable[[str, Any], Any]
"""``at(name, value)``: the value of a parameter at a size; a function is called."""


def In(  # noqa: N802  (reads like a parameter)
    *shape: int, dtype: str = "float32", data: Data | str = None, texture: Texture | None = None
) -> Buffer:
    """A buffer that the kernel reads, filled from ``data`` (see ``peakgate.case.Data``), such as indices in ``(0, n)``.

    ``dtype`` is a NumPy name, or one of ``peakgate.spec.dtypes.RAW``, such as bfloat16. A string
    as ``data`` is the file of a saved array, relative to the family's folder; ``{size}`` in it is replaced by the
    case's size. With ``texture=Texture(linear=True, ...)`` the kernel receives a ``cudaTextureObject_t``.
    """
    return _buffer(Role.IN, shape, dtype, data, texture)


def Out(*shape: int, dtype: str = "float32", surface: Surface | None = None) -> Buffer:  # noqa: N802
    """A buffer that the kernel writes in full; with ``surface=Surface()`` as a ``cudaSurfaceObject_t``."""
    return _buffer(Role.OUT, shape, dtype, None, surface)


def InOut(  # noqa: N802
    *shape: int, dtype: str = "float32", data: Data | str = None, surface: Surface | None = None
) -> Buffer:
    """A buffer that the kernel reads and changes in place; with ``surface=Surface()`` through a surface object."""
    return _buffer(Role.INOUT, shape, dtype, data, surface)


def Temp(*shape: int, dtype: str = "float32") -> Buffer:  # noqa: N802
    """A buffer that one launch writes and a later one of the same case reads."""
    return Buffer(Role.TEMP, shape, dtype)


def Scratch(*shape: int, dtype: str = "float32") -> Buffer:  # noqa: N802
    """A buffer that is zeroed when allocated, and that the kernel leaves ready for its next launch."""
    return Buffer(Role.SCRATCH, shape, dtype)


def _buffer(
    role: Role, shape: tuple[Any, ...], dtype: str, data: Data | str, seen_as: Texture | Surface | None
) -> Buffer:
    if text := next((each for each in shape if isinstance(each, str)), None):
        raise ValueError(f"{role.value}: shape has {text!r}, expected whole numbers; a type would be dtype={text!r}")
    filled = Path(data) if isinstance(data, str) else data
    return Buffer(role, shape, dtype, filled) if seen_as is None else TexelBuffer(role, shape, dtype, filled, seen_as)


def Value(value: float, dtype: str | None = None) -> Scalar:  # noqa: N802
    """An argument passed by value, by default int32 or float32."""
    return Scalar(value, dtype or ("int32" if isinstance(value, int) else "float32"))


@dataclass(frozen=True, slots=True)
class TensorMap:
    """An argument ``const __grid_constant__ CUtensorMap`` of <cuda.h>, for TMA copies of the array ``of``.

    ``of`` is an ``In``, ``Out`` or ``InOut``, which need not be an argument itself, or the name of an argument.
    ``box`` is the box of one copy, rows before columns as in the array: ``TensorMap(a, box=(128, 64), swizzle=128)``.
    For ``swizzle`` and ``l2``, in bytes, see ``peakgate.spec.arguments``. The kernel does not support a size for which
    CUDA has no such map, such as rows that are not a multiple of 16 bytes. ``axes`` are (extent, stride) in elements of
    the map's axes, the contiguous one last, if they differ from the array's: 64 columns of all rows at a time are
    ``axes=((k // 64, 64), (m, k), (64, 1))``.
    """

    of: Buffer | str
    box: tuple[int, ...]
    swizzle: Literal[0, 32, 64, 128] = 0
    l2: Literal[0, 64, 128, 256] = 128
    axes: tuple[tuple[int, int], ...] | None = None

    def __post_init__(self) -> None:
        check(self, TENSOR_MAP_FIELDS, "TensorMap")


_GIVEN = Kind(
    f"a list or a dict of at most {fields.MOST_VALUES} arguments",
    lambda value: isinstance(value, tuple | list | Mapping) and len(value) <= fields.MOST_VALUES,
)


@dataclass(frozen=True, slots=True)
class Operands:
    """The arguments of a case: all of them, their names ("" without), and the indices of those that a launch takes."""

    every: tuple[Argument, ...]
    names: tuple[str, ...]
    passed: tuple[int, ...]

    @staticmethod
    def of(given: ArgumentList, folder: Path, size: str) -> Operands:
        """From a family's list; an array that only tensor maps or structs use is inserted before the first of these."""
        check({"arguments": given}, {"arguments": _GIVEN})
        listed: list[tuple[str, Any]] = list(
            given.items() if isinstance(given, Mapping) else (("", each) for each in given)
        )
        for number, (name, each) in enumerate(listed, 1):
            if not isinstance(each, Buffer | Scalar | Struct | TensorMap | TensorMapArgument):
                which = f"argument {number} of {len(listed)}{name and f', {name},'}"
                what = "left to decide" if each is ... else shown(each)
                expected = "In, Out, InOut, Temp, Scratch, Value, Struct or TensorMap"
                raise TypeError(f"{which} is {what}; expected {expected}")
        every: list[tuple[str, Argument | TensorMap]] = []
        passed = []
        for name, each in listed:
            for member, array in _behind(each):
                if not any(array is known for _, known in (*listed, *every)):
                    every.append((f"{name}.{member}" if name and member else "", array))
            passed.append(len(every))
            every.append((name, each))
        names = tuple(name for name, _ in every)

        def position(array: Buffer) -> int:
            return next(at for at, (_, known) in enumerate(every) if known is array)

        def placed(each: Argument | TensorMap) -> Argument:
            if isinstance(each, Struct):
                return each.placed(position)
            if not isinstance(each, TensorMap):
                return in_folder(each, folder, size)
            of = _position(names, each.of, "a tensor map") if isinstance(each.of, str) else position(each.of)
            box = tuple(map(int, each.box))
            if each.axes is None:
                return TensorMapArgument(of, box, each.swizzle, each.l2)
            axes = tuple((int(extent), int(stride)) for extent, stride in each.axes)
            return StridedMapArgument(of, box, each.swizzle, each.l2, axes)

        return Operands(tuple(placed(each) for _, each in every), names, tuple(passed))

    def sequence(self, launches: Sequence[LaunchOf], at: AtSize, alone: KernelLaunch) -> list[KernelLaunch]:
        """The launches at a size; empty for a single launch that takes all arguments."""
        if launches:
            return [KernelLaunch(each.entry, each.shape(at), self.taken(each)) for each in launches]
        return [] if len(self.passed) == len(self.every) else [replace(alone, takes=self.passed)]

    def taken(self, described: LaunchOf, *, by_reference: bool = False) -> tuple[int, ...]:
        """Indices of the arguments that a launch takes; raises ValueError for an unknown name.

        A reference kernel that names none takes all arguments except tensor maps, and the arrays of these.
        """
        if described.takes:
            asked_by = f"launch of {described.entry}"
            return tuple(_position(self.names, name, asked_by) for name in described.takes.split())
        mapped = {each.of for each in self.every if isinstance(each, TensorMapArgument)} if by_reference else set()
        among = sorted({*self.passed, *mapped})
        return tuple(at for at in among if _usual(self.every[at], by_reference=by_reference))


def _behind(given: Argument | TensorMap) -> list[tuple[str, Buffer]]:
    """The arrays that an argument describes or points to, with their names in a struct."""
    if isinstance(given, Struct):
        return [(name, array) for name, array in given.pointers().values() if isinstance(array, Buffer)]
    return [("", given.of)] if isinstance(given, TensorMap) and isinstance(given.of, Buffer) else []


def _usual(argument: Argument, *, by_reference: bool) -> bool:
    """Whether a launch without ``takes`` takes this argument."""
    if isinstance(argument, Buffer):
        return argument.role not in (Role.TEMP, Role.SCRATCH)
    return not (by_reference and isinstance(argument, TensorMapArgument))


@dataclass(frozen=True, slots=True)
class LaunchOf:
    """One of several launches, or the launch of a reference kernel: ``entry`` with the arguments in ``takes``.

    ``takes`` are names separated by blanks, in the kernel's order; by default all arguments except Temp and Scratch.
    ``grid`` is a number or a function of the size. ``source`` is the file of a reference kernel, by default that of
    the measured kernel.
    """

    entry: str
    takes: str = ""
    _: KW_ONLY
    grid: Callable[..., Extent] | Extent
    block: Extent
    shared_bytes: int = 0
    source: str = ""

    def __post_init__(self) -> None:
        check(self, LAUNCH_PARAMETERS, "launch")

    def shape(self, at: AtSize) -> Launch:
        """The launch at a size."""
        return Launch(_three(at("grid", self.grid)), _three(self.block), self.shared_bytes)


launch = LaunchOf
"""The name in family files."""


def in_folder(argument: Argument, folder: Path, size: str) -> Argument:
    """The argument; the path of a saved array is made relative to the family's folder."""
    if isinstance(argument, Buffer) and isinstance(argument.data, Path):
        return replace(argument, data=folder / str(argument.data).replace("{size}", size))
    return argument


def _position(names: Sequence[str], name: str, asked_by: str) -> int:
    """The index of the argument with this name; raises ValueError if there is none."""
    if name not in names:
        known = ", ".join(filter(None, names))
        advice = f"the arguments are {known}" if known else "give the arguments names: {'out': Out(n), ...}"
        raise ValueError(f"{asked_by}: no argument is named {name}; {advice}")
    return names.index(name)


def _three(numbers: int | tuple[int, ...]) -> tuple[int, int, int]:
    given = tuple(numbers) if isinstance(numbers, tuple | list) else (numbers,)
    return cast("tuple[int, int, int]", (*given, 1, 1)[: max(3, len(given))])


LISTS = tuple, list
_EXTENT = fields.whole(0, fields.LARGEST_EXTENT)
TENSOR_MAP_FIELDS: fields.Kinds = {
    "of": fields.instance(Buffer, "an array, as In gives it") | WORD,
    "box": several(_EXTENT, LISTS),
    **dict.fromkeys(("swizzle", "l2"), _EXTENT),
    "axes": several(several(fields.whole(0, fields.LARGEST_COUNT), LISTS), LISTS) | NOTHING,
}
LAUNCH_PARAMETERS: fields.Kinds = {
    "entry": TEXT,
    "takes": TEXT,
    "source": TEXT,
}
