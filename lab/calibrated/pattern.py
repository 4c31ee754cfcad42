"""Small kernels with known defects, and their correct versions.

Each pattern is the body of a kernel with placeholders ($A, $B), which its variants fill, correctly or with one defect.
They are in ``patterns.toml`` with each variant's name, label and text, similar to Indigo and DataRaceBench, and written
for this repository. Every kernel is ``void NAME(T* out, const T* in, int n)`` and runs in 2 blocks of 64 threads
(order.py: up to 4), with 512 bytes of dynamic shared memory; ``i`` is a thread's index in the grid, ``t`` its index in
the block. The arrays have 128 elements, those of patterns about bounds 100; ``n`` is their length. A pattern may make
``in`` a texture object or ``out`` a surface object.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from peakgate.spec.arguments import Surface, TexelBuffer, Texture
from peakgate.spec.case import Role

CLEAN, RACY, DIVERGENT, BOUNDS, STUCK = "clean", "racy", "divergent", "bounds", "stuck"
GRID, BLOCK, SHARED_BYTES = 2, 64, 512
PATTERNS = Path(__file__).with_name("patterns.toml")
TEXTURES = {"array": Texture(), "linear memory": Texture(linear_memory=True)}

Variant = tuple[str, str, Mapping[str, str]]
"""Name, label (CLEAN, RACY, ...), and the text of the placeholders."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of the suite with its label."""

    name: str
    label: str
    dtype: str
    n: int
    cooperative: bool
    text: str
    objects: tuple[TexelBuffer | None, TexelBuffer | None] = (None, None)
    """Views of ``out`` and ``in`` that are texture or surface objects; None for pointers."""
    grid: int = GRID
    why: str = ""
    """The rule for the label, if it is not obvious from the text."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """The body of a kernel and its variants; ``head`` is the code before the kernel."""

    name: str
    body: str
    variants: tuple[Variant, ...]
    types: tuple[str, ...] = ("int", "float")
    n: int = 128
    head: str = ""
    cooperative: bool = False
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
            body = body.replace("; ", ";\n    ").replace("{ ", "{\n    ")  # a report's line identifies its statement
            parameters = f"({out} out, {given} in, int n)".replace("$T", dtype)
            text = (
                f'{pattern.head}extern "C" __global__ void {name}{parameters} {{\n'
                "    const int t = threadIdx.x, i = blockIdx.x * 64 + t;\n"
                f"    {body}\n}}\n"
            )
            shape, element = (pattern.n,), _DTYPES[dtype]
            surface, texture = pattern.surface, pattern.texture
            objects = (
                TexelBuffer(Role.INOUT, shape, element, None, surface) if surface else None,
                TexelBuffer(Role.IN, shape, element, None, texture) if texture else None,
            )
            yield Kernel(
                name, label, element, pattern.n, pattern.cooperative, text, objects, pattern.grid, holes.get("why", "")
            )


def read(path: Path, rules: Mapping[str, str] | None = None, **defaults: Any) -> Iterator[Pattern]:
    """The patterns of a TOML file; with ``rules`` each variant gives, after its label, the rule for it."""
    for entry in tomllib.loads(path.read_text(encoding="utf-8"))["pattern"]:
        found = []
        for name, label, *rest in entry.pop("variants"):
            why = {"why": rules[rest.pop(0)]} if rules else {}
            found.append((name, label, dict(zip("ABC", rest, strict=False)) | why))
        texels: dict[str, Any] = {"texture": TEXTURES[entry.pop("texture")]} if "texture" in entry else {}
        texels |= {"surface": Surface()} if entry.pop("surface", False) else {}
        yield Pattern(variants=tuple(found), **(defaults | entry), **texels)


def kernels() -> tuple[Kernel, ...]:
    """All kernels of ``patterns.toml``, by name."""
    made = [kernel for pattern in read(PATTERNS) for kernel in variants(pattern)]
    return tuple(sorted(made, key=lambda kernel: kernel.name))
