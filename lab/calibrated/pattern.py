"""Small kernels with known defects, and their sound twins: how they are written.

Each pattern is the body of a kernel with holes ($A, $B), and its variants fill them: soundly, or with one defect. In
the manner of Indigo and DataRaceBench, written for this repository. Every kernel is
``void NAME(T* out, const T* in, int n)`` and runs in 2 blocks of 64 threads, those of order.py in up to 4, with 512
bytes of dynamic shared memory;
``i`` is a thread's place in the grid, ``t`` that in its block. The arrays have 128 elements, those of patterns about
bounds 100; ``n`` is their length. Where a pattern says so, ``in`` is a texture object or ``out`` a surface object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from string import Template

from peakgate.spec.arguments import Surface, TexelBuffer, Texture
from peakgate.spec.case import Role

CLEAN, RACY, DIVERGENT, BOUNDS, STUCK = "clean", "racy", "divergent", "bounds", "stuck"
GRID, BLOCK, SHARED_BYTES = 2, 64, 512
GROUPS = "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n"
BLOCK_SYNC, WARP_SYNC, NOTHING = "__syncthreads();", "__syncwarp();", ";"

Variant = tuple[str, str, Mapping[str, str]]
"""Name, what it is (CLEAN, RACY, ...), and what fills the holes."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of the suite; ``label`` is what it is, ``may_hang`` that a GPU may never finish it."""

    name: str
    label: str
    dtype: str
    n: int
    cooperative: bool
    may_hang: bool
    text: str
    objects: tuple[TexelBuffer | None, TexelBuffer | None] = (None, None)
    """How ``out`` and ``in`` are seen where they are no pointers."""
    grid: int = GRID
    why: str = ""
    """The rule that the label rests on, where it is not plain from the text."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """The body of a kernel and its variants; ``head`` stands before the kernel."""

    name: str
    body: str
    variants: tuple[Variant, ...]
    types: tuple[str, ...] = ("int", "float")
    n: int = 128
    head: str = ""
    cooperative: bool = False
    may_hang: bool = False
    texture: Texture | None = None
    surface: Surface | None = None
    grid: int = GRID


_DTYPES = {"int": "int32", "float": "float32", "double": "float64", "unsigned char": "uint8", "short": "int16"}


def variants(pattern: Pattern) -> Iterator[Kernel]:
    """The kernels of a pattern."""
    out = "cudaSurfaceObject_t" if pattern.surface else "$T*"
    given = "cudaTextureObject_t" if pattern.texture else "const $T*"
    for variant, label, holes in pattern.variants:
        for dtype in pattern.types:
            name = f"{pattern.name}_{variant}_{dtype.split()[-1]}"
            body = Template(pattern.body).substitute(holes, T=dtype, V=f"{dtype}2").replace("$T", dtype)
            parameters = f"({out} out, {given} in, int n)".replace("$T", dtype)
            text = (
                f'{pattern.head}extern "C" __global__ void {name}{parameters} {{\n'
                "    const int t = threadIdx.x, i = blockIdx.x * 64 + t;\n"
                f"    {_lines(body)}\n}}\n"
            )
            may_hang = pattern.may_hang and label != CLEAN
            shape, element = (pattern.n,), _DTYPES[dtype]
            surface, texture = pattern.surface, pattern.texture
            objects = (
                TexelBuffer(Role.INOUT, shape, element, None, surface) if surface else None,
                TexelBuffer(Role.IN, shape, element, None, texture) if texture else None,
            )
            yield Kernel(
                name,
                label,
                element,
                pattern.n,
                pattern.cooperative,
                may_hang,
                text,
                objects,
                pattern.grid,
                holes.get("why", ""),
            )


def _lines(body: str) -> str:
    """A statement per line, so that a report names one."""
    return body.replace("; ", ";\n    ").replace("{ ", "{\n    ")
