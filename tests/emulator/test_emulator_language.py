"""Device code means what nvcc takes it to mean: constructors, alignment, headers, arguments."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulating import ONE, every_compiler, finds, loaded

import peakgate_emulator as emulator
from peakgate_emulator import Compiler, DefectKind, EmulatedKernel, EmulatorError, KernelDefect, Pointing


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "kernel.cu"


def kernel_of(source: Path, text: str, **options: Any) -> EmulatedKernel:
    source.write_text(text)
    return emulator.load(source, "kernel", **options)


@every_compiler
def test_the_guard_of_a_shared_object_is_no_shared_memory(compiler: Compiler) -> None:
    kernel = loaded("constructed", compiler=compiler)
    out = np.zeros(64, np.float32)
    kernel.launch(ONE, (64, 1, 1), (out,))
    np.testing.assert_array_equal(out, 4 * np.arange(63, -1, -1))
    with pytest.raises(KernelDefect) as caught:  # what the kernel itself leaves unwritten is found all the same
        kernel.launch(ONE, (64, 1, 1), (out,))
    assert {defect.kind for defect in caught.value.defects} == {DefectKind.UNINITIALISED_SHARED}


@every_compiler
def test_a_threads_own_array_is_aligned_for_the_accesses_to_it(compiler: Compiler) -> None:
    out, halves = np.zeros(1, np.float32), np.array([1, 2, 3, 4], np.float16)
    loaded("own_array", compiler=compiler).launch(ONE, ONE, (out, halves.view(np.float32), np.int32(2)))
    assert out[0] == 4


@every_compiler
def test_headers_and_macros_are_those_that_nvrtc_has(compiler: Compiler) -> None:
    out = np.zeros(1, np.float32)
    loaded("headers", compiler=compiler).launch(ONE, (64, 1, 1), (out,))
    assert out[0] == 64 + 3 + 0 + 2


def test_a_const_atomic_is_read() -> None:
    out = np.zeros(2, np.int32)
    loaded("const_atomic").launch(ONE, (2, 1, 1), (np.zeros(1, np.int32), out))
    assert list(out) == [1, 0]


def test_pointers_to_volatile_and_null_pointers_are_arguments() -> None:
    out = np.zeros(4, np.float32)
    arguments = (out, np.arange(4, dtype=np.int32), None, np.uint64(0))
    loaded("pointers").launch(ONE, (4, 1, 1), arguments, outputs=(0,))
    np.testing.assert_array_equal(out, np.arange(4))


def test_a_null_pointer_that_is_read_belongs_to_nothing() -> None:
    arguments = (np.zeros(4, np.float32), None, None, None)
    with pytest.raises(KernelDefect, match="an address outside all memory"):
        loaded("pointers").launch(ONE, (4, 1, 1), arguments)


def test_a_launch_that_waits_for_the_one_before_it_runs(source: Path) -> None:
    text = "__global__ void kernel(int* out) {\n    cudaGridDependencySynchronize();\n    out[threadIdx.x] = 1;\n}\n"
    out = np.zeros(4, np.int32)
    kernel_of(source, text).launch(ONE, (4, 1, 1), (out,))
    assert out.all()


def test_structs_and_arrays_of_pointers_are_arguments() -> None:
    kernel = loaded("with_pointers")
    doubled, summed, first = np.zeros(4, np.float32), np.zeros(4, np.float32), np.arange(4, dtype=np.float32)
    layout = np.dtype([("out", "u8"), ("in", "u8"), ("count", "i4")], align=True)
    rows = Pointing(np.array((0, 0, 4), layout)[()], {0: doubled, 8: first})
    every = np.zeros(2, np.uint64)
    arguments = (rows, Pointing(every, {0: first, 8: summed}), Pointing(np.zeros(1, layout), {8: first}))
    kernel.launch(ONE, (8, 1, 1), arguments)
    np.testing.assert_array_equal(doubled, 2 * first)
    np.testing.assert_array_equal(summed, 2 * first)
    assert not every.any()  # addresses of the launch do not stay
    with pytest.raises(KernelDefect, match="out of bounds: read of 4 bytes at byte 8 of argument 1 "):
        kernel.launch(ONE, (8, 1, 1), (Pointing(rows.value, {0: doubled, 8: first[:2].copy()}), *arguments[1:]))
    with pytest.raises(EmulatorError, match=r"argument 1 \(\w+\): a pointer at byte 20 given, expected one within 24"):
        kernel.launch(ONE, ONE, (Pointing(rows.value, {20: doubled}), *arguments[1:]))


def test_pointers_in_structs_are_outputs_and_have_names() -> None:
    kernel = loaded("with_pointers")
    out, given = np.zeros(4, np.float32), np.arange(4, dtype=np.float32)
    layout = np.dtype([("out", "u8"), ("in", "u8"), ("count", "i4")], align=True)
    names = {0: "out", 8: "in"}

    def launch(count: int, targets: dict[int, Any], outputs: tuple[Any, ...] = ((0, 0),)) -> None:
        value = np.array((0, 0, count), layout)[()]
        every = Pointing(np.zeros(2, np.uint64), {0: given, 8: np.zeros(4, np.float32)})
        arguments = (Pointing(value, targets, names), every, Pointing(np.zeros(1, layout), {8: given}))
        kernel.launch(ONE, (8, 1, 1), arguments, outputs=outputs)

    launch(4, {0: out, 8: given})
    np.testing.assert_array_equal(out, 2 * given)
    with pytest.raises(KernelDefect, match=r"argument 1 \(\w+\.out\), which is an output: 4 of its 16 bytes"):
        launch(3, {0: out, 8: given})
    with pytest.raises(KernelDefect, match=r"at byte 8 of argument 1 \(\w+\.in\), which has 8"):
        launch(4, {0: out, 8: given[:2].copy()})
    locked = out.copy()
    locked.flags.writeable = False
    with pytest.raises(KernelDefect, match=r"write to argument 1 \(\w+\.out\), which is an input"):
        launch(4, {0: locked, 8: given}, ())
    with pytest.raises(EmulatorError, match=r"argument 1 \(\w+\): array overlaps argument 1 "):
        launch(4, {0: out, 8: out[:2]})


@every_compiler
def test_a_files_host_headers_and_other_kernels_do_not_matter(compiler: Compiler) -> None:
    out = np.zeros(32, np.complex64)
    loaded("of_the_host", compiler=compiler).launch(ONE, (32, 1, 1), (out.view(np.float32), np.uint64(0)))
    np.testing.assert_array_equal(out, (np.arange(32) + 2 + 1j) * 1j)


INTEGERS = {
    "signed char": ("i1", 32),
    "unsigned char": ("u1", 32),
    "short": ("i2", 32),
    "unsigned short": ("u2", 32),
    "int": ("i4", 32),
    "unsigned": ("u4", 32),
    "long long": ("i8", 64),
    "unsigned long long": ("u8", 64),
}


def cast(value: float, dtype: np.dtype[Any], bits: int, source_bits: int) -> int:
    """As ``cvt.rzi`` to 32 or 64 bits, of which a smaller type has the lowest (PTX ISA, ``cvt``)."""
    least, most = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype.kind == "i" else (0, (1 << bits) - 1)
    if math.isnan(value):
        return 1 << (bits - 1) if 64 in (bits, source_bits) else 0
    return min(max(int(value) if math.isfinite(value) else int(math.copysign(1e300, value)), least), most)


@pytest.mark.parametrize("source_bits", [32, 64])
def test_a_cast_to_an_integer_saturates_as_on_a_gpu(source_bits: int, source: Path) -> None:
    if not emulator.find_compiler().is_gcc:
        pytest.skip("clang converts as the processor does")
    edges = [0.0, 1.5, -1.5, -0.5, 127.5, 200.7, -200.7, 300.0, 32767.9, 65536.5, -70000.0, 1e300, math.inf, math.nan]
    edges += [2.0**power for power in (31, 32, 40, 62, 63, 64, 100)] + [2.0**31 - 200, 2.0**32 - 300, 2.0**63 + 2.0**40]
    type_, dtype = {32: ("float", np.float32), 64: ("double", np.float64)}[source_bits]
    with np.errstate(over="ignore"):
        values = np.array([sign * edge for edge in edges for sign in (1, -1)]).astype(dtype)
    parameters = "".join(f", {name}* out{at}" for at, name in enumerate(INTEGERS))
    casts = "".join(f"out{at}[i] = ({name})x[i]; " for at, name in enumerate(INTEGERS))
    source.write_text(f"__global__ void k(const {type_}* x{parameters}) {{ const int i = threadIdx.x; {casts}}}\n")
    outputs = [np.zeros(len(values), kind) for kind, _ in INTEGERS.values()]
    emulator.load(source, "k").launch(ONE, (len(values), 1, 1), (values, *outputs))
    for out, (kind, bits) in zip(outputs, INTEGERS.values(), strict=True):
        exact = [cast(float(value), np.dtype(kind), bits, source_bits) for value in values]
        mask = (1 << 8 * out.itemsize) - 1
        assert [int(each) & mask for each in out] == [each & mask for each in exact], kind


MADE = """
__device__ int added[4] = {1, 2, 3, 4};
struct Shape {
    __device__ virtual int area() const = 0;
    __device__ virtual ~Shape() {}
};
struct Square : Shape {
    int side;
    __device__ explicit Square(int given) : side(given) {}
    __device__ int area() const override { return side * side + added[side % 4]; }
};
struct Point : Square {
    __device__ Point() : Square(0) {}
    __device__ int area() const override { return -1; }
};
__global__ void kernel(int* out) {
    const int t = threadIdx.x;
    Shape* shape = t % 2 ? new Square(t) : new Point;
    int* own = new int[2];
    own[0] = shape->area();
    out[t] = own[INDEX];
    delete[] own;
    delete shape;
    __shared__ __align__(4) char place[32 * sizeof(int)];
    out[t] += *new (place + t * sizeof(int)) int(100);
}
"""


@every_compiler
def test_objects_are_made_and_called_by_their_base(compiler: Compiler, source: Path) -> None:
    out, t = np.zeros(32, np.int32), np.arange(32)
    kernel_of(source, MADE, defines=(("INDEX", "0"),), compiler=compiler).launch(ONE, (32, 1, 1), (out,))
    np.testing.assert_array_equal(out, np.where(t % 2, t * t + t % 4 + 1, -1) + 100)
    with finds(DefectKind.UNINITIALISED_GLOBAL):
        kernel_of(source, MADE, defines=(("INDEX", "1"),), compiler=compiler).launch(ONE, (32, 1, 1), (out,))


MEMBERS = """
struct Tile {
    int first;
    template <int N> __device__ int load(int at) const { return first + N * at; }
    template <class T, int N> __device__ T as() { return T(first + N); }
};
template <class T> __device__ int both(T& tile, const T* same, int at) {
    return tile.load<4>(at) + same->load<T::load_count>(at) + tile.as<int, 2>();
}
struct Counted : Tile { static constexpr int load_count = 2; };
__global__ void kernel(int* out) {
    Counted tile;
    tile.first = 5;
    const int less = tile.first<7, more = tile.template load<1>(3)> (1);
    out[threadIdx.x] = both(tile, &tile, threadIdx.x) + 100 * less + 1000 * more;
}
"""


@every_compiler
def test_a_member_template_needs_no_keyword(compiler: Compiler, source: Path) -> None:
    out = np.zeros(32, np.int32)
    kernel_of(source, MEMBERS, compiler=compiler).launch(ONE, (32, 1, 1), (out,))
    np.testing.assert_array_equal(out, 17 + 6 * np.arange(32) + 1100)


@every_compiler
def test_halves_of_raw_bits_are_constants(compiler: Compiler, source: Path) -> None:
    text = """#include <cuda_fp16.h>
    __global__ void kernel(float* out) {
        constexpr __half one = __half(__half_raw{0x3c00});
        constexpr __half2 both(one, __half_raw{0x4000}), same = __half2_raw{0x3c00, 0x4000};
        out[threadIdx.x] = __half2float(both.x) + __half2float(same.y);
    }
    """
    out = np.zeros(4, np.float32)
    kernel_of(source, text, compiler=compiler).launch(ONE, (4, 1, 1), (out,))
    assert out.tolist() == [3] * 4


BEHIND = {
    "write": "p[in[0]] = 1",
    "read": "out[0] = p[in[0]]",
    "atomic": "atomicAdd(p + in[0], 1)",
    "st.shared": 'asm volatile("st.shared.u32 [%0], %1;" ::"r"(at + 4 * in[0]), "r"(1) : "memory")',
    "cp.async": 'asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at + 4 * in[0]), "l"(in))',
    "16 bytes": "((int4*)p)[(in[0] + 3) / 4] = make_int4(1, 2, 3, 4)",
}


@every_compiler
@pytest.mark.parametrize("how", BEHIND)
@pytest.mark.parametrize(("index", "found"), [(29, False), (30, True), (85, True)])
def test_the_end_of_a_shared_array_is_its_end(
    how: str, index: int, found: bool, compiler: Compiler, source: Path
) -> None:
    source.write_text(
        "__global__ void kernel(int* out, const int* in) {\n    alignas(16) __shared__ int s[30], other[300];\n"
        "    int* p = s;\n    s[29] = other[0] = 1;\n    const unsigned at = (unsigned)__cvta_generic_to_shared(p);\n"
        f"    {BEHIND[how]};\n    out[0] = other[0] + at;\n}}\n"
    )
    kernel = emulator.load(source, "kernel", compiler=compiler)
    given = np.array([index - 5 if how == "16 bytes" and not found else index], np.int32)
    with finds(*[DefectKind.OUT_OF_BOUNDS] * found) as caught:
        kernel.launch((2, 1, 1) if found else (1, 1, 1), (1, 1, 1), (np.zeros(1, np.int32), given))
    if found:
        assert re.search(r"\bs\b.* 120\b", str(caught.value.defects[0]))


@every_compiler
def test_a_pointer_to_shared_memory_ends_as_the_address_there(compiler: Compiler, source: Path) -> None:
    source.write_text(
        "__global__ void kernel(unsigned* out) {\n    extern __shared__ char more[];\n    __shared__ int s[32];\n"
        "    const int* p = s + threadIdx.x;\n    const unsigned at = (unsigned)__cvta_generic_to_shared(p);\n"
        "    out[threadIdx.x] = at - ((unsigned long long)p & 0x3ffff);\n"
        "    out[32 + threadIdx.x] = at >= 1024 && (unsigned)__cvta_generic_to_shared(more) >= 1024;\n}\n"
    )
    out = np.full(64, 9, np.uint32)
    emulator.load(source, "kernel", compiler=compiler).launch((1, 1, 1), (32, 1, 1), (out,), shared_bytes=200000)
    np.testing.assert_array_equal(out, [0] * 32 + [1] * 32)


PADDED = """struct Item { char a; int b; short c; };
__global__ void kernel(int* out, const int* in) {
    __shared__ Item items[32];
    __shared__ short halves[64];
    items[threadIdx.x].a = 1;
    WRITTEN;
    items[threadIdx.x].c = 3;
    halves[2 * threadIdx.x] = 4;
    HALVES;
    __syncthreads();
    const Item item = items[31 - threadIdx.x];
    out[threadIdx.x] = item.a + item.b + item.c + *(const int*)&halves[62 - 2 * threadIdx.x];
}
"""


@every_compiler
@pytest.mark.parametrize(
    ("written", "halves", "found"),
    [
        ("items[threadIdx.x].b = 2", "halves[2 * threadIdx.x + 1] = 0", False),
        ("", "halves[2 * threadIdx.x + 1] = 0", True),
        ("items[threadIdx.x].b = 2", "", True),
        ("((char*)&items[threadIdx.x].b)[0] = 2", "if (items[threadIdx.x].b) halves[2 * threadIdx.x + 1] = 0", True),
    ],
    ids=["all but the padding", "a member missing", "half a word missing", "bytes of a number missing"],
)
def test_the_padding_of_a_struct_needs_no_value(
    written: str, halves: str, found: bool, compiler: Compiler, source: Path
) -> None:
    source.write_text(PADDED)
    kernel = emulator.load(source, "kernel", (("WRITTEN", written), ("HALVES", halves)), compiler=compiler)
    out = np.zeros(32, np.int32)
    with finds(*[DefectKind.UNINITIALISED_SHARED] * found):
        kernel.launch(ONE, (32, 1, 1), (out, np.zeros(1, np.int32)))
        assert (out == 10).all()


UNSET = {
    "a variable": "float sum; for (int i = 0; i < 4; ++i) sum += in[i]; out[t] = sum;",
    "an element of an array": "float best[4] = {}; float last[4]; best[3] += last[t % 4]; out[t] = best[3];",
    "an accumulator": "wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a; "
    "wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> b; wmma::fill_fragment(a, __half(0.f)); "
    "wmma::fill_fragment(b, __half(0.f)); wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums; "
    "wmma::mma_sync(sums, a, b, sums); out[t] = sums.x[0];",
}


@every_compiler
@pytest.mark.parametrize("body", UNSET.values(), ids=UNSET)
def test_what_a_thread_has_not_set_shows_in_its_result(body: str, compiler: Compiler, source: Path) -> None:
    source.write_text(
        "#include <mma.h>\n#include <cuda_fp16.h>\nusing namespace nvcuda;\n"
        f"__global__ void kernel(float* out, const float* in) {{ const int t = threadIdx.x; {body} }}\n"
    )
    out = np.zeros(32, np.float32)
    emulator.load(source, "kernel", compiler=compiler).launch(ONE, (32, 1, 1), (out, np.zeros(4, np.float32)))
    assert not (np.abs(out) < 1e30).any()
