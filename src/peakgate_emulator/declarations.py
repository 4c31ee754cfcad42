"""Divides CUDA sources into their declarations.

All functions work on masked text, in which comments, literals and directives are replaced by blanks, so that positions
stay the same.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from peakgate_emulator.masking import DIRECTIVE, blanks, code_of, masked
from peakgate_emulator.sources import SourceFile

WORD = re.compile(r"[A-Za-z_]\w*")
CLASS = re.compile(
    r"\b(?:struct|class)\s+(?:\w*(?:align|attribute)\w*\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\s*|\[\[[^\]]*\]\]\s*)*"
    r"(?P<name>\w+)"
)
"""The beginning of a type's definition or declaration, with attributes such as ``__align__(16)`` before its name."""
_TYPE = re.compile(r"\s*(?:typedef\s+)?(?:struct|class|union|enum)\b(?!\s+\w+[\s*&]+(?!__|alignas\b)\w+\s*\()")
"""The beginning of a type's definition, not of a function that returns a ``struct name``."""

_MEMBER_BRACE = re.compile(r"\)\s*+(?:noexcept\s*+)?:(?!:)[^;]*[\w>]\s*+\Z")
"""Before a brace that initialises a member in a constructor's list, such as ``A() : x(0), y``."""

_SCOPE = re.compile(r"\s*+(?:(?:inline\s++)?namespace\b[\w:\s]*+|extern\s*+)")

_INSTANTIATION = re.compile(r"\s*(?:extern\s+)?template\s++[^<]")

USING = re.compile(r"\s*using\s+(?:\w+\s*::\s*)+(\w+)\s*")
"""A using declaration, such as of a name of the host's library; it counts as a function."""

_DEEPEST = 100
"""Maximum depth of nested namespaces; what is nested deeper is kept."""

_TEMPLATE = re.compile(r"\s*template\s*<")

_CALL = re.compile(r"^[ \t]*(\w++)[ \t]*\(", re.MULTILINE)

_PROTOTYPE = re.compile(
    r"\s*(?!(?:typedef|using|friend|return)\b)(?:[\w:]+(?:<>)?[\s*&]+)+[\w:]+\s*\([^;]*\)"
    r"\s*(?:(?:const|noexcept|override|final|=\s*(?:0|default|delete))\s*)*"
)
"""A prototype: a type, a name and parameters, without template arguments."""

_LISTED = re.compile(r"[<>;(){}\[\]]")

_ATTRIBUTE = re.compile(
    r"\b(?:operator|__launch_bounds__|\w*LAUNCH_BOUNDS\w*|__cluster_dims__|__block_size__|__maxnreg__|__align__|__attribute__|alignas)\s*\Z"
)
"""Words before a parenthesis that is not that of the parameters: attributes, and ``operator`` of ``operator()``."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """A declaration; ``head`` is a function's text up to the parenthesis of its parameters, inclusive."""

    start: int
    end: int
    head: str
    is_function: bool


class Parsed:
    """A file as masked code.

    If its brackets match only within one branch of each preprocessor condition, ``code`` has the first branches alone.
    If they do not match then either, the file has one declaration, which is kept.
    """

    def __init__(self, file: SourceFile) -> None:
        self.file = file
        code = code_of(file.text)
        self.directives = " ".join(match[0] for match in DIRECTIVE.finditer(masked(file.text, literals=True)))
        candidates = ((tried, _closings(tried)) for tried in (code, _first_branches(file.text, code)))
        self.code, found = next((pair for pair in candidates if pair[1] is not None), (code, None))
        self.closings: Mapping[int, int] = found or {}
        self.is_divided = found is not None
        self.macros: Collection[str] = ()

    def separate(self, macros: Collection[str]) -> None:
        """End each call of a macro that gives whole declarations, which is written without a semicolon."""
        ends = [self.closings.get(call.end() - 1, -1) + 1 for call in _CALL.finditer(self.code) if call[1] in macros]
        characters = list(self.code)
        for end in ends:
            if 0 < end < len(characters) and characters[end].isspace():
                characters[end] = ";"
        self.code = "".join(characters)

    @cached_property
    def declarations(self) -> Sequence[Declaration]:
        """The file's declarations, in order."""
        if self.is_divided:
            return tuple(declarations_in(self, 0, len(self.code)))
        return (Declaration(0, len(self.code), "", is_function=True),)


def _closings(code: str) -> Mapping[int, int] | None:
    """Where each bracket of masked code closes, by where it opens; None if they do not match."""
    found: dict[int, int] = {}
    opened: list[int] = []
    for match in re.finditer(r"[(){}\[\]]", code):
        if match[0] in "({[":
            opened.append(match.start())
        elif opened:
            found[opened.pop()] = match.start()
        else:
            return None
    return None if opened else found


_OLDER = re.compile(r"\b__CUDA_ARCH__\s*<")
"""A condition on an architecture that is older than those of the builds."""


def _first_branches(text: str, code: str) -> str:
    """The code with all but the first branch of each condition replaced by blanks; one for older GPUs is none."""
    kept, begun = [], 0
    taken: list[bool] = []  # by condition around: whether its branch was there already
    hidden_at = 0
    for match in DIRECTIVE.finditer(masked(text, literals=True)):
        word = match[0].lstrip(" \t#")
        branches = word.startswith(("if", "el"))
        if word.startswith("if"):
            taken.append(False)
        if (branches or word.startswith("endif")) and hidden_at == len(taken):
            kept.append(blanks(code[begun : match.start()]))
            begun, hidden_at = match.start(), 0
        if branches and taken and not hidden_at:
            is_hidden = taken[-1] or _OLDER.search(word) is not None
            taken[-1] |= not is_hidden
            if is_hidden:
                kept.append(code[begun : match.start()])
                begun, hidden_at = match.start(), len(taken)
        if word.startswith("endif") and taken:
            taken.pop()
    return "".join((*kept, code[begun:]))


def declarations_in(part: Parsed, start: int, end: int, depth: int = 0) -> Iterator[Declaration]:
    """The declarations of a namespace, including those of nested namespaces and linkage blocks."""
    code = part.code
    if depth > _DEEPEST:
        return
    head, at = _Head(part, start, end), start
    while at < end:
        character = code[at]
        if character in "([":
            at = part.closings[at]
        elif character == "{":
            close = part.closings[at]
            if head.opens_scope(at):
                yield from declarations_in(part, at + 1, close, depth + 1)
                head = _Head(part, close + 1, end)
            elif head.opens_function(at):
                yield Declaration(head.begin, close + 1, head.of_function(at), is_function=True)
                head = _Head(part, close + 1, end)
            at = close
        elif character == ";":
            # An explicit instantiation or a prototype is treated as its function is.
            if using := USING.fullmatch(code, head.begin, at):
                yield Declaration(head.begin, at + 1, using[1] + "(", is_function=True)
            else:
                named = head.declares(at)
                text = head.of_function(at) if named else code[head.begin : at]
                yield Declaration(head.begin, at + 1, text, named)
            head = _Head(part, at + 1, end)
        at += 1


class _Head:
    """The beginning of a declaration, up to one of its braces or its end; read incrementally, each character once."""

    def __init__(self, part: Parsed, begin: int, end: int) -> None:
        self.begin, self._part, self._behind = begin, part, _behind_template(part.code, begin, end)
        self._read = self._behind
        self._first, self._parameters, self._assigned = True, False, False

    def opens_scope(self, at: int) -> bool:
        """Whether a brace at ``at`` opens a namespace or a linkage block."""
        first, self._first = self._first, False
        return first and _SCOPE.fullmatch(self._part.code, self.begin, at) is not None

    def opens_function(self, at: int) -> bool:
        """Whether a brace at ``at`` opens a function's body, not a type or an initialiser."""
        more, self._read = self._part.code[self._read : at], max(self._read, at)
        bracket, equals = max(more.rfind("("), more.rfind(")")), more.rfind("=")
        self._assigned = equals > bracket or (self._assigned and bracket < 0)
        self._parameters |= "(" in more
        if _MEMBER_BRACE.search(self._part.code, self._behind, at):
            return False
        return self._parameters and not self._assigned and not _TYPE.match(self._part.code, self._behind)

    def declares(self, at: int) -> bool:
        """Whether the declaration, which ends at ``at`` without a body, declares a function."""
        code = self._part.code
        if _INSTANTIATION.match(code, self.begin, at) and code.find("(", self.begin, at) >= 0:
            return True
        declared = code[self._behind : at]
        called = _CALL.fullmatch(code[self.begin : code.find("(", self.begin, at) + 1].strip())
        if called and called[1] in self._part.macros:
            return True
        return not _TYPE.match(declared) and _PROTOTYPE.fullmatch(_without_template_arguments(declared)) is not None

    def of_function(self, end: int) -> str:
        """The text up to the parenthesis of the parameters, including attributes such as ``__launch_bounds__()``."""
        code, before = self._part.code, self._behind
        at = code.index("(", before, end)
        while _ATTRIBUTE.search(code, before, at) and (next_ := code.find("(", self._part.closings[at], end)) >= 0:
            before, at = at, next_
        return code[self.begin : at + 1]


def _without_template_arguments(declared: str) -> str:
    """The text with ``<>`` in place of each list of template arguments; unchanged if ``<`` and ``>`` do not match."""
    kept, depth, begun = [], 0, 0
    for match in re.finditer("[<>]", declared):
        if match[0] == "<":
            if depth == 0:
                kept.append(declared[begun : match.end()])
            depth += 1
        elif depth:
            depth -= 1
            begun = match.start() if depth == 0 else begun
    return declared if depth else "".join([*kept, declared[begun:]])


def _behind_template(code: str, begin: int, end: int) -> int:
    """Position after a declaration's ``template <...>``, possibly several; the end if one is unterminated."""
    while match := _TEMPLATE.match(code, begin, end):
        lists, brackets = 1, 0
        for each in _LISTED.finditer(code, match.end(), end):
            lists += {"<": 1, ">": -1}.get(each[0], 0)
            brackets += 1 if each[0] in "({[" else -1 if each[0] in ")}]" else 0
            if lists == 0 or brackets < 0 or (each[0] == ";" and brackets == 0):
                break
        else:
            return end
        if lists:  # the list is unterminated
            return end
        begin = each.end()
    return begin


def behind_templates(declaration: str) -> str:
    """A declaration's text after its ``template <...>``, of which there may be several."""
    return declaration[_behind_template(declaration, 0, len(declaration)) :]


def function_name(head: str) -> str:
    """A function's name: the word before its parameters, or before its template arguments."""
    if not head.endswith("("):
        return ""
    last = head[max(head.rfind(")"), head.rfind("(", 0, -1)) + 1 : -1]
    return next(iter(before_bracket(last)), "")


def before_bracket(text: str) -> list[str]:
    """The last word of a text; if it ends with template arguments, each word before a ``<``."""
    return re.findall(r"\b(\w++)\s*+<" if text.rstrip().endswith(">") else r"\b(\w++)\s*+\Z", text)


def defined_name(part: Parsed, declaration: Declaration) -> str:
    """The name of the type, function or variable that a declaration defines; empty if it defines none."""
    if declaration.is_function:
        return function_name(declaration.head)
    text = behind_templates(part.code[declaration.start : declaration.end])
    found = re.match(r"\s*using\s+(\w+)\s*=|\s*typedef\b[^{}]*?(\w+)\s*;", text)
    if found is None and _TYPE.match(text):
        found = CLASS.match(text.lstrip()) if "{" in text else None
    elif found is None:
        found = re.search(r"(\w+)\s*(?:\[[^\]]*\]\s*)*[={;]", text)
    return next(filter(None, found.groups()), "") if found else ""
