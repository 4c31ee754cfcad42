"""C++ statements for the PTX instructions of asynchronous copies, mbarriers and clusters."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from peakgate_emulator.ptx_grammar import Address, Instruction, Names, Negated, Operand, Unknown, members_of
from peakgate_emulator.ptx_values import TYPES

SHARED = {"shared", "shared::cta", "shared::cluster"}
"""An address in shared memory contains the rank of the block in the cluster."""
_REDUCED = {
    "add": ("u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f64"),
    **dict.fromkeys(("min", "max"), ("u32", "s32", "u64", "s64", "f16", "bf16")),
    **dict.fromkeys(("and", "or", "xor"), ("b32", "b64")),
    **dict.fromkeys(("inc", "dec"), ("u32",)),
}
"""Types of ``cp.reduce.async.bulk`` by operation."""
_COMPLETES = "mbarrier::complete_tx::bytes"


def all_known(modifiers: Sequence[str], *known: str) -> None:
    """Raise Unknown if there is any other modifier."""
    if not set(modifiers) <= set(known):
        raise Unknown


def blocks_of(modifiers: Sequence[str], names: Names) -> tuple[str, list[str]]:
    """The number of blocks that ``.cta_group`` gives, perhaps as a template's argument, and the other modifiers."""
    groups = [modifier for modifier in modifiers if modifier.startswith("cta_group::")]
    if len(groups) != 1:
        raise Unknown
    others = [modifier for modifier in modifiers if modifier not in groups]
    (number,) = (group.removeprefix("cta_group::") for group in groups)
    return number if number in ("1", "2") else names.value(number, "int"), others


def _space(modifiers: Sequence[str]) -> str:
    return "shared" if SHARED & {*modifiers} else "generic"


def _copy(instruction: Instruction, names: Names) -> str:
    """``cp``: all its kinds are asynchronous."""
    first, *modifiers = instruction.modifiers
    if first != "async":
        return _reduction(instruction.modifiers, instruction.operands, names)
    if modifiers[0] == "bulk":
        return _bulk(instruction, names)
    operands = instruction.operands
    if modifiers in (["commit_group"], ["wait_all"]):
        return "peakgate_async_commit();" + " peakgate_async_wait(0);" * (modifiers == ["wait_all"])
    if modifiers == ["wait_group"]:
        return f"peakgate_async_wait({names.value(operands[0], 'int32_t')});"
    if modifiers[:2] == ["mbarrier", "arrive"]:
        all_known(modifiers[2:], "noinc", *SHARED, "b64")
        at = names.address(operands[0], _space(modifiers))
        arrives = f" peakgate_ptx::mbarrier_arrive({at}, 1, 0);" if "noinc" in modifiers else ""
        return f"peakgate_async_bind_all({at});{arrives}"
    known = [modifier for modifier in modifiers if not re.fullmatch(r"L2::\w+", modifier)]
    if known not in ([at, to, "global"] for at in ("ca", "cg") for to in ("shared", "shared::cta")):
        raise Unknown
    to, source = names.address(operands[0], "shared"), names.address(operands[1], "global")
    size = names.value(operands[2], "int32_t")
    taken = size
    further = operands[3:]
    if further and (isinstance(further[0], Negated) or names.registers.get(str(further[0])) == "pred"):
        taken = f"{names.value(further[0], 'bool')} ? 0 : {size}"
    elif len(further) > ("L2::cache_hint" in modifiers):
        taken = names.value(further[0], "int32_t")
    return f"peakgate_async_copy({to}, {source}, {size}, {taken});"


def _bulk(instruction: Instruction, names: Names) -> str:
    """``cp.async.bulk`` and ``cp.async.bulk.tensor``, by the copy engine."""
    _async, _bulk, *modifiers = instruction.modifiers
    operands = instruction.operands
    if modifiers == ["commit_group"]:
        return "peakgate_bulk_commit();"
    if modifiers[0] == "wait_group":
        all_known(modifiers[1:], "read")
        return f"peakgate_bulk_wait({names.value(operands[0], 'int32_t')}, {int('read' in modifiers)});"
    if modifiers[0] == "prefetch":
        return ";"
    blocks = "1"
    if any(modifier.startswith("cta_group::") for modifier in modifiers):
        blocks, modifiers = blocks_of(modifiers, names)
    return _moved(modifiers, operands, blocks, names)


def _moved(modifiers: Sequence[str], operands: Sequence[Operand], pairs: str, names: Names) -> str:
    """A copy between global and shared memory, given the modifiers after ``cp.async.bulk`` but ``.cta_group``."""
    axes = 0
    if modifiers[0] == "tensor":
        if not (found := re.fullmatch(r"([1-5])d", modifiers[1])):
            raise Unknown
        axes, modifiers = int(found[1]), [modifier for modifier in modifiers[2:] if modifier != "tile"]
    space, of_source, *how = modifiers
    if (space, of_source) == ("shared::cluster", "shared::cta") and not axes:
        all_known(how, _COMPLETES)
        places = [names.address(operands[position], "shared") for position in (0, 1, 3)]
        size = names.value(operands[2], "uint32_t")
        return f"peakgate_ptx::send_bulk({places[0]}, {places[1]}, {size}, {places[2]});"
    loads = space in SHARED and of_source == "global"
    if not loads and (space, of_source) != ("global", "shared::cta"):
        raise Unknown
    if loads:
        all_known(how, _COMPLETES, "multicast::cluster", "L2::cache_hint")
        to, source, *sized = operands[: 2 if axes else 3]
        barrier, *further = operands[2 if axes else 3 :]
        at = names.address(barrier, "shared")
        blocks = names.value(further[0], "uint16_t") if "multicast::cluster" in how else "0"
        place = names.address(to, "shared")
        if axes:
            return f"{_tile(source, axes, names)} peakgate_ptx::load_tile({place}, &tile, {at}, {blocks}, {pairs});"
        size = names.value(sized[0], "uint32_t")
        return f"peakgate_ptx::load_bulk({place}, {names.address(source, 'global')}, {size}, {at}, {blocks});"
    all_known(how, "bulk_group", "L2::cache_hint")
    place = names.address(operands[1], "shared")
    if axes:
        return f"{_tile(operands[0], axes, names)} peakgate_ptx::store_tile(&tile, {place});"
    size = names.value(operands[2], "uint32_t")
    return f"peakgate_ptx::store_bulk({names.address(operands[0], 'global')}, {place}, {size});"


def _reduction(modifiers: Sequence[str], operands: Sequence[Operand], names: Names) -> str:
    """``cp.reduce.async.bulk`` from shared to global memory, by the types that the PTX ISA has for each operation."""
    known = [modifier for modifier in modifiers if modifier not in ("L2::cache_hint", "noftz")]
    *how, operation, kind = known
    if how != ["reduce", "async", "bulk", "global", "shared::cta", "bulk_group"] or kind not in _REDUCED.get(
        operation, ""
    ):
        raise Unknown
    if ("noftz" in modifiers) != (operation == "add" and kind in ("f16", "bf16")):
        raise Unknown
    to, source = names.address(operands[0], "global"), names.address(operands[1], "shared")
    size = names.value(operands[2], "uint32_t")
    return f"peakgate_ptx::reduce_bulk<{TYPES[kind]}, peakgate_ptx::{operation.title()}>({to}, {source}, {size});"


def _tile(operand: Operand, axes: int, names: Names) -> str:
    """The C++ declaration of a variable ``tile`` for ``[map, {coordinates}]``."""
    if not isinstance(operand, Address) or len(operand.further) != 1:
        raise Unknown
    (given,) = operand.further
    coordinates = members_of(given)
    if len(coordinates) != axes:
        raise Unknown
    at = ", ".join(names.value(coordinate, "int32_t") for coordinate in coordinates)
    place = names.address(Address(operand.word, operand.offset), "generic")
    return f"const PeakgateTile tile = {{{place}, {axes}, {{{at}}}}};"


def _mbarrier(instruction: Instruction, names: Names) -> str:
    what, *modifiers = instruction.modifiers
    operands = instruction.operands
    space = _space(modifiers)
    all_known(modifiers, *SHARED, "b64", "parity", "release", "acquire", "relaxed", "cta", "cluster", "expect_tx")
    how = [*["PEAKGATE_UNORDERED"] * ("relaxed" in modifiers), *["PEAKGATE_NARROW"] * ("cta" in modifiers)]
    if what == "init":
        at, count = names.address(operands[0], space), names.value(operands[1], "int32_t")
        return f"peakgate_ptx::mbarrier_init({at}, {count});"
    if what == "inval":
        return f"peakgate_ptx::mbarrier_invalidate({names.address(operands[0], space)});"
    if what in ("expect_tx", "complete_tx"):
        at, count = names.address(operands[0], space), names.value(operands[1], "uint32_t")
        return f"peakgate_ptx::mbarrier_bytes({at}, {count}, {int(what == 'complete_tx')});"
    if what in ("arrive", "arrive_drop"):
        to, place, *further = operands if len(operands) > 1 else ("_", *operands)
        at = names.address(place, space)
        how += ["PEAKGATE_LEAVES"] * (what == "arrive_drop")
        bytes_, count = "", names.value(further[0], "int32_t") if further else "1"
        if "expect_tx" in modifiers:
            bytes_, count = f"peakgate_ptx::mbarrier_bytes({at}, {names.value(further[0], 'uint32_t')}, 0); ", "1"
        return bytes_ + names.put(
            to, f"peakgate_ptx::mbarrier_arrive({at}, {count}, {' | '.join(how) or 0})", "uint64_t"
        )
    if what in ("try_wait", "test_wait"):
        call = "mbarrier_parity" if "parity" in modifiers else "mbarrier_phase"
        at, phase = names.address(operands[1], space), names.value(operands[2], "uint64_t")
        phase = f"uint32_t({phase})" if "parity" in modifiers else phase
        return names.put(operands[0], f"peakgate_ptx::{call}({at}, {phase}, {' | '.join(how) or 0})", "bool")
    raise Unknown


def proxy_fence(modifiers: Sequence[str]) -> str:
    """``fence.proxy`` or ``fence.mbarrier_init``; both also order accesses as a fence."""
    of_barriers = modifiers[0] == "mbarrier_init"
    scope = "PEAKGATE_DEVICE" if of_barriers else "PEAKGATE_BLOCK"
    if not of_barriers and modifiers[:2] != ("proxy", "async"):
        return f"peakgate_fence(PEAKGATE_ACQ_REL, {scope});"
    shared, of_global = ["PEAKGATE_OF_SHARED", "PEAKGATE_OF_BARRIERS"], ["PEAKGATE_OF_GLOBAL"]
    covers = [*shared * (not {"global"} & {*modifiers}), *of_global * (not SHARED & {*modifiers})]
    proxy = f"peakgate_proxy_fence({'PEAKGATE_OF_BARRIERS' if of_barriers else ' | '.join(covers)});"
    return f"peakgate_fence(PEAKGATE_ACQUIRE, {scope}); {proxy} peakgate_fence(PEAKGATE_RELEASE, {scope});"


def _map(instruction: Instruction, names: Names) -> str:
    """``mapa``: the same place in another block of the cluster."""
    all_known(instruction.modifiers, *SHARED, "u32", "u64")
    to, place, rank = instruction.operands
    call = "mapped_shared" if _space(instruction.modifiers) == "shared" else "mapped"
    return f"{names.bits(to)} = peakgate_ptx::{call}({names.bits(place)}, {names.value(rank, 'uint32_t')});"


def _rank(instruction: Instruction, names: Names) -> str:
    """``getctarank``: the rank of the block whose shared memory contains an address."""
    all_known(instruction.modifiers, *SHARED, "u32", "u64")
    to, place = instruction.operands
    address = names.bits(place)
    if _space(instruction.modifiers) == "generic":
        address = f"peakgate_ptx::shared_offset({address})"
    return names.put(to, f"peakgate_ptx::rank_of({address})", "uint32_t")


def sent(type_: str, vector: int, others: Sequence[str], instruction: Instruction, names: Names) -> str:
    """``st.async``: stores a value in another block's shared memory and counts its bytes at a barrier object there."""
    if instruction.name != "st" or not {*others} <= {"async", _COMPLETES}:
        raise Unknown
    place, values, barrier = instruction.operands
    members = members_of(values)
    if len(members) != vector:
        raise Unknown
    value = f"const {type_} v[] = {{{', '.join(names.value(member, type_) for member in members)}}};"
    to, at = names.address(place, "shared"), names.address(barrier, "shared")
    return f"{value} peakgate_ptx::send_value({to}, v, sizeof v, {at});"


_REDUCED_THERE = {
    **dict.fromkeys(("inc", "dec"), ("u32",)),
    **dict.fromkeys(("min", "max"), ("u32", "s32")),
    "add": ("u32", "s32", "u64"),
    **dict.fromkeys(("and", "or", "xor"), ("b32",)),
}
"""Types of ``red.async`` by operation."""


def reduced(instruction: Instruction, names: Names) -> str:
    """``red.async``: an atomic on a value in another block's shared memory, counted at a barrier object there."""
    _async, *how, operation, kind = instruction.modifiers
    all_known(how, "relaxed", "cluster", "shared::cluster", _COMPLETES)
    if kind not in _REDUCED_THERE.get(operation, ()):
        raise Unknown
    place, value, barrier = instruction.operands
    given = f"{names.address(place, 'shared')}, {names.value(value, TYPES[kind])}, {names.address(barrier, 'shared')}"
    return f"peakgate_ptx::reduce_value<{TYPES[kind]}, peakgate_ptx::{operation.title()}>({given});"


def _launch_control(instruction: Instruction, names: Names) -> str:
    """``clusterlaunchcontrol``, by which clusters take over the work of later ones."""
    what, *modifiers = instruction.modifiers
    if what == "try_cancel":
        all_known(modifiers, "async", "shared::cta", _COMPLETES, "multicast::cluster::all", "b128")
        places = [names.address(operand, _space(modifiers)) for operand in instruction.operands]
        return f"peakgate_ptx::try_cancel({places[0]}, {places[1]}, {int('multicast::cluster::all' in modifiers)});"
    to, answer = instruction.operands
    words = {"get_first_ctaid::x": 1, "get_first_ctaid::y": 2, "get_first_ctaid::z": 3}
    if what != "query_cancel" or modifiers[-1] != "b128":
        raise Unknown
    given = names.bits(answer)
    if modifiers[:-1] == ["is_canceled", "pred"]:
        return names.put(to, f"peakgate_ptx::cancelled({given}, 0)", "bool")
    if modifiers[:-1] == ["get_first_ctaid", "v4", "b32"]:
        *members, _rest = members_of(to)
        return " ".join(
            names.put(member, f"peakgate_ptx::cancelled({given}, {word})", "uint32_t")
            for word, member in enumerate(members, 1)
        )
    if modifiers[0] not in words or modifiers[1:-1] != ["b32"]:
        raise Unknown
    return names.put(to, f"peakgate_ptx::cancelled({given}, {words[modifiers[0]]})", "uint32_t")


ASYNC_STATEMENTS: dict[str, Callable[[Instruction, Names], str]] = {
    "cp": _copy,
    "mbarrier": _mbarrier,
    "mapa": _map,
    "getctarank": _rank,
    "clusterlaunchcontrol": _launch_control,
}
"""By the instruction's name."""
