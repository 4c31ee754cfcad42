"""What a foreign .cu says about its kernels: the type of each argument, and the launch that its host code writes.

Host expressions become Python expressions in the names of sizes. What a text does not say is left for a person to
decide: a note for each.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from peakgate.inspect.skeleton.host_code import (
    ELEMENT_TYPES,
    MOST_THREADS,
    USUAL_BLOCK,
    HostCode,
    Unknown,
    element,
    names_in,
    of_block,
    python_name,
)
from peakgate_emulator.sources import Signature, WrittenLaunch, launches, parameter_name, signatures

A_FLOAT = "0.5"
"""The value of a floating-point argument."""
BLOCKS = "blocks"
"""The size of a kernel that takes none: its number of blocks."""

_VECTOR = re.compile(
    r"(float|double|half|__half|char|uchar|short|ushort|int|uint|long|ulong|longlong|__nv_bfloat16)([1234])"
)
_EXTRA = re.compile(
    r"\b(?:const|volatile|__restrict__|__restrict|restrict|__grid_constant__|register|struct|typename)\b"
)

_FIXED = {
    "0": r"off|offset|start|begin|first|axis|pad\w*|border\w*|halo\w*|idx|index|mode|type|flag\w*|is\w*|has\w*|causal|"
    r"seed|rank|beta",
    "1": r"step\w*|dilation\w*|iter\w*|times|repeat\w*|rep|level|pass|incx?|incy|inca|group\w*",
}
"""Values of integers that are no extents, by their names."""
_COUNTERS = ("i", "j", "t")
"""Names of a step of the host's loop around the launch, not of an extent."""
_STRIDE = re.compile(r"(?i)(?:\w*(?:stride|pitch)\w*|ld[a-z]{0,2})")


@dataclass(frozen=True, slots=True)
class Operand:
    """An argument of a kernel: ``is_array``, or a value that the Python expression ``value`` gives.

    An array is ``writable`` if it is not one of const. Its numbers are of type ``dtype``: an element may have several.
    """

    name: str
    dtype: str
    is_array: bool
    writable: bool = False
    value: str = ""


@dataclass(frozen=True, slots=True)
class Draft:
    """How a kernel could be launched: grid as Python expressions in the names of ``sizes``, block in threads.

    ``any_size``: the launch rounds its grid up, so that no size is excluded. ``open`` says what is to be decided.
    """

    entry: str
    operands: tuple[Operand, ...]
    sizes: tuple[str, ...]
    grid: tuple[str, ...]
    block: tuple[int, ...]
    shared_bytes: int = 0
    any_size: bool = False
    open: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return re.split("[<(]", self.entry)[0]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A kernel that a family cannot describe as it is, and why."""

    name: str
    why: str


def drafts(text: str, included: str = "") -> list[Draft | LeftOut]:
    """A draft for each kernel that a text defines, in its order; ``included`` are the texts of its headers."""
    found, written = signatures(text), {each.kernel: each for each in reversed(launches(text))}  # the first of each
    of_pointers = [each for name, each in written.items() if name not in {kernel.name for kernel in found}]

    def launch(kernel: Signature) -> WrittenLaunch | None:
        alike = (each for each in of_pointers if len(each.arguments) == len(kernel.parameters))
        return written.get(kernel.name) or next(alike, None)

    drawn = [_draft(each, launch(each), text + included) for each in found]
    names = [each.name for each in found]
    for at, (draft, kernel) in enumerate(zip(drawn, found, strict=True)):
        if kernel.name in names[:at]:
            drawn[at] = LeftOut(kernel.name, f"({', '.join(kernel.parameters)}) is the second kernel of this name")
        elif isinstance(draft, Draft) and kernel.name in names[at + 1 :]:
            types = (re.sub(rf"\s*\b{parameter_name(each)}\b[^\w]*$", "", each) for each in kernel.parameters)
            drawn[at] = replace(draft, entry=f"{draft.entry}({', '.join(types)})")
    return drawn


def _draft(signature: Signature, launch: WrittenLaunch | None, text: str) -> Draft | LeftOut:
    host = HostCode(text, launch)
    try:
        template = _template(signature, launch, host)
        operands = [
            _operand(declared, number, template, host) for number, declared in enumerate(signature.parameters, 1)
        ]
    except Unknown as unknown:
        return LeftOut(signature.name, str(unknown))
    if not any(each.writable for each in operands):
        return LeftOut(signature.name, "no argument is an array that it can write to")
    of_template = (int(given) for name, given in template.items() if of_block(name) and given.isdigit())
    host.usual_block = next((number for number in of_template if 0 < number <= MOST_THREADS), USUAL_BLOCK)
    operands = _values(operands, launch, host)
    block = host.block(signature)
    if host.sizes:
        grid = host.grid(signature, block)
    else:  # the grid alone says how much there is to do
        host.sizes.append(BLOCKS)
        grid = (BLOCKS,)
    sizes = sorted(host.sizes, key=lambda size: size not in grid)  # rows, each of a block, are the outer dimension
    product = " * ".join(sizes)
    operands = [replace(each, value=product) if each.value == _OF_ALL else each for each in operands]
    entry = signature.name + (f"<{', '.join(template.values())}>" if template else "")
    return Draft(
        entry,
        tuple(operands),
        tuple(sizes),
        grid,
        block,
        host.shared_bytes(signature),
        any_size=host.rounds_up,
        open=tuple(dict.fromkeys(host.open)),
    )


_FLOATS = tuple(name for name in ELEMENT_TYPES if name.startswith(("float", "bfloat", "complex")))
_DISPATCHED = ("scalar_t", "real", "T")
"""Names of types that only the framework's dispatch defines."""
_OF_ALL = "of all sizes"
"""Stands for the value of a stride, which is at least as long as any row."""


def _template(signature: Signature, launch: WrittenLaunch | None, host: HostCode) -> dict[str, str]:
    """The argument of each of a template's parameters, as the launch gives it or else one that is usual."""
    found: dict[str, str] = {}
    for at, declared in enumerate(signature.template):
        name, default = parameter_name(declared), declared.partition("=")[2].strip()
        given = launch.template[at] if launch and at < len(launch.template) else default
        if re.match(r"(?:typename|class)\b", declared):
            known = host.alias(given) or (given if given not in _DISPATCHED else "")
            found[name] = known if element(known) else "float"
            if not element(known):
                host.open.append(f"the type {name} of the template: float is one of those")
            continue
        if "(" in declared:
            raise Unknown(f"its template takes the function `{declared}`, which a person has to name in entry")
        number = host.number(given) if given else None
        if number is None:
            is_bool = declared.startswith("bool")
            number = ("false" if is_bool else str(USUAL_BLOCK if of_block(name) else 4)) if given != "true" else given
            if given not in ("true", "false"):
                host.open.append(f"{name} of the template: {number} is a guess")
        found[name] = number
    return found


def _operand(declared: str, number: int, template: dict[str, str], host: HostCode) -> Operand:
    name = parameter_name(declared)
    kind = declared.partition("=")[0]
    pointer = re.search(r"\*|\[\s*\w*\s*\]", kind)
    kind = re.sub(r"\[[^\]]*\]", "*", kind)
    kind = re.sub(rf"\b{name}\b(?=[^\w]*$)", "", kind) if name else kind
    pointee = kind.partition("*")[0]
    bare = " ".join(_EXTRA.sub(" ", re.sub(r"[&*]", " ", kind)).split())
    bare = template.get(bare, bare)
    dtype = element(host.alias(bare)) or element(bare)
    vector = _VECTOR.fullmatch(bare)
    if not pointer and host.is_enumeration(bare):
        host.open.append(f"the value of {name}: 0 is a guess")
        return Operand(python_name(name or f"value{number}"), "int32", is_array=False, value="0")
    if kind.count("*") > 1 or "(" in kind or (dtype is None and not (vector and pointer)):
        raise Unknown(f"argument {number} is `{declared}`, which a person has to describe")
    if not pointer:
        return Operand(python_name(name or f"value{number}"), dtype or "", is_array=False)
    if vector:
        return Operand(name, element(vector[1]) or "float32", True, "const" not in pointee)
    return Operand(name, dtype or "", True, "const" not in pointee)


def _values(operands: Sequence[Operand], launch: WrittenLaunch | None, host: HostCode) -> list[Operand]:
    """The operands with the values of those that are no arrays; integers that are extents become sizes."""
    given = launch.arguments if launch and len(launch.arguments) == len(operands) else ("",) * len(operands)
    found = []
    for each, written in zip(operands, given, strict=True):
        if each.is_array or each.value:
            found.append(each)
            continue
        value = A_FLOAT
        if each.dtype not in _FLOATS:
            fixed = next((number for number, names in _FIXED.items() if re.fullmatch(f"(?i){names}", each.name)), None)
            if re.fullmatch(r"\w*[A-Za-z_]\w*", written) and written in host.bound:
                value = host.bound[written]
            elif _STRIDE.fullmatch(each.name):
                value = _OF_ALL
                host.open.append(f"the value of {each.name}: a stride of all elements is a guess")
            elif fixed is not None or each.dtype == "bool" or each.name in _COUNTERS:
                value = fixed or "0"
                host.open.append(f"the value of {each.name}: {value} is a guess")
            else:
                value = each.name
                host.sizes.append(each.name)
            if re.fullmatch(r"[A-Za-z_]\w*", written):
                host.bound.setdefault(written, value)
        found.append(replace(each, value=value))
    # An extent that the launch computes of the others is none of its own.
    for at, (each, written) in enumerate(zip(found, given, strict=True)):
        if each.value == each.name and each.name in host.sizes and not re.fullmatch(r"\s*\w+\s*", written):
            others = [size for size in host.sizes if size != each.name]
            derived = host.of_bound(written)
            if derived is not None and (names := names_in(derived)) and names <= {*others}:
                host.sizes.remove(each.name)
                found[at] = replace(each, value=derived)
    return found
