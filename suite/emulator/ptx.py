"""Finds inline PTX in a source and puts C++ in its place (``ptx_statement.py``).

Where macros put the text of a statement together, the preprocessor comes first and this goes through its output.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from peakgate.build.sources import blanks, closing, masked, without_comments

_ASM = re.compile(r"\b(?:asm|__asm__|__asm)\b(?:\s*(?:volatile|__volatile__|__volatile)\b)?\s*\(")
_DIRECTIVE = re.compile(r"^[ \t]*#[^\n]*\n", re.MULTILINE)
_MARKER = re.compile(r'^# \d+ "(?P<file>[^"\n]*)"[^\n]*\n', re.MULTILINE)
_DEFINED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_CLUSTER = re.compile(r"\b__cluster_dims__\s*\(")
_LITERALS = r'(?:"(?:\\.|[^"\\\n])*"\s*)*'
_GIVEN = r'\s*(?:\[\w+\]\s*)?"[^"\n]*"\s*(?P<bracket>\()'

# What statements are made of and the preprocessor knows; its numbers of barriers begin anew in a second pass.
_WORDS = """\
#define threadIdx (uint3{peakgate_thread_x, peakgate_thread_y, peakgate_thread_z})
#define blockIdx (uint3{peakgate_block_x, peakgate_block_y, peakgate_block_z})
#define blockDim (uint3{peakgate_block_size_x, peakgate_block_size_y, peakgate_block_size_z})
#define gridDim (uint3{peakgate_grid_size_x, peakgate_grid_size_y, peakgate_grid_size_z})
#define __syncthreads() peakgate_syncthreads(1000000 + __COUNTER__)
#define __trap() peakgate_assertion("__trap()")
"""


def translated(text: str) -> str:
    """The source with C++ in place of its inline PTX; every line keeps its number."""
    return _translated(text, text)


def preprocessed(text: str, names: Collection[str]) -> str:
    """The same of a preprocessor's output, in the files of these names; its line markers stay."""
    own, user = [], False
    at = 0
    for marker in (*_MARKER.finditer(text), None):
        part = text[at : marker.start() if marker else len(text)]
        own.append(part if user else blanks(part))
        if marker:
            own.append(marker[0])
            at, user = marker.end(), Path(marker["file"]).name in names
    return _WORDS + _in_clusters(_translated(text, "".join(own)))


def _in_clusters(text: str) -> str:
    """The text with a call at the start of each kernel's body in place of its ``__cluster_dims__``."""
    pieces, last = [], 0
    code = masked(text, literals=True)
    for found in _CLUSTER.finditer(code):
        at = end = closing(code, found.end() - 1) + 1
        while (stop := re.compile(r"[(;{]").search(code, at)) and stop[0] == "(":
            at = closing(code, stop.start()) + 1
        pieces.append(text[last : found.start()] + blanks(text[found.start() : end]))
        last = end
        if stop and stop[0] == "{":
            sizes = ", ".join((*text[found.end() : end - 1].split(","), "1", "1")[:3])
            pieces.append(f"{text[end : stop.end()]} peakgate_cluster_dims({sizes});")
            last = stop.end()
    return "".join((*pieces, text[last:]))


def put_together(text: str) -> bool:
    """Whether macros make a part of a statement's text or operands, or may make the size of a kernel's clusters."""
    if "__cluster_dims__" in text or re.match(r"#define .*\basm\b", text):  # a macro of the build
        return True
    found = _statements(text, masked(text, literals=True))
    return any(not _is_literal(_DIRECTIVE.sub("", statement)) for _, _, statement in found)


def collides(texts: Iterable[str]) -> bool:
    """Whether macros of a source have names that the C++ in place of its inline PTX uses."""
    texts = list(texts)
    macros = {name for text in texts for name in _DEFINED.findall(text)}
    statements = (found for text in texts if macros for found in _statements(text, masked(text, literals=True)))
    return any(_own_words(statement) & macros for _, _, statement in statements)


def _own_words(statement: str) -> set[str]:
    from peakgate.emulator.ptx_statement import own_words  # noqa: PLC0415

    return own_words(statement)


def _statements(text: str, code: str) -> Iterator[tuple[int, int, str]]:
    """Where each ``asm`` statement begins and ends, and what is in its brackets, without comments."""
    found = list(_ASM.finditer(code))
    if not found:
        return
    at = 0
    for match in found:
        if match.start() < at:
            continue
        at = closing(code, match.end() - 1) + 1
        statement = without_comments(text[match.end() : at - 1])
        yield match.start(), at, statement.replace("\\\n", " ")


def _is_literal(statement: str) -> bool:
    rest = statement[re.match(rf"\s*{_LITERALS}", statement).end() :]  # type: ignore[union-attr]
    while found := re.match(rf"(?:\s*[:,])+{_GIVEN}", rest):
        rest = rest[closing(masked(rest, literals=True), found.start("bracket")) + 1 :]
    return not re.sub(_LITERALS, "", rest).replace(":", "").replace(",", "").strip()


def _translated(text: str, own: str) -> str:
    """The text with C++ in place of the statements that are in ``own`` too, which is as long."""
    pieces: list[str] = []
    last = 0
    for start, end, statement in _statements(own, masked(own, literals=True)):
        from peakgate.emulator.ptx_statement import as_cpp  # noqa: PLC0415

        written = text[start:end]
        # In the body of a macro every line but the last ends in a backslash.
        lines = "".join(re.findall(r"\\?\n", written))
        code = as_cpp(_MARKER.sub("", statement))
        if markers := list(_MARKER.finditer(written)):
            lines = "\n" + markers[-1][0] + "\n" * written.count("\n", markers[-1].end())
        elif "\n" in code:
            begun = "" if code.endswith("\n") else "\n"
            lines = f"{begun}#line {text[: end - 1].count(chr(10)) + 1}\n"
        pieces += [text[last:start], code, lines]
        last = end
    return "".join((*pieces, text[last:]))
