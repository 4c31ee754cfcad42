"""What a foreign .cu says about its kernels: the type of each argument, and the launch that its host code writes.

Host expressions become Python expressions in the names of sizes. What a text does not say is left for a person to
decide: a note for each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from peakgate.inspect.skeleton.host_code import (
    MOST_THREADS,
    USUAL_BLOCK,
    Decision,
    HostCode,
    Unknown,
    names_in,
    of_block,
    python_name,
    without_casts,
)
from peakgate.inspect.skeleton.types import ELEMENT_TYPES, PADDING, HasPointers, Undescribed, element, vector
from peakgate_emulator.arguments import MAX_ARGUMENTS
from peakgate_emulator.signatures import Signature, WrittenLaunch, launches, parameter_name, signatures

A_FLOAT = "0.5"
"""The value of a floating-point argument."""
ANY = "n"
"""The size of a kernel that has none, and one block."""
BLOCKS = "blocks"
"""The size of a kernel that takes none: its number of blocks."""

_EXTRA = re.compile(
    r"\b(?:const|volatile|__restrict__|__restrict|restrict|__grid_constant__|register|struct|typename)\b"
)

_FIXED = {
    "0": r"off|\w*offset|start|begin|first|axis|pad\w*|border\w*|halo\w*|idx|index|mode|type|flag\w*|is\w*|has\w*|"
    r"causal|seed|\w*rank|beta|dest|dst|peer|pe|device_?id",
    "1": r"step\w*|dilation\w*|iter\w*|times|repeat\w*|rep|level|pass|incx?|incy|inca|group\w*",
    "3": r"(?:n|num)?_?channels?|\w*radius|k(?:ernel)?_?size|filter_?size",
}
"""Values of integers that are no extents, by their names."""
_COUNTERS = ("i", "j", "t")
"""Names of a step of the host's loop around the launch, not of an extent."""
WIDTH_NAMES = r"(?i)\w*(?:width|cols?|columns?)|w|nx"
_STRIDE = re.compile(r"(?i)(?:\w*(?:stride|pitch)\w*|ld[a-z]{0,2})")


@dataclass(frozen=True, slots=True)
class Operand:
    """An argument of a kernel: an array, a value, a struct of ``members``, or one that is ``undecided``.

    The numbers of an array are of type ``dtype``, ``each`` of them per element, and it is ``writable`` if it is not one
    of const. ``value`` is that of a value as a Python expression, or those of a struct's members, with commas. A member
    of a struct with pointers is an operand too, the ``member`` of that argument, such as ``inner.rows[1]``.
    """

    name: str
    dtype: str
    is_array: bool
    writable: bool = False
    value: str = ""
    each: int = 1
    members: tuple[tuple[str, str], ...] = ()
    undecided: bool = False
    argument: int = 0
    member: str = ""


@dataclass(frozen=True, slots=True)
class Draft:
    """How a kernel could be launched: grid as Python expressions in the names of ``sizes``, block in threads.

    ``any_size``: the launch rounds its grid up, so that no size is excluded. ``only``: the numbers of the one size that
    the launch is for. ``stage`` is the name in a family of several. ``open`` says what is to be decided.
    """

    entry: str
    operands: tuple[Operand, ...]
    sizes: tuple[str, ...]
    grid: tuple[str, ...]
    block: tuple[int, ...]
    shared_bytes: int = 0
    any_size: bool = False
    only: tuple[int, ...] = ()
    stage: str = ""
    open: tuple[Decision, ...] = ()

    @property
    def name(self) -> str:
        return re.split("[<(]", self.entry)[0]


def arguments_of(
    operands: Sequence[Operand],
    made: Callable[[Operand], tuple[Any, str]],
    struct: Callable[[tuple[Any, ...], tuple[tuple[str, str], ...]], Any],
) -> list[Any]:
    """The arguments of operands, and ``struct(values, members)`` for those that are members; an array is a tuple.

    ``made`` gives the argument or value of an operand, and its type as a member.
    """
    tree: dict[str, Any] = {}
    for each in operands:
        *outer, last = re.findall(r"[^.\[\]]+", f"{each.argument}.{each.member}")
        inside = tree
        for name in outer:
            inside = inside.setdefault(name, {})
        inside[last] = made(each)

    def built(node: Any) -> tuple[Any, str]:
        if isinstance(node, tuple):
            return node
        values, types = zip(*map(built, node.values()), strict=True)
        if next(iter(node)).isdigit():
            return values, types[0]
        return struct(values, tuple(zip(node, types, strict=True))), "struct"

    return [built(each)[0] for each in tree.values()]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A kernel that a family cannot describe as it is, and why."""

    name: str
    why: str


def drafts(text: str, included: str = "") -> list[Draft | LeftOut]:
    """A draft for each kernel that a text defines, in its order; ``included`` are the texts of its headers."""
    found, written = signatures(text), launches(text)
    names = [each.name for each in found]
    drawn: list[Draft | LeftOut] = []
    for at, kernel in enumerate(found):
        of_name = [each for each in written if each.kernel == kernel.name]
        # One that a pointer to the kernel may be called by.
        alike = [each for each in written if each.kernel not in names and len(each.arguments) == len(kernel.parameters)]
        draft = _draft(kernel, of_name or alike[:1], text + included)
        if isinstance(draft, Draft) and names.count(kernel.name) > 1:
            types = (re.sub(rf"\s*\b{parameter_name(each)}\b[^\w]*$", "", each) for each in kernel.parameters)
            before = names[:at].count(kernel.name)
            stage = kernel.name + (f"_{before + 1}" if before else "")
            draft = replace(draft, entry=f"{draft.entry}({', '.join(types)})", stage=stage)
        drawn.append(draft)
    return drawn


def _draft(signature: Signature, written: Sequence[WrittenLaunch], text: str) -> Draft | LeftOut:
    fitting = [each for each in written if len(each.arguments) == len(signature.parameters)] or list(written)
    # The branch of a condition is for special sizes.
    launch = next((each for each in fitting if not each.if_so), fitting[0] if fitting else None)
    host = HostCode(text, launch)
    try:
        template = _template(signature, launch, host)
        operands = [
            each
            for number, declared in enumerate(signature.parameters, 1)
            for each in _operands(declared, number, signature, template, host)
        ]
    except Unknown as unknown:
        return LeftOut(signature.name, str(unknown))
    if not any(each.writable or each.undecided for each in operands):
        why = "it writes no array, so that there is no result to check; have it write one"
        return LeftOut(signature.name, why)
    if launch and len({(each.template, each.shape) for each in fitting}) > 1:
        host.note("grid", f"the launch: that of line {launch.line} is taken, one of {len(fitting)}")
    of_template = (int(given) for name, given in template.items() if of_block(name) and given.isdigit())
    host.usual_block = next((number for number in of_template if 0 < number <= MOST_THREADS), USUAL_BLOCK)
    operands = _values(operands, launch, host)
    block = host.block(signature)
    if host.sizes:
        grid = host.grid(signature, block)
    elif host.is_one_block:
        host.sizes.append(ANY)
        host.known[ANY], grid = "1", ("1",)
    else:  # the grid alone says how much there is to do
        host.sizes.append(BLOCKS)
        grid = (BLOCKS,)
    # Rows, each of a block, are the outer dimension.
    sizes = sorted(dict.fromkeys(host.sizes), key=lambda size: size not in grid)
    given = [host.known.get(size, "") for size in sizes]
    # A constant grid with a thread for each element of a constant size is for no other one.
    is_fixed = all(given) and not any(names_in(each) for each in grid)
    is_fixed = is_fixed and prod(map(int, given)) <= prod(map(int, grid)) * prod(block)
    entry = signature.name + (f"<{', '.join(template.values())}>" if template else "")
    return Draft(
        entry,
        tuple(_with_stride(each, sizes) for each in operands),
        tuple(sizes),
        grid,
        block,
        host.shared_bytes(signature),
        any_size=host.rounds_up,
        only=tuple(map(int, given)) if is_fixed else (),
        stage=signature.name,
        open=tuple(dict.fromkeys(host.open)),
    )


def _with_stride(operand: Operand, sizes: Sequence[str]) -> Operand:
    """The operand with its value if it is a stride: the width if a size is one, else long enough for any row."""
    if operand.value != _OF_ALL:
        return operand
    width = next((size for size in sizes if re.fullmatch(WIDTH_NAMES, size)), None) if len(sizes) == 2 else None
    return replace(operand, value=width or " * ".join(sizes))


_FLOATS = tuple(name for name in ELEMENT_TYPES if name.startswith(("float", "bfloat", "complex")))
_DISPATCHED = ("scalar_t", "real", "T")
"""Names of types that only the framework's dispatch defines."""
_OF_INDICES = re.compile(r"(?i:i(?:nt|dx?|nd(?:ex|ices|ptr)?)|offset|size|key)(?=[_A-Z0-9]|type|$)")
"""Names of types of whole numbers, such as ``index_t``, ``IdType``, ``indptr_t``."""
_OF_ALL = "of all sizes"
"""Stands for the value of a stride, which is at least as long as any row."""


def _template(signature: Signature, launch: WrittenLaunch | None, host: HostCode) -> dict[str, str]:
    """The argument of each of a template's parameters, as the launch gives it or else one that is usual."""
    found: dict[str, str] = {}
    for at, declared in enumerate(signature.template):
        name, default = parameter_name(declared), declared.partition("=")[2].strip()
        given = launch.template[at] if launch and at < len(launch.template) else default
        if re.match(r"(?:typename|class)\b", declared):
            known = host.types.alias(given) or (given if given not in _DISPATCHED else "")
            usual = "int" if _OF_INDICES.match(name) else "float"
            found[name] = known if element(known) else usual
            if not element(known):
                host.note("entry", f"the type {name} of the template: {usual} is one of those")
            continue
        if "(" in declared:
            raise Unknown(f"its template takes the function `{declared}`, which a person has to name in entry")
        number = host.number(given) if given else None
        if number is None:
            is_bool = declared.startswith("bool")
            number = ("false" if is_bool else str(USUAL_BLOCK if of_block(name) else 4)) if given != "true" else given
            if given not in ("true", "false"):
                host.note("entry", f"{name} of the template: {number} is a guess")
        found[name] = number
    return found


def _operands(
    declared: str, number: int, signature: Signature, template: dict[str, str], host: HostCode, *, member: str = ""
) -> list[Operand]:
    """An argument by its declared type, or the members of a struct with pointers.

    Raises Unknown for one that no family describes.
    """
    name = parameter_name(declared)
    kind = declared.partition("=")[0]
    is_array = re.search(r"\*|\[\s*\w*\s*\]", kind) is not None
    kind = re.sub(r"\[[^\]]*\]", "*", kind)
    kind = re.sub(rf"\b{name}\b(?=[^\w]*$)", "", kind) if name else kind
    name = python_name(name or f"argument{number}")
    which = f"argument {number} is `{declared}`"
    if kind.count("*") > 1 or re.search(r"\(|\bcuda(?:Texture|Surface)Object_t\b", kind):
        raise Unknown(f"{which}, which {_NEEDS_WRAPPER}")
    of_const = re.search(r"\bconst\b", kind.partition("*")[0]) is not None
    bare = " ".join(_EXTRA.sub(" ", re.sub(r"[&*]", " ", kind)).split())
    bare = re.sub(r"\w+", lambda word: template.get(word[0], word[0]), bare)
    if is_array and bare == "void":
        bare = _cast(name, signature.body)
        if bare == "void":
            host.note(name, f"the type of {name}: {which}, bytes are a guess")
            bare = "uint8_t"
    dtype, of_vector = host.types.element(bare), vector(host.types.alias(bare) or bare)
    made = Operand(name, dtype or "", is_array, is_array and not of_const, argument=number, member=member)
    if is_array and of_vector:
        return [replace(made, dtype=of_vector[0], each=of_vector[1])]
    if dtype:
        return [replace(made, value="0") if PADDING.fullmatch(name) else made]
    if of_vector:
        return [replace(made, members=tuple((axis, of_vector[0]) for axis in "xyzw"[: of_vector[1]]))]
    if not is_array and host.types.is_enumeration(bare):
        host.note(name, f"the value of {name}: 0 is a guess")
        return [replace(made, dtype="int32", value="0")]
    try:
        return [_of_struct(made, bare, which, host)]
    except HasPointers:
        if is_array:
            raise Unknown(f"{which}, to structs with pointers, which {_NEEDS_WRAPPER}") from None
    try:
        return _members(made, bare, signature, host)
    except (HasPointers, Undescribed):
        raise Unknown(f"{which}, a struct with pointers, which {_NEEDS_WRAPPER}") from None


def _members(of: Operand, kind: str, signature: Signature, host: HostCode) -> list[Operand]:
    """The members of a struct with pointers and of its own structs, named with the argument where there are others."""
    found: list[Operand] = []
    if of.member.count(".") > _DEEPEST:
        raise Undescribed
    before = f"{of.name.rstrip('_')}_" if of.member or len(signature.parameters) > 1 else ""
    for declared, name, count in host.types.declared(host.types.alias(kind) or kind):
        for suffix in [""] if count is None else [f"[{at}]" for at in range(count)]:
            own = before + name + suffix.strip("[]")
            member = f"{of.member}.{name}{suffix}".removeprefix(".")
            found += _operands(f"{declared} {own}", of.argument, signature, {}, host, member=member)
            if len(found) > MAX_ARGUMENTS or found[-1].undecided:
                raise Undescribed
    return found


def _of_struct(operand: Operand, kind: str, which: str, host: HostCode) -> Operand:
    """An argument that is a struct or points to some, with its members if the text says them.

    Raises HasPointers for a struct with pointers.
    """
    name = operand.name
    try:
        layout = host.types.layout(host.types.alias(kind) or kind)
    except Undescribed:
        if not operand.is_array:
            host.note(name, f"{which}: describe it by Value or Struct, the file does not say its members")
            return replace(operand, undecided=True)
        host.note(name, f"the elements of {name}: {which}, whose members the file does not say; bytes are a guess")
        return replace(operand, dtype="uint8")
    if not operand.is_array:
        return replace(operand, members=layout.members)
    numbers, each = layout.words
    if len({dtype for _, dtype in layout.members}) > 1:
        shown = str(layout) if len(layout.members) <= _MOST_SHOWN else f"{len(layout.members)} members"
        host.note(name, f"the numbers of {name}: {each} words per `{kind}` ({shown})")
    return replace(operand, dtype=numbers, each=each)


_NEEDS_WRAPPER = "needs a wrapper kernel that takes arrays and values (peakgate help existing-code)"
_MOST_SHOWN, _DEEPEST = 8, 4
"""Members of a struct that are named, and structs in structs with pointers."""


def _cast(name: str, body: str) -> str:
    """The type that a body casts a ``void*`` to; void if it does not."""
    pointer = r"\s*(?:const\s+)?([\w:]+(?:\s+\w+)*?)(?:\s+const)?\s*\*\s*(?:const|__restrict__)?\s*"
    found = re.search(rf"_cast\s*<{pointer}>\s*\(\s*(?:\w+\.)*{name}\b|\({pointer}\)\s*\(?\s*(?:\w+\.)*{name}\b", body)
    return " ".join((found[1] or found[2]).split()) if found else "void"


def _written(operands: Sequence[Operand], launch: WrittenLaunch | None, host: HostCode) -> tuple[list[str], list[str]]:
    """What the host's code gives for each operand, and its name there; empty texts if the launch does not fit."""
    texts = [*map(without_casts, launch.arguments)] if launch else []
    if len(texts) != operands[-1].argument:
        return [""] * len(operands), [""] * len(operands)
    given = []
    for each in operands:
        paths = [other.member for other in operands if other.argument == each.argument]
        given.append(host.member(texts[each.argument - 1], each.member, paths))
    return given, [f"{texts[each.argument - 1]}.{each.member}" if each.member else "" for each in operands]


def _values(operands: Sequence[Operand], launch: WrittenLaunch | None, host: HostCode) -> list[Operand]:
    """The operands with the values of those that are no arrays; integers that are extents become sizes."""
    given, places = _written(operands, launch, host)
    # A null pointer is None as a member of a Struct, else an integer of its size.
    operands = [
        replace(
            each, is_array=False, dtype="pointer" if each.member else "uint64", value="None" if each.member else "0"
        )
        if each.is_array and text in _NULL
        else each
        for each, text in zip(operands, given, strict=True)
    ]
    found = []
    for each, written in zip(operands, given, strict=True):
        if each.is_array or each.value or each.undecided:
            found.append(each)
        elif each.members:
            found.append(_struct(each, host))
        elif each.dtype in _FLOATS:
            found.append(replace(each, value=host.decimal(written) or A_FLOAT))
        else:
            found.append(_whole_number(each, written, host))
    for each, place in zip(found, places, strict=True):
        if place and each.members:
            parts = zip(each.members, each.value.split(", "), strict=True)
            host.bound.update({f"{place}.{name}": value for (name, _), value in parts})
        elif place and each.value not in ("", _OF_ALL):
            host.bound[place] = each.value
    found = [
        _given_stride(each, written, host) if each.value == _OF_ALL else each
        for each, written in zip(found, given, strict=True)
    ]
    # An extent that the launch computes of the others is none of its own.
    for at, (each, written) in enumerate(zip(found, given, strict=True)):
        if each.value == each.name and each.name in host.sizes and not re.fullmatch(r"\s*\w+\s*", written):
            others = [size for size in host.sizes if size != each.name]
            derived = host.of_bound(written)
            if derived is not None and (names := names_in(derived)) and names <= {*others}:
                host.sizes.remove(each.name)
                found[at] = replace(each, value=derived)
            elif each.member and written != places[at] and host.number(written) is None:
                host.note(each.name, f"the value of {each.name}: a size of its own is a guess")
    return found


_NULL = ("nullptr", "NULL", "0")


def _given_stride(operand: Operand, written: str, host: HostCode) -> Operand:
    """A stride with the value that the text gives, unless that is a number which stands for a size too."""
    if written in host.bound:
        return replace(operand, value=host.bound[written])
    number = host.number(written)
    if number != "1":
        host.note(operand.name, f"the value of {operand.name}: a stride is a guess")
    return operand if number is None or number in host.known.values() else replace(operand, value=number)


def _whole_number(operand: Operand, written: str, host: HostCode) -> Operand:
    """An integer as an extent, which becomes a size, or as a number by its name."""
    name = operand.name
    of_text = re.sub(r".*\.|\[\d+\]", "", operand.member) or name
    fixed = next((number for number, names in _FIXED.items() if re.fullmatch(f"(?i){names}", of_text)), None)
    literal = {"true": "1", "false": "0"}.get(written, written if written.isdigit() else None)
    is_name, is_element = re.fullmatch(r"\w*[A-Za-z_]\w*", written), operand.member.endswith("]")
    is_small = operand.dtype in ("bool", "int8", "uint8") or (is_element and not is_name)
    if is_name and written in host.bound:
        value = host.bound[written]
    elif _STRIDE.fullmatch(of_text):
        return replace(operand, value=_OF_ALL)
    elif fixed is not None or is_small or of_text in _COUNTERS:
        value = literal or fixed or ("1" if is_element else "0")
        if literal is None:
            host.note(name, f"the value of {name}: {value} is a guess")
    else:
        value = name
        host.sizes.append(name)
        host.known[name] = host.number(written) or ""
        if host.is_computed(written):
            host.note(name, f"the value of {name}: the launch computes it from others; a size of its own is a guess")
    if re.fullmatch(r"[A-Za-z_]\w*", written):
        host.bound.setdefault(written, value)
    return replace(operand, value=value)


def _struct(operand: Operand, host: HostCode) -> Operand:
    """A struct with a value for each of its members; those of a vector of integers are extents."""
    values = []
    for member, dtype in operand.members:
        is_extent = dtype not in _FLOATS and dtype != "bool"
        if PADDING.fullmatch(member):
            values.append("0")
        elif is_extent and len(operand.members) <= _MOST_EXTENTS:
            values.append(f"{operand.name}_{member}")
            host.sizes.append(values[-1])
        else:
            values.append("1" if is_extent else "0" if dtype == "bool" else A_FLOAT)
    host.note(operand.name, f"the members of {operand.name}: their values are guesses")
    return replace(operand, value=", ".join(values))


_MOST_EXTENTS = 3
"""Integers of a struct that may each be an extent."""
