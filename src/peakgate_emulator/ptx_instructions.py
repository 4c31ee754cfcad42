"""C++ statements for PTX instructions.

An unknown instruction or modifier is not emulated: a launch that reaches it ends with an error that names it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from peakgate_emulator import ptx_async, ptx_matrix
from peakgate_emulator.ptx_grammar import (
    Instruction,
    Names,
    Operand,
    Unknown,
    Vector,
    members_of,
    needs_features,
    two_of,
)
from peakgate_emulator.ptx_integers import INTEGER_STATEMENTS, carried, carries
from peakgate_emulator.ptx_narrow import FORMATS, narrow_conversion
from peakgate_emulator.ptx_tensor import tensor_statement
from peakgate_emulator.ptx_values import DIRECTED, LOGIC, TYPES, Value, value_of

_ATOMICS = {
    "add": "peakgate_atomicAdd",
    "min": "peakgate_atomicMin",
    "max": "peakgate_atomicMax",
    "and": "peakgate_atomicAnd",
    "or": "peakgate_atomicOr",
    "xor": "peakgate_atomicXor",
    "exch": "peakgate_atomicExch",
    "inc": "peakgate_atomicInc",
    "dec": "peakgate_atomicDec",
    "cas": "peakgate_atomicCAS",
}
_NOTHING = {
    "prefetch", "prefetchu", "applypriority", "nanosleep", "griddepcontrol", "pmevent",
}  # fmt: skip
"""Hints and delays, which have no effect here."""

_SPACES = {"global", "local", "const", *ptx_async.SHARED}
_ORDERS = {
    "weak": "",
    "volatile": "PEAKGATE_RELAXED",
    "mmio": "PEAKGATE_RELAXED",
    "relaxed": "PEAKGATE_RELAXED",
    "acquire": "PEAKGATE_ACQUIRE",
    "release": "PEAKGATE_RELEASE",
    "acq_rel": "PEAKGATE_ACQ_REL",
}
"""Memory order by modifier; empty for a weak access."""

_SCOPES = {
    "cta": "PEAKGATE_BLOCK",
    "cluster": "PEAKGATE_CLUSTER",
    "gl": "PEAKGATE_DEVICE",
    "gpu": "PEAKGATE_DEVICE",
    "sys": "PEAKGATE_DEVICE",
}
_HINTS = re.compile(r"ca|cg|cs|lu|cv|wb|wt|nc|(?:L1|L2)::\w+|level::\w+|unified")
"""Cache hints, which have no effect on values."""


def statement(instruction: Instruction, names: Names) -> str:
    """One instruction as C++ statements. Raises Unknown if it is not emulated."""
    if instruction.name in _NOTHING:
        return ";"
    if instruction.opcode == "mov.b128":
        return _packed(instruction, names)
    if carries(instruction):
        return carried(instruction, names)
    if value := value_of(instruction.opcode):
        if any(isinstance(operand, Vector) for operand in instruction.operands):
            return _packed(instruction, names)
        return _computed(value, instruction.operands, names)
    if instruction.name not in _STATEMENTS:
        raise Unknown
    return _STATEMENTS[instruction.name](instruction, names)


def _computed(value: Value, operands: Sequence[Operand], names: Names) -> str:
    """The statement that computes a value; the first operand is the register for the result."""
    to, *sources = operands
    expression, result = value.expression, value.result
    rounding = next((DIRECTED[modifier] for modifier in DIRECTED if modifier in value.modifiers), "")
    kept = "volatile " if rounding else ""  # prevents the compiler from computing before the rounding mode is set
    steps = []
    for letter, type_, operand in zip("abcd", value.types, sources, strict=False):
        given = names.value(operand, type_)
        steps.append(f"const {kept}{type_} {letter} = {_applied(value, 'ftz', given)};")
    if rounding:
        steps.append(f"const peakgate::Rounded rounded(peakgate::{rounding});")
    expression = f"({result})({expression})"
    for modifier in ("ftz", "relu") if result == "int32_t" else ("ftz", "sat", "relu"):
        expression = _applied(value, modifier, expression)
    if rounding:
        steps.append(f"const volatile {result} kept = {expression};")
        expression = "kept"
    return " ".join((*steps, names.put(to, expression, result)))


_APPLIED = {"ftz": "flushed", "sat": "saturated", "relu": "rectified"}


def _applied(value: Value, modifier: str, expression: str) -> str:
    """The expression with a modifier's function applied, if the instruction has that modifier."""
    return f"peakgate_ptx::{_APPLIED[modifier]}({expression})" if modifier in value.modifiers else expression


def _packed(instruction: Instruction, names: Names) -> str:
    """``mov`` between a register and its parts."""
    to, source = instruction.operands
    parts = to if isinstance(to, Vector) else source
    if instruction.opcode == "mov.b128" and not isinstance(parts, Vector):
        return f"{names.bits(to)} = {names.bits(source)};"
    if instruction.name != "mov" or not isinstance(parts, Vector):
        raise Unknown
    width = int(re.sub(r"\D", "", instruction.modifiers[-1])) // len(parts.members)
    if isinstance(to, Vector):
        packed = f"const auto packed = {names.bits(source)};"
        taken = (
            f"{names.bits(part)} = packed >> {width * at} & {(1 << width) - 1}ull;"
            for at, part in enumerate(parts.members)
            if part != "_"
        )
        return " ".join((packed, *taken))
    whole = "(unsigned __int128)" if instruction.opcode == "mov.b128" else ""
    joined = (
        f"{whole}({names.bits(part)} & {(1 << width) - 1}ull) << {width * at}" for at, part in enumerate(parts.members)
    )
    return f"{names.bits(to)} = {' | '.join(joined)};"


@dataclass(frozen=True, slots=True)
class _Access:
    """The modifiers of an instruction that accesses memory; ``order`` and ``scope`` are the runtime's constants."""

    space: str
    type_: str
    order: str
    scope: str
    vector: int
    others: tuple[str, ...]

    @classmethod
    def of(cls, instruction: Instruction) -> _Access:
        before = [modifier for modifier in instruction.modifiers if modifier not in TYPES]
        kinds = [modifier for modifier in instruction.modifiers if modifier in TYPES]  # last, except of some vectors
        if len(kinds) != 1 or kinds[0] == "pred":
            raise Unknown
        space, order, scope, vector, others = "generic", "", "PEAKGATE_DEVICE", 1, []
        for modifier in before:
            if modifier in _SPACES:
                space = modifier.split("::")[0]
            elif modifier in _ORDERS:
                order = _ORDERS[modifier]
            elif modifier in _SCOPES:
                scope = _SCOPES[modifier]
            elif modifier in ("v2", "v4", "v8"):
                vector = int(modifier[1])
            elif not _HINTS.fullmatch(modifier):
                others.append(modifier)
        return cls(space, TYPES[kinds[0]], order, scope, vector, tuple(others))


def _memory(instruction: Instruction, names: Names) -> str:
    """``ld`` and ``st``; a cache policy after the address is ignored."""
    access, type_ = _Access.of(instruction), _Access.of(instruction).type_
    if instruction.modifiers[0] == "async":
        return ptx_async.sent(access.type_, access.vector, access.others, instruction, names)
    if access.others:
        raise Unknown
    loads = instruction.name != "st"
    place, values = (instruction.operands[1], instruction.operands[0]) if loads else instruction.operands[:2]
    members = members_of(values)
    if len(members) != access.vector:
        raise Unknown
    pointer = f"{type_}* const at = ({type_}*){names.address(place, access.space)};"
    strong = f", {access.order}, {access.scope})" if access.order else ""
    if access.vector > 1:  # one access
        pointer = f"struct alignas({access.vector} * sizeof({type_})) V {{ {type_} v[{access.vector}]; }}; {pointer}"
    if access.vector > 2:  # of 32 bytes: the hooks check no larger alignment than 16
        pointer = f"{pointer} if (sizeof(V) > 16) peakgate_ptx::whole_vector(at, sizeof(V));"
    to = "(V*)at" if access.vector > 1 else "at"
    if "nc" in instruction.modifiers:
        pointer = f"{pointer} peakgate_ptx::read_only(at, {access.vector} * sizeof *at);"
    if loads:
        loaded = f"peakgate_load({to}{strong}" if strong else f"*{to}"
        if access.vector == 1:
            return f"{pointer} {names.put(members[0], loaded, type_)}"
        taken = (names.put(member, f"loaded.v[{i}]", type_) for i, member in enumerate(members) if member != "_")
        return f"{pointer} const V loaded = {loaded}; {' '.join(taken)}"
    if "_" in members:  # of vectors of 32 bytes: not stored
        stored = ((number, member) for number, member in enumerate(members) if member != "_")
        steps = (f"at[{number}] = {names.value(member, type_)};" for number, member in stored)
        return f"{pointer} {' '.join(steps)}"
    value = names.value(members[0], type_)
    if access.vector > 1:
        value = f"V{{{{{', '.join(names.value(member, type_) for member in members)}}}}}"
    return f"{pointer} peakgate_store({to}, {value}{strong};" if strong else f"{pointer} *{to} = {value};"


def _atomic(instruction: Instruction, names: Names) -> str:
    if instruction.modifiers[0] == "async":
        return ptx_async.reduced(instruction, names)
    access = _Access.of(instruction)
    operation = next((modifier for modifier in access.others if modifier in _ATOMICS), "")
    if not operation or not {*access.others} <= {operation, "noftz"}:
        raise Unknown
    to, place, *operands = instruction.operands if instruction.name == "atom" else ("_", *instruction.operands)
    order = access.order or "PEAKGATE_RELAXED"
    at = f"({access.type_}*){names.address(place, access.space)}"
    if access.vector > 1:  # each element by itself
        return _atomic_elements(access, (_ATOMICS[operation], order), (to, at, operands[0]), names)
    values = [names.value(operand, access.type_) for operand in operands[: 2 if operation == "cas" else 1]]
    call = f"{_ATOMICS[operation]}({', '.join((at, *values, order, access.scope))})"
    return names.put(to, call, access.type_)


def _atomic_elements(
    access: _Access, how: tuple[str, str], operands: tuple[Operand, str, Operand], names: Names
) -> str:
    """``atom`` and ``red`` of a vector, whose elements are updated one after the other (PTX ISA, ``red``)."""
    (function, order), (to, at, given) = how, operands
    values, results = members_of(given), members_of(to)
    if len(values) != access.vector:
        raise Unknown
    results = ("_",) * access.vector if to == "_" else results
    steps = [f"{access.type_}* const at = {at};", f"peakgate_ptx::whole_vector(at, {access.vector} * sizeof *at);"]
    for number, (result, value) in enumerate(zip(results, values, strict=True)):
        call = f"{function}(at + {number}, {names.value(value, access.type_)}, {order}, {access.scope})"
        steps.append(names.put(result, call, access.type_))
    return " ".join(steps)


def _discard(instruction: Instruction, names: Names) -> str:
    ptx_async.all_known(instruction.modifiers, "global", "L2")
    place, size = instruction.operands
    return f"peakgate_ptx::discard({names.address(place, 'global')}, {names.value(size, 'uint32_t')});"


def _fence(instruction: Instruction, _names: Names) -> str:
    """``fence`` and ``membar``."""
    modifiers = instruction.modifiers
    if modifiers[0] in ("proxy", "mbarrier_init"):
        return ptx_async.proxy_fence(modifiers)
    ptx_async.all_known(modifiers, *_SCOPES, "sc", "acq_rel", "acquire", "release")
    order = next((_ORDERS[modifier] for modifier in modifiers if modifier in _ORDERS), "PEAKGATE_ACQ_REL")
    scope = next((_SCOPES[modifier] for modifier in modifiers if modifier in _SCOPES), "PEAKGATE_DEVICE")
    return f"peakgate_fence({order}, {scope});"


def _barrier(instruction: Instruction, names: Names) -> str:
    modifiers = [modifier for modifier in instruction.modifiers if modifier not in ("cta", "aligned")]
    operands, aligned = instruction.operands, instruction.name == "bar" or "aligned" in instruction.modifiers
    if modifiers[0] == "cluster":
        ptx_async.all_known(modifiers[2:], "release", "acquire", "relaxed")
        releases = int("relaxed" not in modifiers)
        call = {"arrive": f"arrive({releases})", "wait": "wait(~__builtin_LINE())"}[modifiers[1]]
        return f"peakgate_ptx::cluster_{call};"
    if modifiers == ["warp", "sync"]:
        return f"__syncwarp({names.value(operands[0], 'uint32_t')});"
    if modifiers[0] == "red":
        return _reduced_barrier(modifiers[1:], operands, names)
    if modifiers not in (["sync"], ["arrive"]):
        raise Unknown
    if operands in (("0",), ()) and modifiers == ["sync"]:
        return f"peakgate_syncthreads({'-2 - __COUNTER__' if aligned else 'PEAKGATE_ANY_SITE'});"
    count = names.value(operands[1], "int32_t") if len(operands) > 1 else "0"
    waits = int(modifiers == ["sync"])
    return f"peakgate_ptx::named_barrier({names.value(operands[0], 'int32_t')}, {count}, {waits});"


def _reduced_barrier(modifiers: Sequence[str], operands: Sequence[Operand], names: Names) -> str:
    """``bar.red`` of the whole block: a count of a predicate, or whether it holds in all or any threads."""
    calls = {("popc", "u32"): "_count", ("and", "pred"): "_and", ("or", "pred"): "_or"}
    call = calls.get((modifiers[0], modifiers[1]))
    to, barrier, predicate = operands  # a number of threads is not emulated
    if call is None or barrier != "0":
        raise Unknown
    result = "uint32_t" if modifiers[1] == "u32" else "bool"
    return names.put(to, f"__syncthreads{call}({names.value(predicate, 'bool')})", result)


def _shuffle(instruction: Instruction, names: Names) -> str:
    sync, mode, type_ = instruction.modifiers
    if sync != "sync" or mode not in ("idx", "up", "down", "bfly") or type_ != "b32":
        raise Unknown
    to, value, lane, limits, mask = instruction.operands
    first, second = two_of(to)
    given = (names.value(operand, "uint32_t") for operand in (mask, value, lane, limits))
    call = f"peakgate_ptx::shuffle_{mode}({', '.join(given)}, in_range)"
    return f"bool in_range; {names.put(first, call, 'uint32_t')} {names.put(second, 'in_range', 'bool')}"


def _vote(instruction: Instruction, names: Names) -> str:
    calls = {"ballot": ("__ballot_sync", "b32", "uint32_t")}
    calls |= {what: (f"__{what}_sync", "pred", "bool") for what in ("any", "all")}
    calls["uni"] = ("peakgate_ptx::uniform", "pred", "bool")
    sync, what, written = instruction.modifiers
    if what == "sync":  # as CUB writes it
        sync, what = what, sync
    call, kind, result = calls.get(what, ("", "", ""))
    if sync != "sync" or written != kind:
        raise Unknown
    to, predicate, mask = instruction.operands
    return names.put(to, f"{call}({names.value(mask, 'uint32_t')}, {names.value(predicate, 'bool')})", result)


def _match(instruction: Instruction, names: Names) -> str:
    what, sync, written = instruction.modifiers
    if sync != "sync" or written not in ("b32", "b64"):
        raise Unknown
    to, value, mask = instruction.operands
    given = f"{names.value(mask, 'uint32_t')}, {names.value(value, TYPES[written])}"
    if what == "any":
        return names.put(to, f"__match_any_sync({given})", "uint32_t")
    first, second = two_of(to)
    call = names.put(first, f"__match_all_sync({given}, &all_equal)", "uint32_t")
    return f"int all_equal = 0; {call} {names.put(second, 'all_equal', 'bool')}"


def _redux(instruction: Instruction, names: Names) -> str:
    if instruction.modifiers[-1] == "f32":
        return _redux_of_floats(instruction, names)
    sync, what, written = instruction.modifiers
    if sync != "sync" or what not in ("add", "min", "max", "and", "or", "xor") or written not in ("u32", "s32", "b32"):
        raise Unknown
    to, value, mask = instruction.operands
    call = f"__reduce_{what}_sync({names.value(mask, 'uint32_t')}, {names.value(value, TYPES[written])})"
    return names.put(to, call, TYPES[written])


def _redux_of_floats(instruction: Instruction, names: Names) -> str:
    """``redux.sync`` of ``f32``: as ``min`` and ``max`` of two; only some architectures have it."""
    sync, what, *modifiers, _kind = instruction.modifiers
    nan = ".NaN" * ("NaN" in modifiers)
    combined = value_of(f"{what}{nan}.f32")
    if (
        sync != "sync"
        or what not in ("min", "max")
        or not combined
        or modifiers not in ([], ["abs"], ["NaN"], ["abs", "NaN"])
    ):
        raise Unknown
    to, value, mask = instruction.operands
    given = names.value(value, "float")
    given = f"__builtin_fabsf({given})" if "abs" in modifiers else given
    combine = f"[](float a, float b) {{ return float({combined.expression}); }}"
    call = f"peakgate_ptx::reduced_floats({names.value(mask, 'uint32_t')}, {given}, {combine})"
    return f"{needs_features(instruction)} {names.put(to, call, 'float')}"


def _activemask(instruction: Instruction, names: Names) -> str:
    ptx_async.all_known(instruction.modifiers, "b32")
    return names.put(instruction.operands[0], "__activemask()", "uint32_t")


def _set_predicate(instruction: Instruction, names: Names) -> str:
    """``setp``: a comparison, combined with a predicate if given; the second result uses the negated comparison."""
    compared, *modifiers, kind = instruction.modifiers
    combined = next((LOGIC[word] for word in modifiers if word in LOGIC), "")
    ptx_async.all_known(modifiers, "ftz", *LOGIC)
    ftz = ".ftz" if "ftz" in modifiers else ""
    if value_of(f"set.{compared}{ftz}.u32.{kind}") is None:
        raise Unknown
    to, *operands = instruction.operands
    flushed = "peakgate_ptx::flushed" if ftz else ""
    a, b = (f"{flushed}({names.value(operand, TYPES[kind])})" for operand in operands[:2])
    also = f" {combined} {names.value(operands[2], 'bool')}" if combined else ""
    first, second = two_of(to)
    compare = f"const bool is = peakgate_ptx::compared_{compared}({a}, {b}), both = is{also}, other = !is{also};"
    return f"{compare} {names.put(first, 'both', 'bool')} {names.put(second, 'other', 'bool')}"


def _convert(instruction: Instruction, names: Names) -> str:
    """``cvt``: rounding, saturation, and the two types."""
    *modifiers, to, source = instruction.modifiers
    if {to, source} & {*FORMATS}:
        return narrow_conversion(instruction, names)
    if instruction.modifiers[:2] == ("pack", "sat"):
        return _packed_integers(instruction, names)
    ptx_async.all_known(modifiers, *(f"r{how}{i}" for how in "nzmp" for i in ("", "i")), "rna", "ftz", "sat", "relu")
    flags = frozenset(modifiers)
    rounding = next((word for word in modifiers if word not in ("ftz", "sat", "relu")), "")
    if source == "f32" and to in ("tf32", "f16x2", "bf16x2"):
        return _narrowed(instruction, names, rounding, flags)
    if {"relu", "rna"} & flags or not {to, source} <= {*TYPES} - {"pred"} or "x2" in to + source:
        raise Unknown
    expression, floating = f"{TYPES[to]}(a)", source[0] == "f" or source == "bf16"
    if rounding.endswith("i"):
        expression = f"{TYPES[to]}(peakgate_ptx::whole_{rounding}(a))"
    if to in ("f16", "bf16") and not rounding.endswith("i"):
        if to == "bf16" and source in ("s64", "u64"):  # going through a double would round twice
            raise Unknown
        expression = f"peakgate_ptx::narrowed<{TYPES[to]}>(a, peakgate::{DIRECTED.get(rounding, 'TO_NEAREST')})"
        flags -= {*DIRECTED}
    elif to[0] in "us" and floating:
        if not rounding.endswith("i"):
            raise Unknown
        expression = f"peakgate_ptx::to_integer<{TYPES[to]}>(peakgate_ptx::whole_{rounding}(a))"
        flags -= {"sat"}
    elif to[0] in "us" and "sat" in flags:
        if _holds(to, source):
            raise Unknown
        expression = f"peakgate_ptx::clamped<{TYPES[to]}>(a)"
        flags -= {"sat"}
    return _computed(Value(expression, (TYPES[source],), TYPES[to], flags), instruction.operands, names)


def _narrowed(instruction: Instruction, names: Names, rounding: str, flags: frozenset[str]) -> str:
    """``cvt`` from ``f32`` to two 16-bit numbers, the second operand in the lower half, or to ``tf32``."""
    to, (result, *operands) = instruction.modifiers[-2], instruction.operands
    values = [names.value(operand, "float") for operand in reversed(operands)]
    if to == "tf32":
        if flags not in ({"rna"}, {"rn"}, {"rz"}):
            raise Unknown
        return names.put(result, f"peakgate_ptx::tf32_{rounding}({values[0]})", "uint32_t")
    if rounding not in ("rn", "rz") or not flags <= {rounding, "relu"}:
        raise Unknown
    half, mode = TYPES[to.removesuffix("x2")], DIRECTED.get(rounding, "TO_NEAREST")
    parts = (f"peakgate_ptx::narrowed<{half}>({value}, peakgate::{mode})" for value in values)
    packed = Value(f"{TYPES[to]}({', '.join(parts)})", (), TYPES[to], flags - {*DIRECTED})
    return _computed(packed, (result,), names)


def _packed_integers(instruction: Instruction, names: Names) -> str:
    """``cvt.pack.sat``: two saturated integers, the first above the second; above them bits of a third operand.

    PTX ISA, ``cvt.pack``: ``u16`` and ``s16`` take no third operand, integers of 8, 4 and 2 bits one.
    """
    to, *sources = instruction.modifiers[2:]
    result, *operands = instruction.operands
    width = int(to[1:])
    if to[0] not in "us" or width not in (2, 4, 8, 16) or sources != ["s32", "b32"][: 1 if width == 16 else 2]:
        raise Unknown
    least, most = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if to[0] == "s" else (0, (1 << width) - 1)
    high, low = (f"max({least}, min({most}, {names.value(each, 'int32_t')}))" for each in operands[:2])
    mask = (1 << width) - 1
    packed = f"(uint32_t({high}) & {mask}u) << {width} | (uint32_t({low}) & {mask}u)"
    if width < 16:
        packed += f" | {names.value(operands[2], 'uint32_t')} << {2 * width}"
    return names.put(result, packed, "uint32_t")


def _holds(to: str, source: str) -> bool:
    """Whether an integer type can represent every number of another."""
    bits, bits_of_source = int(to[1:]), int(source[1:])
    return to == source or (bits > bits_of_source and (to[0] == "s" or source[0] == "u"))


def _to_space(instruction: Instruction, names: Names) -> str:
    """``cvta``: only for shared memory do the address in the space and the generic address differ."""
    modifiers = instruction.modifiers
    ptx_async.all_known(modifiers, "to", *_SPACES, "u32", "u64", "param")
    to, source = instruction.operands
    address = names.bits(source)
    if ptx_async.SHARED & {*modifiers}:
        address = f"peakgate_ptx::{'shared_offset' if 'to' in modifiers else 'shared_pointer'}({address})"
    return f"{names.bits(to)} = {address};"


def _elect(instruction: Instruction, names: Names) -> str:
    ptx_async.all_known(instruction.modifiers, "sync")
    to, mask = instruction.operands
    first, second = two_of(to)
    lowest = (
        f"const uint32_t mask = {names.value(mask, 'uint32_t')}, lane = __ffs(mask) - 1; (void)__any_sync(mask, 1);"
    )
    is_it = names.put(second, "lane == peakgate_ptx::rank() % 32u", "bool")
    return f"{lowest} {names.put(first, 'lane', 'uint32_t')} {is_it}"


def _policy(instruction: Instruction, names: Names) -> str:
    return names.put(instruction.operands[0], "0", "uint64_t")


def _registers(instruction: Instruction, names: Names) -> str:
    """``setmaxnreg``: the warp's lanes meet, and its group's warps must do the same; the number has no other effect."""
    how, *modifiers = instruction.modifiers
    if how not in ("inc", "dec") or modifiers != ["sync", "aligned", "u32"]:
        raise Unknown
    return f"peakgate_ptx::set_registers({names.value(instruction.operands[0], 'uint32_t')});"


def _exit(_instruction: Instruction, _names: Names) -> str:
    return "peakgate_exit();"


def _trap(_instruction: Instruction, _names: Names) -> str:
    return "__trap();"


_STATEMENTS: dict[str, Callable[[Instruction, Names], str]] = {
    **ptx_matrix.MATRIX_STATEMENTS,
    **ptx_async.ASYNC_STATEMENTS,
    **INTEGER_STATEMENTS,
    **dict.fromkeys(("ld", "ldu", "st"), _memory),
    **dict.fromkeys(("atom", "red"), _atomic),
    "discard": _discard,
    **dict.fromkeys(("membar", "fence"), _fence),
    **dict.fromkeys(("bar", "barrier"), _barrier),
    "shfl": _shuffle,
    "vote": _vote,
    "match": _match,
    "redux": _redux,
    "activemask": _activemask,
    "setp": _set_predicate,
    "cvt": _convert,
    "cvta": _to_space,
    "elect": _elect,
    "createpolicy": _policy,
    "setmaxnreg": _registers,
    "exit": _exit,
    "trap": _trap,
    "tcgen05": tensor_statement,
}
