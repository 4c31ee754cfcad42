"""Tensor memory and the products in it: matrices lie as their descriptors say, and what is not ordered is found."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulating import ONE, finds, loaded
from matrix_forms import BITS, TYPES, drawn, image

import peakgate_emulator as emulator
from peakgate_emulator import DefectKind, EmulatorError

BLACKWELL: dict[str, Any] = {"capability": (10, 0), "specific": True}
CODES = {"f16": 0, "bf16": 1, "tf32": 2, "e4m3": 0, "e5m2": 1, "u8": 0, "s8": 1}
SUMS = {"f16": 0, "f32": 1, "s32": 2}


@dataclass(frozen=True)
class Form:
    """A product: rows, columns, types, the swizzle's mode, and which matrices are not contiguous along k.

    ``kind`` is the kernel's number of an instruction: f16, tf32, f8f6f4, i8, f16 with A in tensor memory, and ``.ws``
    of f16 and i8; ``lane`` that of the first sums, ``hidden`` lanes that are not written, ``scale`` that of the sums.
    """

    kind: int
    rows: int
    columns: int
    sums: str
    a: str
    b: str
    mode: int = 1
    transposed: str = ""
    flags: int = 0
    hidden: int = 0
    lane: int = 0
    scale: float = 1

    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """Lane and column of each sum (PTX ISA 9.7.16.10.5)."""
        rows, columns = np.indices((self.rows, self.columns))
        if self.kind > 4:
            width = self.columns * self.rows // 128
            return rows + self.rows * (columns // width), columns % width
        return ((rows if self.rows == 128 else rows // 16 * 32 + rows % 16) + self.lane) % 128, columns

    @property
    def described(self) -> np.uint32:
        """The instruction descriptor."""
        types = SUMS[self.sums] << 4 | CODES[self.a] << 7 | CODES[self.b] << 10
        layouts = ("a" in self.transposed) << 15 | ("b" in self.transposed) << 16
        return np.uint32(types | layouts | self.columns // 8 << 17 | self.rows // 16 << 24 | self.flags)

    def launched(self, kernel: Any, *, add: bool) -> tuple[np.ndarray, np.ndarray]:
        """The product and what it should be."""
        generator = np.random.default_rng(1)
        depth = 256 // BITS[self.a]
        a, b = drawn(generator, (self.rows, depth), self.a), drawn(generator, (self.columns, depth), self.b)
        c = drawn(generator, (self.rows, self.columns), self.sums)
        of_a, a_at = image(a, transposed="a" in self.transposed, mode=self.mode)
        of_b, b_at = image(b, transposed="b" in self.transposed, mode=self.mode)
        places = self.places()
        out = np.full((128, 256), 7, np.uint32)
        width = np.uint16 if self.sums == "f16" else np.uint32
        out[places] = c.view(width)
        held = np.zeros((128, 8), np.uint32)
        held[places[0][:, 0]] = np.ascontiguousarray(a).view(np.uint32).reshape(self.rows, 8)
        given = (held, a_at | np.uint64(1 << 46), b_at | np.uint64(1 << 46))
        images = np.concatenate((of_a, of_b)).view(np.uint32)
        numbers = (self.described, np.int32(self.kind), np.int32(add), np.uint32(self.hidden), np.int32(self.lane))
        kernel.launch((1, 1, 1), (128, 1, 1), (out, images, *given, *numbers), shared_bytes=65536)
        sign = -1 if self.flags & 1 << 13 else 1
        exact = sign * a.astype(np.float64) @ b.astype(np.float64).T + add * self.scale * c.astype(np.float64)
        expected = np.full((128, 256), 7, np.uint32)
        expected[places] = exact.astype(TYPES[self.sums]).view(width)
        if self.hidden:
            expected[:16, : self.columns] = c[:16].view(width)
        return out, expected


FORMS = [
    *(Form(0, 128, columns, "f32", "bf16", "bf16") for columns in (16, 128, 256)),
    *(Form(0, rows, columns, "f32", "f16", "f16") for rows in (64, 128) for columns in (8, 24, 256)),
    *(Form(0, 128, 64, "f32", "f16", "f16", mode) for mode in range(4)),
    *(Form(0, 128, 128, "f32", "bf16", "bf16", mode, "ab") for mode in range(4)),
    Form(0, 128, 32, "f32", "f16", "f16", 2, "a"),
    Form(0, 128, 32, "f16", "f16", "f16"),
    Form(0, 128, 32, "f32", "f16", "f16", flags=1 << 13),
    Form(0, 128, 32, "f32", "f16", "f16", hidden=0xFFFF),
    Form(1, 128, 48, "f32", "tf32", "tf32"),
    Form(1, 64, 8, "f32", "tf32", "tf32", 0),
    Form(2, 128, 64, "f32", "e4m3", "e5m2"),
    Form(2, 128, 64, "f32", "e5m2", "e4m3", 3, "b"),
    Form(2, 64, 16, "f16", "e4m3", "e4m3", 0, "ab"),
    Form(3, 128, 32, "s32", "s8", "u8"),
    Form(3, 64, 24, "s32", "u8", "s8", 0),
    *(Form(4, rows, 64, "f32", "bf16", "bf16") for rows in (64, 128)),
    *(Form(kind, 64, 32, "f32", "bf16", "bf16", lane=16) for kind in (0, 4)),
    *(Form(5, rows, columns, "f32", "f16", "f16") for rows in (32, 64, 128) for columns in (64, 256)),
    Form(5, 64, 128, "f16", "f16", "f16", 0, "ab"),
    Form(6, 32, 128, "s32", "s8", "u8", 3),
]


@pytest.fixture(scope="module")
def product() -> Any:
    return loaded("tensor_product", **BLACKWELL)


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_a_product_is_of_the_described_matrices(product: Any, form: Form, add: bool) -> None:
    found, expected = form.launched(product, add=add)
    if form.sums == "f32":
        np.testing.assert_allclose(found.view(np.float32), expected.view(np.float32), rtol=2e-7, atol=1e-6)
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "form",
    [
        Form(3, 128, 40, "s32", "s8", "s8"),  # columns of integers come in sixteens above 32
        Form(0, 32, 16, "f32", "f16", "f16"),
        Form(0, 128, 16, "f16", "bf16", "bf16"),
        Form(1, 128, 16, "f32", "bf16", "bf16"),
        Form(3, 128, 16, "f32", "s8", "s8"),
        Form(0, 128, 16, "f32", "f16", "f16", flags=1 << 23),
        Form(5, 64, 32, "f32", "f16", "f16"),
    ],
)
def test_an_instruction_that_there_is_not_is_found(product: Any, form: Form) -> None:
    with finds(DefectKind.INVALID_DESCRIPTOR):
        form.launched(product, add=False)


def test_sums_are_scaled_before_products_are_added() -> None:
    scaled = loaded("tensor_product", {"SCALE": '", 3"'}, **BLACKWELL)
    for form in (
        Form(0, 128, 64, "f32", "bf16", "bf16", scale=1 / 8),
        Form(1, 64, 16, "f32", "tf32", "tf32", scale=1 / 8),
    ):
        found, expected = form.launched(scaled, add=True)
        np.testing.assert_allclose(found.view(np.float32), expected.view(np.float32), rtol=2e-7, atol=1e-6)
    for form in (Form(0, 128, 32, "f16", "f16", "f16"), Form(2, 128, 64, "f32", "e4m3", "e4m3")):
        with pytest.raises(EmulatorError, match=r"tcgen05\.mma"):
            form.launched(scaled, add=True)
    with finds(DefectKind.INVALID_DESCRIPTOR):
        FORMS[0].launched(loaded("tensor_product", {"SCALE": '", 16"'}, **BLACKWELL), add=True)


def test_only_spread_rows_begin_in_another_lane(product: Any) -> None:
    with finds(DefectKind.TENSOR_ACCESS):
        Form(0, 128, 16, "f32", "f16", "f16", lane=16).launched(product, add=False)


def test_a_mask_of_columns_is_refused(product: Any) -> None:
    with pytest.raises(EmulatorError, match="mask"):
        Form(5, 64, 64, "f32", "f16", "f16", hidden=1).launched(product, add=False)


SOUND = {
    "ALLOC": 'asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 64;" ::"r"(at(&address)))',
    "DEALLOC": 'asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 64;" ::"r"(sums))',
    "EMPTY(b, p)": "wait(b, p)",
    "TAKEN(b, p)": "wait_relaxed(b, p)",
    "AFTER_TAKEN": "AFTER",
    "FULL(b, p)": "wait(b, p)",
    "RELEASE(b)": "commit(b)",
    "COMMIT(b)": "commit(b)",
    "MADE(b, p)": "wait_relaxed(b, p)",
    "AFTER_MADE": "AFTER",
    "LANES": "warp * 32",
    "LOADED": 'asm volatile("tcgen05.wait::ld.sync.aligned;")',
    "BEFORE_TAKEN": "BEFORE",
    "GIVE(b)": "arrive_relaxed(b)",
    "END": "__syncthreads()",
}
RACE, ACCESS = {DefectKind.TENSOR_RACE}, {DefectKind.TENSOR_ACCESS}
SHARED = {DefectKind.SHARED_RACE, DefectKind.UNINITIALISED_SHARED}
UNMADE = {DefectKind.TENSOR_RACE, DefectKind.UNINITIALISED_TENSOR}
AWAY = {DefectKind.WARP_MASK, DefectKind.DIVERGENT_BARRIER}
NO_WAIT = "(void)(b), (void)(p)"
ALLOC, DEALLOC, LOADED = (SOUND[step] for step in ("ALLOC", "DEALLOC", "LOADED"))
BROKEN: dict[str, tuple[dict[str, str], set[DefectKind], str]] = {
    "operands that have not arrived": ({"FULL(b, p)": NO_WAIT}, SHARED, ""),
    "the phase before": ({"FULL(b, p)": "wait(b, (p) ^ 1)"}, {*SHARED, DefectKind.DIVERGENT_BARRIER}, ""),
    "a slot refilled early": ({"EMPTY(b, p)": NO_WAIT}, {*SHARED, DefectKind.DIVERGENT_BARRIER}, ""),
    "a slot released without a commit": ({"RELEASE(b)": "arrive(b)"}, SHARED, ""),
    "sums read before the wait": ({"MADE(b, p)": NO_WAIT}, UNMADE, ""),
    "sums of the phase before": ({"MADE(b, p)": "wait(b, (p) ^ 1)"}, UNMADE, ""),
    "sums made known without a commit": ({"COMMIT(b)": "arrive(b)"}, RACE, "tcgen05.commit"),
    "no fence before the loads": ({"AFTER_MADE": ""}, RACE, "fence::after_thread_sync"),
    "no fence before the products": ({"AFTER_TAKEN": ""}, RACE, "fence::after_thread_sync"),
    "no fence after the loads": ({"BEFORE_TAKEN": ""}, RACE, "fence::before_thread_sync"),
    "no wait for the loads": ({"LOADED": ""}, RACE, "tcgen05.wait::ld"),
    "sums replaced while they are read": ({"TAKEN(b, p)": NO_WAIT}, RACE, ""),
    "lanes of another warp": ({"LANES": "(warp % 3 + 1) * 32"}, ACCESS, "reaches lanes"),
    "too few columns": ({"ALLOC": ALLOC.replace("64", "32")}, ACCESS, "not allocated"),
    "an odd number of columns": ({"ALLOC": ALLOC.replace("64", "48")}, ACCESS, "power of two"),
    "another number of columns freed": ({"DEALLOC": DEALLOC.replace("64", "32")}, ACCESS, "dealloc"),
    "nothing is allocated": ({"ALLOC": "address = ~0u"}, ACCESS, "not allocated"),
    "nothing is freed": ({"DEALLOC": ""}, ACCESS, "when the block ends"),
    "freed twice": (
        {"DEALLOC": f"{{ {DEALLOC}; {DEALLOC}; }}"},
        ACCESS,
        "where no allocation begins",
    ),
    "freed early": ({"END": ""}, RACE | ACCESS, ""),
    "allocated after the permit is given back": (
        {"DEALLOC": f"{{ {DEALLOC}; {ALLOC}; }}"},
        ACCESS,
        "permit",
    ),
    "a lane stays away": (
        {"LOADED": f"if (threadIdx.x != 5) {LOADED}"},
        AWAY,
        "",
    ),
}


def rings(changes: dict[str, str], schedule: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(1)
    tiles, count = 3, 3
    a, b = (drawn(generator, (rows, tiles * count * 64), "bf16") for rows in (128, 16))
    slices = []
    for first in range(0, tiles * count * 64, 64):
        for matrix in (a, b):
            tile = np.ascontiguousarray(matrix[:, first : first + 64]).view(np.uint8).reshape(-1, 8, 16)
            slices += [tile[row, np.arange(8) ^ row % 8] for row in range(len(tile))]
    c = np.zeros((tiles, 128, 16), np.float32)
    given = np.concatenate(slices).reshape(-1).view(np.uint32)
    launched: dict[str, Any] = {"shared_bytes": 2 * 144 * 128, "schedule": schedule, "outputs": [0]}
    kernel = loaded("tensor_slots", SOUND | changes, **BLACKWELL)
    kernel.launch((1, 1, 1), (192, 1, 1), (c, given, np.int32(tiles), np.int32(count)), **launched)
    parts = (each.astype(np.float64).reshape(len(each), tiles, -1).swapaxes(0, 1) for each in (a, b))
    return c, np.matmul(next(parts), next(parts).swapaxes(1, 2))


@pytest.mark.parametrize("schedule", [0, 1, 2, 7])
def test_rings_of_slots_and_sums_give_the_products(schedule: int) -> None:
    got, expected = rings({}, schedule)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("schedule", [0, 1, 2, 7])
def test_release_and_acquire_need_no_fence(schedule: int) -> None:
    waits = dict.fromkeys(("TAKEN(b, p)", "MADE(b, p)"), "wait(b, p)") | {"GIVE(b)": "arrive(b)"}
    fences = dict.fromkeys(("AFTER_TAKEN", "AFTER_MADE", "BEFORE_TAKEN"), "")
    np.testing.assert_allclose(*rings(waits | fences, schedule), rtol=1e-5, atol=1e-5)


def test_each_warp_has_its_lanes_from_lane_zero_on() -> None:
    np.testing.assert_allclose(*rings({"LANES": "0"}, 2), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("schedule", [0, 1, 2])
@pytest.mark.parametrize("what", BROKEN)
def test_rings_without_a_wait_a_fence_or_a_commit_are_found(what: str, schedule: int) -> None:
    changes, kinds, words = BROKEN[what]
    with finds(*kinds) as caught:
        rings(changes, schedule)
    assert words in " ".join(str(each) for each in caught.value.defects)


AROUND = """
__device__ unsigned at(const void* p) {{ return (unsigned)__cvta_generic_to_shared(p); }}
extern "C" __global__ void moves(unsigned* out, const uint4* given) {{
    extern __shared__ __align__(1024) uint4 memory[];
    __shared__ unsigned address;
    __shared__ unsigned long long made;
    const int lanes = threadIdx.x / 32 * 32 << 16;
    for (int i = threadIdx.x; i < 2048; i += 128) memory[i] = given[i];
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(at(&made)));
    if (threadIdx.x < 32)
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;" ::"r"(at(&address)));
    asm volatile("fence.proxy.async; fence.mbarrier_init.release.cluster;");
    __syncthreads();
    const unsigned words = address;
    {steps}
    for (int i = 0; i < {columns}; ++i)
        asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%0}}, [%1];"
                     : "=r"(out[{columns} * threadIdx.x + i]) : "r"(words + lanes + i));
    asm volatile("tcgen05.wait::ld.sync.aligned;");
    __syncthreads();
    if (threadIdx.x < 32) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 32;" ::"r"(words));
}}
"""
WAITED = """if (threadIdx.x == 0)
        asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(at(&made)));
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra again; }"
                 ::"r"(at(&made)));
    asm volatile("tcgen05.fence::after_thread_sync;");"""


def moved(folder: Path, steps: str, given: np.ndarray, columns: int, **options: Any) -> np.ndarray:
    source = folder / "moves.cu"
    source.write_text(AROUND.format(steps=steps, columns=columns), encoding="utf-8")
    out = np.zeros((128, columns), np.uint32)
    kernel = emulator.load(source, "moves", (), **(options or BLACKWELL))
    kernel.launch(ONE, (128, 1, 1), (out, np.resize(given.reshape(-1).view(np.uint32), 8192)), shared_bytes=32768)
    return out


def stored(shape: str, repeats: int, registers: int, packing: str = "") -> str:
    """Statements that store registers, to the second half of a warp's lanes too if the shape has 16."""
    names = ", ".join(f"%{i + 1}" for i in range(registers))
    values = ", ".join(f'"r"(of[{i}])' for i in range(registers))
    starts = ("0",) if shape[:2] == "32" else ("0", "16")
    split = f"{4 * (1 + bool(packing))}, " if shape == "16x32bx2" else ""
    stores = (
        f"of = (const unsigned*)memory + (threadIdx.x * {len(starts)} + {at}) * {registers}; "
        f'asm volatile("tcgen05.st.sync.aligned.{shape}.x{repeats}{packing}.b32 [%0], {split}{{{names}}};"'
        f' ::"r"(words + lanes + ({start} << 16)), {values});'
        for at, start in enumerate(starts)
    )
    return f'const unsigned* of; {" ".join(stores)} asm volatile("tcgen05.wait::st.sync.aligned;");'


PLACES: dict[str, Any] = {
    "32x32b": lambda t, r: (t, r),
    "16x64b": lambda t, r: (t // 4 + 8 * (t % 2), 2 * r + t // 2 % 2),
    "16x128b": lambda t, r: (t // 4 + 8 * (r % 2), r // 2 * 4 + t % 4),
    "16x256b": lambda t, r: (t // 4 + 8 * (r // 2 % 2), r // 4 * 8 + t % 4 * 2 + r % 2),
    "16x32bx2": lambda t, r: (t % 16, r + t // 16 * 4),
}
"""Row and column of a thread's register, from the figures of the PTX ISA."""
MOVES = [("32x32b", 4, 4), ("16x64b", 2, 2), ("16x128b", 2, 4), ("16x256b", 2, 8), ("16x32bx2", 4, 4)]


@pytest.mark.parametrize(("shape", "repeats", "registers"), MOVES)
@pytest.mark.parametrize("packing", ["", ".unpack::16b"])
def test_registers_lie_as_their_shape_says(
    shape: str, repeats: int, registers: int, packing: str, tmp_path: Path
) -> None:
    halves = 1 if shape == "32x32b" else 2
    given = np.random.default_rng(1).integers(0, 1 << 32, (128, halves, registers), np.uint32)
    columns = registers if halves == 1 else 2 * registers
    expected = np.zeros((128, columns), np.uint32)
    for thread, half, number in np.ndindex(given.shape):
        row, column = PLACES[shape](thread % 32, number)
        expected[thread // 32 * 32 + half * 16 + row, column] = given[thread, half, number]
    if packing:
        expected = expected.view(np.uint16).astype(np.uint32)
    found = moved(tmp_path, stored(shape, repeats, registers, packing), given, expected.shape[1])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("shape", "rows", "columns", "lanes"),
    [
        ("128x256b", 128, 8, np.arange(128)),
        ("128x128b", 128, 4, np.arange(128)),
        ("64x128b.warpx2::02_13", 64, 4, np.arange(128) % 64),
        ("64x128b.warpx2::01_23", 64, 4, np.arange(128) // 64 * 32 + np.arange(128) % 32),
        ("32x128b.warpx4", 32, 4, np.arange(128) % 32),
    ],
)
def test_copies_from_shared_memory_fill_the_lanes(
    shape: str, rows: int, columns: int, lanes: np.ndarray, tmp_path: Path
) -> None:
    matrix = np.random.default_rng(1).integers(0, 256, (rows, 4 * columns), np.uint8)
    placed, where = image(matrix, transposed=False, mode=0)
    copy = f'asm volatile("tcgen05.cp.cta_group::1.{shape} [%0], %1;" ::"r"(words), "l"(from));'
    steps = f"const unsigned long long from = (at(memory) & 0x3ffff) >> 4 | {int(where) | 1 << 46}ull;"
    found = moved(tmp_path, f"{steps} if (threadIdx.x == 0) {copy} {WAITED}", placed, columns)
    np.testing.assert_array_equal(found, matrix.view(np.uint32)[lanes])


def test_a_copy_of_four_rows_fills_a_lane_of_each_warp(tmp_path: Path) -> None:
    matrix = np.random.default_rng(1).integers(0, 256, (8, 32), np.uint8)
    placed, where = image(matrix, transposed=False, mode=0)
    zeros = ", ".join(["%1"] * 8)
    clear = f'asm volatile("tcgen05.st.sync.aligned.32x32b.x8.b32 [%0], {{{zeros}}};" ::"r"(words + lanes), "r"(0));'
    clear += 'asm volatile("tcgen05.wait::st.sync.aligned;"); __syncthreads();'
    copy = 'asm volatile("tcgen05.cp.cta_group::1.4x256b [%0], %1;" ::"r"(words + (31 << 16)), "l"(from));'
    steps = f"const unsigned long long from = (at(memory) & 0x3ffff) >> 4 | {int(where) | 1 << 46}ull; {clear}"
    found = moved(tmp_path, f"{steps} if (threadIdx.x == 0) {copy} {WAITED}", placed, 8)
    expected = np.zeros((128, 8), np.uint32)
    expected[31::32] = matrix[:4].view(np.uint32)
    np.testing.assert_array_equal(found, expected)


UNWRITTEN = {DefectKind.UNINITIALISED_TENSOR}
BAD_STORES = {
    "no wait for the stores": (("wait::st", "wait::ld"), RACE),
    "columns that no warp has stored": (
        ("x4.b32 [%0], {%1, %2, %3, %4}", "x1.b32 [%0], {%1}"),
        UNWRITTEN,
    ),
    "an address of each lane": (("lanes + (0", "lanes + threadIdx.x % 2 + (0"), {DefectKind.WARP_MASK}),
    "stores of other warps": (("lanes + (0", "(lanes ^ 1 << 21) + (0"), ACCESS),
}


@pytest.mark.parametrize("what", BAD_STORES)
def test_stores_that_no_wait_or_warp_covers_are_found(what: str, tmp_path: Path) -> None:
    (before, after), kinds = BAD_STORES[what]
    steps = stored("32x32b", 4, 4)
    assert before in steps
    with finds(*kinds):
        moved(tmp_path, steps.replace(before, after), np.zeros(512, np.uint32), 4)


@pytest.mark.parametrize(("capability", "specific"), [((9, 0), True), ((10, 0), False), ((12, 0), True)])
def test_other_architectures_have_no_tensor_memory(capability: Any, specific: bool, tmp_path: Path) -> None:
    options = {"capability": capability, "specific": specific}
    with pytest.raises(EmulatorError, match=r"tcgen05\.alloc"):
        moved(tmp_path, "", np.zeros(512, np.uint32), 4, **options)


@pytest.mark.parametrize(
    "statement",
    [
        "tcgen05.shift.cta_group::1.down [%0];",
        "tcgen05.ld.sync.aligned.16x32bx2.x1.b32 {%0}, [%0];",
        "tcgen05.mma.ws.cta_group::1.kind::mxf4.block_scale [%0], %1, %1, %0, [%0], [%0], p;",
        "tcgen05.mma.ws.sp.cta_group::1.kind::f16 [%0], %1, %1, [%0], %0, p;",
    ],
)
def test_what_is_not_emulated_is_refused_by_name(statement: str, tmp_path: Path) -> None:
    step = f'asm volatile("{{ .reg .pred p; {statement} }}" ::"r"(words), "l"(0ull));'
    with pytest.raises(EmulatorError, match=statement.split(maxsplit=1)[0].replace(".", r"\.")):
        moved(tmp_path, step, np.zeros(512, np.uint32), 4)


def test_narrow_numbers_in_tensor_memory_are_refused(tmp_path: Path) -> None:
    described = 1 << 4 | 5 << 7 | 1 << 17 | 8 << 24
    product = "tcgen05.mma.cta_group::1.kind::f8f6f4 [%0], [%0 + 8], %1, %2, p;"
    statement = f'asm volatile("{{ .reg .pred p; setp.eq.u32 p, 0, 1; {product} }}"'
    steps = f'if (threadIdx.x == 0) {statement} ::"r"(words), "l"(1ull << 46), "r"({described}));'
    with pytest.raises(EmulatorError, match="6 or 4 bits in tensor memory"):
        moved(tmp_path, steps, np.zeros(512, np.uint32), 4)


REDUCED = """float f[4], least; int i[4], most;
    asm volatile("tcgen05.ld.red.sync.aligned.32x32b.x4{} {{%0, %1, %2, %3}}, %4, [%5];"
                 : "=f"(f[0]), "=f"(f[1]), "=f"(f[2]), "=f"(f[3]), "=f"(least) : "r"(words + lanes));
    asm volatile("tcgen05.ld.red.sync.aligned.16x32bx2.x2.max.s32 {{%0, %1}}, %2, [%3], 2;"
                 : "=r"(i[0]), "=r"(i[1]), "=r"(most) : "r"(words + lanes));
    asm volatile("tcgen05.wait::ld.sync.aligned;");
    out[4 * threadIdx.x] = __float_as_int(least);
    out[4 * threadIdx.x + 1] = most;
    __syncthreads();
    if (threadIdx.x < 32) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 32;" ::"r"(words));
    return;"""


@pytest.mark.parametrize(
    ("what", "reduced"),
    [
        (".min.f32", lambda rows: np.fmin.reduce(rows, axis=1)),
        (".min.NaN.f32", lambda rows: np.minimum.reduce(rows, axis=1)),
        (".max.abs.f32", lambda rows: np.fmax.reduce(np.abs(rows), axis=1)),
    ],
)
def test_a_load_reduces_the_columns_of_each_lane(what: str, reduced: Any, tmp_path: Path) -> None:
    values = np.random.default_rng(1).standard_normal((128, 4), np.float32)
    values[5, 1] = np.nan
    steps = f"{stored('32x32b', 4, 4)} {REDUCED.format(what)}"
    found = moved(tmp_path, steps, values, 4, capability=(10, 3), specific=True)
    np.testing.assert_array_equal(found[:, 0].view(np.float32), reduced(values))
    lanes = values.view(np.int32).reshape(4, 2, 16, 2, 2)  # of 16 lanes the columns 0 and 1, then 2 and 3
    halves = np.stack([lanes[:, 0, :, 0], lanes[:, 0, :, 1]], axis=1)
    np.testing.assert_array_equal(found[:, 1].view(np.int32), halves.max(axis=-1).ravel())


def test_some_instructions_are_of_one_architecture_alone(tmp_path: Path) -> None:
    load = 'unsigned a, b, c; asm volatile("tcgen05.ld.red.sync.aligned.32x32b.x2.max.u32 {%0, %1}, %2, [%3];"'
    load += ' : "=r"(a), "=r"(b), "=r"(c) : "r"(words + lanes));'
    product = "tcgen05.mma.cta_group::1.kind::i8 [%0], %1, %1, %0, p;"
    multiply = f'asm volatile("{{ .reg .pred p; {product} }}" ::"r"(words), "l"(0ull));'
    for steps, capability in ((load, (10, 0)), (multiply, (10, 3))):
        with pytest.raises(EmulatorError, match=r"tcgen05\.(ld\.red|mma)"):
            moved(tmp_path, steps, np.zeros(512, np.uint32), 4, capability=capability, specific=True)


TURNS = """
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
extern "C" __global__ void turns(unsigned* out) {
    __shared__ unsigned address[2];
    const unsigned warp = threadIdx.x / 32;
    for (int i = 0; i < 20; ++i) {
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 512;" ::"r"(at(address + warp)));
        __syncwarp();
        FREE asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 512;" ::"r"(address[warp]));
        __syncwarp();
    }
    out[threadIdx.x] = address[warp];
}
"""


@pytest.mark.parametrize("schedule", [0, 1, 2])
def test_an_allocation_waits_for_another_warps_columns(schedule: int, tmp_path: Path) -> None:
    source, out = tmp_path / "turns.cu", np.ones(64, np.uint32)
    source.write_text(TURNS, encoding="utf-8")
    kernel = emulator.load(source, "turns", (("FREE", ""),), **BLACKWELL)
    kernel.launch(ONE, (64, 1, 1), (out,), schedule=schedule)
    assert not out.any()
    kernel = emulator.load(source, "turns", (("FREE", "if (warp)"),), **BLACKWELL)
    with finds(DefectKind.TENSOR_ACCESS) as caught:
        kernel.launch(ONE, (64, 1, 1), (out,), schedule=schedule)
    assert "nobody deallocates" in str(caught.value.defects[0])
