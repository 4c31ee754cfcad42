"""PTX instructions that compute a value: their forms in the PTX ISA, and the expression of each in C++.

A form's pattern is a name and its modifiers, with ``|`` between alternatives and ``?`` after an optional one; the last
is the type. The C++ is an expression of the operands a, b, c, d, which have that type unless the form gives another. An
instruction with a modifier that is in no form is unknown, since the modifier may change its value.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

TYPES = {
    **{f"{sign}{bits}": f"{'u' if sign != 's' else ''}int{bits}_t" for sign in "sub" for bits in (8, 16, 32, 64)},
    "f32": "float",
    "f64": "double",
    "f16": "__half",
    "bf16": "__nv_bfloat16",
    "f16x2": "__half2",
    "f32x2": "peakgate_ptx::Floats",
    "bf16x2": "__nv_bfloat162",
    "b128": "unsigned __int128",
    "pred": "bool",
}
"""C++ types by PTX type."""

LOGIC = {"and": "&&", "or": "||", "xor": "!="}
"""How a comparison is combined with a predicate."""

DIRECTED = {"rz": "TO_ZERO", "rm": "DOWN", "rp": "UP"}
"""Roundings other than C++'s, which is to nearest even."""

_CLASSES = {
    "INT": "u16|u32|u64|s16|s32|s64",
    "SIGNED": "s16|s32|s64",
    "WORDS": "u32|u64|s32|s64",
    "BITS": "b16|b32|b64",
    "ANY": "b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64",
    "HALVES": "f16|f16x2|bf16|bf16x2",
    "RND": "rn|rz|rm|rp",
    "LOGIC": "|".join(LOGIC),
    "ORDERED": "eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan",
}

_OF_PAIRS = "peakgate_ptx::directed(ROUNDING, [](const auto* v) {{ return"
_COMPARED = "(peakgate_ptx::compared_{first}(a, b){also})"

_FORMS = (
    # pattern, C++, operands of other types, type of the result if it differs
    ("add|sub INT", "a {sign} b"),
    ("add|sub sat s32", "peakgate_ptx::clamped<int32_t>(int64_t(a) {sign} b)"),
    ("add|sub|mul RND? ftz? sat? f32", "a {sign} b"),
    ("add|sub|mul RND? f64", "a {sign} b"),
    ("add|sub|mul rn? ftz? sat? f16|f16x2", "a {sign} b"),
    ("add|sub|mul rn? bf16|bf16x2", "a {sign} b"),
    ("add|sub|mul rn? ftz? f32x2", "a {sign} b"),
    ("fma rn ftz? f32x2", "peakgate_ptx::fused(a, b, c)"),
    ("add|sub|mul rz|rm|rp ftz? f32x2", f"{_OF_PAIRS} v[0] {{sign}} v[1]; }}}}, a, b)"),
    ("fma rz|rm|rp ftz? f32x2", f"{_OF_PAIRS} fmaf(v[0], v[1], v[2]); }}}}, a, b, c)"),
    ("mul lo INT", "a * b"),
    ("mul hi INT", "peakgate_ptx::high(a, b)"),
    ("mul wide u16|s16|u32|s32", "WIDE(a) * WIDE(b)", "", "WIDE"),
    ("mad lo INT", "a * b + c"),
    ("mad hi INT", "peakgate_ptx::high(a, b) + c"),
    ("mad hi sat s32", "peakgate_ptx::clamped<int32_t>(int64_t(peakgate_ptx::high(a, b)) + c)"),
    ("mad wide u16|s16|u32|s32", "WIDE(a) * WIDE(b) + c", "c:WIDE", "WIDE"),
    ("mul24 lo u32|s32", "peakgate_ptx::product24(a, b)"),
    ("mul24 hi u32|s32", "peakgate_ptx::product24(a, b) >> 16"),
    ("mad24 lo u32|s32", "peakgate_ptx::product24(a, b) + c"),
    ("mad24 hi u32|s32", "(peakgate_ptx::product24(a, b) >> 16) + c"),
    ("sad INT", "c + (a < b ? b - a : a - b)"),
    ("div INT", "a / b"),
    ("rem INT", "a % b"),
    ("div approx|full ftz? f32", "a / b"),
    ("div RND ftz? f32", "a / b"),
    ("div RND f64", "a / b"),
    ("fma|mad RND ftz? sat? f32", "peakgate_ptx::fused(a, b, c)"),
    ("fma|mad RND f64", "peakgate_ptx::fused(a, b, c)"),
    ("fma rn ftz? sat? f16|f16x2", "peakgate_ptx::fused(a, b, c)"),
    ("fma rn ftz? relu f16|f16x2", "peakgate_ptx::fused(a, b, c)"),
    ("fma rn relu? bf16|bf16x2", "peakgate_ptx::fused(a, b, c)"),
    ("abs SIGNED", "a < 0 ? -a : a"),
    ("neg SIGNED", "-a"),
    ("abs ftz? f32", "peakgate_ptx::magnitude(a)"),
    ("abs f64", "peakgate_ptx::magnitude(a)"),
    ("abs ftz? f16|f16x2", "peakgate_ptx::magnitude(a)"),
    ("abs bf16|bf16x2", "peakgate_ptx::magnitude(a)"),
    ("neg ftz? f32", "-a"),
    ("neg f64", "-a"),
    ("neg ftz? f16|f16x2", "-a"),
    ("neg bf16|bf16x2", "-a"),
    ("min|max INT", "a {sign} b ? a : b"),
    ("min|max ftz? f32", "peakgate_ptx::{name}_number(a, b)"),
    ("min|max f64", "peakgate_ptx::{name}_number(a, b)"),
    ("min|max ftz? f16|f16x2", "peakgate_ptx::{name}_number(a, b)"),
    ("min|max bf16|bf16x2", "peakgate_ptx::{name}_number(a, b)"),
    ("min|max ftz? NaN f32", "peakgate_ptx::{name}_or_nan(a, b)"),
    ("min|max ftz? NaN f16|f16x2", "peakgate_ptx::{name}_or_nan(a, b)"),
    ("min|max NaN bf16|bf16x2", "peakgate_ptx::{name}_or_nan(a, b)"),
    ("rcp approx ftz? f32", "1 / a"),
    ("rcp RND ftz? f32", "1 / a"),
    ("rcp RND f64", "1 / a"),
    ("sqrt approx ftz? f32", "sqrt(a)"),
    ("sqrt RND ftz? f32", "sqrt(a)"),
    ("sqrt RND f64", "sqrt(a)"),
    ("rsqrt approx ftz? f32", "rsqrt(a)"),
    ("rsqrt approx f64", "rsqrt(a)"),
    ("sin approx ftz? f32", "sinf(a)"),
    ("cos approx ftz? f32", "cosf(a)"),
    ("lg2 approx ftz? f32", "log2f(a)"),
    ("ex2 approx ftz? f32", "exp2f(a)"),
    ("tanh approx f32", "tanhf(a)"),
    ("ex2 approx f16|f16x2", "peakgate_ptx::power_of_2(a)"),
    ("ex2 approx ftz bf16|bf16x2", "peakgate_ptx::power_of_2(a)"),
    ("tanh approx HALVES", "peakgate_ptx::tangent(a)"),
    ("copysign f32|f64", "peakgate_ptx::with_sign(b, a)"),
    ("testp finite|infinite|number|notanumber|normal|subnormal f32|f64", "peakgate_ptx::is_{first}(a)", "", "pred"),
    ("and|or|xor BITS", "a {sign} b"),
    ("and|or|xor pred", "a {sign} b"),
    ("not BITS", "~a"),
    ("not pred", "!a"),
    ("cnot BITS", "a == 0"),
    ("shl BITS", "b < 8 * sizeof(a) ? a << b : 0", "b:u32"),
    ("shr BITS", "peakgate_ptx::right(a, b)", "b:u32"),
    ("shr INT", "peakgate_ptx::right(a, b)", "b:u32"),
    ("shf l wrap b32", "__funnelshift_l(a, b, c)"),
    ("shf r wrap b32", "__funnelshift_r(a, b, c)"),
    ("shf l clamp b32", "__funnelshift_lc(a, b, c)"),
    ("shf r clamp b32", "__funnelshift_rc(a, b, c)"),
    ("popc b32", "__popc(a)", "", "u32"),
    ("popc b64", "__popcll(a)", "", "u32"),
    ("clz b32", "__clz(int32_t(a))", "", "u32"),
    ("clz b64", "__clzll(int64_t(a))", "", "u32"),
    ("brev b32", "__brev(a)"),
    ("brev b64", "__brevll(a)"),
    ("bfind WORDS", "peakgate_ptx::highest_bit(a, false)", "", "u32"),
    ("bfind shiftamt WORDS", "peakgate_ptx::highest_bit(a, true)", "", "u32"),
    ("bfe WORDS", "peakgate_ptx::field(a, b, c)", "b:u32 c:u32"),
    ("bfi b32|b64", "peakgate_ptx::inserted(a, b, c, d)", "c:u32 d:u32"),
    ("bmsk clamp b32", "peakgate_ptx::mask_of(a, b)"),
    ("szext clamp|wrap u32|s32", "peakgate_ptx::extended(a, b, {clamps}, {signed})", "a:u32 b:u32"),
    ("prmt b32", "__byte_perm(a, b, c)"),
    ("lop3 b32", "peakgate_ptx::lop3(a, b, c, d)"),
    ("dp4a u32 u32", "peakgate_ptx::dot4(a, b, c)"),
    ("dp4a s32 s32", "peakgate_ptx::dot4(a, b, c)", "c:s32", "s32"),
    ("dp4a s32 u32", "peakgate_ptx::dot4(a, b, c)", "a:s32 c:s32", "s32"),
    ("dp4a u32 s32", "peakgate_ptx::dot4(a, b, c)", "a:u32 c:s32", "s32"),
    ("dp2a lo|hi u32 u32", "peakgate_ptx::dot2(a, b, c, {is_high})"),
    ("dp2a lo|hi s32 s32", "peakgate_ptx::dot2(a, b, c, {is_high})", "c:s32", "s32"),
    ("dp2a lo|hi s32 u32", "peakgate_ptx::dot2(a, b, c, {is_high})", "a:s32 c:s32", "s32"),
    ("dp2a lo|hi u32 s32", "peakgate_ptx::dot2(a, b, c, {is_high})", "a:u32 c:s32", "s32"),
    ("mov ANY", "a"),
    ("mov pred", "a"),
    ("selp ANY", "c ? a : b", "c:pred"),
    ("slct ANY s32", "c >= 0 ? a : b", "a:FIRST b:FIRST c:s32", "FIRST"),
    ("slct ANY f32", "c >= 0 ? a : b", "a:FIRST b:FIRST c:f32", "FIRST"),
    ("slct ftz ANY f32", "peakgate_ptx::flushed(c) >= 0 ? a : b", "a:FIRST b:FIRST c:f32", "FIRST"),
    *(
        pattern
        for compared, ftz, numbers in (
            ("eq|ne|lt|le|gt|ge|lo|ls|hi|hs", "", "u16|u32|u64"),
            ("eq|ne|lt|le|gt|ge", "", "SIGNED"),
            ("eq|ne", "", "BITS"),
            ("ORDERED", "", "f64"),
            ("ORDERED", "ftz?", "f32"),
        )
        for pattern in (
            (f"set {compared} LOGIC? {ftz} u32|s32 {numbers}", f"{_COMPARED} ? ~0u : 0u", "c:pred", "u32"),
            (f"set {compared} LOGIC? {ftz} f32 {numbers}", f"{_COMPARED} ? 1.0f : 0.0f", "c:pred", "f32"),
        )
    ),
    ("set ORDERED LOGIC? ftz? u32|s32 f16", f"{_COMPARED} ? ~0u : 0u", "c:pred", "u32"),
    ("set ORDERED LOGIC? u32|s32 bf16", f"{_COMPARED} ? ~0u : 0u", "c:pred", "u32"),
)

_SIGNS = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^", "min": "<", "max": ">"}


@dataclass(frozen=True, slots=True)
class Value:
    """The expression that an instruction computes from a, b, c, d of these types; its value has the type ``result``."""

    expression: str
    types: tuple[str, ...]
    result: str
    modifiers: frozenset[str]


def value_of(opcode: str) -> Value | None:
    """The expression of an instruction; None if no form matches."""
    return _values().get(opcode)


def opcodes() -> Sequence[str]:
    """All instructions of the forms."""
    return tuple(_values())


@lru_cache
def _values() -> dict[str, Value]:
    found: dict[str, Value] = {}
    for pattern, expression, *rest in _FORMS:
        takes, result = (*rest, "", "")[:2]
        for written in _spelled(pattern):
            found[".".join(written)] = _value(written, expression, takes, result)
    return found


def _spelled(pattern: str) -> Iterator[tuple[str, ...]]:
    """Name and modifiers of each instruction that a pattern matches."""
    choices: list[Sequence[str]] = []
    for part in pattern.split():
        named = "|".join(_CLASSES.get(word, word) for word in part.rstrip("?").split("|"))
        choices.append(("",) * part.endswith("?") + tuple(named.split("|")))
    for chosen in itertools.product(*choices):
        yield tuple(word for word in chosen if word)


def _value(written: tuple[str, ...], expression: str, takes: str, result: str) -> Value:
    kind = written[-1]
    wide = re.sub(r"16|32", lambda match: str(2 * int(match[0])), kind)
    special = {"WIDE": wide, "FIRST": written[-2]}
    of_operands = dict.fromkeys("abcd", kind) | dict(part.split(":") for part in takes.split())
    types = tuple(TYPES[special.get(of_operands[letter], of_operands[letter])] for letter in "abcd")
    rounding = f"peakgate::{DIRECTED.get(written[1], '')}"
    filled = (
        expression.replace("WIDE", TYPES.get(wide, ""))
        .replace("ROUNDING", rounding)
        .format(
            sign=_SIGNS.get(written[0], ""),
            name=written[0],
            first=written[1],
            also="".join(f" {LOGIC[word]} c" for word in written[2:3] if word in LOGIC),
            is_high=str("hi" in written).lower(),
            clamps=str("clamp" in written).lower(),
            signed=str(kind[0] == "s").lower(),
        )
    )
    own = {"ftz"} if "flushed" in expression else set()  # the expression does it, to one of its operands
    own |= {*DIRECTED} if "ROUNDING" in expression else set()
    return Value(filled, types, TYPES[special.get(result, result) or kind], frozenset(written[1:]) - own)
