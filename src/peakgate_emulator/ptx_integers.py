"""C++ statements for PTX's extended-precision and video instructions; ``cuda_ptx_values.h`` implements them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from peakgate_emulator.ptx_grammar import Instruction, Names, Operand, Unknown
from peakgate_emulator.ptx_values import TYPES

_CARRYING = ("u32", "s32", "u64", "s64")
_WORDS = ("u32", "s32")
_SELECTED = re.compile(r"(.+)\.([bh])([0-3])")


def carries(instruction: Instruction) -> bool:
    """Whether an instruction reads or writes the carry flag."""
    return instruction.name in ("addc", "subc", "madc") or "cc" in instruction.modifiers


def carried(instruction: Instruction, names: Names) -> str:
    """``add.cc``, ``addc``, ``sub.cc``, ``subc``, ``mad.cc`` and ``madc``, with or without ``.cc`` after a ``c``."""
    *modifiers, kind = instruction.modifiers
    name = instruction.name.removesuffix("c")
    halves = [modifier for modifier in modifiers if modifier in ("lo", "hi")]
    known = [*halves, *["cc"] * ("cc" in modifiers)]
    if kind not in _CARRYING or modifiers != known or len(halves) != (name == "mad"):
        raise Unknown
    to, *sources = instruction.operands
    type_ = TYPES[f"u{kind[1:]}"]
    first, *rest = [names.value(source, TYPES[kind] if name == "mad" else type_) for source in sources]
    if name == "mad":
        product = f"{first} * {rest.pop(0)}" if halves == ["lo"] else f"peakgate_ptx::high({first}, {rest.pop(0)})"
        first = f"{type_}({product})"
    (second,) = rest
    flags = f"{int(instruction.name.endswith('c'))}, {int('cc' in modifiers)}"
    call = f"peakgate_ptx::{'sub' if name == 'sub' else 'add'}_carry<{type_}>({first}, {second}, {flags})"
    return names.put(to, call, type_)


def _video(instruction: Instruction, names: Names) -> str:
    """``vadd``, ``vsub``, ``vabsdiff``, ``vmin``, ``vmax`` of words, bytes or halves of words, without masks."""
    what, lanes = re.fullmatch(r"v([a-z]+)([24]?)", instruction.name).groups()  # type: ignore[union-attr]
    (*kinds,) = instruction.modifiers[:3]
    also = list(instruction.modifiers[3:])
    if len(kinds) != 3 or not {*kinds} <= {*_WORDS}:
        raise Unknown
    to, *sources = instruction.operands
    saturates = also[:1] == ["sat"]
    second = also[saturates:]
    if lanes:
        if second not in ([], ["add"]) or (saturates and second) or len(sources) != 3:
            raise Unknown
        types = [TYPES[f"{kind[0]}{32 // int(lanes)}"] for kind in kinds]
        given = [names.value(source, "uint32_t") for source in sources]
        call = f"peakgate_ptx::video_lanes<{', '.join(types)}>(peakgate_ptx::{what.upper()}, {', '.join(given)}, "
        return names.put(to, f"{call}{int(saturates)}, {int(bool(second))})", "uint32_t")
    if second not in ([], ["add"], ["min"], ["max"]) or what == "avrg" or len(sources) != 2 + len(second):
        raise Unknown
    to_type, *types = (TYPES[kind] for kind in kinds)
    a, b = (_selected(source, type_, names) for source, type_ in zip(sources, types, strict=False))
    result = f"peakgate_ptx::video(peakgate_ptx::{what.upper()}, {a}, {b})"
    result = f"peakgate_ptx::clamped<{to_type}>({result})" if saturates else f"{to_type}({result})"
    if second:
        result = f"peakgate_ptx::video(peakgate_ptx::{second[0].upper()}, {result}, {names.value(sources[2], to_type)})"
    return names.put(to, result, to_type)


def _selected(operand: Operand, type_: str, names: Names) -> str:
    """An operand, or a byte or half of it, as a C++ expression of 64 bits."""
    if isinstance(operand, str) and (found := _SELECTED.fullmatch(operand)):
        word, size, at = found[1], 8 if found[2] == "b" else 16, int(found[3])
        part = f"{'u' * (type_[0] == 'u')}int{size}_t({names.value(word, 'uint32_t')} >> {size * at})"
        return f"int64_t({part})"
    return f"int64_t({names.value(operand, type_)})"


def _set(instruction: Instruction, names: Names) -> str:
    """``vset2`` and ``vset4``: 1 in each part where a comparison holds, or their number added to a sum."""
    lanes = int(instruction.name[-1])
    a, b, compared, *also = instruction.modifiers
    if not {a, b} <= {*_WORDS} or compared not in ("eq", "ne", "lt", "le", "gt", "ge") or also not in ([], ["add"]):
        raise Unknown
    to, *sources = instruction.operands
    if len(sources) != 3:
        raise Unknown
    types = ", ".join(TYPES[f"{kind[0]}{32 // lanes}"] for kind in (a, b))
    given = ", ".join(names.value(source, "uint32_t") for source in sources)
    compare = f"[](int64_t x, int64_t y) {{ return peakgate_ptx::compared_{compared}(x, y); }}"
    return names.put(to, f"peakgate_ptx::video_set<{types}>({compare}, {given}, {int(bool(also))})", "uint32_t")


_OPERATIONS: Sequence[str] = ("add", "sub", "absdiff", "min", "max")
INTEGER_STATEMENTS: dict[str, Callable[[Instruction, Names], str]] = {
    **{f"v{name}{lanes}": _video for name in (*_OPERATIONS, "avrg") for lanes in ("", "2", "4")},
    **dict.fromkeys(("vset2", "vset4"), _set),
    **dict.fromkeys(("addc", "subc", "madc"), carried),
}
"""By the instruction's name."""
