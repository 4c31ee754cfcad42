"""PTX instructions as C++.

Every operand is 64 bits wide and is read as the type that an instruction names (``cuda_ptx.h`` has the helpers). What
is in no table ends a launch that comes to it, and is named: code that does not run costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_NAME = re.compile(r"%?[A-Za-z_$][\w$.]*")

_TYPES = {
    **{f"{sign}{bits}": f"{'u' if sign != 's' else ''}int{bits}_t" for sign in "sub" for bits in (8, 16, 32, 64)},
    "f32": "float",
    "f64": "double",
    "f16": "__half",
    "bf16": "__nv_bfloat16",
    "pred": "bool",
    "f16x2": "__half2",
    "bf16x2": "__nv_bfloat162",
}
_SPECIAL = {
    "laneid": "peakgate_ptx::rank() % 32u",
    "warpid": "peakgate_ptx::rank() / 32u",
    "nwarpid": "32u",
    "smid": "0u",
    "nsmid": "1u",
    "clock": "peakgate_clock()",
    "clock64": "peakgate_clock()",
    "globaltimer": "peakgate_clock()",
    "globaltimer_lo": "peakgate_clock()",
    "lanemask_lt": "((1u << peakgate_ptx::rank() % 32u) - 1u)",
    "lanemask_le": "((2u << peakgate_ptx::rank() % 32u) - 1u)",
    "lanemask_eq": "(1u << peakgate_ptx::rank() % 32u)",
    "lanemask_ge": "(~0u << peakgate_ptx::rank() % 32u)",
    "lanemask_gt": "~((2u << peakgate_ptx::rank() % 32u) - 1u)",
    **{
        f"{name}.{axis}": f"{variable}.{axis}"
        for name, variable in (("tid", "threadIdx"), ("ctaid", "blockIdx"), ("ntid", "blockDim"), ("nctaid", "gridDim"))
        for axis in "xyz"
    },
}
_COMPARED = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "lo": "<",
    "ls": "<=",
    "hi": ">",
    "hs": ">=",
}

_OF_VALUES = {
    **{name: f"a {sign} b" for name, sign in (("add", "+"), ("sub", "-"), ("div", "/"), ("rem", "%"))},
    **{name: f"a {sign} b" for name, sign in (("and", "&"), ("or", "|"), ("xor", "^"))},
    "mul": "a * b",
    "mul.lo": "a * b",
    "mul24.lo": "a * b",
    "mad": "a * b + c",
    "mad.lo": "a * b + c",
    "fma": "peakgate_ptx::fused(a, b, c)",
    "min": "peakgate_ptx::least(a, b)",
    "max": "peakgate_ptx::most(a, b)",
    "mul.hi": "peakgate_ptx::high(a, b)",
    "not": "~a",
    "neg": "-a",
    "abs": "a < 0 ? -a : a",
    "cnot": "!a",
    "shl": "b < 8 * sizeof(a) ? a << b : 0",
    "shr": "peakgate_ptx::right(a, b)",
    "ex2": "exp2f(a)",
    "lg2": "log2f(a)",
    "rcp": "1 / a",
    "sqrt": "sqrt(a)",
    "rsqrt": "1 / sqrt(a)",
    "sin": "sinf(a)",
    "cos": "cosf(a)",
    "tanh": "tanhf(a)",
    "copysign": "copysignf(b, a)",
    "popc": "__popcll(a)",
    "brev": "__brev(a)",
    "clz": "__clz(a)",
    "bfe": "peakgate_ptx::field(a, b, c)",
    "bfi": "peakgate_ptx::inserted(a, b, c, d)",
    "prmt": "__byte_perm(a, b, c)",
    "selp": "d_ ? a : b",
    "shf.l.wrap": "__funnelshift_l(a, b, c)",
    "shf.r.wrap": "__funnelshift_r(a, b, c)",
    "dp4a": "__dp4a(a, b, c)",
    "lop3": "peakgate_ptx::lop3(a, b, c, d)",
    "mov": "a",
    "cvta": "a",
}
"""Instructions that compute a value of their type from values of it (a, b, c, d)."""

_ATOMICS = {
    "add": "atomicAdd",
    "min": "atomicMin",
    "max": "atomicMax",
    "and": "atomicAnd",
    "or": "atomicOr",
    "xor": "atomicXor",
    "exch": "atomicExch",
    "inc": "atomicInc",
    "dec": "atomicDec",
    "cas": "atomicCAS",
}
_SHUFFLES = {"idx": "__shfl_sync", "up": "__shfl_up_sync", "down": "__shfl_down_sync", "bfly": "__shfl_xor_sync"}
_NOTHING = ("prefetch", "prefetchu", "discard", "applypriority", "nanosleep", "pragma", "griddepcontrol", "setmaxnreg")
_MODIFIERS = re.compile(
    r"\.(?:rn|rz|rm|rp|ftz|sat|approx|full|volatile|relaxed|acquire|release|acq_rel|weak|nc|ca|cg|cs|lu|cv|wb|wt|gpu|cta|"
    r"sys|cluster|aligned|L1::\w+|L2::\w+|noftz|rni|rzi|rmi|rpi|uni|NaN|level::\w+)(?=\.|$)"
)


class Unknown(Exception):
    """An instruction that no table has."""


def split(rest: str) -> list[str]:
    """The operands of an instruction."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(rest):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(rest[start:at].strip())
            start = at + 1
    last = rest[start:].strip()
    return [*parts, last] if last else parts


def register(name: str) -> str:
    """The variable that stands for a register."""
    return "peakgate_r_" + re.sub(r"\W", "_", name)


def bits_of(word: str, given: Sequence[str]) -> str:
    """An operand as 64 bits."""
    word = word.strip()
    if match := re.fullmatch(r"%(\d+)", word):
        return given[int(match[1])]
    if word.startswith("%") and word[1:] in _SPECIAL:
        return f"uint64_t({_SPECIAL[word[1:]]})"
    if match := re.fullmatch(r"0[fF]([0-9a-fA-F]{8})", word):
        return f"0x{match[1]}ull"
    if match := re.fullmatch(r"0[dD]([0-9a-fA-F]{16})", word):
        return f"0x{match[1]}ull"
    if re.fullmatch(r"-?(?:0[xX][0-9a-fA-F]+|\d+)U?", word):
        return f"uint64_t({word.rstrip('U')}ll)"
    if _NAME.fullmatch(word):
        return register(word)
    raise Unknown(word)


def _address(word: str, space: str, given: Sequence[str]) -> str:
    inside = word.strip().removeprefix("[").removesuffix("]")
    base, _, offset = inside.partition("+")
    helper = "shared" if space == "shared" else "generic"
    return f"peakgate_ptx::{helper}({bits_of(base, given)} + {offset.strip() or '0'})"


def instruction(opcode: str, operands: Sequence[str], given: Sequence[str]) -> str:  # noqa: PLR0911, PLR0912
    """One instruction as C++ statements."""
    parts = _MODIFIERS.sub("", opcode).split(".")
    name, kind = parts[0], _TYPES.get(parts[-1], "")
    space = next((part for part in parts if part.startswith(("shared", "global", "local", "const"))), "").split("::")[0]

    def value(place: int, type_: str = kind) -> str:
        return f"peakgate_ptx::get<{type_}>({bits_of(operands[place], given)})"

    def put(expression: str, place: int = 0, type_: str = kind) -> str:
        return f"{bits_of(operands[place], given)} = peakgate_ptx::bits(({type_})({expression}));"

    if name in _NOTHING:
        return ";"
    if name == "trap":
        return "__trap();"
    if name in ("membar", "fence"):
        order, _, scope = (order_of(opcode) or f"0, {scope_of(opcode)}").partition(", ")
        return f"peakgate_fence({order if order != '0' else 'PEAKGATE_ACQ_REL'}, {scope});"
    if name in ("bar", "barrier") and ("sync" in parts or "arrive" in parts):
        if operands in (["0"], []):
            return "__syncthreads();"
        count = value(1, "int32_t") if len(operands) > 1 else "0"
        return f"peakgate_ptx::named_barrier({value(0, 'int32_t')}, {count}, {int('sync' in parts)});"
    if name == "bar" and "warp" in parts:
        return f"__syncwarp({value(0, 'uint32_t')});"
    if name == "cp" and parts[1] == "async":
        return _async_copy(parts, operands, given)
    if name == "mbarrier":
        return _mbarrier(parts, operands, given)
    if name in ("ld", "ldu", "st"):
        return _memory(name, operands, given, space, kind, order_of(opcode))
    if name in ("atom", "red"):
        return _atomic(parts, operands, given, space, kind, order_of(opcode) or f"0, {scope_of(opcode)}")
    if name == "shfl" and kind:
        width = f"(32 - ({bits_of(operands[3], given)} >> 8 & 31))"
        to = operands[0].split("|")[0]
        call = f"{_SHUFFLES[parts[2]]}({value(4, 'uint32_t')}, {value(1)}, {value(2, 'uint32_t')}, {width})"
        return f"{bits_of(to, given)} = peakgate_ptx::bits({call});"
    if name == "vote":
        call = {"ballot": "__ballot_sync", "any": "__any_sync", "all": "__all_sync"}[parts[2]]
        return put(f"{call}({value(2, 'uint32_t')}, {value(1, 'bool')})", type_="uint32_t")
    if name == "activemask":
        return put("__activemask()", type_="uint32_t")
    if name == "redux":
        return put(f"__reduce_{parts[2]}_sync({value(2, 'uint32_t')}, {value(1)})")
    if name == "match":
        return put(f"__match_any_sync({value(2, 'uint32_t')}, {value(1)})", type_="uint32_t")
    if name == "setp" and kind:
        return put(f"{value(1)} {_COMPARED[parts[1]]} {value(2)}", type_="bool")
    if name == "cvt" and kind:
        return put(value(1), type_=_TYPES[parts[-2]])
    if name == "cvta":
        given_address = bits_of(operands[1], given)
        if space == "shared":
            given_address = f"peakgate_ptx::{'shared_offset' if 'to' in parts else 'shared_pointer'}({given_address})"
        return f"{bits_of(operands[0], given)} = {given_address};"
    if name in ("mul", "mad") and parts[1] == "wide":
        wide = kind.replace("32", "64").replace("16", "32")
        product = f"{wide}({value(1)}) * {wide}({value(2)})"
        return put(product + (f" + {value(3, wide)}" if name == "mad" else ""), type_=wide)
    if name == "mov" and operands[0].startswith("{"):
        halves = split(operands[0][1:-1])
        bits = 64 // len(halves) if parts[-1] == "b64" else 32 // len(halves)
        source = bits_of(operands[1], given)
        return " ".join(
            f"{bits_of(to, given)} = {source} >> {bits * at} & {(1 << bits) - 1}ull;"
            for at, to in enumerate(halves)
            if to != "_"
        )
    if name == "mov" and operands[1].startswith("{"):
        halves = split(operands[1][1:-1])
        bits = 64 // len(halves) if parts[-1] == "b64" else 32 // len(halves)
        packed = " | ".join(
            f"({bits_of(part, given)} & {(1 << bits) - 1}ull) << {bits * at}" for at, part in enumerate(halves)
        )
        return f"{bits_of(operands[0], given)} = {packed};"
    return _computed(parts, operands, given, kind)


def _computed(parts: Sequence[str], operands: Sequence[str], given: Sequence[str], kind: str) -> str:
    table = next((key for key in (".".join(parts[:-1]), parts[0]) if key in _OF_VALUES), None)
    if table is None or not kind:
        raise Unknown
    letters = "abcd"[: len(operands) - 1]
    types = [("uint32_t" if parts[0] in ("shl", "shr") and letter == "b" else kind) for letter in letters]
    if parts[0] in ("bfe", "bfi", "selp"):
        types = [kind if at == 0 or (parts[0] != "bfe" and at == 1) else "uint32_t" for at in range(len(letters))]
    bound = " ".join(
        f"const {type_} {letter} = peakgate_ptx::get<{type_}>({bits_of(operand, given)});"
        for type_, letter, operand in zip(types, letters, operands[1:], strict=True)
    )
    expression = _OF_VALUES[table].replace("d_", "c")
    return f"{bound} {bits_of(operands[0], given)} = peakgate_ptx::bits(({kind})({expression}));"


def scope_of(opcode: str) -> str:
    """The scope that an instruction names, the device's where it names none."""
    return "PEAKGATE_BLOCK" if {"cta", "cluster"} & set(opcode.split(".")) else "PEAKGATE_DEVICE"


def order_of(opcode: str) -> str:
    """Order and scope of a strong access, as the runtime takes them; empty for a weak one."""
    named = {
        "acquire": "PEAKGATE_ACQUIRE",
        "release": "PEAKGATE_RELEASE",
        "acq_rel": "PEAKGATE_ACQ_REL",
        "sc": "PEAKGATE_ACQ_REL",
        "relaxed": "PEAKGATE_RELAXED",
        "volatile": "PEAKGATE_RELAXED",
        "mmio": "PEAKGATE_RELAXED",
    }
    order = next((named[part] for part in opcode.split(".") if part in named), None)
    return f"{order}, {scope_of(opcode)}" if order else ""


def _memory(  # noqa: PLR0911, PLR0917
    name: str, operands: Sequence[str], given: Sequence[str], space: str, kind: str, strong: str
) -> str:
    if not kind:
        raise Unknown
    values, place = (operands[0], operands[1]) if name != "st" else (operands[1], operands[0])
    members = split(values[1:-1]) if values.startswith("{") else [values]
    pointer = f"{kind}* const at = ({kind}*){_address(place, space, given)};"
    if len(members) > 1:  # a vector: one access
        packed = f"struct alignas({len(members)} * sizeof({kind})) V {{ {kind} v[{len(members)}]; }};"
        if name == "st":
            filled = ", ".join(f"peakgate_ptx::get<{kind}>({bits_of(member, given)})" for member in members)
            if strong:
                return f"{packed} {pointer} peakgate_store((V*)at, V{{{{{filled}}}}}, {strong});"
            return f"{packed} {pointer} *(V*)at = V{{{{{filled}}}}};"
        taken = " ".join(
            f"{bits_of(m, given)} = peakgate_ptx::bits(loaded.v[{i}]);" for i, m in enumerate(members) if m != "_"
        )
        loaded = f"peakgate_load((V*)at, {strong})" if strong else "*(V*)at"
        return f"{packed} {pointer} const V loaded = {loaded}; {taken}"
    if strong and name == "st":
        return f"{pointer} peakgate_store(at, peakgate_ptx::get<{kind}>({bits_of(members[0], given)}), {strong});"
    if strong:
        return f"{pointer} {bits_of(members[0], given)} = peakgate_ptx::bits(peakgate_load(at, {strong}));"
    if name == "st":
        return f"{pointer} *at = peakgate_ptx::get<{kind}>({bits_of(members[0], given)});"
    return f"{pointer} {bits_of(members[0], given)} = peakgate_ptx::bits(*at);"


def _atomic(  # noqa: PLR0917
    parts: Sequence[str], operands: Sequence[str], given: Sequence[str], space: str, kind: str, strong: str
) -> str:
    operation = next(part for part in parts if part in _ATOMICS)
    taken = list(operands) if parts[0] == "atom" else ["", *operands]
    values = ", ".join(f"peakgate_ptx::get<{kind}>({bits_of(operand, given)})" for operand in taken[2:])
    call = f"peakgate_{_ATOMICS[operation]}(({kind}*){_address(taken[1], space, given)}, {values}, {strong})"
    return f"{bits_of(taken[0], given)} = peakgate_ptx::bits({call});" if parts[0] == "atom" else f"{call};"


def _async_copy(parts: Sequence[str], operands: Sequence[str], given: Sequence[str]) -> str:
    if "commit_group" in parts:
        return "peakgate_async_commit();"
    if "wait_all" in parts:
        return "peakgate_async_commit(); peakgate_async_wait(0);"
    if "wait_group" in parts:
        return f"peakgate_async_wait((int){bits_of(operands[0], given)});"
    if "bulk" in parts or "mbarrier" in parts:
        raise Unknown
    size = bits_of(operands[2], given)
    source_size = bits_of(operands[3], given) if len(operands) > 3 and re.match(r"%?\w+$", operands[3]) else size
    to, source = _address(operands[0], "shared", given), _address(operands[1], "global", given)
    return f"peakgate_async_copy({to}, {source}, (int){size}, (int)({source_size}));"


def _mbarrier(parts: Sequence[str], operands: Sequence[str], given: Sequence[str]) -> str:
    def at(place: int) -> str:
        return _address(operands[place], "shared", given)

    if parts[1] == "init":
        return f"peakgate_ptx::mbarrier_init({at(0)}, (int){bits_of(operands[1], given)});"
    if parts[1] == "inval":
        return ";"
    if parts[1] in ("arrive", "arrive_drop") and "expect_tx" not in parts:
        to = "" if operands[0] == "_" else f"{bits_of(operands[0], given)} = "
        count = f"(int){bits_of(operands[2], given)}" if len(operands) > 2 else "1"
        return f"{to}peakgate_ptx::mbarrier_arrive({at(1)}, {count}, {int(parts[1] == 'arrive_drop')});"
    if parts[1] in ("try_wait", "test_wait"):
        call = "mbarrier_parity" if "parity" in parts else "mbarrier_phase"
        return f"{bits_of(operands[0], given)} = peakgate_ptx::{call}({at(1)}, {bits_of(operands[2], given)});"
    raise Unknown
