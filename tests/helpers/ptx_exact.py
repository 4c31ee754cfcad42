# ruff: noqa: PLR0911, PLR0912, PLR0917  # a case for each instruction
"""What PTX instructions compute, in Python's exact arithmetic, by the PTX ISA's words: for ``test_emulator_ptx.py``."""

# mypy: disable-error-code="no-any-return,operator,attr-defined"
from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np

FLOATS = {"f16": np.dtype("f2"), "bf16": np.dtype(ml_dtypes.bfloat16), "f32": np.dtype("f4"), "f64": np.dtype("f8")}
_MANTISSA = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}
_LEAST = {"f16": -14, "bf16": -126, "f32": -126, "f64": -1022}
_MOST = {"f16": 15, "bf16": 127, "f32": 127, "f64": 1023}


def bits_of(kind: str) -> int:
    """How many bits a type has."""
    return 1 if kind == "pred" else int(kind.lstrip("busf").split("x")[0])


def half_of(kind: str) -> int:
    """How many bits each of the two numbers of a packed type has."""
    return bits_of(kind.removesuffix("x2"))


def decoded(bits: int, kind: str) -> Any:
    """The number that some bits are in a type: an int, or a float that holds it exactly."""
    width = bits_of(kind)
    bits &= (1 << width) - 1
    if kind in FLOATS:
        return float(np.array([bits], f"u{width // 8}").view(FLOATS[kind])[0])
    return bits - (1 << width) if kind[0] == "s" and bits >> (width - 1) else bits


def encoded(value: Any, kind: str, mode: str = "rn") -> int:
    """The bits of a number in a type: an int modulo its width, a fraction or a float rounded by the mode."""
    width = bits_of(kind)
    if isinstance(value, _Raw):
        return value.bits
    if kind not in FLOATS:
        return int(value) & ((1 << width) - 1)
    if isinstance(value, float) and (math.isnan(value) or math.isinf(value) or value == 0):
        with np.errstate(all="ignore"):
            return int(np.array([value], "f8").astype(FLOATS[kind]).view(f"u{width // 8}")[0])
    exact = Fraction(value)
    sign = int(exact < 0)
    return sign << (width - 1) | _magnitude(abs(exact), kind, mode, sign)


def _magnitude(exact: Fraction, kind: str, mode: str, sign: int) -> int:
    mantissa, least = _MANTISSA[kind] - 1, _LEAST[kind]
    if exact == 0:
        return 0
    power = exact.numerator.bit_length() - exact.denominator.bit_length()
    power -= exact < Fraction(2) ** power
    power = max(power, least)
    scaled = exact / Fraction(2) ** (power - mantissa)
    kept, rest = divmod(scaled.numerator, scaled.denominator)
    part = Fraction(rest, scaled.denominator)
    away = {"rz": False, "rm": part > 0 and sign == 1, "rp": part > 0 and sign == 0}.get(
        mode, part > Fraction(1, 2) or (part == Fraction(1, 2) and (mode == "rna" or kept % 2 == 1))
    )
    whole = ((power - least) << mantissa) + kept + away
    infinity = (_MOST[kind] - least + 2) << mantissa
    if whole < infinity:
        return whole
    return infinity - 1 if mode in ("rz", "rp" if sign else "rm") else infinity


def flushed(value: float, kind: str) -> float:
    """A subnormal number as zero of its sign."""
    return math.copysign(0.0, value) if abs(value) < 2.0 ** _LEAST[kind] else value


_FORMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda a, b, c: a + b,
    "sub": lambda a, b, c: a - b,
    "mul": lambda a, b, c: a * b,
    "div": lambda a, b, c: a / b,
    "rcp": lambda a, b, c: 1 / a,
    "fma": lambda a, b, c: a * b + c,
}


def arithmetic(name: str, values: Sequence[float], mode: str = "rn") -> Any:
    """A sum, product or quotient, exact where it is finite; a float where it is a zero, an infinity or a NaN."""
    a, b, c = (*values, 0.0, 0.0)[:3]
    if name == "fma" and math.isfinite(a) and math.isfinite(b) and not math.isfinite(c):
        return c  # the product is not rounded, so it does not overflow
    if not all(map(math.isfinite, values)) or (name in ("div", "rcp") and not values[-1]):
        with np.errstate(all="ignore"):
            return float(_FORMS[name](a, b, c)) if values[-1] or name not in ("div", "rcp") else _quotient(a, b, name)
    return _FORMS[name](*map(Fraction, (a, b, c))) or _zero(name, values, mode)


def _zero(name: str, values: Sequence[float], mode: str) -> float:
    """Zero with its sign: a product's by the factors', a sum's by its terms' if they agree, else by the rounding."""
    a, b, c = (*values, 0.0, 0.0)[:3]
    product = math.copysign(1, a) * math.copysign(1, b)
    if name in ("mul", "div"):
        return math.copysign(0.0, product)
    terms = {"add": (a, b), "sub": (a, -b), "fma": (product, c)}[name]
    signs = [math.copysign(1, term) for term in terms]
    return math.copysign(0.0, signs[0] if signs[0] == signs[1] else -1 if mode == "rm" else 1)


def _quotient(a: float, b: float, name: str) -> float:
    """By zero."""
    if name == "rcp":
        return math.copysign(math.inf, a)
    return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1, b)


def bit_field(a: int, first: int, count: int, kind: str) -> int:
    """``bfe``, by the loop of the PTX ISA."""
    last = bits_of(kind) - 1
    first, count = first & 255, count & 255
    sign = 0 if kind[0] == "u" or count == 0 else a >> min(first + count - 1, last) & 1
    return sum((a >> (first + at) & 1 if at < count and first + at <= last else sign) << at for at in range(last + 1))


def with_field(a: int, b: int, first: int, count: int, kind: str) -> int:
    """``bfi``, by the loop of the PTX ISA."""
    first, count = first & 255, count & 255
    for at in range(count):
        if first + at < bits_of(kind):
            b = b & ~(1 << (first + at)) | (a >> at & 1) << (first + at)
    return b


def permuted(a: int, b: int, selectors: int) -> int:
    """``prmt``: a byte for each selector, or its sign spread out."""
    chosen = [(b << 32 | a) >> 8 * (selectors >> 4 * at & 7) & 255 for at in range(4)]
    spread = [(255 if byte >> 7 else 0) if selectors >> 4 * at & 8 else byte for at, byte in enumerate(chosen)]
    return sum(byte << 8 * at for at, byte in enumerate(spread))


def whole_number(value: float, mode: str) -> float:
    """A float without its fraction."""
    if not math.isfinite(value):
        return value
    rounded = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}[mode](Fraction(value))
    return math.copysign(float(rounded), value)


def limited(value: int, kind: str) -> int:
    """The nearest number of an integer type."""
    width = bits_of(kind)
    least, most = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if kind[0] == "s" else (0, (1 << width) - 1)
    return min(max(value, least), most)


_APPROXIMATE: dict[str, Callable[[float], float]] = {
    "sin": math.sin,
    "cos": math.cos,
    "tanh": math.tanh,
    "ex2": lambda a: 2.0**a if a < 1024 else math.inf,
    "lg2": lambda a: math.log2(a) if a > 0 else (-math.inf if a == 0 else math.nan),
    "rsqrt": lambda a: 1 / math.sqrt(a) if a > 0 else (math.copysign(math.inf, a) if a == 0 else math.nan),
}
_ERRORS = {
    **dict.fromkeys((("sin", "f32"), ("cos", "f32")), (0.0, 2.0**-20)),
    ("lg2", "f32"): (2.0**-22, 2.0**-22),
    ("tanh", "f32"): (2.0**-10.9, 0.0),
    ("tanh", "f16"): (0.0, 2.0**-10.9),
    ("tanh", "bf16"): (0.0, 2.0**-8),
    ("ex2", "f16"): (2.0**-9.9, 0.0),
    ("ex2", "bf16"): (2.0**-7, 0.0),
}
"""Relative and absolute error of an instruction (PTX ISA, its section)."""

_MOST_RADIANS = math.pi
"""The PTX ISA states an error of sin.approx and cos.approx up to this angle alone; an H200 gives 0 for 2**31."""

_LOGIC: dict[str, Callable[[int, int], int]] = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_ORDERED: dict[str, Callable[[Any, Any], bool]] = {
    **{name: getattr(operator, _UNSIGNED.get(name, name)) for name in ("eq", "ne", "lt", "le", "gt", "ge", *_UNSIGNED)},
    "num": lambda a, b: True,
    "nan": lambda a, b: False,
}


def compared(how: str, a: Any, b: Any) -> bool:
    """A comparison: with a NaN false, or true where its name ends in u."""
    unordered = math.isnan(a) or math.isnan(b)
    if how.endswith("u"):
        return unordered or _ORDERED[how[:-1]](a, b)
    return how == "nan" if unordered else _ORDERED[how](a, b)


def shape(opcode: str) -> tuple[list[str], str]:
    """The types of an instruction's operands, and of its result."""
    name, *modifiers = opcode.split(".")
    kind = modifiers[-1]
    count = {"fma": 3, "mad": 3, "mad24": 3, "sad": 3, "bfe": 3, "prmt": 3, "shf": 3, "selp": 3, "slct": 3}
    count |= {"dp4a": 3, "dp2a": 3, "bfi": 4, "lop3": 4}
    alone = "abs neg not cnot popc clz brev bfind rcp sqrt rsqrt sin cos lg2 ex2 tanh mov testp cvt"
    takes = [kind] * (1 if name in alone.split() else count.get(name, 2))
    gives = kind
    if "wide" in modifiers:
        gives = kind[0] + str(2 * bits_of(kind))
        takes[2:] = [gives] * (name == "mad")
    elif name in ("shl", "shr", "bfe", "bmsk", "szext"):
        takes[1:] = ["u32"] * len(takes[1:])
    elif name == "bfi":
        takes[2:] = ["u32", "u32"]
    elif name in ("popc", "clz", "bfind"):
        gives = "u32"
    elif name == "testp":
        gives = "pred"
    elif name == "setp":
        gives = "pred"
        takes += ["pred"] * bool({"and", "or", "xor"} & {*modifiers})
    elif name == "selp":
        takes[2] = "pred"
    elif name == "slct":
        takes, gives = [modifiers[-2], modifiers[-2], kind], modifiers[-2]
    elif name in ("set", "cvt"):
        gives = modifiers[-2]
        takes += ["pred"] * (name == "set" and not _LOGIC.keys().isdisjoint(modifiers))
    elif name in ("dp4a", "dp2a"):
        gives = "s32" if "s" in modifiers[-2] + kind else "u32"
        takes = [modifiers[-2], kind, gives]
    return takes, gives


class Near(float):
    """A result that hardware approximates, and the largest errors that the PTX ISA states; 0 if it states none."""

    relative = 0.0
    absolute = 0.0


def exact(opcode: str, given: Sequence[int]) -> int | Near:
    """The bits of an instruction's result on operands of these bits."""
    name, *modifiers = opcode.split(".")
    takes, gives = shape(opcode)
    if gives.endswith("x2"):
        width, alone = half_of(gives), opcode.removesuffix("x2")
        halves = [exact(alone, [bits >> width * at & (1 << width) - 1 for bits in given]) for at in (0, 1)]
        return halves[0] | halves[1] << width if not any(isinstance(h, Near) for h in halves) else Near(math.nan)
    mode = next((word for word in modifiers if word in ("rn", "rz", "rm", "rp")), "rn")
    values = [decoded(bits, kind) for bits, kind in zip(given, takes, strict=True)]
    flushes = "ftz" in modifiers and name != "slct"  # whose result does not depend on it
    if flushes:
        values = [flushed(v, k) if k in FLOATS else v for v, k in zip(values, takes, strict=True)]
    result = _result(name, modifiers, values, given, takes, gives)
    if isinstance(result, Near):
        return result
    if gives not in FLOATS:  # one of 8 bits fills its register of 32
        return encoded(decoded(encoded(result, gives), gives), "s32") if gives == "s8" else encoded(result, gives)
    bits = encoded(result, gives, mode)
    number = decoded(bits, gives)
    if flushes:
        number = flushed(number, gives)
    if "sat" in modifiers:
        number = 0.0 if math.isnan(number) or number <= 0 else min(number, 1.0)
    if "relu" in modifiers and number <= 0:
        number = 0.0
    return bits if math.isnan(number) else encoded(number, gives)


def _result(
    name: str, modifiers: Sequence[str], values: Sequence[Any], given: Sequence[int], takes: Sequence[str], gives: str
) -> Any:
    a, b, c = (*values, 0, 0)[:3]
    kind = takes[0]
    if kind in FLOATS and name in ("add", "sub", "mul", "fma", "mad", "div", "rcp"):
        if name in ("div", "rcp") and {"approx", "full"} & {*modifiers}:
            value = arithmetic(name, values)
            return Near(float(value) if abs(value) < 2**127 else math.copysign(math.inf, value))
        mode = next((word for word in modifiers if word in ("rn", "rz", "rm", "rp")), "rn")
        return arithmetic("fma" if name == "mad" else name, values, mode)
    if name in ("sin", "cos") and abs(a) > _MOST_RADIANS:
        return Near(math.nan)
    if name in _APPROXIMATE:
        result = _APPROXIMATE[name](a) if math.isfinite(a) else math.nan
        near = Near(result if abs(result) < 2.0 ** _MOST[gives] else math.nan)
        near.relative, near.absolute = _ERRORS.get((name, gives), (0.0, 0.0))
        return near
    if name == "sqrt":
        return Near(math.sqrt(a)) if a >= 0 and math.isfinite(a) else (a if a == math.inf else math.nan)
    if kind in FLOATS and name in ("min", "max"):
        if math.isnan(a) or math.isnan(b):
            number = b if math.isnan(a) else a
            return math.nan if "NaN" in modifiers else number
        if a == b == 0:
            return Near(0.0)  # of which sign is open
        return {"min": min, "max": max}[name](a, b)
    if kind in FLOATS and name in ("abs", "neg", "copysign"):
        return math.fabs(a) if name == "abs" else -a if name == "neg" else math.copysign(b, a)
    if name == "testp":
        least = 2.0 ** _LEAST[kind]
        return {
            "finite": math.isfinite(a),
            "infinite": math.isinf(a),
            "number": not math.isnan(a),
            "notanumber": math.isnan(a),
            "normal": math.isfinite(a) and (a == 0 or abs(a) >= least),
            "subnormal": 0 < abs(a) < least,
        }[modifiers[0]]
    if name in ("set", "setp"):
        is_so = compared(modifiers[0], a, b)
        combined = next((word for word in modifiers if word in _LOGIC), "")
        is_so = bool(_LOGIC[combined](is_so, c)) if combined else is_so
        if name == "setp":
            return is_so
        return (1.0 if is_so else 0.0) if gives == "f32" else -int(is_so)
    if name == "cvt":
        return _converted(a, modifiers, kind, gives)
    if name in ("mov", "selp", "slct"):
        if name == "slct" and "ftz" in modifiers:
            c = flushed(c, "f32")
        chosen = given[0] if name == "mov" or (c if name == "selp" else c >= 0) else given[1]
        return decoded(chosen, gives) if gives not in FLOATS else _Raw(chosen)
    return _of_integers(name, modifiers, values, given, kind)


class _Raw(float):
    """Bits that pass through."""

    def __new__(cls, bits: int) -> _Raw:
        made = super().__new__(cls, math.nan)
        made.bits = bits
        return made


def _of_integers(name: str, modifiers: Sequence[str], values: Sequence[Any], given: Sequence[int], kind: str) -> int:
    a, b, c = (*values, 0, 0)[:3]
    width = bits_of(kind)
    if name in ("add", "sub"):
        result = a + b if name == "add" else a - b
        return limited(result, kind) if "sat" in modifiers else result
    if name in ("mul", "mad"):
        product = a * b >> width if "hi" in modifiers else a * b
        return limited(product + c, kind) if "sat" in modifiers else product + c
    if name in ("mul24", "mad24"):
        a, b = (decoded((x & 0xFFFFFF) << 8, kind) >> 8 for x in given[:2])
        return (a * b >> (16 if "hi" in modifiers else 0)) + c
    if name in ("div", "rem"):
        quotient = abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)
        return quotient if name == "div" else a - quotient * b
    if name in ("dp4a", "dp2a"):
        signs = ["s" if "s" in part else "u" for part in modifiers[-2:]]
        steps, size = (4, 8) if name == "dp4a" else (2, 16)
        first = 2 if "hi" in modifiers else 0
        return c + sum(
            decoded(given[0] >> size * at, f"{signs[0]}{size}") * decoded(given[1] >> 8 * (at + first), f"{signs[1]}8")
            for at in range(steps)
        )
    if name == "bfind":
        found = (~a if a < 0 else a).bit_length() - 1
        return found if found < 0 or "shiftamt" not in modifiers else width - 1 - found
    funnel = (given[1] << 32 | given[0]) if name == "shf" else 0
    amount = (min(c, 32) if "clamp" in modifiers else c & 31) if name == "shf" else 0
    return {
        "sad": lambda: c + abs(a - b),
        "min": lambda: min(a, b),
        "max": lambda: max(a, b),
        "abs": lambda: abs(a),
        "neg": lambda: -a,
        "and": lambda: a & b,
        "or": lambda: a | b,
        "xor": lambda: a ^ b,
        "not": lambda: ~a if kind != "pred" else 1 - a,
        "cnot": lambda: int(a == 0),
        "shl": lambda: a << min(b, 64),
        "shr": lambda: a >> min(b, 64),
        "shf": lambda: funnel << amount >> 32 if "l" in modifiers else funnel >> amount,
        "popc": given[0].bit_count,
        "clz": lambda: width - given[0].bit_length(),
        "brev": lambda: int(f"{given[0]:0{width}b}"[::-1], 2),
        "bfe": lambda: bit_field(given[0], b, c, kind),
        "bfi": lambda: with_field(given[0], given[1], given[2], given[3], kind),
        "bmsk": lambda: sum(1 << at for at in range(min(a, 32), min(min(a, 32) + min(b, 32), 32))),
        "szext": lambda: decoded(*_cut(given[0], b, modifiers, kind)),
        "prmt": lambda: permuted(*given),
        "lop3": lambda: sum(
            (given[3] >> ((given[0] >> at & 1) << 2 | (given[1] >> at & 1) << 1 | (given[2] >> at & 1)) & 1) << at
            for at in range(32)
        ),
    }[name]()


def _cut(a: int, bits: int, modifiers: Sequence[str], kind: str) -> tuple[int, str]:
    """``szext``: the low bits of a word and the integer type that they are."""
    if modifiers[0] == "clamp" and bits >= 32:
        return a, kind
    return (a, f"{kind[0]}{bits % 32}") if bits % 32 else (0, kind)


def _converted(a: Any, modifiers: Sequence[str], kind: str, gives: str) -> Any:
    whole = next((word for word in modifiers if word.endswith("i")), "")
    if kind in FLOATS and whole:
        a = whole_number(a, whole)
    if gives not in FLOATS and kind in FLOATS:
        if math.isnan(a):
            return 1 << (bits_of(gives) - 1) if "64" in kind + gives else 0
        least, most = limited(-(1 << 70), gives), limited(1 << 70, gives)
        return least if a < least else most if a > most else int(a)
    if gives not in FLOATS:
        return limited(a, gives) if "sat" in modifiers else a
    return a if isinstance(a, float) else Fraction(a)


def same(found: int, expected: int | Near, kind: str) -> bool:
    """Whether some bits are the expected ones: any NaN for a NaN, and near what hardware approximates."""
    if kind.endswith("x2") and not isinstance(expected, Near):
        width = half_of(kind)
        parts = [(found >> at & (1 << width) - 1, expected >> at & (1 << width) - 1) for at in (0, width)]
        return all(same(*part, kind.removesuffix("x2")) for part in parts)
    if kind not in FLOATS:
        return isinstance(expected, Near) or found == expected
    number = decoded(found, kind)
    if isinstance(expected, Near):
        if math.isnan(expected) or math.isinf(expected):
            return True
        relative = expected.relative or 2.0 ** (2 - _MANTISSA[kind])
        return math.isclose(number, expected, rel_tol=relative, abs_tol=max(expected.absolute, 2.0 ** _LEAST[kind]))
    return found == expected or (math.isnan(number) and math.isnan(decoded(expected, kind)))


def interesting(kind: str, random: np.random.Generator, count: int) -> list[int]:
    """Bits of a type: its edges first, then any."""
    width = bits_of(kind.removesuffix("x2"))
    if kind == "pred":
        return [int(bit) for bit in random.integers(0, 2, count)]
    if kind.endswith("x2"):
        low, high = (interesting(kind.removesuffix("x2"), random, count) for _ in range(2))
        return [a | b << width for a, b in zip(low, high, strict=True)]
    if kind in FLOATS:
        near = [
            0.0,
            -0.0,
            0.5,
            1.0,
            1.5,
            -2.5,
            3.0,
            127.5,
            -129.0,
            255.5,
            65504.0,
            math.inf,
            -math.inf,
            math.nan,
            1e-40,
            2.0**31,
        ]
        edges = [encoded(number, kind) for number in near]
        drawn = [encoded(float(x), kind) for x in random.normal(0, 100, count)]
    else:
        edges = [0, 1, 2, 31, 32, 33, 63, 64, 255, 256, (1 << width) - 1, 1 << (width - 1), (1 << (width - 1)) - 1]
        drawn = [int(x) for x in random.integers(0, 70, count)]
    raw = [int(x) & ((1 << width) - 1) for x in random.integers(0, 1 << 63, count) * 2 + random.integers(0, 2, count)]
    choices = [edges[int(random.integers(len(edges)))] & ((1 << width) - 1) for _ in range(count)]
    how = random.integers(0, 3, count)
    return [(choices, drawn, raw)[int(way)][at] & ((1 << width) - 1) for at, way in enumerate(how)]
