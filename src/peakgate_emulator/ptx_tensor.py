"""C++ statements for PTX's ``tcgen05``: tensor memory and the products in it; ``cuda_tcgen05.h`` implements them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from peakgate_emulator.ptx_async import all_known, blocks_of
from peakgate_emulator.ptx_grammar import (
    Address,
    Instruction,
    Names,
    Operand,
    Unknown,
    Vector,
    members_of,
    needs_features,
)
from peakgate_emulator.ptx_values import value_of

_SHAPES = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}
"""Registers of a lane by shape, at ``.x1``."""
_MOST_REGISTERS = 128
_COPIES = {
    ("128x256b",): (128, 2, 1),
    ("128x128b",): (128, 1, 1),
    ("64x128b", "warpx2::02_13"): (64, 1, 2),
    ("64x128b", "warpx2::01_23"): (64, 1, -2),
    ("32x128b", "warpx4"): (32, 1, 4),
    ("4x256b",): (4, 2, 1),
}
"""Rows, units of 16 bytes and repetitions of ``tcgen05.cp``."""
_KINDS = ("f16", "tf32", "f8f6f4", "i8")
_SCALED = {
    "mxf8f6f4": {"": 1, "scale_vec::1X": 1, "block32": 1},
    "mxf4": {"": 2, "scale_vec::2X": 2, "block32": 2},
    "mxf4nvf4": {"scale_vec::2X": 2, "block32": 2, "scale_vec::4X": 4, "block16": 4},
}
"""Scales of a row in the depth of a product, by kind and modifier."""
_HINTS = {
    f"collector::{buffer}::{use}" for buffer in ("a", "b0", "b1", "b2", "b3") for use in ("discard", "fill", "lastuse")
}
"""What a collector buffer keeps does not change the result."""


def _place(operand: Operand, names: Names) -> str:
    """``[address + offset]`` in tensor memory as a number."""
    if not isinstance(operand, Address) or operand.further:
        raise Unknown
    offset = names.value(operand.offset, "uint32_t") if operand.offset in names.registers else operand.offset
    return f"uint32_t({names.value(operand.word, 'uint32_t')} + {offset.lstrip('+')})"


def _aligned(modifiers: Sequence[str], *further: str) -> None:
    if tuple(modifiers) not in (("sync", "aligned", *further), ("sync", "aligned", "shared::cta", *further)):
        raise Unknown


def _alloc(modifiers: Sequence[str], instruction: Instruction, names: Names) -> str:
    blocks, others = blocks_of(modifiers, names)
    _aligned(others, "b32")
    to, columns = instruction.operands
    place = names.address(to, "shared" if "shared::cta" in others else "generic")
    return f"peakgate_ptx::tensor_alloc({place}, {names.value(columns, 'uint32_t')}, {blocks});"


def _dealloc(modifiers: Sequence[str], instruction: Instruction, names: Names) -> str:
    blocks, others = blocks_of(modifiers, names)
    _aligned(others, "b32")
    given = ", ".join(names.value(operand, "uint32_t") for operand in instruction.operands)
    return f"peakgate_ptx::tensor_dealloc({given}, {blocks});"


def _relinquish(modifiers: Sequence[str], _instruction: Instruction, names: Names) -> str:
    blocks, others = blocks_of(modifiers, names)
    _aligned(others)
    return f"peakgate_ptx::tensor_relinquish({blocks});"


def _moved(modifiers: Sequence[str], packing: str, registers: Operand) -> tuple[str, int, int]:
    """The shape as the runtime's constant, the number of registers and whether columns are packed."""
    if tuple(modifiers[:2]) != ("sync", "aligned") or modifiers[-1] != "b32":
        raise Unknown
    shape, repeats, *packs = modifiers[2:-1]
    found = re.fullmatch(r"x(1|2|4|8|16|32|64|128)", repeats)
    if shape not in _SHAPES or packs not in ([], [packing]) or not found:
        raise Unknown
    count = int(found[1]) * _SHAPES[shape]
    if count > _MOST_REGISTERS or len(members_of(registers)) != count:
        raise Unknown
    return f"PEAKGATE_{shape.upper()}", count, len(packs)


def _split(shape: str, splits: Sequence[Operand], names: Names) -> str:
    """The number of columns between the two parts of ``.16x32bx2``, which alone has one."""
    if len(splits) != (shape == "PEAKGATE_16X32BX2"):
        raise Unknown
    return names.value(splits[0], "int32_t") if splits else "0"


def _load(modifiers: Sequence[str], instruction: Instruction, names: Names) -> str:
    if modifiers[0] == "red":
        return _load_and_reduce(modifiers[1:], instruction, names)
    return _loaded(modifiers, instruction.operands, names)


def _load_and_reduce(modifiers: Sequence[str], instruction: Instruction, names: Names) -> str:
    """``tcgen05.ld.red``: a load, and the least or greatest of the columns that a thread gets (PTX ISA 9.7.16.8.3)."""
    to, reduced, *further = instruction.operands
    shape, repeats, *how = modifiers[2:]
    operation, kind = ([word for word in how if word in some] for some in (("min", "max"), ("f32", "u32", "s32")))
    others = [word for word in how if word not in (*operation, *kind)]
    combined = value_of(".".join([*operation, *["NaN"] * ("NaN" in others), *kind]))
    if shape not in ("32x32b", "16x32bx2") or repeats == "x1" or not combined:
        raise Unknown
    if others not in ([], ["abs"], ["NaN"], ["abs", "NaN"]) or (others and kind != ["f32"]):
        raise Unknown
    type_ = combined.result
    combine = f"[]({type_} a, {type_} b) {{ return {type_}({combined.expression}); }}"
    call = f"peakgate_ptx::tensor_reduced<{type_}>(loaded, {combine}, {int('abs' in others)})"
    loads = _loaded([*modifiers[:4], "b32"], (to, *further), names)
    return f"{needs_features(instruction, 1030)} {loads} {names.put(reduced, call, type_)}"


def _loaded(modifiers: Sequence[str], operands: Sequence[Operand], names: Names) -> str:
    to, place, *splits = operands
    shape, count, packs = _moved(modifiers, "pack::16b", to)
    given = f"{_place(place, names)}, {shape}, {_split(shape, splits, names)}, {packs}"
    call = f"const auto loaded = peakgate_ptx::tensor_load<{count}>({given});"
    taken = (names.put(member, f"loaded.of[{at}]", "uint32_t") for at, member in enumerate(members_of(to)))
    return f"{call} {' '.join(taken)}"


def _store(modifiers: Sequence[str], instruction: Instruction, names: Names) -> str:
    place, *splits, values = instruction.operands
    shape, _count, packs = _moved(modifiers, "unpack::16b", values)
    given = ", ".join(names.bits(member) for member in members_of(values))
    at = f"{_place(place, names)}, {shape}, {_split(shape, splits, names)}"
    return f"peakgate_ptx::tensor_store({at}, {packs}, {given});"


def _wait_for_loads(modifiers: Sequence[str], _instruction: Instruction, _names: Names) -> str:
    _aligned(modifiers)
    return "peakgate_ptx::tensor_wait(0);"


def _wait_for_stores(modifiers: Sequence[str], _instruction: Instruction, _names: Names) -> str:
    _aligned(modifiers)
    return "peakgate_ptx::tensor_wait(1);"


def _fence_before(_modifiers: Sequence[str], _instruction: Instruction, _names: Names) -> str:
    return "peakgate_tensor_fence(0);"


def _fence_after(_modifiers: Sequence[str], _instruction: Instruction, _names: Names) -> str:
    return "peakgate_tensor_fence(1);"


def _commit(modifiers: Sequence[str], instruction: Instruction, names: Names) -> str:
    blocks, others = blocks_of(modifiers, names)
    all_known(others, "mbarrier::arrive::one", "shared::cluster", "multicast::cluster", "b64")
    barrier, *masks = instruction.operands
    if len(masks) != ("multicast::cluster" in others):
        raise Unknown
    at = names.address(barrier, "shared" if "shared::cluster" in others else "generic")
    to_blocks = names.value(masks[0], "uint16_t") if masks else "0"
    return f"peakgate_ptx::tensor_commit({at}, {blocks}, {to_blocks});"


def _copy(modifiers: Sequence[str], instruction: Instruction, names: Names) -> str:
    blocks, others = blocks_of(modifiers, names)
    if tuple(others) not in _COPIES:
        raise Unknown
    to, source = instruction.operands
    how = ", ".join(map(str, _COPIES[tuple(others)]))
    return f"peakgate_ptx::tensor_copy({_place(to, names)}, {names.bits(source)}, {how}, {blocks});"


def _scales(kind: str, how: Sequence[str]) -> int:
    """The number of scales of a row; 0 of a kind without scales."""
    if kind in _KINDS and not how:
        return 0
    scaled, *vector = how
    if scaled != "block_scale" or len(vector) > 1 or kind not in _SCALED:
        raise Unknown
    found = _SCALED[kind].get("".join(vector))
    if found is None:
        raise Unknown
    return found


def _product(modifiers: Sequence[str], instruction: Instruction, names: Names) -> str:
    """``tcgen05.mma``, also with block scales or a sparse A (``.sp``), and ``tcgen05.mma.ws``."""
    blocks, others = blocks_of(modifiers, names)
    stationary, sparse = others[0] == "ws", others[0] == "sp"
    kind, *how = (modifier for modifier in others[stationary or sparse :] if modifier not in _HINTS)
    kind = kind.removeprefix("kind::")
    scales = _scales(kind, how)
    # 10.3 has no integers (PTX ISA 9.7.16.10.9.1, target notes).
    needed = f"{needs_features(instruction, 1000)} " if kind == "i8" else ""
    to, a, b, *further = instruction.operands
    metadata, further = (further[:1], further[1:]) if sparse else ([], further)
    described, *further = further
    places, further = (further[:2], further[2:]) if scales else ([], further)
    disabled: tuple[Operand, ...] = ()
    if isinstance(further[0], Vector):
        disabled, further = further[0].members, further[1:]
        if len(disabled) not in {"1": (4,), "2": (8,)}.get(blocks, (4, 8)):  # words of 32 lanes, of each block
            raise Unknown
    adds, *last = further  # a mask of .ws, otherwise a scale of the sums
    if (
        len(last) > 1
        or (stationary and (scales or disabled))
        or (last and not stationary and kind not in ("f16", "tf32"))
    ):
        raise Unknown
    masks, halvings = (last, []) if stationary else ([], last)
    in_tensor_memory = isinstance(a, Address)
    given = [
        _place(to, names),
        _place(a, names) if in_tensor_memory else names.bits(a),
        names.bits(b),
        names.value(described, "uint32_t"),
        f"PEAKGATE_KIND_{kind.upper()}",
        str(int(in_tensor_memory)),
        names.value(adds, "bool"),
        f"{{{', '.join(names.value(lanes, 'uint32_t') for lanes in disabled)}}}",
        blocks,
        str(int(stationary)),
        str(int(sparse)),
        _place(metadata[0], names) if sparse else "0",
        names.bits(masks[0]) if masks else "0",
        names.value(halvings[0], "int32_t") if halvings else "0",
        str(scales),
        *([_place(place, names) for place in places] or ["0", "0"]),
        "nullptr",
    ]
    return f"{needed}peakgate_ptx::tensor_multiply(PeakgateTensorProduct{{{', '.join(given)}}});"


_STATEMENTS: dict[str, Callable[[Sequence[str], Instruction, Names], str]] = {
    "alloc": _alloc,
    "dealloc": _dealloc,
    "relinquish_alloc_permit": _relinquish,
    "ld": _load,
    "st": _store,
    "wait::ld": _wait_for_loads,
    "wait::st": _wait_for_stores,
    "fence::before_thread_sync": _fence_before,
    "fence::after_thread_sync": _fence_after,
    "commit": _commit,
    "cp": _copy,
    "mma": _product,
}
"""By the word after ``tcgen05``."""


def tensor_statement(instruction: Instruction, names: Names) -> str:
    """A ``tcgen05`` instruction, which only some architectures have."""
    what, *modifiers = instruction.modifiers
    if what not in _STATEMENTS:
        raise Unknown
    return f"{needs_features(instruction)} {_STATEMENTS[what](modifiers, instruction, names)}"
