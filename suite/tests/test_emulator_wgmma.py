"""Products by a group of four warps: matrices lie as their descriptors say, and what is not waited for is found."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from peakgate import emulator
from peakgate.emulator import DefectKind, KernelDefect
from peakgate.emulator.ptx import translated
from test_emulator_matrix import BITS, TYPES, drawn

SPANS = {0: 0, 1: 128, 2: 64, 3: 32}
"""Bytes of a swizzle by the mode in a descriptor."""


@dataclass(frozen=True)
class Form:
    """A product, and how its matrices lie in shared memory; ``mode`` is the swizzle's."""

    columns: int
    sums: str
    a: str
    b: str
    mode: int = 1
    transposed: str = ""
    in_registers: bool = False
    clamps: bool = False

    @property
    def depth(self) -> int:
        return 256 // BITS[self.a]

    @property
    def opcode(self) -> str:
        shape = f"m64n{self.columns}k{self.depth}"
        return f"wgmma.mma_async.sync.aligned.{shape}.{self.sums}.{self.a}.{self.b}{'.satfinite' * self.clamps}"

    @property
    def registers(self) -> int:
        return self.columns // (4 if self.sums == "f16" else 2)


FORMS = [
    *(Form(columns, "f32", "bf16", "bf16") for columns in (8, 24, 128, 256)),
    *(Form(64, "f32", "f16", "f16", mode) for mode in SPANS),
    *(Form(128, "f32", "bf16", "bf16", mode, "ab") for mode in SPANS),
    Form(64, "f32", "f16", "f16", 1, "a"),
    Form(64, "f32", "f16", "f16", 2, "b"),
    Form(64, "f32", "f16", "f16", 1, "b", in_registers=True),
    Form(64, "f16", "f16", "f16"),
    Form(32, "f32", "tf32", "tf32"),
    Form(32, "f32", "tf32", "tf32", 3, in_registers=True),
    Form(64, "f32", "e4m3", "e5m2"),
    Form(64, "f32", "e5m2", "e5m2", 0, in_registers=True),
    Form(96, "f16", "e4m3", "e4m3", 2),
    Form(48, "s32", "s8", "u8"),
    Form(16, "s32", "u8", "u8", 0, clamps=True),
]


def image(matrix: np.ndarray, *, transposed: bool, mode: int) -> tuple[np.ndarray, np.uint64]:
    """Bytes of a matrix whose rows run along k as they lie in shared memory, and their descriptor."""
    rows, depth = matrix.shape
    itemsize, span = matrix.itemsize, SPANS[mode]
    room = np.zeros(1 << 15, np.uint8)
    if transposed:
        # Atoms of eight k by a span of rows; without a swizzle of eight rows.
        across = span // itemsize if span else 8
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


def statement(at: int, form: Form) -> str:
    names = [f"%{i}" for i in range(form.registers + 8)]
    sums, rest = names[: form.registers], names[form.registers :]
    a = "{" + ", ".join(rest[:4]) + "}" if form.in_registers else rest[4]
    how = ["1", "1"] if form.sums != "s32" else []
    if form.depth == 16:
        how += [str(int(letter in form.transposed)) for letter in ("b" if form.in_registers else "ab")]
    given = ", ".join(("{" + ", ".join(sums) + "}", a, rest[5], "add", *how))
    kind = "float" if form.sums == "f32" else "unsigned"
    letter = kind[0] if kind == "float" else "r"
    out = ", ".join(f'"+{letter}"((({kind}*)sums)[{i}])' for i in range(form.registers))
    inputs = ", ".join(f'"r"(of_a[{i}])' for i in range(4)) + ', "l"(a), "l"(b), "r"(add)'
    text = f"{{ .reg .pred add; setp.ne.b32 add, {rest[6]}, 0; {form.opcode} {given}; }}"
    return f'case {at}: asm volatile("{text}" : {out} : {inputs}); break;'


@pytest.fixture(scope="module")
def products(tmp_path_factory: pytest.TempPathFactory) -> Any:
    source = tmp_path_factory.mktemp("group") / "products.cu"
    cases = "\n".join(statement(at, form) for at, form in enumerate(FORMS))
    source.write_text(
        f"""extern "C" __global__ void products(unsigned* out, const uint4* images, const unsigned* registers,
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
""",
        encoding="utf-8",
    )
    return emulator.load(source, "products", ())


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("number", range(len(FORMS)))
def test_a_product_is_that_of_the_matrices_that_descriptors_and_registers_name(
    products: Any, number: int, add: bool
) -> None:
    form = FORMS[number]
    generator = np.random.default_rng(1)
    a, b = drawn(generator, (64, form.depth), form.a), drawn(generator, (form.columns, form.depth), form.b)
    if form.a == "tf32":
        a, b = ((matrix.view(np.uint32) & 0xFFFFE000).view(np.float32) for matrix in (a, b))
    c = (generator.standard_normal((64, form.columns)) * (100 if form.sums == "s32" else 1)).astype(TYPES[form.sums])
    of_a, a_at = image(a, transposed="a" in form.transposed, mode=form.mode)
    of_b, b_at = image(b, transposed="b" in form.transposed, mode=form.mode)
    threads, n = np.meshgrid(np.arange(128), np.arange(form.columns // 2), indexing="ij")
    rows, columns = threads // 32 * 16 + threads % 32 // 4 + n % 4 // 2 * 8, n // 4 * 8 + threads % 4 * 2 + n % 2
    held = np.zeros((128, 512), np.uint8)
    lanes = np.ascontiguousarray(c[rows, columns])
    held[:, : lanes[0].nbytes] = lanes.view(np.uint8)
    # Register r: four bytes of a row, eight rows below where it is odd, 16 bytes further in the second half.
    threads, r = np.meshgrid(np.arange(128), np.arange(4), indexing="ij")
    registers = (
        a.view(np.uint8)
        .reshape(64, 32)
        .view(np.uint32)[threads // 32 * 16 + threads % 32 // 4 + r % 2 * 8, threads % 4 + r // 2 * 4]
    )
    products.launch(
        (1, 1, 1),
        (128, 1, 1),
        (
            held.view(np.uint32),
            np.concatenate((of_a, of_b)).view(np.uint32),
            np.ascontiguousarray(registers),
            a_at,
            b_at,
            np.int32(add),
            np.int32(number),
        ),
        shared_bytes=65536,
    )
    exact = a.astype(np.float64) @ b.astype(np.float64).T + add * c.astype(np.float64)
    got = held[:, : lanes[0].nbytes].copy().view(TYPES[form.sums])
    np.testing.assert_allclose(
        got, exact[rows, columns].astype(TYPES[form.sums]), rtol=2e-7 if form.sums == "f32" else 0
    )


RING = """
constexpr int BYTES = 64 * 128 + 8 * 128;
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ unsigned long long matrix(const void* p) {
    return (at(p) & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}
// c = a . b^T of 64 x 64 * slices and 8 x 64 * slices bf16: slices go round two slots, brought by a fifth warp.
extern "C" __global__ void ring(float* c, const uint4* slices, int count) {
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ unsigned long long full[2], empty[2];
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; ++i) {
            asm volatile("mbarrier.init.shared.b64 [%0], 1;\\nmbarrier.init.shared.b64 [%1], 4;"
                         ::"r"(at(full + i)), "r"(at(empty + i)));
        }
        asm volatile("fence.mbarrier_init.release.cluster;");
    }
    __syncthreads();
    const auto wait = [](void* barrier, unsigned parity) {
        asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra again; }"
                     ::"r"(at(barrier)), "r"(parity));
    };
    if (threadIdx.x >= 128) {
        for (int i = 0; i < count && threadIdx.x == 128; ++i) {
            wait(empty + i % 2, i / 2 % 2 ^ 1);
            asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(at(full + i % 2)), "r"(BYTES));
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                         ::"r"(at(memory + i % 2 * BYTES)), "l"((const char*)slices + i * BYTES), "r"(BYTES),
                           "r"(at(full + i % 2)));
        }
        return;
    }
    float s[4];
    const auto release = [&](int i) {
        if (i >= 0 && threadIdx.x % 32 == 0)
            asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(at(empty + i % 2)));
    };
    for (int i = 0; i < count; ++i) {
        FULL(full + i % 2, i / 2 % 2);
        const unsigned long long a = matrix(memory + i % 2 * BYTES);
        const unsigned long long b = matrix(memory + i % 2 * BYTES + 64 * 128);
        FENCE;
        for (int step = 0; step < 4; ++step) {
            asm volatile("{ .reg .pred p; setp.ne.b32 p, %6, 0;\\n"
                         "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
                         "{%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0; }"
                         : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])
                         : "l"(a + 2 * step), "l"(b + 2 * step), "r"(i + step));
        }
        COMMIT;
        WAIT;
        TOUCH;
        RELEASE;
    }
    LAST;
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, col = threadIdx.x % 4 * 2;
    for (int i = 0; i < 4; ++i) c[(row + i / 2 * 8) * 8 + col + i % 2] = s[i];
}
"""
SOUND = {
    "FULL(b, p)": "wait(b, p)",
    "FENCE": 'asm volatile("wgmma.fence.sync.aligned;")',
    "COMMIT": 'asm volatile("wgmma.commit_group.sync.aligned;")',
    "WAIT": 'asm volatile("wgmma.wait_group.sync.aligned 1;")',
    "TOUCH": "",
    "RELEASE": "release(i - 1)",
    "LAST": 'asm volatile("wgmma.wait_group.sync.aligned 0;")',
}
REGISTERS = DefectKind.REGISTER_RACE
BROKEN = {
    "no wait for the slice": ({"FULL(b, p)": ""}, {DefectKind.SHARED_RACE, DefectKind.UNINITIALISED_SHARED}),
    "no fence": ({"FENCE": ""}, {REGISTERS}),
    "no commit": ({"COMMIT": ""}, {REGISTERS}),
    "no wait at the end": ({"LAST": ""}, {REGISTERS}),
    "no wait before the slot is given back": ({"WAIT": ""}, {DefectKind.SHARED_RACE}),
    "the slot at work is given back": ({"RELEASE": "release(i)"}, {DefectKind.SHARED_RACE}),
    "sums changed without a fence": (
        {"WAIT": SOUND["LAST"], "TOUCH": "s[1] *= 0.5f", "FENCE": f"if (i == 0) {SOUND['FENCE']}"},
        {REGISTERS},
    ),
    "a lane stays away": ({"WAIT": f"if (threadIdx.x != 5) {SOUND['WAIT']}"}, {DefectKind.WARP_MASK}),
}


def ring(folder: Path, changes: dict[str, str], schedule: int) -> tuple[np.ndarray, np.ndarray]:
    source = folder / "ring.cu"
    macros = "".join(f"#define {name} {text}\n" for name, text in (SOUND | changes).items())
    source.write_text(macros + RING, encoding="utf-8")
    generator = np.random.default_rng(1)
    a, b = (drawn(generator, (rows, 5 * 64), "bf16") for rows in (64, 8))
    slices = []
    for first in range(0, 5 * 64, 64):
        for matrix in (a, b):
            tile = np.ascontiguousarray(matrix[:, first : first + 64]).view(np.uint8).reshape(-1, 8, 16)
            slices += [tile[row, np.arange(8) ^ row % 8] for row in range(len(tile))]
    c = np.zeros((64, 8), np.float32)
    kernel = emulator.load(source, "ring", ())
    given = np.concatenate(slices).reshape(-1).view(np.uint32)
    kernel.launch(
        (1, 1, 1), (160, 1, 1), (c, given, np.int32(5)), shared_bytes=2 * 72 * 128, schedule=schedule, outputs=[0]
    )
    return c, a.astype(np.float64) @ b.astype(np.float64).T


@pytest.mark.parametrize("schedule", [0, 1, 2, 7])
def test_a_ring_of_slots_gives_the_product_in_any_order_of_threads(schedule: int, tmp_path: Path) -> None:
    got, expected = ring(tmp_path, {}, schedule)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("schedule", [0, 1, 2])
@pytest.mark.parametrize("what", BROKEN)
def test_a_ring_without_a_wait_a_fence_or_a_commit_is_found(what: str, schedule: int, tmp_path: Path) -> None:
    changes, kinds = BROKEN[what]
    with pytest.raises(KernelDefect) as caught:
        ring(tmp_path, changes, schedule)
    assert kinds & {defect.kind for defect in caught.value.defects}


@pytest.mark.parametrize(
    "written",
    [
        "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, %6, 0, 1, 1, 1, 0, 0",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0",
        "wgmma.mma_async.sync.aligned.m64n12k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1",
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0",
        "wgmma.wait_group.aligned 0",
    ],
)
def test_a_product_that_is_not_known_is_refused_by_name(written: str) -> None:
    sums = ", ".join(f'"+f"(s[{i}])' for i in range(4))
    done = translated(f'void f() {{ asm("{written};" : {sums} : "l"(a), "l"(b), "r"(e)); }}')
    assert f'peakgate_not_emulated("PTX instruction {written.split(maxsplit=1)[0]}' in done


@pytest.mark.parametrize(("who", "found"), [("threadIdx.x >= 32", False), ("threadIdx.x % 2", True)])
def test_registers_are_given_away_by_whole_warps(who: str, found: bool, tmp_path: Path) -> None:
    source = tmp_path / "give.cu"
    text = f'if ({who}) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); out[threadIdx.x] = 1;'
    source.write_text(f'extern "C" __global__ void give(int* out) {{ {text} __syncthreads(); }}', encoding="utf-8")
    kernel, out = emulator.load(source, "give"), np.zeros(64, np.int32)
    with pytest.raises(KernelDefect) if found else nullcontext() as caught:
        kernel.launch((1, 1, 1), (64, 1, 1), (out,))
    assert (caught is not None and caught.value.kind is DefectKind.WARP_MASK) == found
