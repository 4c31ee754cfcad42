"""The functions that CUDA's headers declare for device code: which there are, and what they compute."""

# mypy: disable-error-code="no-any-return,operator,attr-defined"
from __future__ import annotations

import math
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from device_functions import recorded
from emulating import rows
from ptx_exact import arithmetic, decoded, encoded, interesting

import peakgate_emulator as emulator
from peakgate_emulator import KernelBuildError
from peakgate_emulator.build import RUNTIME_FOLDER

OF_UNKNOWN_FORMATS = re.compile(r"__nv_cvt_\w*ue5m3\w*")
PROBLEMS = 200
ROUNDINGS = {"rn": "rn", "rz": "rz", "rd": "rm", "ru": "rp"}


def test_every_function_of_cudas_headers_is_known(tmp_path: Path) -> None:
    names = recorded()
    headers = ("cuda_cpu.h", "cuda_half.h", "cuda_narrow.h", "cuda_textures.h", "cuda_simd.h", "cuda_rounded.h")
    lines = [f'#include "{header}"' for header in headers]
    lines += [f"#ifndef {name}\nnamespace known_{name} {{ using ::{name}; }}\n#endif" for name in names]
    source = tmp_path / "names.cpp"
    source.write_text("\n".join(lines))
    compiler = emulator.available_compilers()[0]
    command = [*compiler.command, "-std=c++17", "-w", "-fsyntax-only", "-D__CUDA_ARCH__=900", f"-I{RUNTIME_FOLDER}"]
    limit = "-fmax-errors=0" if compiler.is_gcc else "-ferror-limit=0"
    environment = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run([*command, limit, str(source)], capture_output=True, text=True, env=environment, check=False)
    missing = {name for name in names if re.search(rf"error: .*\b{name}'", done.stderr)}
    assert {name for name in missing if not OF_UNKNOWN_FORMATS.fullmatch(name)} == {
        *rows("missing_device_functions.txt")
    }
    assert len(names) > 900


@pytest.mark.parametrize("name", ["__isShared", "__cluster_barrier_wait", "__nv_cvt_float_to_ue5m3"])
def test_a_function_that_is_missing_is_named(name: str, tmp_path: Path) -> None:
    source = tmp_path / "kernel.cu"
    source.write_text(f"__global__ void kernel(int* out) {{\n    {name}(out);\n}}\n")
    with pytest.raises(KernelBuildError, match=rf"^kernel\.cu:2: '{name}' .*; this function of CUDA is not emulated"):
        emulator.load(source, "kernel")


def computed(tmp_path: Path, includes: str, calls: list[tuple[str, str, str]], operands: np.ndarray) -> np.ndarray:
    """Of each call (an expression of a, b, c, their C++ type, the result's) the bits for each row of operands."""
    lines = []
    for at, (expression, type_, result) in enumerate(calls):
        taken = " ".join(
            f"{type_} {letter}; const auto {letter}_ = in[{3 * PROBLEMS * at} + 3 * t + {place}]; "
            f"__builtin_memcpy(&{letter}, &{letter}_, sizeof({type_}));"
            for place, letter in enumerate("abc")
        )
        kept = f"const {result} r = {expression}; unsigned long long bits = 0; __builtin_memcpy(&bits, &r, sizeof r);"
        lines.append(f"    {{ {taken} {kept} out[{PROBLEMS * at} + t] = bits; }}")
    source = tmp_path / "kernel.cu"
    source.write_text(
        f"{includes}__global__ void kernel(unsigned long long* out, const unsigned long long* in) {{\n"
        "    const int t = threadIdx.x;\n" + "\n".join(lines) + "\n}\n"
    )
    out = np.zeros((len(calls), PROBLEMS), np.uint64)
    emulator.load(source, "kernel").launch((1, 1, 1), (PROBLEMS, 1, 1), (out, operands))
    return out


def operands_of(kinds: list[str]) -> np.ndarray:
    """Operands for calls on these types, by call, problem and place."""
    random = np.random.default_rng(5)
    drawn = [[interesting(kind, random, PROBLEMS) for _ in range(3)] for kind in kinds]
    return np.ascontiguousarray(np.array(drawn, np.uint64).transpose(0, 2, 1))


def test_arithmetic_in_each_rounding_is_exact(tmp_path: Path) -> None:
    calls, kinds, expected = [], [], []
    for kind, type_, prefix in (("f32", "float", "f"), ("f64", "double", "d")):
        names = {"add": 2, "sub": 2, "mul": 2, "div": 2, "rcp": 1, "fma": 3}
        for name, count in names.items():
            for suffix, mode in ROUNDINGS.items():
                function = ("__fmaf" if kind == "f32" else "__fma") if name == "fma" else f"__{prefix}{name}"
                calls.append((f"{function}_{suffix}({', '.join('abc'[:count])})", type_, type_))
                kinds.append(kind)
                expected.append((name, count, kind, mode))
    operands = operands_of(kinds)
    results = computed(tmp_path, "", calls, operands)
    for at, (name, count, kind, mode) in enumerate(expected):
        for problem in range(PROBLEMS):
            values = [decoded(int(bits), kind) for bits in operands[at, problem, :count]]
            wanted, found = encoded(arithmetic(name, values, mode), kind, mode), int(results[at, problem])
            both_nan = math.isnan(decoded(found, kind)) and math.isnan(decoded(wanted, kind))
            assert both_nan or found == wanted, (calls[at][0], values)


def test_conversions_round_and_stay_in_range(tmp_path: Path) -> None:
    whole = {"rn": round, "rz": math.trunc, "rd": math.floor, "ru": math.ceil}
    limits = {
        "int": ("int", 32, 1),
        "uint": ("unsigned", 32, 0),
        "ll": ("long long", 64, 1),
        "ull": ("unsigned long long", 64, 0),
    }
    calls, kinds, wanted = [], [], []
    for kind, source in (("f32", "float"), ("f64", "double")):
        for name, (type_, bits, signed) in limits.items():
            for suffix in ROUNDINGS:
                calls.append((f"__{source}2{name}_{suffix}(a)", source, type_))
                kinds.append(kind)
                wanted.append((whole[suffix], -(2 ** (bits - 1)) * signed, 2 ** (bits - signed) - 1, bits))
    operands = operands_of(kinds)
    results = computed(tmp_path, "", calls, operands)
    for at, (rounded, least, most, bits) in enumerate(wanted):
        for problem in range(PROBLEMS):
            value = decoded(int(operands[at, problem, 0]), kinds[at])
            if math.isnan(value):
                continue
            exact = rounded(value) if math.isfinite(value) else (most + 1 if value > 0 else least - 1)
            assert int(results[at, problem]) == min(max(exact, least), most) % 2**bits, (calls[at][0], value)


def test_products_of_24_bits_ignore_the_other_8(tmp_path: Path) -> None:
    calls = [("__mul24(a, b)", "int", "int"), ("__umul24(a, b)", "unsigned", "unsigned")]
    operands = operands_of(["s32", "u32"])
    results = computed(tmp_path, "", calls, operands)
    low = operands & np.uint64(0xFFFFFF)
    signed = (low[0].astype(np.int64) ^ 0x800000) - 0x800000
    assert (results[0] == (signed[:, 0] * signed[:, 1]).view(np.uint64) & np.uint64(0xFFFFFFFF)).all()
    assert (results[1] == low[1, :, 0] * low[1, :, 1] & np.uint64(0xFFFFFFFF)).all()


def by_lane(bits: int, signed: bool, function: Any, *words: int) -> int:
    """A function of the lanes of words, as a word."""
    lanes = [[decoded(word >> at, f"{'s' if signed else 'u'}{bits}") for word in words] for at in range(0, 32, bits)]
    return sum((int(function(*lane)) & (2**bits - 1)) << bits * at for at, lane in enumerate(lanes))


def limited(value: int, bits: int, signed: bool) -> int:
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return min(max(value, least), most)


SIMD = {
    "__vadd": (0, lambda a, b, n: a + b),
    "__vaddss": (1, lambda a, b, n: limited(a + b, n, True)),
    "__vaddus": (0, lambda a, b, n: limited(a + b, n, False)),
    "__vsub": (0, lambda a, b, n: a - b),
    "__vsubss": (1, lambda a, b, n: limited(a - b, n, True)),
    "__vsubus": (0, lambda a, b, n: limited(a - b, n, False)),
    "__vavgu": (0, lambda a, b, n: (a + b + 1) // 2),
    "__vhaddu": (0, lambda a, b, n: (a + b) // 2),
    "__vabsdiffs": (1, lambda a, b, n: abs(a - b)),
    "__vabsdiffu": (0, lambda a, b, n: abs(a - b)),
    "__vmaxs": (1, lambda a, b, n: max(a, b)),
    "__vminu": (0, lambda a, b, n: min(a, b)),
    "__vcmpgts": (1, lambda a, b, n: -(a > b)),
    "__vsetleu": (0, lambda a, b, n: a <= b),
    "__vcmpeq": (0, lambda a, b, n: -(a == b)),
}


def test_operations_on_parts_of_a_word_are_exact(tmp_path: Path) -> None:
    calls = [(f"{name}{count}(a, b)", "unsigned", "unsigned") for name in SIMD for count in (2, 4)]
    operands = operands_of(["u32"] * len(calls))
    results = computed(tmp_path, "", calls, operands)
    for at, (name, bits) in enumerate((name, bits) for name in SIMD for bits in (16, 8)):
        signed, function = SIMD[name]
        for problem in range(PROBLEMS):
            a, b = (int(word) for word in operands[at, problem, :2])
            expected = by_lane(bits, bool(signed), lambda x, y, f=function, n=bits: f(x, y, n), a, b)
            assert int(results[at, problem]) == expected, (calls[at][0], hex(a), hex(b))


def test_functions_that_no_c_library_has_invert_its_own(tmp_path: Path) -> None:
    drawn = np.random.default_rng(7).uniform(1e-12, 1, (4, PROBLEMS, 3))
    names = ("erf(erfinv(a))", "erfc(erfcinv(a))", "normcdf(normcdfinv(a))", "erfcx(a) * exp(-a * a) + erf(a)")
    calls = [(expression, "double", "double") for expression in names]
    results = computed(tmp_path, "", calls, drawn.view(np.uint64)).view(np.float64)
    np.testing.assert_allclose(results[:3], drawn[:3, :, 0], rtol=1e-13)
    np.testing.assert_allclose(results[3], 1, rtol=1e-13)


def test_angles_in_turns_are_exact_at_quarters(tmp_path: Path) -> None:
    quarters = np.repeat(np.arange(-100, 100)[:, None] / 2, 3, axis=1)[None].repeat(2, 0).astype(np.float64)
    calls = [("sinpi(a)", "double", "double"), ("cospi(a)", "double", "double")]
    results = computed(tmp_path, "", calls, np.ascontiguousarray(quarters).view(np.uint64)).view(np.float64)
    turns = np.arange(-100, 100) % 4
    np.testing.assert_array_equal(results[0], np.select([turns == 1, turns == 3], [1, -1], 0))
    np.testing.assert_array_equal(results[1], np.select([turns == 0, turns == 2], [1, -1], 0))


def test_two_floats_are_added_and_multiplied_in_each_rounding(tmp_path: Path) -> None:
    (tmp_path / "pairs.cu").write_text(
        "__global__ void pairs(float2* out, const float2* in) {\n"
        "    out[0] = __fadd2_ru(in[0], in[1]), out[1] = __fadd2_rd(in[0], in[1]);\n"
        "    out[2] = __fmul2_rn(in[0], in[0]), out[3] = __ffma2_rn(in[0], in[0], in[1]);\n}\n"
    )
    out, given = np.zeros((4, 2), np.float32), np.array([[1, 3], [2**-30, 1]], np.float32)
    emulator.load(tmp_path / "pairs.cu", "pairs").launch((1, 1, 1), (1, 1, 1), (out, given))
    above = np.nextafter(np.float32(1), np.float32(2))
    assert out.tolist() == [[above, 4], [1, 4], [1, 9], [1, 10]]
