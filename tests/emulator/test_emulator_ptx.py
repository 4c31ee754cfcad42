"""Each form of inline PTX computes what the PTX ISA says, by exact arithmetic; what is not known is refused by name."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest
from emulating import ONE, finds, loaded, rows
from ptx_exact import bits_of, exact, half_of, interesting, same, shape

import peakgate_emulator as emulator
from peakgate_emulator import DefectKind, KernelBuildError, KernelDefect
from peakgate_emulator.ptx import translated
from peakgate_emulator.ptx_values import opcodes

PROBLEMS = 64
CHUNK = 30
CONSTRAINTS = {1: ("r", "unsigned"), 8: ("r", "unsigned"), 16: ("h", "unsigned short"), 32: ("r", "unsigned")}
CONSTRAINTS[64] = ("l", "unsigned long long")
INTEGERS = [f"{sign}{bits}" for bits in (8, 16, 32, 64) for sign in "us"]
ORDERED = ("eq", "ne", "lt", "le", "gt", "ge")
UNORDERED = ("equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
ONCE_WRONG = (
    *("mad.hi.s32", "not.pred", "setp.lt.and.s32", "clz.b64", "brev.b64", "add.sat.s32", "add.sat.f32"),
    *(
        "cvt.sat.s8.s32",
        "cvt.rni.s32.f32",
        "fma.rn.relu.f16",
        "cvt.rzi.s8.f32",
        "min.NaN.f32",
        "bfe.s32",
        "setp.ne.f32",
        "set.gt.and.u32.u64",
        "set.lt.xor.ftz.f32.f32",
    ),
)


def holds(to: str, source: str) -> bool:
    """Whether an integer type has every number of another, so that there is nothing to saturate."""
    wider = int(to[1:]) > int(source[1:])
    return to == source or (wider and (to[0] == "s" or source[0] == "u"))


def conversions() -> list[str]:
    """``cvt`` with every rounding between every two types."""
    found = [f"cvt.{to}.{source}" for to in INTEGERS for source in INTEGERS]
    found += [f"cvt.sat.{to}.{source}" for to in INTEGERS for source in INTEGERS if not holds(to, source)]
    floats = ("f16", "f32", "f64")
    for rounding in ("rn", "rz", "rm", "rp"):
        found += [f"cvt.{rounding}i.{to}.{source}" for to in INTEGERS for source in floats]
        found += [f"cvt.{rounding}i.{kind}.{kind}" for kind in floats]
        found += [f"cvt.{rounding}.{to}.{source}" for to in ("f32", "f64") for source in INTEGERS]
        found += [f"cvt.{rounding}.{way}" for way in ("f32.f64", "f16.f32", "f16.f64", "sat.f32.f64", "ftz.f32.f64")]
    return [
        *found,
        "cvt.rn.bf16.f32",
        "cvt.rz.bf16.f32",
        "cvt.f32.f16",
        "cvt.f64.f32",
        "cvt.f32.bf16",
        "cvt.sat.f32.f32",
    ]


def comparisons() -> list[str]:
    """``setp`` with every comparison of every type, and what it is combined with."""
    kinds = ("u16", "s16", "u32", "s32", "u64", "s64", "f32", "f64", "f16")
    found = [f"setp.{how}.{kind}" for kind in kinds for how in ORDERED]
    found += [f"setp.{how}.{kind}" for kind in ("f32", "f64", "f16") for how in UNORDERED]
    found += [f"setp.{how}.u32" for how in ("lo", "ls", "hi", "hs")]
    return found + [
        f"setp.{how}.{also}.{kind}" for how in ("lt", "ne") for also in ("and", "or", "xor") for kind in kinds
    ]


DIRECTED_PAIRS = ("add.rz.f32x2", "sub.rm.f32x2", "mul.rp.ftz.f32x2", "fma.rz.f32x2")


def forms() -> list[str]:
    """Instructions that compute a value: some of each name; with ``PEAKGATE_EVERY_FORM`` all, which takes minutes."""
    every = [*opcodes(), *conversions(), *comparisons()]
    if os.environ.get("PEAKGATE_EVERY_FORM"):
        return every
    by_name: dict[str, list[str]] = {}
    for opcode in every:
        by_name.setdefault(opcode.split(".")[0], []).append(opcode)
    drawn = random.Random(1)
    few = [opcode for known in by_name.values() for opcode in drawn.sample(known, min(len(known), 5))]
    return [*few, *ONCE_WRONG, *DIRECTED_PAIRS]


def register(kind: str) -> int:
    """Bits of a register for a type."""
    return 2 * half_of(kind) if kind.endswith("x2") else bits_of(kind)


def block(opcode: str, at: int) -> str:
    """A kernel's statement that applies an instruction, between registers of its own types."""
    takes, gives = shape(opcode)
    lines, inputs = [], []
    for place, (letter, kind) in enumerate(zip("abcd", takes, strict=False)):
        constraint, type_ = CONSTRAINTS[register(kind)]
        inputs.append(f'"{constraint}"(({type_})in[{4 * PROBLEMS * at} + 4 * t + {place}])')
        width = max(register(kind), 16)
        if kind == "pred":
            lines.append(f".reg .pred {letter}; setp.ne.u32 {letter}, %{place + 1}, 0;")
        else:
            width = 32 if kind in ("s8", "u8") else width
            lines.append(f".reg .b{width} {letter}; mov.b{width} {letter}, %{place + 1};")
    constraint, type_ = CONSTRAINTS[register(gives)]
    width = 32 if gives in ("s8", "u8") else register(gives)
    operands = list("abcd"[: len(takes)])
    if opcode == "lop3.b32":
        operands[3] = "0x" + f"{LOOKUP:02x}"
    call = f"{opcode} r, {', '.join(operands)};"
    if gives == "pred":
        lines.append(f".reg .pred r; {call} selp.u32 %0, 1, 0, r;")
    else:
        lines.append(f".reg .b{width} r; {call} mov.b{width} %0, r;")
    statement = f'asm volatile("{{ {" ".join(lines)} }}" : "={constraint}"(r) : {", ".join(inputs)});'
    return f"    {{ {type_} r; {statement} out[{PROBLEMS * at} + t] = r; }}\n"


LOOKUP = 0x96


def kernel(chosen: list[str]) -> str:
    """A kernel that applies instructions, each to the operands of one problem for each thread."""
    body = "".join(block(opcode, at) for at, opcode in enumerate(chosen))
    return (
        "#include <cuda_fp16.h>\n"
        'extern "C" __global__ void kernel(unsigned long long* out, const unsigned long long* in) {\n'
        f"    const int t = threadIdx.x;\n{body}}}\n"
    )


def problems(chosen: list[str]) -> np.ndarray:
    """Operands of each instruction and thread, in four columns; divisors are not 0."""
    generator = np.random.default_rng(3)
    operands = np.zeros((len(chosen), PROBLEMS, 4), np.uint64)
    for at, opcode in enumerate(chosen):
        for place, kind in enumerate(shape(opcode)[0]):
            operands[at, :, place] = interesting(kind, generator, PROBLEMS)
        if opcode.split(".")[0] in ("div", "rem") and opcode[-3] in "us":
            operands[at, :, :2] = np.maximum(operands[at, :, :2] & np.uint64(2**15 - 1), np.uint64(1))
        if opcode == "lop3.b32":
            operands[at, :, 3] = LOOKUP
        if opcode.split(".")[0] in ("bfe", "bfi"):  # in 64 bits an H200 takes more of a position than its lowest byte
            operands[at, :, len(shape(opcode)[0]) - 2 :] &= np.uint64(255)
    return operands


def wrong(chosen: list[str], operands: np.ndarray, results: np.ndarray) -> list[str]:
    """Each instruction whose result is another than the exact one, with the operands."""
    found = []
    for at, opcode in enumerate(chosen):
        takes, gives = shape(opcode)
        for problem in range(PROBLEMS):
            given = [int(bits) for bits in operands[at, problem, : len(takes)]]
            expected, result = exact(opcode, given), int(results[at, problem])
            if not same(result, expected, gives):
                found.append(f"{opcode} {[hex(bits) for bits in given]}: {result:#x}, expected {expected}")
                break
    return found


CHUNKS = [forms()[at : at + CHUNK] for at in range(0, len(forms()), CHUNK)]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("forms")
    written = [folder / f"forms{number}.cu" for number in range(len(CHUNKS))]
    for source, chosen in zip(written, CHUNKS, strict=True):
        source.write_text(kernel(chosen))
    emulator.prebuild((source, "kernel", ()) for source in written)
    return written


@pytest.mark.parametrize("number", range(len(CHUNKS)))
def test_every_form_computes_what_exact_arithmetic_says(number: int, sources: list[Path]) -> None:
    chosen = CHUNKS[number]
    operands, results = problems(chosen), np.zeros((len(chosen), PROBLEMS), np.uint64)
    emulator.load(sources[number], "kernel").launch((1, 1, 1), (PROBLEMS, 1, 1), (results, operands))
    assert wrong(chosen, operands, results) == []


def launched(tmp_path: Path, body: str, before: str = "", threads: int = 32) -> np.ndarray:
    """What each thread's ``result`` is behind some statements."""
    source = tmp_path / "kernel.cu"
    source.write_text(
        f"{before}__global__ void kernel(unsigned* out, const signed char* in) {{\n"
        "    const unsigned t = threadIdx.x;\n"
        f"    unsigned result = 7;\n    unsigned other = 9;\n{body}\n    out[t] = result + 100 * other;\n}}\n"
    )
    out = np.zeros(threads, np.uint32)
    emulator.load(source, "kernel").launch((1, 1, 1), (threads, 1, 1), (out, np.full(8, -3, np.int8)))
    return out


T = np.arange(32)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # The predicate of a shuffle: whether the source is in the group of lanes.
        ("{ .reg .pred p; shfl.sync.up.b32 %0|p, %2, 3, 0, -1; selp.u32 %1, 1, 0, p; }",
         np.where(T >= 3, T - 3, T) + 100 * (T >= 3)),
        ("{ .reg .pred p; shfl.sync.down.b32 %0|p, %2, 5, 0x1f, -1; selp.u32 %1, 1, 0, p; }",
         np.where(T < 27, T + 5, T) + 100 * (T < 27)),
        ("{ .reg .pred p; shfl.sync.down.b32 %0|p, %2, 3, 0x181f, -1; selp.u32 %1, 1, 0, p; }",
         np.where(T % 8 < 5, T + 3, T) + 100 * (T % 8 < 5)),
        ("{ .reg .pred p; shfl.sync.bfly.b32 %0|p, %2, 16, 0xf, -1; selp.u32 %1, 1, 0, p; }",
         np.where(T >= 16, T - 16, T) + 100 * (T >= 16)),
        ("{ .reg .pred p; shfl.sync.idx.b32 %0|p, %2, 9, 0x1c1f, -1; selp.u32 %1, 1, 0, p; }", T // 4 * 4 + 1 + 100),
        ("{ .reg .pred p; match.all.sync.b32 %0|p, %2, -1; selp.u32 %1, 1, 0, p; }", 0 * T),
        ("{ .reg .pred p; match.all.sync.b32 %0|p, 5, -1; and.b32 %0, %0, 255; selp.u32 %1, 1, 0, p; }", 0 * T + 355),
        ("{ .reg .u32 h; shr.u32 h, %2, 3; match.any.sync.b32 %0, h, -1; shr.u32 %0, %0, %2; and.b32 %0, %0, 1; }",
         0 * T + 901),
        ("{ .reg .pred p, q; setp.lt.u32 p|q, %2, 5; vote.sync.any.pred p, !q, -1; selp.u32 %1, 1, 0, p; }",
         0 * T + 107),
        ("{ .reg .pred p; setp.lt.u32 p, %2, 5; vote.sync.uni.pred p, p, -1; selp.u32 %1, 1, 0, p; }", 0 * T + 7),
        ("{ .reg .pred p; setp.lt.u32 p, %2, 5; vote.sync.ballot.b32 %0, p, -1; }", 0 * T + 931),
        ("{ .reg .pred p; setp.lt.u32 p, %2, 5; vote.ballot.sync.b32 %0, p, -1; }", 0 * T + 931),
        ("redux.sync.max.s32 %0, %2, -1;", 0 * T + 931),
        ("{ .reg .pred p; elect.sync %0|p, -1; selp.u32 %1, 1, 0, p; }", 100 * (T == 0)),
        ("{ .reg .pred p; setp.lt.u32 p, %2, 5; bar.red.popc.u32 %0, 0, p; }", 0 * T + 905),
        ("{ .reg .pred p; setp.lt.u32 p, %2, 5; barrier.red.or.pred p, 0, !p; selp.u32 %1, 1, 0, p; }", 0 * T + 107),
        ("{ .reg .pred p; setp.lt.u32 p, %2, 5; bar.red.and.pred p, 0, p; selp.u32 %1, 1, 0, p; }", 0 * T + 7),
        # A register that is wider than what is loaded: the sign fills it.
        ("{ .reg .s32 v; ld.global.s8 v, [%3 + 2]; sub.s32 %0, 0, v; }", 0 * T + 903),
        ("{ .reg .s32 v; ld.global.u8 v, [%3]; mov.b32 %0, v; }", 0 * T + 253 + 900),
        # The carry flag.
        ("{ .reg .u32 x; add.cc.u32 x, %2, 0xfffffff0; addc.u32 %0, 5, 7; }", 0 * T + 912 + (T >= 16)),
        ("{ .reg .u64 x; add.cc.u64 x, 1, 0xffffffffffffffff; addc.cc.u64 x, x, -1; addc.u32 %0, 1, %2; }",
         T + 902),
        ("{ .reg .u32 x; sub.cc.u32 x, %2, 3; subc.cc.u32 x, 0, 0; subc.u32 %0, 9, 0; }", 0 * T + 909 - (T < 3)),
        ("{ .reg .u32 x; mad.lo.cc.u32 x, %2, 0x10000000, 0xf0000000; madc.hi.u32 %0, %2, 0x10000000, 3; }",
         0 * T + 903 + T // 16 + (T % 16 > 0)),
        ("{ .reg .s32 x; mad.hi.cc.s32 x, -1, %2, 1; madc.lo.s32 %0, 2, %2, 0; }", 2 * T + 900 + (T > 0)),
        # Video instructions: parts of words, with signs, saturation, a sum.
        ("vabsdiff4.u32.u32.u32.add %0, %2, 0x01000003, 100;", 1001 + abs(T - 3)),
        ("vadd4.s32.s32.s32.sat %0, %2, 0x7f, 0;", 0 * T + 1027),
        ("vsub2.u32.u32.u32.sat %0, %2, 0x00000004, 0;", np.maximum(T - 4, 0) + 900),
        ("vavrg4.u32.u32.u32 %0, %2, 0x04, 0;", (T + 5) // 2 + 900),
        ("vmin2.s32.s32.u32 %0, 0xffff, %2, 0;", 0 * T + 65535 + 900),
        ("vset4.u32.u32.ge.add %0, %2, 0x05, 40;", 943 + (T >= 5)),
        ("vset2.s32.s32.lt %0, %2, 3, 0;", 900 + (T < 3)),
        ("vmax.s32.s32.s32.max %0, %2, -3, 5;", np.maximum(T, 5) + 900),
        ("vsub.u32.u32.u32.sat.add %0, %2, 3, 40;", np.maximum(T - 3, 0) + 940),
        ("{ .reg .u32 x; mov.u32 x, 0x80fe; vadd.s32.s32.u32 %0, x.b0, %2.h0; }", T - 2 + 900),
        # Branches, blocks, guards, comments, numbers.
        ("{ .reg .pred p; setp.ge.u32 p, %2, 4; @p bra L; mov.u32 %0, 1; L: @!p mov.u32 %1, 0b11; } // done",
         np.where(T >= 4, 907, 301)),
        ("{ .reg .pred p; setp.ge.u32 p, %2, 4; @p bra L%=; mov.u32 %0, 1; L%=: }", np.where(T >= 4, 907, 901)),
        ("{ .reg .b32 r<2>; { .reg .u32 i; mov.u32 i, %%tid.x; mov.b32 r1, i; } add.u32 %0, r1, 0x10U; }", T + 916),
        ("{ .reg .b16 lo, hi; mov.b32 {lo, hi}, 0x50003; cvt.u32.u16 %0, hi; }", 0 * T + 905),
        ("{ .reg .f32 x; mov.f32 x, 0f40400000; add.f32 x, x, 1.5; cvt.rni.u32.f32 %0, x; }", 0 * T + 904),
    ],
)  # fmt: skip
def test_what_is_more_than_arithmetic_works_too(text: str, expected: np.ndarray, tmp_path: Path) -> None:
    body = f'asm volatile("{text}" : "+r"(result), "+r"(other) : "r"(t), "l"(in));'
    np.testing.assert_array_equal(launched(tmp_path, body), expected.astype(np.uint32))


VECTORS = """__global__ void kernel(float* sums, float* old) {
    const float x = threadIdx.x;
    asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" :: "l"(sums), "f"(x), "f"(2 * x));
    asm volatile("{ .reg .f32 a, b; atom.global.v4.f32.add {%0, a, b, _}, [%1], {%2, %2, 1.0, 0.5}; }"
                 : "=f"(old[threadIdx.x]) : "l"(sums + SHIFT), "f"(x));
    atomicAdd(reinterpret_cast<float2*>(sums + 8), make_float2(1, x));
    old[32 + threadIdx.x] = atomicAdd(reinterpret_cast<float4*>(sums + 12), make_float4(1, 2, 3, x)).y;
}
"""


WIDE = """__global__ void kernel(unsigned long long* pairs, unsigned long long* out) {
    unsigned __int128 both, old;
    if (threadIdx.x == 0) {
        asm volatile("{ .reg .b128 r, s; ld.global.b128 r, [%1]; mov.b128 s, r; mov.b128 %0, s; }"
                     : "=q"(both) : "l"(pairs + SHIFT));
        out[0] = (unsigned long long)both, out[1] = (unsigned long long)(both >> 64);
    }
    __syncwarp();
    for (bool done = false; !done;) {
        asm volatile("ld.relaxed.gpu.global.b128 %0, [%1];" : "=q"(both) : "l"(pairs + 2) : "memory");
        unsigned long long low, high;
        unsigned __int128 next;
        asm("mov.b128 {%0, %1}, %2;" : "=l"(low), "=l"(high) : "q"(both));
        asm("mov.b128 %0, {%1, %2};" : "=q"(next) : "l"(low + 1), "l"(high + threadIdx.x));
        asm volatile("atom.relaxed.gpu.global.cas.b128 %0, [%1], %2, %3;"
                     : "=q"(old) : "l"(pairs + 2), "q"(both), "q"(next) : "memory");
        done = old == both;
    }
}
"""


@pytest.mark.parametrize("shift", [0, 1])
def test_registers_of_128_bits_hold_pairs(shift: int, tmp_path: Path) -> None:
    (tmp_path / "wide.cu").write_text(WIDE)
    kernel = emulator.load(tmp_path / "wide.cu", "kernel", (("SHIFT", str(shift)),))
    for schedule in (0, 2, 5):
        pairs, out = np.array([7, 1 << 63, 5, 9], np.uint64), np.zeros(2, np.uint64)
        with finds(*[DefectKind.MISALIGNED] * shift):
            kernel.launch((1, 1, 1), (32, 1, 1), (pairs, out), schedule=schedule)
            assert out.tolist() == [7, 1 << 63]
            assert pairs[2:].tolist() == [5 + 32, 9 + 31 * 16]


@pytest.mark.parametrize("shift", [4, 6])
def test_vectors_are_added_element_by_element(shift: int, tmp_path: Path) -> None:
    source = tmp_path / "kernel.cu"
    source.write_text(VECTORS)
    sums, old, total = np.zeros(16, np.float32), np.zeros(64, np.float32), 31 * 16
    with finds(*([] if shift == 4 else [DefectKind.MISALIGNED])):
        emulator.load(source, "kernel", (("SHIFT", str(shift)),)).launch((1, 1, 1), (32, 1, 1), (sums, old))
        assert sums.tolist() == [total, 2 * total, 0, 0, total, total, 32, 16, 32, total, 0, 0, 32, 64, 96, total]
        assert sorted(old[32:]) == [2 * lane for lane in range(32)]


@pytest.mark.parametrize(
    ("macros", "kind"),
    [
        ({"ORDER": "__syncwarp()", "LANES": "0xfffffff0u"}, DefectKind.WARP_MASK),
        ({"ORDER": "", "LANES": "~0u"}, DefectKind.SHARED_RACE),
        ({"ORDER": "if (threadIdx.x == 9) return", "LANES": "1u << threadIdx.x"}, DefectKind.SHARED_RACE),
        ({"ORDER": "__syncwarp()", "LANES": "~0u"}, None),
    ],
    ids=["a lane that the mask leaves out", "no order", "each lane by itself", "right"],
)
def test_one_lane_is_elected_which_orders_nothing(macros: dict[str, str], kind: DefectKind | None) -> None:
    out = np.zeros(1, np.int32)
    with finds(*([kind] if kind else [])):
        loaded("elected", macros).launch((1, 1, 1), (32, 1, 1), (out,))
    assert kind or out[0] == 5


@pytest.mark.parametrize("schedule", [0, 1, 2, 5])
@pytest.mark.parametrize("end", ["__syncthreads();", "__syncwarp(~8u);"])
def test_a_thread_that_exits_is_waited_for_no_more(schedule: int, end: str, tmp_path: Path) -> None:
    (tmp_path / "left.cu").write_text(
        '__device__ void leave(int t) { int own[8] = {t}; if (own[t % 8 / 8] % 32 == 3) asm volatile("exit;"); }\n'
        f"__global__ void left(int* out) {{ leave(threadIdx.x); {end} out[threadIdx.x + blockIdx.x * 96] = 1; }}\n"
    )
    out = np.zeros(192, np.int32)
    emulator.load(tmp_path / "left.cu", "left").launch((2, 1, 1), (96, 1, 1), (out,), schedule=schedule)
    np.testing.assert_array_equal(out, np.arange(192) % 32 != 3)


def test_dependent_launches_run_one_after_the_other(tmp_path: Path) -> None:
    wait, go = (f'asm volatile("griddepcontrol.{what};" ::: "memory");' for what in ("wait", "launch_dependents"))
    out = launched(tmp_path, f"{wait} result = 3 * t; {go} cudaGridDependencySynchronize();")
    np.testing.assert_array_equal(out, 3 * T + 900)


@pytest.mark.parametrize("instruction", rows("unknown_modifiers.txt"))
def test_an_unknown_modifier_of_an_instruction_is_refused(instruction: str, tmp_path: Path) -> None:
    body = f'if (t < 32) asm volatile("{{ .reg .pred p, q; {instruction} }}" : "=r"(result) : "r"(t));'
    with pytest.raises(
        KernelBuildError, match="^kernel.cu:5: PTX instruction .*" + instruction.split(maxsplit=1)[0]
    ) as caught:
        launched(tmp_path, body)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("written", rows("unknown_ptx.txt"))
def test_a_product_or_copy_that_is_not_known_is_refused_by_name(written: str) -> None:
    given = ", ".join(f'"r"({name})' for name in "abcdefg")
    done = translated(f'void f() {{ asm volatile("{written};" :: {given}); }}')
    assert f'peakgate_not_emulated("PTX instruction {written.split(maxsplit=1)[0]}' in done


PUT_TOGETHER = """
#define SECOND "%1"
#define GIVEN(x) "r"(x)
#define ADD(NAME, TYPE, BEFORE)                                              \\
    __device__ void NAME(unsigned& to, unsigned x) {                         \\
        asm volatile("{ bar.sync 0;\\nadd." #TYPE " %0, " SECOND ", %%tid.x; }" \\
                     : "=r"(to) : GIVEN(x));                                 \\
    }
ADD(added, u32, )
"""


def test_a_text_that_the_preprocessor_puts_together_is_understood(tmp_path: Path) -> None:
    body = 'asm volatile("add.u32 %0, "\n SECOND\n ", %1;"\n : "=r"(result) : GIVEN(t));\nadded(result, result);'
    np.testing.assert_array_equal(launched(tmp_path, body, PUT_TOGETHER), 3 * T + 900)
    line = f"kernel.cu:{PUT_TOGETHER.count(chr(10)) + 5 + body.count(chr(10))}: out of bounds"
    with pytest.raises(KernelDefect, match=f"^{line}"):
        launched(tmp_path, body + " out[1 << 20] = 0;", PUT_TOGETHER)


def test_a_statement_with_conditions_is_of_branches_that_hold(tmp_path: Path) -> None:
    body = (
        'asm volatile("{ .reg .b32 r; mov.b32 r, %1;"\n'
        "#if __CUDA_ARCH__ >= 800 && \\\n    __CUDA_ARCH__ < 1000\n"
        '  " add.u32 r, r, 1;"\n'
        '#ifdef NOWHERE\n  " bogus.u32 r;"\n#elif 1\n  " mul.lo.u32 r, r, 3;"\n#endif\n'
        '#else\n  " mov.b32 r, 0;"\n#endif\n'
        '#ifndef NOWHERE\n  " add.u32 r, r, 100;"\n#endif\n'
        '  " mov.b32 %0, r; }" : "=r"(result) : "r"(t));\n    result += 1000 * (__LINE__ == 21);'
    )
    np.testing.assert_array_equal(launched(tmp_path, body), 3 * (T + 1) + 100 + 1000 + 900)


def test_lines_are_known_behind_an_operand_that_macros_spread(tmp_path: Path) -> None:
    body = 'asm volatile("add.u32 %0, "\n SECOND\n ", %1;"\n : "=r"(result) : "r"(t +\n 1));\nadded(result, result);'
    np.testing.assert_array_equal(launched(tmp_path, body, PUT_TOGETHER), 3 * T + 902)
    line = f"kernel.cu:{PUT_TOGETHER.count(chr(10)) + 5 + body.count(chr(10))}: out of bounds"
    with pytest.raises(KernelDefect, match=f"^{line}"):
        launched(tmp_path, body + " out[1 << 20] = 0;", PUT_TOGETHER)


def test_an_operand_may_span_lines(tmp_path: Path) -> None:
    body = 'asm volatile("add.u32 %0, %1, %2;" : "=r"(result) : "r"(t +\n 1), "r"(2\n * t));'
    line = translated(f"void f() {{ {body}\nint here = __LINE__;\n}}").partition("#line ")[2]
    assert line.startswith("3\n")
    np.testing.assert_array_equal(launched(tmp_path, body), 3 * T + 1 + 900)


def test_a_statement_in_a_macro_is_translated_at_each_use(tmp_path: Path) -> None:
    body = (
        '#define TWICE(to, from) asm volatile("{ .reg .pred p; setp.eq.u32 p, %1, 0; @p bra L;\\n" \\\n'
        '  "add.u32 %0, %0, %1; L: }" : "+r"(to) : \\\n  "r"(from))\n'
        "    TWICE(result, t); TWICE(result, t);"
    )
    np.testing.assert_array_equal(launched(tmp_path, body), 907 + 2 * T)
    assert translated(body).count("\n") == body.count("\n")


@pytest.mark.parametrize("macro", ["V", "at", "bits", "loaded", "uint32_t unsigned", "peakgate_ptx other"])
def test_a_kernels_macro_changes_nothing_in_its_ptx(macro: str, tmp_path: Path) -> None:
    body = 'asm volatile("ld.global.v2.s8 {%0, %1}, [%2];" : "=r"(result), "=r"(other) : "l"(in));'
    name, _, value = macro.partition(" ")
    out = launched(tmp_path, f"{body}\nother = 0;\n", f"#define {name} {value or '17'}\n")
    np.testing.assert_array_equal(out.astype(np.int32), 0 * T - 3)


def test_a_parameter_of_a_macro_changes_nothing_in_its_ptx(tmp_path: Path) -> None:
    macro = '#define WIDE(to, a, b) asm("mul.wide.u32 %0, %1, %2;" : "=l"(to) : "r"(a), "r"(b))' + "\n"
    body = "uint64_t whole[1]; volatile uint64_t kept; WIDE(whole[0], t, 3); WIDE(kept, whole[0], 2);"
    np.testing.assert_array_equal(launched(tmp_path, f"{body} result = kept; other = 0;", macro), 6 * T)


def test_a_product_may_be_of_a_type_that_a_macro_is_named_like(tmp_path: Path) -> None:
    product = "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %4}, {%4}, {%0, %1, %2, %3};"
    operands = ", ".join(f'"+f"(c[{i}])' for i in range(4))
    body = f'float c[4] = {{}};\nasm volatile("{product}" : {operands} : "r"(0x3f803f80u));\nresult = c[3]; other = 0;'
    before = "#define BF16 1\n#define F32 2\n#define sums 3\n#define mma 4\n"
    np.testing.assert_array_equal(launched(tmp_path, body, before), 0 * T + 8)


@pytest.mark.parametrize(
    ("vector", "registers"), [("L2::evict_last.v8.b32", "rrrrrrrr"), ("v8.f32", "ffffffff"), ("v4.b64", "llll")]
)
def test_256_bits_are_loaded_and_stored_at_once(vector: str, registers: str, tmp_path: Path) -> None:
    kind = {"r": "unsigned", "f": "float", "l": "unsigned long long"}[registers[0]]
    names = [f"r{i}" for i in range(len(registers))]
    every = ", ".join(f"%{i}" for i in range(len(names)))
    out = ", ".join(f'"={registers[0]}"({name})' for name in names)
    given = ", ".join(f'"{registers[0]}"({name})' for name in names)
    source = tmp_path / "wide.cu"
    source.write_text(
        f"""extern "C" __global__ void wide(unsigned* to, const unsigned* from, int shift) {{
    {kind} {", ".join(names)};
    asm volatile("ld.global.{vector} {{{every}}}, [%{len(names)}];" : {out} : "l"(from + shift + 8 * threadIdx.x));
    asm volatile("st.global.{vector} [%{len(names)}], {{_, {every[4:]}}};" ::{given}, "l"(to + 8 * threadIdx.x));
}}""",
        encoding="utf-8",
    )
    to, values = np.zeros(32 * 8, np.uint32), np.arange(33 * 8, dtype=np.uint32) + 1
    kernel = emulator.load(source, "wide", (), capability=(10, 0))
    kernel.launch(ONE, (32, 1, 1), (to, values, np.int32(0)))
    expected = values[: 32 * 8].reshape(32, 8).copy()
    expected[:, : 8 // len(names)] = 0
    np.testing.assert_array_equal(to.reshape(32, 8), expected)
    with finds(DefectKind.MISALIGNED):
        kernel.launch(ONE, (32, 1, 1), (to, values, np.int32(4)))


def test_the_text_may_be_a_raw_literal_with_comments(tmp_path: Path) -> None:
    body = """asm volatile(R"({
        .reg .b32 t; // a register; "of one's own"
        add.u32 t, %1, 2; /* two */
        add.u32 %0, t, 1;
    })" : "=r"(result) : "r"(4)); other = 0;"""
    np.testing.assert_array_equal(launched(tmp_path, body, ""), 0 * T + 7)
