"""C++ statements for the PTX instructions of tensor cores; ``cuda_matrix.h`` implements them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from peakgate_emulator.ptx_grammar import Instruction, Names, Operand, Unknown, Vector, members_of

_MIXED = ({"e4m3", "e5m2"}, {"s8", "u8"}, {"s4", "u4"})
"""Sets of types that A and B may mix; otherwise the types must be equal."""
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
"""Possible k of the shape, by type of A and rows of the product."""
_SPARSE_DEPTHS: Mapping[tuple[str, int], tuple[int, ...]] = {
    **{(kind, 16): (16, 32) for kind in ("f16", "bf16")},
    ("tf32", 16): (8, 16),
    **{(kind, 16): (32, 64) for kind in ("s8", "u8")},
    **{(kind, 16): (64,) for kind in ("e4m3", "e5m2")},
    **{(kind, 16): (64, 128) for kind in ("s4", "u4")},
}
"""The same where A is sparse."""
_SPARSITIES = {"sp": "PEAKGATE_SPARSE", "sp::ordered_metadata": "PEAKGATE_SPARSE_ORDERED"}

_BITS = {"tf32": 32, "e4m3": 8, "e5m2": 8}

_DEPTHS_OF_GROUPS = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32}
"""k of a ``wgmma``, by type of A."""
_REGISTERS_OF_A = 4


def _taken(name: str, operand: Operand, names: Names) -> str:
    results = enumerate(members_of(operand))
    return " ".join(f"{names.bits(member)} = {name}[{at}];" for at, member in results if member != "_")


def _numbers(*kinds: str) -> str:
    return ", ".join(f"PEAKGATE_{kind.upper()}" for kind in kinds)


def _count(numbers: int, kind: str) -> int:
    """Number of a lane's registers for its fragment of a matrix."""
    bits = _BITS.get(kind) or int(re.sub(r"\D", "", kind))
    return numbers * bits // (32 * max(32, bits))


def _product(instruction: Instruction, names: Names) -> str:
    """``mma.sync`` or ``mma.sp.sync``, such as ``mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32``."""
    modifiers = [modifier for modifier in instruction.modifiers if modifier not in ("satfinite", "kind::f8f6f4")]
    sparsity = _SPARSITIES.get(modifiers[0])
    if sparsity:
        del modifiers[0]
    depths = _SPARSE_DEPTHS if sparsity else _DEPTHS
    sync, aligned, shape, layout_of_a, layout_of_b, sums, a, b, added = modifiers
    found = re.fullmatch(r"m(8|16)n8k(\d+)", shape)
    if (sync, aligned, layout_of_a, layout_of_b) != ("sync", "aligned", "row", "col") or not found or sums != added:
        raise Unknown
    rows, depth = map(int, found.groups())
    fits = a == b or any({a, b} <= kinds for kinds in _MIXED)
    if not fits or sums not in _SUMS_OF.get(a, ()) or depth not in depths.get((a, rows), ()):
        raise Unknown
    to, of_a, of_b, of_c, *of_metadata = instruction.operands
    if len(of_metadata) != (2 if sparsity else 0):
        raise Unknown
    counts = (_count(rows * depth // (2 if sparsity else 1), a), _count(8 * depth, b), *[_count(rows * 8, sums)] * 2)
    if counts != tuple(len(members_of(operand)) for operand in (of_a, of_b, of_c, to)):
        raise Unknown
    number = {"f64": "double", "s32": "int32_t"}.get(sums, "float")
    given = [names.bits(member) for operand in (*of_metadata, of_a, of_b) for member in members_of(operand)]
    given += [names.register_of(member, number) for member in members_of(of_c)]
    clamps = int("satfinite" in instruction.modifiers)
    product = f"{{{rows}, {depth}, {_numbers(a, b, sums)}, {clamps}, {sparsity or 'PEAKGATE_DENSE'}}}"
    product = f"static constexpr PeakgateWarpProduct product = {product};"
    call = f"{product} const auto sums = peakgate_ptx::mma<{counts[-1]}>(&product, {', '.join(given)});"
    return f"{call} {_taken('sums.of', to, names)}"


def _matrices(modifiers: Sequence[str]) -> tuple[int, str, str]:
    """Number of matrices, whether transposed, and the space, from ``.sync.aligned.m8n8.x4.trans.shared.b16``.

    ptxas accepts the last modifiers in any order, and kernels use that.
    """
    sync, aligned, *between = modifiers
    others = {*between} - {"m8n8", "b16"}
    (count,) = others & {"x1", "x2", "x4"} or {""}
    if (sync, aligned) != ("sync", "aligned") or not {"m8n8", "b16"} <= {*between} or not count:
        raise Unknown
    if len(others) != len(between) - 2 or not others <= {count, "trans", "shared", "shared::cta"}:
        raise Unknown
    space = "shared" if {"shared", "shared::cta"} & others else "generic"
    return int(count[1]), str("trans" in others).lower(), space


def _load(instruction: Instruction, names: Names) -> str:
    count, transposed, space = _matrices(instruction.modifiers)
    to, place = instruction.operands
    if len(members_of(to)) != count:
        raise Unknown
    call = f"peakgate_ptx::load_matrices<{count}, {transposed}>(d, {names.address(place, space)});"
    return f"uint64_t d[{count}]; {call} {_taken('d', to, names)}"


def _store(instruction: Instruction, names: Names) -> str:
    count, transposed, space = _matrices(instruction.modifiers)
    place, values = instruction.operands
    if len(members_of(values)) != count:
        raise Unknown
    given = ", ".join(names.bits(member) for member in members_of(values))
    registers = f"uint64_t given[{count}] = {{{given}}};"
    return f"{registers} peakgate_ptx::store_matrices<{count}, {transposed}>({names.address(place, space)}, given);"


def _move(instruction: Instruction, names: Names) -> str:
    if instruction.modifiers != ("sync", "aligned", "m8n8", "trans", "b16"):
        raise Unknown
    to, source = instruction.operands
    return names.put(to, f"peakgate_ptx::transposed_matrix({names.bits(source)})", "uint32_t")


def _group(instruction: Instruction, names: Names) -> str:
    """``wgmma``: products by a warpgroup, whose results exist after the wait."""
    what, *modifiers = instruction.modifiers
    if modifiers[:2] != ["sync", "aligned"]:
        raise Unknown
    if what in ("fence", "commit_group") and not modifiers[2:]:
        return f"peakgate_ptx::group_{what.removesuffix('_group')}();"
    if what == "wait_group" and not modifiers[2:]:
        return f"peakgate_ptx::group_wait({names.value(instruction.operands[0], 'int32_t')});"
    if what != "mma_async":
        raise Unknown
    return _group_product(modifiers[2:], instruction.operands, names)


def _group_product(modifiers: Sequence[str], operands: Sequence[Operand], names: Names) -> str:
    """Dense ``wgmma.mma_async.sync.aligned``, given modifiers such as ``m64n128k16.f32.bf16.bf16``."""
    shape, sums, a, b, *clamps = modifiers
    found = re.fullmatch(rf"m64n(\d+)k{_DEPTHS_OF_GROUPS.get(a)}", shape)
    fits = a == b or any({a, b} <= kinds for kinds in _MIXED)
    whole = sums == "s32"
    if not found or not fits or sums not in _SUMS_OF[a] or clamps not in ([], ["satfinite"][: int(whole)]):
        raise Unknown
    columns = int(found[1])
    if not 8 <= columns <= 256 or columns % (16 if whole and columns > 32 else 8):
        raise Unknown
    to, of_a, of_b, adds, *further = operands
    in_registers = isinstance(of_a, Vector)
    how = [names.value(operand, "int32_t") for operand in further]
    transposes = a in ("f16", "bf16")
    expected = 0 if whole else 2 + transposes * (1 if in_registers else 2)
    if len(how) != expected or len(members_of(to)) != columns // (4 if sums == "f16" else 2):
        raise Unknown
    if in_registers and len(members_of(of_a)) != _REGISTERS_OF_A:
        raise Unknown
    scales, transposed = how[:2] or ["1", "1"], how[2:] or ["0", "0"]
    places = ", ".join(f"(void*){names.place(member)}" for member in members_of(to))
    steps = [f"void* const sums[] = {{{places}}};"]
    given = [_numbers(a, b, sums), *(("sums", "a", "0") if in_registers else ("sums", "nullptr", names.bits(of_a)))]
    if in_registers:
        registers = ", ".join(f"(uint32_t){names.bits(member)}" for member in members_of(of_a))
        steps.append(f"const uint32_t a[] = {{{registers}}};")
        transposed = ["0", transposed[-1]]
    given += [names.bits(of_b), str(columns), str(len(members_of(to))), names.value(adds, "bool")]
    given += [*scales, *transposed, str(len(clamps))]
    return " ".join((*steps, f"peakgate_ptx::multiply_group(PeakgateProduct{{{', '.join(given)}}});"))


MATRIX_STATEMENTS: dict[str, Callable[[Instruction, Names], str]] = {
    "mma": _product,
    "ldmatrix": _load,
    "stmatrix": _store,
    "movmatrix": _move,
    "wgmma": _group,
}
"""By the instruction's name."""
