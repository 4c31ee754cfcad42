"""What a C++ type is in a family: the type of its elements, or the members of a struct."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, pairwise, zip_longest

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
_POINTER_BYTES, _WIDEST_VECTOR = 8, 16
_ALIGNMENT = re.compile(r"\b(?:alignas|__align__|aligned)\s*\(\s*((?:[^()]|\([^()]*\))*)\)")
PADDING = re.compile(r"(?:\w+_)?padding_at_\d+")
"""Names of numbers that no member has: a Struct aligns members to their numbers alone, C++ may align them to more."""
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


@dataclass(frozen=True, slots=True)
class _Stored:
    """How a type is stored: its size in bytes, what C++ aligns it to, and what a Struct does.

    It is a number of type ``dtype``, has members ``inside``, or is a pointer.
    """

    size: int
    alignment: int
    alignment_in_struct: int
    dtype: str = ""
    inside: Sequence[_Member] = ()


@dataclass(frozen=True, slots=True)
class _Member:
    """A member of a struct where C++ places it: type such as ``const float*``, elements, None if it is no array."""

    kind: str
    name: str
    count: int | None
    begin: int
    stored: _Stored

    @property
    def end(self) -> int:
        return self.begin + self.stored.size * (1 if self.count is None else self.count)


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _gaps(members: Sequence[_Member], struct: _Stored) -> list[tuple[int, str, int]]:
    """Padding before each member and behind the last, beyond a Struct's own: begin, type and count."""
    gaps: list[tuple[int, str, int]] = []
    at, places = 0, [(each.begin, each.end, each.stored.alignment_in_struct) for each in members]
    for begin, end, own in [*places, (struct.size, struct.size, struct.alignment_in_struct)]:
        gap = begin - at if _up(at, own) != begin else 0
        word, bytes_of = ("int32", 4) if struct.alignment % 4 == at % 4 == gap % 4 == 0 else ("uint8", 1)
        gaps.append((at, word, gap // bytes_of))
        at = end
    return gaps


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

    def layout(self, written: str) -> Layout:
        """The members of a struct, such as ``Line`` or ``Vec4<float>``, those of its own structs one by one.

        What C++ leaves free beyond a Struct's own alignment is numbers by the names of ``PADDING``. Raises Undescribed
        where the text does not say the members, HasPointers where one is a pointer.
        """
        struct = self._struct(written, pointers=False)
        numbers = _numbers(struct.inside)
        members: list[tuple[str, str]] = []
        for (begin, dtype, count), number in zip_longest(_gaps(numbers, struct), numbers):
            width = dtypes.storage(dtype).itemsize
            members += [(f"padding_at_{begin + width * at}", dtype) for at in range(count)]
            if number:
                members.append((number.name, number.stored.dtype))
        return Layout(tuple(members))

    def declared(self, written: str) -> list[tuple[str, str, int | None]]:
        """The members of a struct: type such as ``const float*``, name, number of elements, None if it is no array.

        With padding as in ``layout``. Raises Undescribed as it does, and HasPointers for a pointer to a function or a
        reference.
        """
        struct = self._struct(written, pointers=True)
        found: list[tuple[str, str, int | None]] = []
        for (begin, dtype, count), member in zip_longest(_gaps(struct.inside, struct), struct.inside):
            if count:
                found.append((f"{dtype}_t", f"padding_at_{begin}", None if count == 1 else count))
            if member:
                found.append((member.kind, member.name, member.count))
        return found

    def _struct(self, written: str, depth: int = 0, *, pointers: bool) -> _Stored:
        """A struct with its members where C++ places them.

        Raises HasPointers for a member that is a pointer, unless there may be ``pointers``.
        """
        if depth > _DEEPEST:
            raise Undescribed
        given, statements, alignment = self._declarations(written)
        members: list[_Member] = []
        end = 0
        for statement in statements:
            plain = _ALIGNMENT.sub(" ", statement)
            if {*"(&"} & {*plain}:
                raise HasPointers
            kind = ""
            for declared in listed(plain):
                parts = re.fullmatch(_DECLARATOR, re.sub(r"[={].*", "", declared, flags=re.DOTALL).strip())
                if parts is None or not (kind := kind or parts["kind"]):
                    raise Undescribed
                if "*" in parts["marks"] and not pointers:
                    raise HasPointers
                count = self._count(parts["extents"], given)
                of_template = re.sub(r"\w+", lambda word: given.get(word[0], word[0]), kind)
                own = f"{of_template} {parts['marks']}".strip()
                stored = self._stored(own, depth, pointers=pointers)
                of_type = max(stored.alignment, self._alignment(statement))
                members.append(_Member(own, parts["name"], count, _up(end, of_type), stored))
                end, alignment = members[-1].end, max(alignment, of_type)
            if len(members) > _MOST_MEMBERS:
                raise Undescribed
        if not members:
            raise Undescribed
        in_struct = max(each.stored.alignment_in_struct for each in members)
        return _Stored(_up(end, alignment), alignment, in_struct, inside=members)

    def _stored(self, kind: str, depth: int, *, pointers: bool) -> _Stored:
        """A type of a member, ``pointers`` as in ``_struct``."""
        if "*" in kind:
            return _Stored(_POINTER_BYTES, _POINTER_BYTES, _POINTER_BYTES)
        known = self._known(kind)
        if re.match(r"std::(?:vector|string|unique_ptr|function)\b", known):
            raise HasPointers
        if dtype := self.element(known) or ("int32" if self.is_enumeration(known) else None):
            number = dtypes.storage(dtype)
            return _Stored(number.itemsize, number.itemsize, number.alignment, dtype)
        if of_vector := vector(known):
            dtype, count = of_vector
            one = dtypes.storage(dtype).itemsize
            is_wide = count in (2, 4) and not re.match(r"glm::|[iudb]?vec\d|dim3", known)
            axes = [
                _Member(dtype, axis, None, at * one, _Stored(one, one, one, dtype))
                for at, axis in enumerate("xyzw"[:count])
            ]
            return _Stored(count * one, min(count * one, _WIDEST_VECTOR) if is_wide else one, one, inside=axes)
        return self._struct(known, depth + 1, pointers=pointers)

    def _known(self, kind: str) -> str:
        """A type without qualifiers, that which it is an alias of."""
        bare = " ".join(re.sub(r"\b(?:const|volatile|typename)\b", " ", kind).split())
        return self.alias(bare) or bare

    def _alignment(self, text: str) -> int:
        """The most bytes that a declaration asks to be aligned to, 1 if none; Undescribed if that is no number."""
        asked = [self._number(each) for each in _ALIGNMENT.findall(text)]
        if None in asked:
            raise Undescribed
        return max((int(each) for each in asked if each), default=1)

    def _declarations(self, written: str, depth: int = 0) -> tuple[Mapping[str, str], list[str], int]:
        """The arguments of a struct's template by name, the statements that declare members, and the least alignment.

        Those of bases come first.

        Raises Undescribed also for members that C++ may place into the padding of a base.
        """
        arguments = listed(written.partition("<")[2].rpartition(">")[0])
        parameters, head, body = self._body(written.partition("<")[0].rpartition("::")[2].strip())
        if len(arguments) > len(parameters) or depth > _DEEPEST:
            raise Undescribed
        parts = []
        for base in listed(head.partition(":")[2]):
            given, inherited, of_base = self._declarations(
                re.sub(r"\b(?:public|protected|private)\b", "", base).strip(), depth + 1
            )
            if given or of_base > 1:
                raise Undescribed
            parts.append(inherited)
        plain = map(_plain, _statements(body))
        bare = ((text, _ALIGNMENT.sub(" ", text)) for text in plain if text)
        parts.append([text for text, said in bare if "(" not in said or re.search(r"\(\s*\*", said)])
        for before, behind in pairwise(filter(None, parts)):
            if not (self._is_wide(before[-1]) or self._is_wide(behind[0])):
                raise Undescribed
        return dict(zip(parameters, arguments, strict=False)), [*chain(*parts)], self._alignment(head)

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
                if begun := re.search(r"\btypedef\s+struct\b[^;{}]*$", self._text[:opened]):
                    return [], begun[0], self._text[opened + 1 : ended.start()]
        raise Undescribed

    def _count(self, extents: str, given: Mapping[str, str]) -> int | None:
        """The number of elements of a member with these extents, such as ``[4][N]``; None if it is no array."""
        if ":" in extents:
            raise Undescribed
        count: int | None = None
        for extent in re.findall(r"\[([^\]]*)\]", extents):
            number = self._number(given.get(extent.strip(), extent))
            if number is None or not 0 < int(number) <= _MOST_MEMBERS:
                raise Undescribed
            count = (count or 1) * int(number)
        return count


def _numbers(members: Sequence[_Member]) -> list[_Member]:
    """The numbers in some members, each as a member of its own; raises Undescribed for a pointer."""
    numbers: list[_Member] = []
    for each in members:
        inside = _numbers(each.stored.inside)
        count = 1 if each.count is None else each.count
        if not (inside or each.stored.dtype) or len(numbers) + (len(inside) or 1) * count > _MOST_MEMBERS:
            raise Undescribed
        for at in range(count):
            name, begin = f"{each.name}{'' if each.count is None else at}", each.begin + at * each.stored.size
            parts = [replace(part, name=f"{name}_{part.name}", begin=begin + part.begin) for part in inside]
            numbers += parts or [replace(each, name=name, count=None, begin=begin)]
    return numbers


def _plain(statement: str) -> str:
    """A statement of a struct's body without attributes other than alignments; empty if it declares no member."""
    text = re.sub(r"__attribute__\s*\(\((?!\s*aligned)(?:[^()]|\([^()]*\))*\)\)|\[\[.*?\]\]", " ", statement)
    text = re.sub(r"__attribute__\s*\(\((\s*aligned\s*\([^()]*\))\s*\)\)", r"\1", text)
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
