"""Finds inline PTX in a source and puts C++ in its place (``ptx_statement.py``)."""

from __future__ import annotations

import re

_COMMENT = r"//[^\n]*|/\*.*?\*/"
_TOKENS = re.compile(rf'(?P<comment>{_COMMENT})|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_ASM = re.compile(r"\b(?:asm|__asm__|__asm)\b(?:\s*(?:volatile|__volatile__|__volatile)\b)?\s*\(")


def translated(text: str) -> str:
    """The source with C++ in place of its inline PTX; every line keeps its number."""
    masked = _TOKENS.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    found = list(_ASM.finditer(masked))
    if not found:
        return text
    # The grammar's library takes a tenth of a second to import, which only sources with inline PTX need.
    from peakgate.emulator.ptx_statement import as_cpp, closing  # noqa: PLC0415

    pieces: list[str] = []
    at = 0
    for match in found:
        if match.start() < at:
            continue
        end = closing(masked, match.end() - 1)
        # In the body of a macro every line but the last ends in a backslash.
        lines = "".join(re.findall(r"\\?\n", text[match.start() : end]))
        statement = _TOKENS.sub(lambda m: " " if m["comment"] else m[0], text[match.end() : end])
        code = as_cpp(statement.replace("\\\n", " "))
        if "\n" in code:
            lines = f"#line {text[:end].count(chr(10)) + 1}\n"
        pieces += [text[at : match.start()], code, lines]
        at = end + 1
    return "".join((*pieces, text[at:]))
