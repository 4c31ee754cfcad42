"""CUDA C++ as the emulator needs it: statements at the start of bodies, and ``template`` before member templates."""

from __future__ import annotations

import re
from collections.abc import Sequence

from peakgate_emulator.masking import DIRECTIVE, blanks, closing, code_of
from peakgate_emulator.signatures import listed, parameter_name

_CLUSTER = re.compile(r"\b__cluster_dims__\s*\(")
_BOUNDS = re.compile(r"\b__launch_bounds__\s*\(")
_STOP = re.compile(r"[(;{]")
_MEMBER = re.compile(r"(?<=[\w)\]])(?P<access>\.|->)(?P<called>[A-Za-z_]\w*<[\w:,* ]+>\()")
_PROTOTYPE = re.compile(r"\bextern\b[^;{}()#]*\b__\w+\s*\([^;{}()]*\)\s*;")
_WORD = re.compile(r"[A-Za-z_]\w*")
_STEP = re.compile(r"[{}]|\breturn\b[^;{}]*(?:\{[^;{}]*\}[^;{}]*)*;")
_ADDRESS_OF = re.compile(r"(?:\breturn|[(),{=?:])\s*&\s*([A-Za-z_]\w*)")
_HEAD_END = re.compile(r"\)\s*(?:const|noexcept|override|final|mutable|->[^;{}()]*|\s)*\Z")
_NO_FUNCTION = re.compile(r"\b(?:if|for|while|switch|catch|constexpr|always_inline)\b")


def in_clusters(text: str) -> str:
    """A preprocessor's output with ``__cluster_dims__`` replaced by a call; line numbers stay."""
    pieces, last = [], 0
    for start, end, body, given in _found(_CLUSTER, text):
        pieces.append(text[last:start] + blanks(text[start:end]))
        last = end
        if body is not None:
            sizes = ", ".join((*given.split(","), "1", "1")[:3])
            pieces.append(f"{text[end:body]} peakgate_cluster_dims({sizes});")
            last = body
    return "".join((*pieces, text[last:]))


def with_bounds(text: str) -> str:
    """A source with a call for each ``__launch_bounds__``, which stays; line numbers stay.

    Not where a preprocessor condition decides on the bounds, or a parameter has the name of a constant in them.
    """
    calls = []
    for _start, end, body, given in _found(_BOUNDS, text):
        if body is None or DIRECTIVE.search(text, end, body):
            continue
        parameters = listed(text[text.find("(", end) + 1 : body].rstrip(" \n\t{").removesuffix(")"))
        if not {*_WORD.findall(given)} & {*map(parameter_name, parameters)}:
            calls.append((body, f" peakgate_launch_bounds({given});"))
    return _inserted(text, calls)


def with_keyword(text: str) -> str:
    """A source with ``template`` before each call of a member template that lacks it, as in ``tile.load<4>(x)``.

    g++ needs it where the object's type depends on a template's parameter; NVRTC and nvcc do not.
    """
    return _inserted(text, [(match.end("access"), "template ") for match in _MEMBER.finditer(code_of(text))])


def without_prototypes(text: str) -> str:
    """A source without declarations of built-in functions, which editors want; some are macros here. Lines stay."""
    pieces, last = [], 0
    for match in _PROTOTYPE.finditer(code_of(text)):
        pieces += [text[last : match.start()], blanks(match[0])]
        last = match.end()
    return "".join((*pieces, text[last:]))


def apart(text: str) -> str:
    """A source whose functions that return an address of their own variables are not inlined; line numbers stay.

    An access through such a pointer is then below the frames in use, and is found. Inlined, the variable would live on.
    """
    return _inserted(text, [(body, " PEAKGATE_APART;") for body in sorted(_returning_own_addresses(code_of(text)))])


def _returning_own_addresses(code: str) -> set[int]:
    """Where the bodies of those functions begin."""
    found, around = set[int](), list[int]()
    for step in _STEP.finditer(code):
        if step[0] == "{":
            around.append(step.end())
        elif step[0] == "}":
            del around[-1:]
        elif names := _ADDRESS_OF.findall(step[0]):
            body = next((at for at in reversed(around) if _is_function(code, at - 1)), None)
            if body and any(_is_declared(name, code[body : step.start()]) for name in names):
                found.add(body)
    return found


def _is_function(code: str, brace: int) -> bool:
    """Whether the body of a function that may be kept from being inlined begins at a brace."""
    begin = max(code.rfind(end, 0, brace) for end in ";{}") + 1
    head = code[begin:brace]  # of a loop it begins within the parentheses
    whole = head.count("(") == head.count(")")
    return whole and bool(_HEAD_END.search(head)) and not _NO_FUNCTION.search(head)


def _is_declared(name: str, before: str) -> bool:
    """Whether the code has a declaration of a variable that ends with its block."""
    declared = re.search(rf"(?P<line>[^;{{}}]*[\w>*}}])\s+{name}\s*[\[=;({{,]", before)
    return declared is not None and not re.search(r"\b(?:static|__shared__|return)\b", declared["line"])


def _inserted(text: str, pieces: Sequence[tuple[int, str]]) -> str:
    """The text with each piece at its position, which ascend."""
    ends = [*(at for at, _ in pieces), len(text)]
    begun = [text[: ends[0]]]
    return "".join(begun + [piece + text[at:end] for (at, piece), end in zip(pieces, ends[1:], strict=True)])


def _found(attribute: re.Pattern[str], text: str) -> list[tuple[int, int, int | None, str]]:
    """Start and end of each attribute, where the kernel's body begins (None: a prototype), and its arguments."""
    found: list[tuple[int, int, int | None, str]] = []
    if not attribute.search(text):
        return found
    code = code_of(text)
    for match in attribute.finditer(code):
        at = end = closing(code, match.end() - 1) + 1
        while (stop := _STOP.search(code, at)) and stop[0] == "(":
            at = closing(code, stop.start()) + 1
        body = stop.end() if stop and stop[0] == "{" else None
        found.append((match.start(), end, body, code[match.end() : end - 1]))
    return found
