"""Replaces comments, literals and directives of CUDA source text by blanks, so that positions stay the same."""

from __future__ import annotations

import re
from functools import lru_cache

# An unterminated comment or literal extends to the end of the text, so that matching takes linear time.
_COMMENT = r"//[^\n]*|/\*(?:.*?\*/|.*)"
_LITERAL = (
    r'R"(?P<raw>[^()\\\s]{0,16})\((?:.*?\)(?P=raw)"|.*)|"(?:\\.|[^"\\\n])*+"?|'
    r"(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*+'?"
)
_TOKENS = re.compile(f"(?P<comment>{_COMMENT})|{_LITERAL}", re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE | re.DOTALL)


@lru_cache(maxsize=2048)
def code_of(text: str) -> str:
    """The text with comments, literals and directives replaced by blanks of the same length."""
    return DIRECTIVE.sub(lambda match: blanks(match[0]), masked(text, literals=True))


@lru_cache(maxsize=4096)
def masked(text: str, *, literals: bool) -> str:
    """The text with comments, and if ``literals`` literals, replaced by blanks of the same length."""
    return _TOKENS.sub(lambda match: _masked_token(match) if literals or match["comment"] else match[0], text)


def without_comments(text: str) -> str:
    """The text with one blank for each comment."""
    return _TOKENS.sub(lambda match: " " if match["comment"] else match[0], text)


def closing(code: str, opening: int) -> int:
    """Position where the bracket at ``opening`` of masked text closes; the last position if it does not."""
    bracket = code[opening]
    depth = 0
    for match in re.compile(r"[()]" if bracket == "(" else r"[{}]").finditer(code, opening):
        depth += 1 if match[0] == bracket else -1
        if depth == 0:
            return match.start()
    return len(code) - 1


def blanks(text: str) -> str:
    """The text with all characters except newlines replaced by blanks."""
    return "\n".join(" " * len(line) for line in text.split("\n"))


def _masked_token(match: re.Match[str]) -> str:
    """Blanks, and each backslash at the end of a line, which continues a directive."""
    lines = match[0].split("\n")
    continued = (" " * (len(line) - 1) + "\\" if line.endswith("\\") else " " * len(line) for line in lines[:-1])
    return "\n".join((*continued, " " * len(lines[-1])))
