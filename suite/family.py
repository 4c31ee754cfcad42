"""A family of one kernel in a few lines; families of several stages build their cases from ``peakgate.case`` instead.

::

    FAMILY = kernel(
        "scale.cu",
        arguments=lambda n: [Out(n), In(n), Value(n)],
        grid=lambda n: -(-n // 256),
        block=256,
        bytes=lambda n: 2 * 4 * n,
        reference=lambda xp, x: 2 * x,
        sizes=[1 << 26],
    )
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from peakgate.case import Argument, Array, Buffer, Case, Data, Family, Launch, Role, Scalar, Scale, Stage, Tier, Work

Size = int | tuple[int, ...]
"""A problem's size: its numbers are what ``arguments``, ``grid`` and ``bytes`` are called with."""

TOLERANCES = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 1e-5, "float64": 1e-12, "complex64": 1e-5}
"""By default: some units in the last place, as sums of a few hundred terms need. Other types must be equal."""

EDGES: Mapping[int, tuple[Size, ...]] = MappingProxyType(
    {
        1: (1, 31, 33, 127, 1000, 4099),
        2: ((1, 1), (31, 33), (127, 129), (129, 127), (3, 1030), (1030, 3)),
        3: ((1, 1, 1), (3, 31, 33), (5, 129, 127)),
    }
)
"""By number of dimensions: off every power of two, and long in either direction."""


def In(*shape: int, dtype: str = "float32", data: Data = None) -> Buffer:  # noqa: N802  (reads like a parameter)
    """A buffer that the kernel reads, filled from ``data`` (see ``peakgate.case.Data``): indices by ``data=(0, n)``."""
    return Buffer(Role.IN, shape, dtype, data)


def Out(*shape: int, dtype: str = "float32") -> Buffer:  # noqa: N802
    """A buffer that the kernel writes in full."""
    return Buffer(Role.OUT, shape, dtype)


def InOut(*shape: int, dtype: str = "float32", data: Data = None) -> Buffer:  # noqa: N802
    """A buffer that the kernel reads and changes in place."""
    return Buffer(Role.INOUT, shape, dtype, data)


def Value(value: float, dtype: str | None = None) -> Scalar:  # noqa: N802
    """An argument passed by value: int32 or float32 unless ``dtype`` says otherwise."""
    return Scalar(value, dtype or ("int32" if isinstance(value, int) else "float32"))


def kernel(
    source: str,
    *,
    arguments: Callable[..., Sequence[Argument]],
    grid: Callable[..., int | tuple[int, ...]],
    block: int | tuple[int, ...],
    reference: Callable[..., Array | tuple[Array, ...]],
    sizes: Sequence[Size],
    bytes: Callable[..., int],  # noqa: A002  (what it is)
    flops: Callable[..., int] | None = None,
    small_sizes: Sequence[Size] = (),
    edges: Sequence[Size] = (),
    tolerance: float | None = None,
    shared_bytes: int = 0,
    defines: Mapping[str, object] = MappingProxyType({}),
    entry: str = "",
    options: Sequence[str] = (),
    include: Sequence[str] = (),
    constants: Mapping[str, Buffer] = MappingProxyType({}),
    cooperative: bool = False,
    name: str = "",
    lesson: str = "",
    min_capability: tuple[int, int] = (7, 5),
) -> Family:
    """A family with the one kernel in ``source``, a .cu file beside the caller's, named like its folder.

    ``arguments``, ``grid``, ``bytes`` and ``flops`` are functions of a size; ``block`` is in threads.
    ``reference(xp, *inputs)`` gives the expected outputs, in argument order, against the array module ``xp``.
    ``sizes`` are measured on a GPU, all in the gate; ``small_sizes`` run in the emulator; ``edges`` prove the build
    right where tidy sizes cannot: by default numbers off every power of two. ``tolerance`` is the largest
    ``max|out - ref| / max|ref|``: by default by the outputs' type (TOLERANCES), equal bits for integers.
    ``entry`` names the kernel to launch, ``softmax<float, 256>`` say, where it is not named like the file; ``options``
    go to the compiler, ``include`` are folders seen from the caller's, ``constants`` fill ``__constant__`` variables.
    """
    caller = inspect.currentframe()
    assert caller is not None
    assert caller.f_back is not None
    folder = Path(caller.f_back.f_globals["__file__"]).parent
    stage = Stage(
        name or Path(source).stem,
        lesson,
        source=folder / source,
        min_capability=min_capability,
        entry=entry,
        options=tuple(options),
        include=tuple(folder / path for path in include),
        constants=tuple(constants.items()),
        cooperative=cooperative,
    )
    shape = _three(block)
    macros = tuple((key, str(value)) for key, value in defines.items())

    def expected(xp: Any, inputs: Sequence[Array]) -> Sequence[Array]:
        found = reference(xp, *inputs)
        return found if isinstance(found, tuple | list) else (found,)

    def case(size: Size, tier: Tier = Tier.FULL) -> Case:
        numbers = size if isinstance(size, tuple) else (size,)
        given = tuple(arguments(*numbers))
        return Case(
            family=folder.name,
            stage=stage,
            launch=Launch(_three(grid(*numbers)), shape, shared_bytes),
            arguments=given,
            work=Work(bytes(*numbers), flops(*numbers) if flops else 0),
            reference=expected,
            size="x".join(map(str, numbers)),
            defines=macros,
            dtype=_output_type(given),
            tolerance=TOLERANCES.get(_output_type(given), 0.0) if tolerance is None else tolerance,
            tier=tier,
        )

    dimensions = len(sizes[0]) if isinstance(sizes[0], tuple) else 1
    probed: tuple[Size, ...] = tuple(edges) or EDGES[dimensions]

    def cases(scale: Scale) -> Iterator[Case]:
        if scale is Scale.BENCH:
            yield from (case(size, Tier.GATE) for size in sizes)
        else:
            yield from (case(size) for size in tuple(small_sizes) or probed[-1:])

    def probes(_: Case) -> Iterator[Case]:
        yield from (case(size) for size in probed)

    return Family(folder.name, lesson or f"{stage.name}, one kernel", (stage,), cases, probes)


def _three(numbers: int | tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*((numbers,) if isinstance(numbers, int) else numbers), 1, 1)[:3]
    return x, y, z


def _output_type(arguments: Sequence[Argument]) -> str:
    written = [buffer for buffer in arguments if isinstance(buffer, Buffer) and buffer.role in (Role.OUT, Role.INOUT)]
    return written[0].dtype if written else "float32"
