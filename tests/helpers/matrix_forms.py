"""Forms of the tensor cores' products, kernels that make them, and how their matrices lie in registers and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

TYPES: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "f32": np.float32,
    "f64": np.float64,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "s8": np.int8,
    "u8": np.uint8,
    "s4": ml_dtypes.int4,
    "u4": ml_dtypes.uint4,
    "s32": np.int32,
}
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "s4": 4, "u4": 4}
SPANS = {0: 0, 1: 128, 2: 64, 3: 32}
"""Bytes of a swizzle by the mode in a descriptor."""
_RANGES = {"s4": (-8, 8), "u4": (0, 16), "s8": (-128, 128), "u8": (0, 256), "s32": (-1000, 1000)}

Matrix = np.ndarray[Any, Any]


def drawn(generator: np.random.Generator, shape: tuple[int, int], kind: str) -> Matrix:
    """Elements of a type, normally distributed or over the range of its integers."""
    values = generator.integers(*_RANGES[kind], shape) if kind in _RANGES else generator.standard_normal(shape)
    return stored(values, kind)


def stored(values: Matrix, kind: str) -> Matrix:
    """Numbers as the type has them; tf32 without the bits that are not looked at."""
    found = values.astype(TYPES[kind])
    return (found.view(np.uint32) & 0xFFFFE000).view(np.float32) if kind == "tf32" else found


@dataclass(frozen=True)
class WarpForm:
    """``mma.sync``: rows of A, length of the sums; types of the sums, of A and of B.

    With a ``selector`` ``mma.sp``: of four columns of A two are given, of two of tf32 one, of four pairs of 4 bits two,
    with metadata.
    """

    rows: int
    depth: int
    sums: str
    a: str
    b: str
    selector: int | None = None
    ordered: bool = True
    columns = 8
    threads = 32

    @property
    def opcode(self) -> str:
        """The instruction's name."""
        sparse = "" if self.selector is None else "sp::ordered_metadata." if self.ordered else "sp."
        shape = f"m{self.rows}n8k{self.depth}"
        return f"mma.{sparse}sync.aligned.{shape}.row.col.{self.sums}.{self.a}.{self.b}.{self.sums}"

    def drawn(self, generator: np.random.Generator) -> tuple[Matrix, Matrix, Matrix]:
        """A, with zeros in columns that are not given, B, whose rows run along k too, and the initial sums."""
        a, b = drawn(generator, (self.rows, self.depth), self.a), drawn(generator, (8, self.depth), self.b)
        if self.selector is not None:
            given = np.take_along_axis(a, self.kept(), 1)
            a[...] = 0
            np.put_along_axis(a, self.kept(), given, 1)
        return a, b, drawn(generator, (self.rows, 8), self.sums)

    def kept(self) -> Matrix:
        """The columns of a sparse A that are given, by row."""
        generator, width = np.random.default_rng(self.depth), 2 if self.a == "tf32" else 4
        together = 2 if BITS[self.a] == 4 else 1
        chunks = np.arange(0, self.depth // together, width)
        order = generator.random((self.rows, len(chunks), width)).argsort()[:, :, : width // 2]
        found: Matrix = (np.sort(order) + chunks[:, None]).reshape(self.rows, -1, 1) * together + np.arange(together)
        return found.reshape(self.rows, -1)

    def metadata(self) -> Matrix:
        """The words of the lanes as in the PTX ISA's figures; all bits are set in lanes that are not selected."""
        together = 2 if BITS[self.a] == 4 else 1
        kept, words = self.kept()[:, ::together] // together, np.full(32, 0xFFFFFFFF, np.uint32)
        codes = np.where(kept % 2, 14, 4) if self.a == "tf32" else kept[:, ::2] % 4 | kept[:, 1::2] % 4 << 2
        lanes = codes.shape[1] // 4  # of each quad
        for lane in range(32):
            row, of_quad = divmod(lane, 4)
            part = of_quad % lanes
            if of_quad // lanes != self.selector:
                continue
            if BITS[self.a] <= 8:
                nibbles = [*codes[row + part % 2 * 8, part // 2 * 8 :][:8]]
            else:
                nibbles = [*codes[row, part * 4 :][:4], *codes[row + 8, part * 4 :][:4]]
            words[lane] = sum(int(each) << 4 * at for at, each in enumerate(nibbles))
        return words

    def statement(self, at: int) -> str:
        """A case of a switch that makes the product."""
        sparse = self.selector is not None
        counts = [self.rows * 8 // 32 // (2 if self.sums == "f16" else 1)]
        counts += [
            rows * depth * BITS[kind] // 32 // max(32, BITS[kind])
            for rows, depth, kind in ((self.rows, self.depth // (1 + sparse), self.a), (8, self.depth, self.b))
        ]
        letter = {"f32": "f", "f64": "d"}.get(self.sums, "r")
        wide = "d" if self.a == "f64" else "r"
        names = iter(range(sum(counts) + counts[0]))
        d, a, b, c = ("{" + ", ".join(f"%{next(names)}" for _ in range(n)) + "}" for n in (*counts, counts[0]))
        kind = {"f": "float", "d": "double", "r": "unsigned"}
        out = ", ".join(f'"={letter}"((({kind[letter]}*)d)[lane * {counts[0]} + {i}])' for i in range(counts[0]))
        of_a = counts[1] + sparse
        given = [f'"{wide}"(((const {kind[wide]}*)a)[lane * {of_a} + {i}])' for i in range(counts[1])]
        given += [f'"{wide}"(((const {kind[wide]}*)b)[lane * {counts[2]} + {i}])' for i in range(counts[2])]
        given += [f'"{letter}"(((const {kind[letter]}*)c)[lane * {counts[0]} + {i}])' for i in range(counts[0])]
        if sparse:
            c += f", %{sum(counts) + counts[0]}, {self.selector:#x}"
            given.append(f'"r"(((const unsigned*)a)[lane * {of_a} + {counts[1]}])')
        return f'case {at}: asm volatile("{self.opcode} {d}, {a}, {b}, {c};" : {out} : {", ".join(given)}); break;'

    def arguments(self, a: Matrix, b: Matrix, c: Matrix, *, add: bool = True) -> tuple[Matrix, ...]:
        """What the kernel is given, the sums first; without ``add`` those that it begins with are zero."""
        held = np.ascontiguousarray(c[self._places()]) * np.array(int(add), c.dtype)
        if self.selector is None:
            of_a = fragments(a, self.a)
        else:
            of_a = fragments(np.take_along_axis(a, self.kept(), 1), self.a)
            of_a = np.concatenate((of_a, self.metadata()[:, None]), 1)
        return np.zeros_like(held), of_a, fragments(b, self.b), held

    def product(self, out: Matrix) -> Matrix:
        """The matrix that the lanes hold."""
        found = np.empty((self.rows, self.columns), out.dtype)
        found[self._places()] = out
        return found

    def _places(self) -> tuple[Matrix, Matrix]:
        lanes, n = np.meshgrid(np.arange(32), np.arange(self.rows // 4), indexing="ij")
        return lanes // 4 + n // 2 * 8, lanes % 4 * 2 + n % 2


WARP_FORMS = [
    *(WarpForm(16, 16, "f32", kind, kind) for kind in ("f16", "bf16")),
    *(WarpForm(16, 8, "f32", kind, kind) for kind in ("f16", "bf16", "tf32")),
    WarpForm(16, 4, "f32", "tf32", "tf32"),
    WarpForm(16, 16, "f16", "f16", "f16"),
    WarpForm(16, 8, "f16", "f16", "f16"),
    *(WarpForm(16, 32, "f32", a, b) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
    *(WarpForm(16, 32, "s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8")),
    WarpForm(16, 16, "s32", "s8", "s8"),
    WarpForm(8, 16, "s32", "u8", "s8"),
    WarpForm(16, 64, "s32", "s4", "u4"),
    WarpForm(16, 32, "s32", "u4", "s4"),
    WarpForm(8, 32, "s32", "s4", "s4"),
    WarpForm(8, 4, "f64", "f64", "f64"),
    *(WarpForm(16, depth, "f64", "f64", "f64") for depth in (4, 8, 16)),
    *(WarpForm(16, 16, "f32", "f16", "f16", selector) for selector in range(4)),
    *(WarpForm(16, 8, "f32", "tf32", "tf32", selector) for selector in range(4)),
    *(WarpForm(16, 32, "f32", "bf16", "bf16", selector) for selector in range(2)),
    *(WarpForm(16, 16, "f32", "tf32", "tf32", selector) for selector in range(2)),
    *(WarpForm(16, 32, "s32", "s8", "u8", selector) for selector in range(2)),
    *(WarpForm(16, 64, "s32", a, b, 0) for a, b in (("s8", "s8"), ("u8", "s8"))),
    *(WarpForm(16, 64, "f32", a, b, 0) for a, b in (("e4m3", "e4m3"), ("e5m2", "e4m3"))),
    *(WarpForm(16, depth, "f16", "f16", "f16", 1) for depth in (16, 32)),
    *(WarpForm(16, 16, "f32", kind, kind, 2, ordered=False) for kind in ("f16", "bf16")),
    WarpForm(16, 64, "s32", "u8", "u8", 0, ordered=False),
    *(WarpForm(16, 64, "s32", "s4", "u4", selector) for selector in range(2)),
    *(WarpForm(16, 128, "s32", a, b, 0) for a, b in (("s4", "s4"), ("u4", "s4"))),
]
"""Every form of ``mma.sync`` that the emulator has, some types once."""


def place(lane: int, i: int, per: int, rows: int) -> tuple[int, int]:
    """Row and column of a lane's element ``i`` of A; of B with ``rows`` of 8, where the row is its column."""
    group, first, register = lane // 4, lane % 4, i // per
    down, along = (register % 2, register // 2) if rows == 16 else (0, register)
    return group + 8 * down, first * per + i % per + 4 * per * along


def fragments(matrix: Matrix, kind: str) -> Matrix:
    """What the lanes hold of a matrix whose rows run along k: 32 x registers."""
    rows, per = matrix.shape[0], max(32 // BITS[kind], 1)
    held: Matrix = np.empty((32, matrix.size // 32), matrix.dtype)
    for lane in range(32):
        for i in range(held.shape[1]):
            held[lane, i] = matrix[place(lane, i, per, rows)]
    if BITS[kind] == 4:
        nibbles = held.astype(np.int8).view(np.uint8) & 15
        held = nibbles[:, 0::2] | nibbles[:, 1::2] << 4
    return np.ascontiguousarray(held).view(np.uint64 if BITS[kind] == 64 else np.uint32)


@dataclass(frozen=True)
class GroupForm:
    """``wgmma``: columns, types, and how the matrices lie in shared memory; ``mode`` is the swizzle's."""

    columns: int
    sums: str
    a: str
    b: str
    mode: int = 1
    transposed: str = ""
    in_registers: bool = False
    clamps: bool = False
    rows = 64
    threads = 128

    @property
    def depth(self) -> int:
        """The length of the sums."""
        return 256 // BITS[self.a]

    @property
    def opcode(self) -> str:
        """The instruction's name."""
        shape = f"m64n{self.columns}k{self.depth}"
        return f"wgmma.mma_async.sync.aligned.{shape}.{self.sums}.{self.a}.{self.b}{'.satfinite' * self.clamps}"

    def statement(self, at: int) -> str:
        """A case of a switch that makes the product."""
        registers = self.columns // (4 if self.sums == "f16" else 2)
        names = [f"%{i}" for i in range(registers + 8)]
        sums, rest = names[:registers], names[registers:]
        a = "{" + ", ".join(rest[:4]) + "}" if self.in_registers else rest[4]
        how = ["1", "1"] if self.sums != "s32" else []
        if self.depth == 16:
            how += [str(int(letter in self.transposed)) for letter in ("b" if self.in_registers else "ab")]
        given = ", ".join(("{" + ", ".join(sums) + "}", a, rest[5], "add", *how))
        kind = "float" if self.sums == "f32" else "unsigned"
        letter = kind[0] if kind == "float" else "r"
        out = ", ".join(f'"+{letter}"((({kind}*)sums)[{i}])' for i in range(registers))
        inputs = ", ".join(f'"r"(of_a[{i}])' for i in range(4)) + ', "l"(a), "l"(b), "r"(add)'
        text = f"{{ .reg .pred add; setp.ne.b32 add, {rest[6]}, 0; {self.opcode} {given}; }}"
        return f'case {at}: asm volatile("{text}" : {out} : {inputs}); break;'

    def arguments(self, a: Matrix, b: Matrix, c: Matrix, *, add: bool = True) -> tuple[Any, ...]:
        """What the kernel is given, the sums first."""
        of_a, a_at = image(a, transposed="a" in self.transposed, mode=self.mode)
        of_b, b_at = image(b, transposed="b" in self.transposed, mode=self.mode)
        held = np.zeros((128, 512), np.uint8)
        lanes = np.ascontiguousarray(c[self._places()])
        held[:, : lanes[0].nbytes] = lanes.view(np.uint8)
        # Register r: four bytes of a row, eight rows below where it is odd, 16 bytes further in the second half.
        threads, r = np.meshgrid(np.arange(128), np.arange(4), indexing="ij")
        words = a.view(np.uint8).reshape(64, 32).view(np.uint32)
        registers = words[threads // 32 * 16 + threads % 32 // 4 + r % 2 * 8, threads % 4 + r // 2 * 4]
        images = np.concatenate((of_a, of_b)).view(np.uint32)
        return held.view(np.uint32), images, np.ascontiguousarray(registers), a_at, b_at, np.int32(add)

    def product(self, out: Matrix) -> Matrix:
        """The matrix that the threads hold."""
        places = self._places()
        taken = out.view(np.uint8)[:, : places[0].shape[1] * np.dtype(TYPES[self.sums]).itemsize]
        found = np.empty((self.rows, self.columns), TYPES[self.sums])
        found[places] = np.ascontiguousarray(taken).view(TYPES[self.sums])
        return found

    def _places(self) -> tuple[Matrix, Matrix]:
        threads, n = np.meshgrid(np.arange(128), np.arange(self.columns // 2), indexing="ij")
        return threads // 32 * 16 + threads % 32 // 4 + n % 4 // 2 * 8, n // 4 * 8 + threads % 4 * 2 + n % 2


def image(matrix: Matrix, *, transposed: bool, mode: int) -> tuple[Matrix, np.uint64]:
    """Bytes of a matrix whose rows run along k as they lie in shared memory, and their descriptor."""
    rows, depth = matrix.shape
    itemsize, span = matrix.itemsize, SPANS[mode]
    room = np.zeros(1 << 15, np.uint8)
    if transposed:
        # Atoms of eight k by a span of rows; without a swizzle by 16 bytes of rows.
        across = (span or 16) // itemsize
        atoms = -(-rows // across)
        leading, stride = (1024, 1024 * atoms) if span else (128 * atoms, 128)
        pitch = span or 16
    else:
        leading, stride, pitch = (16, 8 * span, span) if span else (128 * (rows // 8), 128, 16)
    for row in range(rows):
        for k in range(depth):
            if transposed:
                along, blocks = (leading, stride) if span else (stride, leading)
                at = row // across * along + k // 8 * blocks + k % 8 * pitch + row % across * itemsize
            elif span:
                at = row // 8 * stride + row % 8 * span + k * itemsize
            else:
                at = row // 8 * stride + row % 8 * 16 + k * itemsize // 16 * leading + k * itemsize % 16
            if span:
                at ^= (at >> 7 & (span // 16 - 1)) << 4
            room[at : at + itemsize] = np.frombuffer(matrix[row, k].tobytes(), np.uint8)
    return room, np.uint64(leading // 16 << 16 | stride // 16 << 32 | mode << 62)


def warp_source(forms: Sequence[WarpForm]) -> str:
    """A kernel ``products`` of one warp that makes the product whose number it is given."""
    cases = "\n".join(form.statement(at) for at, form in enumerate(forms))
    return f"""extern "C" __global__ void products(void* d, const void* a, const void* b, const void* c, int form) {{
    const int lane = threadIdx.x;
    switch (form) {{
{cases}
    }}
}}
"""


def group_source(forms: Sequence[GroupForm]) -> str:
    """The same of four warps, whose operands are in 64 KiB of shared memory."""
    cases = "\n".join(form.statement(at) for at, form in enumerate(forms))
    return f"""extern "C" __global__ void products(unsigned* out, const uint4* images, const unsigned* registers,
                                    unsigned long long a, unsigned long long b, int add, int form) {{
    extern __shared__ __align__(1024) uint4 memory[];
    unsigned sums[128], of_a[4];
    for (int i = threadIdx.x; i < 4096; i += 128) memory[i] = images[i];
    for (int i = 0; i < 128; ++i) sums[i] = out[128 * threadIdx.x + i];
    for (int i = 0; i < 4; ++i) of_a[i] = registers[4 * threadIdx.x + i];
    asm volatile("fence.proxy.async;");
    __syncthreads();
    const unsigned at = (unsigned)__cvta_generic_to_shared(memory);
    a |= (at & 0x3ffff) >> 4;
    b |= (at + 32768 & 0x3ffff) >> 4;
    asm volatile("wgmma.fence.sync.aligned;");
    switch (form) {{
{cases}
    }}
    asm volatile("wgmma.commit_group.sync.aligned;\\nwgmma.wait_group.sync.aligned 0;");
    for (int i = 0; i < 128; ++i) out[128 * threadIdx.x + i] = sums[i];
}}
"""
