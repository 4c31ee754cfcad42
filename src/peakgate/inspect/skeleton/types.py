"""What a C++ type is in a family: the type of its elements, or the members of a struct."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise

import numpy as np

from peakgate.spec import dtypes
from peakgate_emulator.masking import closing, without_comments
from peakgate_emulator.signatures import listed

ELEMENT_TYPES = {
    "float32": r"float|scalar_t|real",
    "float64": r"double",
    "float16": r"(?:at::|c10::)?Half|__half|half|nv_half|__half_raw",
    "bfloat16": r"(?:at::|c10::)?BFloat16|__nv_bfloat16|nv_bfloat16|__bfloat16|bfloat16",
    "float8_e4m3fn": r"__nv_fp8_e4m3",
    "float8_e5m2": r"__nv_fp8_e5m2",
    "float8_e8m0fnu": r"__nv_fp8_e8m0",
    "int8": r"(?:signed )?char|int8_t",
    "uint8": r"unsigned char|uchar|uint8_t|u_char|byte|__nv_fp8_storage_t",
    "int16": r"short(?: int)?|int16_t",
    "uint16": r"unsigned short|ushort|uint16_t|__nv_fp8x2_storage_t",
    "int32": r"int|int32_t|signed",
    "uint32": r"unsigned(?: int)?|uint|uint32_t|u32|__nv_fp8x4_storage_t",
    "int64": r"long(?: long)?(?: int)?|int64_t|ptrdiff_t|ssize_t",
    "uint64": r"unsigned long(?: long)?(?: int)?|uint64_t|size_t|ulonglong|u64",
    "bool": r"bool",
    "complex64": r"cuComplex|cuFloatComplex|cufftComplex",
    "complex128": r"cuDoubleComplex|cufftDoubleComplex",
}
"""By the type of elements, the C++ types that are stored so."""

_VECTOR = re.compile(
    r"(?P<of>float|double|half|__half|char|uchar|short|ushort|int|uint|long|ulong|longlong|__nv_bfloat16)(?P<n>[1234])|"
    r"(?:glm::)?(?P<kind>[iudb]?)vec(?P<m>[234])|(?P<dim3>dim3)|(?P<fp8>__nv_fp8)x(?P<f>[24])(?P<which>_e4m3|_e5m2)"
)
_OF_GLM = {"": "float", "i": "int", "u": "uint", "d": "double", "b": "bool"}
_ATOMIC = re.compile(r"(?:cuda::|std::|cuda::std::)*atomic(?:_ref)?<\s*([\w ]+?)\s*(?:,.*)?>")
_MOST_MEMBERS, _DEEPEST = 4096, 8
_ALIGNED = r"\b(?:alignas|__align__|__attribute__)"
_DECLARATOR = re.compile(
    r"(?P<kind>.*?)\s*(?P<marks>[*&]?[*&\s]*(?:(?:const|volatile|__restrict__|__restrict|restrict)\b\s*)*)"
    r"(?P<name>[A-Za-z_]\w*)\s*(?P<extents>(?:\[[^\]]*\]\s*)*)",
    re.DOTALL,
)


class Undescribed(Exception):
    """A type whose members the text does not say."""


class HasPointers(Exception):
    """A struct with pointers, whose members are no numbers alone."""


def element(written: str | None) -> str | None:
    """The type of elements of a C++ type; None for another type."""
    bare = " ".join((written or "").split()).removeprefix("std::").removeprefix("::")
    if atomic := _ATOMIC.fullmatch(bare):
        return element(atomic[1])
    return next((dtype for dtype, names in ELEMENT_TYPES.items() if re.fullmatch(names, bare)), None)


def vector(written: str) -> tuple[str, int] | None:
    """The type and number of the elements of a vector type, such as float4; None for another type."""
    found = _VECTOR.fullmatch(written.removeprefix("::"))
    if found is None:
        return None
    if found["dim3"]:
        return "uint32", 3
    if found["fp8"]:
        return element(found["fp8"] + found["which"]) or "", int(found["f"])
    return element(found["of"] or _OF_GLM[found["kind"]]) or "", int(found["n"] or found["m"])


@dataclass(frozen=True, slots=True)
class Layout:
    """The members of a struct in order: names, and types of one element each."""

    members: tuple[tuple[str, str], ...]

    @property
    def words(self) -> tuple[str, int]:
        """Its members as numbers of one type: their own if they have one in common, else words of integers."""
        types = {dtype for _, dtype in self.members}
        if len(types) == 1:
            return types.pop(), len(self.members)
        layout = np.dtype([(name, dtypes.storage(dtype)) for name, dtype in self.members], align=True)
        word = "int32" if layout.alignment >= np.dtype("int32").itemsize else "uint8"
        return word, layout.itemsize // np.dtype(word).itemsize

    def __str__(self) -> str:
        return ", ".join(f"{name} {dtype}" for name, dtype in self.members)


class Types:
    """The types that a text defines. ``number`` gives the number that a constant of it has, or None."""

    def __init__(self, text: str, number: Callable[[str], str | None]) -> None:
        self._given, self._number = text, number

    @cached_property
    def _text(self) -> str:
        return without_comments(self._given)

    def alias(self, name: str) -> str | None:
        """The type that a typedef, a using declaration or a macro names; None without one."""
        if not re.fullmatch(r"\w+", name or ""):
            return None
        found = re.search(
            rf"\btypedef\s+([\w ]+?)\s+{name}\s*;|\busing\s+{name}\s*=\s*([\w:<>, ]+?)\s*;|"
            rf"^[ \t]*#[ \t]*define[ \t]+{name}[ \t]+([\w ]+?)[ \t]*$",
            self._text,
            re.MULTILINE,
        )
        return next(filter(None, found.groups()), None) if found else None

    def is_enumeration(self, name: str) -> bool:
        """Whether the text defines an enumeration of this name."""
        return re.search(rf"\benum\s+(?:class\s+|struct\s+)?{re.escape(name)}\b", self._text) is not None

    def element(self, name: str) -> str | None:
        """The type of elements of a type or of what it is an alias of; None for another type."""
        return element(self.alias(name)) or element(name)

    def layout(self, written: str, depth: int = 0) -> Layout:
        """The members of a struct, such as ``Line`` or ``Vec4<float>``, those of its own structs one by one.

        Raises Undescribed where the text does not say them, HasPointers where one is a pointer.
        """
        if depth > _DEEPEST:
            raise Undescribed
        given, statements = self._declarations(written)
        members: list[tuple[str, str]] = []
        for statement in statements:
            members += self._members(statement, given, depth)
            if len(members) > _MOST_MEMBERS:
                raise Undescribed
        if not members:
            raise Undescribed
        return Layout(tuple(members))

    def declared(self, written: str) -> list[tuple[str, str, int | None]]:
        """The members of a struct: type such as ``const float*``, name, number of elements, None if it is no array.

        Raises Undescribed as ``layout``, and HasPointers for a pointer to a function, a reference or another alignment.
        """
        given, statements = self._declarations(written)
        if re.search(_ALIGNED, "".join(self._body(_name(written))[1:])):
            raise HasPointers
        found: list[tuple[str, str, int | None]] = []
        for statement in statements:
            if {*"(&"} & {*statement}:
                raise HasPointers
            kind = ""
            for declared in listed(statement):
                parts = re.fullmatch(_DECLARATOR, re.sub(r"[={].*", "", declared, flags=re.DOTALL).strip())
                if parts is None or not (kind := kind or parts["kind"]):
                    raise Undescribed
                name, count = self._declared(parts["name"] + parts["extents"], given)
                of_template = re.sub(r"\w+", lambda word: given.get(word[0], word[0]), kind)
                found.append((f"{of_template} {parts['marks']}".strip(), name, count))
        return found

    def _declarations(self, written: str, depth: int = 0) -> tuple[Mapping[str, str], list[str]]:
        """The arguments of a struct's template by name, and the statements that declare members, those of bases first.

        Raises Undescribed also for members that C++ may place into the padding of a base.
        """
        arguments = listed(written.partition("<")[2].rpartition(">")[0])
        parameters, head, body = self._body(_name(written))
        if len(arguments) > len(parameters) or depth > _DEEPEST:
            raise Undescribed
        parts = []
        for base in listed(head.partition(":")[2]):
            given, inherited = self._declarations(
                re.sub(r"\b(?:public|protected|private)\b", "", base).strip(), depth + 1
            )
            if given:
                raise Undescribed
            parts.append(inherited)
        plain = map(_plain, _statements(body))
        parts.append([text for text in plain if text and ("(" not in text or re.search(r"\(\s*\*", text))])
        for before, behind in pairwise(filter(None, parts)):
            if not (self._is_wide(before[-1]) or self._is_wide(behind[0])):
                raise Undescribed
        return dict(zip(parameters, arguments, strict=False)), [*chain(*parts)]

    def _is_wide(self, statement: str) -> bool:
        """Whether a statement declares a pointer or a number of 8 bytes, with no padding before and behind it."""
        kind = re.match(r"(?:const\s+)?((?:(?:unsigned|long)\s+)*[\w:]+)", statement)
        is_number = kind is not None and self.element(kind[1]) in ("int64", "uint64", "float64")
        return "," not in statement and ("*" in statement or is_number)

    def _body(self, name: str) -> tuple[list[str], str, str]:
        """The parameters of a struct's template, its head with its bases, and the text between its braces."""
        if re.fullmatch(r"\w+", name):
            words = r"[^:;{}<>=()]*(?:\([^()]*\))?[^:;{}<>=()]*?"  # such as alignas(16)
            bases = r"\s*(?:final\s*)?(?::[^:;{}()][^;{}()]*)?"
            head = rf"(?:template\s*<(?P<of>[^<>{{}};]*)>\s*)?(?P<head>\b(?:struct|class)\b{words}\b{name}{bases})\{{"
            if found := re.search(head, self._text):
                parameters = [each.split()[-1] for each in listed(found["of"] or "") if each.split()]
                return parameters, found["head"], self._text[found.end() : closing(self._text, found.end() - 1)]
            for ended in re.finditer(rf"\}}\s*{name}\s*;", self._text):
                opened = _opening(self._text, ended.start())
                if re.search(r"\btypedef\s+struct\b[^;{}]*$", self._text[:opened]):
                    return [], "", self._text[opened + 1 : ended.start()]
        raise Undescribed

    def _members(self, statement: str, given: Mapping[str, str], depth: int) -> list[tuple[str, str]]:
        text = re.sub(r"\b(?:const|volatile)\b", " ", statement).strip()
        if re.search(r"[*&(]", text.partition("=")[0]) or re.match(
            r"std::(?:vector|string|unique_ptr|function)\b", text
        ):
            raise HasPointers
        found = re.fullmatch(r"((?:(?:unsigned|signed|long|short)\s+)*[\w:]+(?:\s*<.*>)?)\s+(.+)", text, re.DOTALL)
        if found is None:
            raise Undescribed
        kind = given.get(found[1], " ".join(found[1].split()))
        names = [self._declared(each, given) for each in listed(found[2])]
        known = self.alias(kind) or kind
        if dtype := self.element(kind):
            parts = [("", dtype)]
        elif self.is_enumeration(kind):
            parts = [("", "int32")]
        elif of_vector := vector(known):
            parts = [(f"_{axis}", of_vector[0]) for axis in "xyzw"[: of_vector[1]]]
        else:
            parts = [(f"_{name}", dtype) for name, dtype in self.layout(known, depth + 1).members]
        return [
            (f"{name}{suffix}{part}", dtype)
            for name, count in names
            for suffix in ([""] if count is None else [str(at) for at in range(count)])
            for part, dtype in parts
        ]

    def _declared(self, declared: str, given: Mapping[str, str]) -> tuple[str, int | None]:
        """The name of a member, and the number of its elements; None if it is no array."""
        found = re.fullmatch(r"(\w+)\s*((?:\[[^\]]*\]\s*)*)(?:[={:].*)?", declared.strip(), re.DOTALL)
        if found is None or ":" in declared:
            raise Undescribed
        count: int | None = None
        for extent in re.findall(r"\[([^\]]*)\]", found[2]):
            number = self._number(given.get(extent.strip(), extent))
            if number is None or not 0 < int(number) <= _MOST_MEMBERS:
                raise Undescribed
            count = (count or 1) * int(number)
        return found[1], count


def _name(written: str) -> str:
    """The name of a struct without namespaces and arguments."""
    return written.partition("<")[0].rpartition("::")[2].strip()


def _plain(statement: str) -> str:
    """A statement of a struct's body without attributes and the like; empty if it declares no member."""
    text = re.sub(_ALIGNED + r"\s*\((?:[^()]|\([^()]*\))*\)|\[\[.*?\]\]", " ", statement)
    text = re.sub(r"\b(?:public|private|protected)\s*:(?!:)|\b(?:mutable|struct)\b", " ", text).strip()
    other = r"(?:static|using|typedef|friend|template|enum|constexpr|explicit|virtual|inline)\b"
    return "" if re.match(other, text) else text


def _statements(body: str) -> Iterator[str]:
    """The statements of a struct's body, without the bodies of its functions."""
    at, begun = 0, 0
    while at < len(body):
        if body[at] == ";":
            yield body[begun:at]
            begun = at + 1
        elif body[at] == "{":
            end = closing(body, at)
            before = body[begun:at]
            if re.match(r"\s*(?:struct|union|class)\b", before):
                raise Undescribed
            if "(" in before:  # a function
                begun = end + 1
            at = end
        at += 1


def _opening(text: str, closed: int) -> int:
    """Where the brace opens that closes at ``closed``."""
    depth = 0
    for at in range(closed, -1, -1):
        depth += {"}": 1, "{": -1}.get(text[at], 0)
        if depth == 0:
            return at
    return 0
