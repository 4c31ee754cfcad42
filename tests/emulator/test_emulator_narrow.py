"""fp8, fp6 and fp4 in the emulator, alone and several in a word: values are those of ml_dtypes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from emulating import finds, loaded

import peakgate_emulator as emulator
from peakgate_emulator import DefectKind

TYPES = {
    "float8_e4m3fn": ("__nv_fp8", "e4m3", ("unsigned", "unsigned short", "unsigned char"), 448),
    "float8_e5m2": ("__nv_fp8", "e5m2", ("unsigned", "unsigned short", "unsigned char"), 57344),
    "float6_e2m3fn": ("__nv_fp6", "e2m3", ("unsigned", "unsigned short", "unsigned char"), 7.5),
    "float6_e3m2fn": ("__nv_fp6", "e3m2", ("unsigned", "unsigned short", "unsigned char"), 28),
    "float4_e2m1fn": ("__nv_fp4", "e2m1", ("unsigned short", "unsigned char", "unsigned char"), 6),
}


def run(name: str, given: np.ndarray, order: str = "__syncthreads()") -> list[np.ndarray]:
    prefix, kind, words, _ = TYPES[name]
    macros = dict(zip(("WORD", "PAIR", "ONE"), words, strict=True))
    macros |= {"QUAD": f"{prefix}x4_{kind}", "TWO": f"{prefix}x2_{kind}", "NUMBER": f"{prefix}_{kind}", "ORDER": order}
    sizes = {"unsigned": np.uint32, "unsigned short": np.uint16, "unsigned char": np.uint8}
    outputs = [np.zeros(len(given), sizes[word]) for word in words]
    outputs.append(np.zeros_like(given))
    loaded("packed", macros).launch((-(-len(given) // 64), 1, 1), (64, 1, 1), (*outputs, given, np.int32(len(given))))
    return outputs


@pytest.mark.parametrize("name", TYPES)
def test_numbers_are_rounded_and_packed_as_their_type_has_them(name: str) -> None:
    largest = TYPES[name][3]
    dtype = np.dtype(getattr(ml_dtypes, name))
    exact = np.unique(np.arange(1 << int(name[5]), dtype=np.uint8).view(dtype).astype(np.float32))
    numbers = exact[np.isfinite(exact)]
    middles = (numbers[1:] + numbers[:-1]) / 2
    values = np.concatenate(
        (numbers, middles, np.nextafter(middles, np.float32(0)), np.array([3 * largest, -np.inf], np.float32))
    )
    given = np.resize(values[np.abs(values) <= largest], (len(values) // 8 * 8, 4)).astype(np.float32)
    quads, pairs, ones, back = run(name, given)
    rounded = given.astype(dtype)
    bits = rounded.view(np.uint8).astype(np.uint64)
    width = 4 if name.startswith("float4") else 8
    np.testing.assert_array_equal(quads, sum(bits[:, at] << np.uint64(width * at) for at in range(4)))
    np.testing.assert_array_equal(pairs, bits[:, 2] | bits[:, 3] << np.uint64(width))
    np.testing.assert_array_equal(ones, bits[:, 0])
    np.testing.assert_array_equal(back, rounded.astype(np.float32))
    beyond = np.array([[3 * largest, -3 * largest, np.inf, -np.inf]] * 2, np.float32)
    np.testing.assert_array_equal(run(name, beyond)[3][0], largest * np.sign(beyond[0]))


@pytest.mark.parametrize("kind", ["e2m3", "e3m2", "e2m1"])
@pytest.mark.parametrize("mode", ["Nearest", "Zero"])
def test_functions_convert_numbers_of_6_and_4_bits(kind: str, mode: str, tmp_path: Path) -> None:
    dtype, room, *_ = SMALL[kind]
    fp = "fp4" if room == 4 else "fp6"
    high, low = FLOATS, np.roll(FLOATS, 7)
    how = f"__NV_{kind.upper()}, cudaRound{mode}"
    halves = [np.clip(each, -60000, 60000).astype(np.float16) for each in (high, low)]
    brains = [each.astype(ml_dtypes.bfloat16) for each in (high, low)]
    calls: dict[str, list[np.ndarray]] = {
        f"__nv_cvt_float2_to_{fp}x2(make_float2(F(b), F(a)), {how})": [high, low],
        f"__nv_cvt_double2_to_{fp}x2(make_double2(F(b), F(a)), {how})": [high, low],
        f"__nv_cvt_halfraw2_to_{fp}x2({{(unsigned short)d, (unsigned short)c}}, {how})": halves,
        f"__nv_cvt_bfloat16raw2_to_{fp}x2({{(unsigned short)f, (unsigned short)e}}, {how})": brains,
    }
    steps = np.arange(1 << int(fp[2])).astype(np.uint8).view(dtype).astype(np.float64)
    words = [each.view(np.uint16).astype(np.uint32) for each in (*halves, *brains)]
    found = each_applied(tmp_path, [f"r = {call};" for call in calls], high, low, *words)
    for out, (call, given) in zip(found, calls.items(), strict=True):
        expected = np.zeros(len(out), np.uint32)
        for shift, each in zip((room, 0), given, strict=True):
            values = each.astype(np.float64)
            bits = narrow_bits(values, kind, relu=False)
            if mode == "Zero":
                bits = np.where(np.isnan(values), bits, [towards_zero(value, steps) for value in values])
            expected |= bits.astype(np.uint32) << np.uint32(shift)
        np.testing.assert_array_equal(out, expected, err_msg=call)


@pytest.mark.parametrize("kind", ["e2m3", "e3m2", "e2m1"])
def test_functions_widen_each_pair_of_6_and_4_bits_exactly(kind: str, tmp_path: Path) -> None:
    dtype, room, *_ = SMALL[kind]
    fp = "fp4" if room == 4 else "fp6"
    words = np.arange(1 << 2 * room, dtype=np.uint32) & (0x3F3F if room == 8 else 0xFF)
    mask = (1 << room) - 1
    parts = [(words >> shift & mask).astype(np.uint8).view(dtype).astype(np.float64) for shift in (0, room)]
    kinds = {"halfraw2": np.float16, "bf162raw": ml_dtypes.bfloat16}
    calls = [
        f"const auto x = __nv_cvt_{fp}x2_to_{what}(a, __NV_{kind.upper()}); r = x.x | x.y << 16;" for what in kinds
    ]
    for out, wide in zip(each_applied(tmp_path, calls, words), kinds.values(), strict=True):
        np.testing.assert_array_equal(out.view(wide).reshape(-1, 2).astype(np.float64), np.stack(parts, axis=1))


def towards_zero(value: float, steps: np.ndarray) -> int:
    """The code of the largest magnitude that does not exceed the value's, with its sign."""
    fits = (np.abs(steps) <= abs(value)) & (np.signbit(steps) == np.signbit(value))
    return int(np.where(fits, np.abs(steps), -1).argmax())


def test_a_word_of_narrow_numbers_read_too_early_is_found() -> None:
    with finds(DefectKind.SHARED_RACE):
        run("float4_e2m1fn", np.ones((64, 4), np.float32), order="")


def applied(tmp_path: Path, statement: str, *columns: np.ndarray) -> np.ndarray:
    """What a statement makes of ``a``, ``b``, ..., words of 32 bits, for each element of the columns."""
    (row,) = each_applied(tmp_path, [statement], *columns)
    return np.asarray(row)


def each_applied(tmp_path: Path, statements: Sequence[str], *columns: np.ndarray) -> np.ndarray:
    """As ``applied``, a row for each statement."""
    names = "abcdef"[: len(columns)]
    parameters = "".join(f", const unsigned* {name}_" for name in names)
    taken = "".join(f"const unsigned {name} = {name}_[i]; " for name in names)
    made = "".join(f"    {{ unsigned r; {each} out[{row} * n + i] = r; }}\n" for row, each in enumerate(statements))
    source = tmp_path / "k.cu"
    source.write_text(
        "#include <cuda_fp6.h>\n#include <cuda_fp4.h>\n#define F __uint_as_float\n"
        f"__global__ void k(unsigned* out{parameters}, int n) {{\n    const int i = blockIdx.x * 32 + threadIdx.x;\n"
        f"    if (i >= n) return;\n    {taken}\n{made}}}\n"
    )
    given = [np.ascontiguousarray(column).view(np.uint32) for column in columns]
    count = len(given[0])
    out = np.zeros((len(statements), count), np.uint32)
    emulator.load(source, "k").launch((-(-count // 32), 1, 1), (32, 1, 1), (out, *given, np.int32(count)))
    return out


FLOATS = np.concatenate(
    [
        np.array([0, -0.0, 1, -1, 448, 464, 480, 1e9, -1e9, 57344, 61440, 6, 5, 2.5, 0.25, 0.75, -0.25], np.float32),
        np.array(
            [np.inf, -np.inf, np.nan, 2.0**-127, 2.0**-128, 1.5 * 2.0**-127, 2.0**127, 1.9 * 2.0**127], np.float32
        ),
        (np.random.default_rng(5).normal(size=400) * 2.0 ** np.random.default_rng(6).integers(-12, 18, 400)),
    ]
).astype(np.float32)
SMALL: dict[str, tuple[Any, int, float, int]] = {
    "e4m3": (ml_dtypes.float8_e4m3fn, 8, 448, 0x7F),
    "e5m2": (ml_dtypes.float8_e5m2, 8, 57344, 0x7F),
    "e2m3": (ml_dtypes.float6_e2m3fn, 8, 7.5, 0x1F),
    "e3m2": (ml_dtypes.float6_e3m2fn, 8, 28, 0x1F),
    "e2m1": (ml_dtypes.float4_e2m1fn, 4, 6, 0x7),
}


def narrow_bits(values: np.ndarray, kind: str, relu: bool) -> np.ndarray:
    dtype, _, largest, not_a_number = SMALL[kind]
    values = np.maximum(values, 0) + 0.0 if relu else values
    bits = np.clip(values, -largest, largest).astype(dtype).view(np.uint8).astype(np.uint32)
    return np.where(np.isnan(values), not_a_number, bits).astype(np.uint32)


@pytest.mark.parametrize("kind", SMALL)
def test_ptx_narrows_two_numbers_of_32_and_16_bits(kind: str, tmp_path: Path) -> None:
    high, low, width = FLOATS, np.roll(FLOATS, 7), SMALL[kind][1]
    register = (
        "{ .reg .b8 n; %s mov.b32 %%0, {n, n, n, n}; }" if width == 4 else "{ .reg .b16 n; %s mov.b32 %%0, {n, n}; }"
    )
    bodies = [register % f"cvt.rn.satfinite{relu}.{kind}x2.f32 n, %1, %2;" for relu in ("", ".relu")]
    statements = [f'asm("{body}" : "=r"(r) : "f"(F(a)), "f"(F(b)));' for body in bodies]
    for out, relu in zip(each_applied(tmp_path, statements, high, low), (False, True), strict=True):
        expected = narrow_bits(high, kind, relu) << width | narrow_bits(low, kind, relu)
        np.testing.assert_array_equal(out & ((1 << 2 * width) - 1), expected)


@pytest.mark.parametrize(("given", "dtype"), [("f16x2", np.float16), ("bf16x2", ml_dtypes.bfloat16)])
def test_ptx_narrows_pairs_of_16_bits(given: str, dtype: Any, tmp_path: Path) -> None:
    with np.errstate(over="ignore"):
        pairs = np.stack((np.roll(FLOATS, 7), FLOATS), axis=1).astype(dtype)
    forms = [(kind, relu) for kind in ("e4m3", "e5m2") for relu in ("", ".relu")]
    convert = [f"cvt.rn.satfinite{relu}.{kind}x2.{given} n, %1;" for kind, relu in forms]
    statements = [f'asm("{{ .reg .b16 n; {each} mov.b32 %0, {{n, n}}; }}" : "=r"(r) : "r"(a));' for each in convert]
    for out, (kind, relu) in zip(each_applied(tmp_path, statements, pairs.ravel()), forms, strict=True):
        bits = narrow_bits(pairs.astype(np.float32), kind, bool(relu))
        np.testing.assert_array_equal(out & 0xFFFF, bits[:, 1] << 8 | bits[:, 0])


@pytest.mark.parametrize("kind", SMALL)
def test_ptx_widens_each_pair_of_numbers_exactly(kind: str, tmp_path: Path) -> None:
    dtype, width, *_ = SMALL[kind]
    words = np.arange(1 << 2 * width, dtype=np.uint32) & (0x3F3F if "float6" in np.dtype(dtype).name else 0xFFFF)
    register = "{ .reg .b8 n, m; mov.b16 {n, m}, %1;" if width == 4 else "{ .reg .b16 n; mov.b16 n, %1;"
    bodies = [f"{register} cvt.rn{relu}.f16x2.{kind}x2 %0, n; }}" for relu in ("", ".relu")]
    statements = [f'asm("{body}" : "=r"(r) : "h"((unsigned short)a));' for body in bodies]
    plain, relu = (row.view(np.float16).reshape(-1, 2) for row in each_applied(tmp_path, statements, words))
    mask = (1 << width) - 1
    halves = [(words >> shift & mask).astype(np.uint8).view(dtype).astype(np.float16) for shift in (0, width)]
    np.testing.assert_array_equal(plain, np.stack(halves, axis=1))
    np.testing.assert_array_equal(relu, np.stack([np.where(half <= 0, np.float16(0), half) for half in halves], axis=1))


def scale(value: float, *, up: bool, saturates: bool) -> int:
    """The exponent of the power of 2, with a bias of 127; 255 if there is none."""
    value = abs(float(value))
    if math.isnan(value):
        return 255
    if math.isinf(value):
        return 254 if saturates else 255
    if value <= 2.0**-127:
        return 0
    power = math.ceil(math.log2(value)) if up else math.floor(math.log2(value))
    return min(power + 127, 254 if saturates else 255)


@pytest.mark.parametrize("saturates", ["", ".satfinite"])
@pytest.mark.parametrize("rounding", ["rz", "rp"])
def test_scales_are_powers_of_2_rounded_as_asked(rounding: str, saturates: str, tmp_path: Path) -> None:
    high, low, how = FLOATS, np.roll(FLOATS, 3), {"up": rounding == "rp", "saturates": bool(saturates)}
    expected = [[scale(value, **how) for value in values] for values in (high, low)]
    body = f"{{ .reg .b16 n; cvt.{rounding}{saturates}.ue8m0x2.f32 n, %1, %2; mov.b32 %0, {{n, n}}; }}"
    mode, limit = ("cudaRoundPosInf" if how["up"] else "cudaRoundZero"), "SATFINITE" if saturates else "NOSAT"
    statements = [
        f'asm("{body}" : "=r"(r) : "f"(F(a)), "f"(F(b)));',
        f"r = __nv_cvt_float2_to_e8m0x2(make_float2(F(b), F(a)), __NV_{limit}, {mode});",
        f"r = __nv_cvt_double2_to_e8m0x2(make_double2(F(b), F(a)), __NV_{limit}, {mode});",
    ]
    for out in each_applied(tmp_path, statements, high, low):
        np.testing.assert_array_equal((out >> 8 & 255, out & 255), expected)


def test_a_scale_becomes_its_power_of_2(tmp_path: Path) -> None:
    words = np.arange(1 << 16, dtype=np.uint32)
    expected = [np.where(part == 255, np.nan, 2.0 ** (part - 127.0)) for part in (words & 255, words >> 8)]
    body = 'asm("cvt.rn.bf16x2.ue8m0x2 %0, %1;" : "=r"(r) : "h"((unsigned short)a));'
    call = "const auto x = __nv_cvt_e8m0x2_to_bf162raw(a); r = x.x | x.y << 16;"
    for out in each_applied(tmp_path, [body, call], words):
        pairs = out.view(ml_dtypes.bfloat16).reshape(-1, 2)
        np.testing.assert_array_equal(pairs.astype(np.float64), np.stack(expected, axis=1))


@pytest.mark.parametrize(
    ("kind", "least", "most"), [("s8", -128, 127), ("u8", 0, 255), ("u16", 0, 65535), ("s4", -8, 7)]
)
def test_integers_are_saturated_and_packed(kind: str, least: int, most: int, tmp_path: Path) -> None:
    a = np.array([5, -5, 300, -300, 70000, -70000, 2**31 - 1, -(2**31)], np.int32)
    b, width = np.roll(a, 3), int(kind[1:])
    third = width < 16
    opcode, operands = f"cvt.pack.sat.{kind}.s32{'.b32' * third}", f"%0, %1, %2{', 0x12345678' * third}"
    out = applied(tmp_path, f'asm("{opcode} {operands};" : "=r"(r) : "r"(a), "r"(b));', a, b)
    high, low = (np.clip(x, least, most).astype(np.int64) & ((1 << width) - 1) for x in (a, b))
    np.testing.assert_array_equal(out, (high << width | low | (0x12345678 << 2 * width) * third) & 0xFFFFFFFF)
