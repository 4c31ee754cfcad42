"""PTX instructions that a warp's tensor cores execute, as C++ statements: ``cuda_matrix.h`` has what they do."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from peakgate.emulator.ptx_grammar import Instruction, Operand, Vector
from peakgate.emulator.ptx_names import Names, Unknown

_TYPES = {
    "f16": "F16",
    "bf16": "BF16",
    "tf32": "TF32",
    "f64": "F64",
    "e4m3": "E4M3",
    "e5m2": "E5M2",
    **{f"{sign}{bits}": f"Integer<{bits}, {str(sign == 's').lower()}>" for sign in "su" for bits in (4, 8)},
}
_SUMS = {"f32": "Float32", "f64": "Float64", "f16": "Float16", "s32": "Int32"}
_MIXED = ({"e4m3", "e5m2"}, {"s8", "u8"}, {"s4", "u4"})
"""Types that A and B may have beside one another; others have to be equal."""
_SUMS_OF = {
    "f16": ("f32", "f16"),
    "bf16": ("f32",),
    "tf32": ("f32",),
    "f64": ("f64",),
    **dict.fromkeys(("e4m3", "e5m2"), ("f32", "f16")),
    **dict.fromkeys(("s8", "u8", "s4", "u4"), ("s32",)),
}
_DEPTHS: Mapping[tuple[str, int], tuple[int, ...]] = {
    ("f16", 16): (8, 16),
    ("bf16", 16): (8, 16),
    ("tf32", 16): (4, 8),
    ("f64", 8): (4,),
    ("f64", 16): (4, 8, 16),
    **{(kind, 16): (16, 32) for kind in ("e4m3", "e5m2", "s8", "u8")},
    **{(kind, 8): (16,) for kind in ("s8", "u8")},
    **{(kind, 16): (32, 64) for kind in ("s4", "u4")},
    **{(kind, 8): (32,) for kind in ("s4", "u4")},
}
"""By type of A and rows of the product: how long its sums may be."""


def _members(operand: Operand) -> Sequence[Operand]:
    return operand.members if isinstance(operand, Vector) else (operand,)


def _registers(name: str, operand: Operand, names: Names) -> str:
    given = [names.bits(member) for member in _members(operand)]
    return f"const uint64_t {name}[{len(given)}] = {{{', '.join(given)}}};"


def _taken(name: str, operand: Operand, names: Names) -> str:
    return " ".join(f"{names.bits(member)} = {name}[{at}];" for at, member in enumerate(_members(operand)))


def _product(instruction: Instruction, names: Names) -> str:
    """``mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32`` and its like, of dense matrices."""
    modifiers = [modifier for modifier in instruction.modifiers if modifier not in ("satfinite", "kind::f8f6f4")]
    sync, aligned, shape, layout_of_a, layout_of_b, sums, a, b, added = modifiers
    found = re.fullmatch(r"m(8|16)n8k(\d+)", shape)
    if (sync, aligned, layout_of_a, layout_of_b) != ("sync", "aligned", "row", "col") or not found or sums != added:
        raise Unknown
    rows, depth = map(int, found.groups())
    fits = a == b or any({a, b} <= kinds for kinds in _MIXED)
    if not fits or sums not in _SUMS_OF.get(a, ()) or depth not in _DEPTHS.get((a, rows), ()):
        raise Unknown
    to, of_a, of_b, of_c = instruction.operands
    clamps = str("satfinite" in instruction.modifiers).lower()
    given = (_registers(name, operand, names) for name, operand in (("a", of_a), ("b", of_b), ("c", of_c)))
    types = f"peakgate_ptx::{_TYPES[a]}, peakgate_ptx::{_TYPES[b]}, peakgate_ptx::{_SUMS[sums]}"
    call = f"peakgate_ptx::mma<{rows}, {depth}, {types}>(d, a, b, c, {clamps});"
    return " ".join((*given, f"uint64_t d[{len(_members(to))}];", call, _taken("d", to, names)))


def _matrices(modifiers: Sequence[str]) -> tuple[int, str, str]:
    """How many, whether transposed, and in which space, of ``.sync.aligned.m8n8.x4.trans.shared.b16``."""
    sync, aligned, shape, count, *others, kind = modifiers
    if count == "m8n8":  # as CUTLASS writes it
        shape, count = count, shape
    if (sync, aligned, shape, kind) != ("sync", "aligned", "m8n8", "b16") or count not in ("x1", "x2", "x4"):
        raise Unknown
    if not {*others} <= {"trans", "shared", "shared::cta"}:
        raise Unknown
    space = "shared" if {"shared", "shared::cta"} & {*others} else "generic"
    return int(count[1]), str("trans" in others).lower(), space


def _load(instruction: Instruction, names: Names) -> str:
    count, transposed, space = _matrices(instruction.modifiers)
    to, place = instruction.operands
    if len(_members(to)) != count:
        raise Unknown
    call = f"peakgate_ptx::load_matrices<{count}, {transposed}>(d, {names.address(place, space)});"
    return f"uint64_t d[{count}]; {call} {_taken('d', to, names)}"


def _store(instruction: Instruction, names: Names) -> str:
    count, transposed, space = _matrices(instruction.modifiers)
    place, values = instruction.operands
    if len(_members(values)) != count:
        raise Unknown
    given = _registers("given", values, names).removeprefix("const ")
    return f"{given} peakgate_ptx::store_matrices<{count}, {transposed}>({names.address(place, space)}, given);"


def _move(instruction: Instruction, names: Names) -> str:
    if instruction.modifiers != ("sync", "aligned", "m8n8", "trans", "b16"):
        raise Unknown
    to, source = instruction.operands
    return names.put(to, f"peakgate_ptx::transposed_matrix({names.bits(source)})", "uint32_t")


STATEMENTS: dict[str, Callable[[Instruction, Names], str]] = {
    "mma": _product,
    "ldmatrix": _load,
    "stmatrix": _store,
    "movmatrix": _move,
}
"""By the instruction's name."""
