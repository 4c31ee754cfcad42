"""Makes mutants of a kernel, each with one synchronisation or guard removed, which the check should detect.

- A barrier, fence, arrival, commit or wait is deleted: a CUDA function, another call whose name has such a word and
  whose value is unused, or inline PTX; a barrier with a vote is replaced by its predicate.
- A toggle of a phase or buffer, ``^ 1``, is deleted.
- A guarding comparison becomes true, or false if it is an operand of ``||`` or the whole condition of an early exit.
- A clamp, ``min`` or ``max``, is replaced by either of its arguments.

This works on text, without a parser. Comments, strings, directives, assertions, constants, loop headers and code under
``PEAKGATE_EMULATED`` are not mutated. Operators must be surrounded by spaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from peakgate_emulator.masking import blanks, closing, masked

EMULATED_MACRO = "PEAKGATE_EMULATED"

_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(?P<word>\w+)(?P<rest>(?:\\\n|[^\n])*)", re.MULTILINE)
_HEADER = re.compile(r"\b(?:for|while|static_assert)\s*\(")
_CONSTANT = re.compile(r"\bconstexpr\b[^;{]*;")
_BARRIER = re.compile(r"\b(?:__syncthreads|__syncwarp|__threadfence(?:_block|_system)?)\s*\(")
# A statement that consists of a call only.
_CALL = re.compile(r"(?:\A|(?<=[;{})])|(?<=\belse))\s*(?P<call>(?:\w+(?:\.|->|::))*(?P<name>\w+)(?:<[^<>;]*>)?\s*\()")
# Words in names of functions that synchronise threads or copies.
_ORDERING = {
    *("acquire", "arrive", "barrier", "commit", "expect", "fence", "release", "sync", "syncthreads"),
    *("threadfence", "wait"),
}
_NAME_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_PTX = re.compile(r"\basm\b(?:\s+volatile\b)?\s*\(")
_ORDERING_PTX = re.compile(
    r"\b(?:bar|barrier|fence|membar|mbarrier|griddepcontrol|wgmma\.(?:fence|commit_group|wait_group)"
    r"|cp\.async\.(?:bulk\.)?(?:commit_group|wait_group|wait_all|mbarrier))\b"
)
_TOGGLE = re.compile(r"(?P<assigned>\^= )1\b| \^ 1\b")
_VOTE = re.compile(r"\b__syncthreads_(?:or|and|count)\s*\(")
_CLAMP = re.compile(r"\b(?:min|max)\s*\(")
_COMPARISON = re.compile(r" (?:<=|>=|==|!=|<|>) ")
_OPERAND_ENDS = re.compile(r"&&|\|\||\?|(?<!:):(?!:)|[,;{}]|\breturn\b|(?<![<>=!])=(?!=)")
_LEAVES = re.compile(r"\s*\{?\s*(?:return|break|continue)\b")
_OPENING, _CLOSING = "([", ")]"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change to a file: ``replacement`` for the characters from ``start`` to ``stop``.

    ``line`` is the number of its first line, ``source`` that line without indentation; ``occurrence`` counts equal
    changes to equal lines in the file, from 1. ``change`` describes it.
    """

    file: str
    start: int
    stop: int
    replacement: str
    change: str
    line: int
    source: str
    occurrence: int

    @property
    def key(self) -> tuple[str, str, str, int]:
        """Its identity, independent of line numbers."""
        return self.file, self.source, self.change, self.occurrence

    def applied(self, text: str) -> str:
        """The mutated text."""
        return text[: self.start] + self.replacement + text[self.stop :]

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.change}"


def mutants(file: str, text: str) -> list[Mutant]:
    """Every mutant of a file, in order of position."""
    changes = dict.fromkeys(_changes(_code(text), text))
    found: list[Mutant] = []
    seen: dict[tuple[str, str], int] = {}
    for start, stop, replacement, change in sorted(changes, key=lambda change: change[:2]):
        source = text[text.rfind("\n", 0, start) + 1 :].split("\n", 1)[0].strip()
        occurrence = seen[source, change] = seen.get((source, change), 0) + 1
        line = text.count("\n", 0, start) + 1
        found.append(Mutant(file, start, stop, replacement, change, line, source, occurrence))
    return found


def _changes(code: str, text: str) -> Iterator[tuple[int, int, str, str]]:
    """Start and stop of each text that is replaced, by what, and the change in words."""
    for match in _BARRIER.finditer(code):
        stop = closing(code, match.end() - 1) + 1
        yield match.start(), stop, "", f"without {_words(code[match.start() : stop])}"
    for match in _CALL.finditer(code):
        if _ORDERING & {word.lower() for word in _NAME_PART.findall(match["name"])}:
            stop = closing(code, match.end() - 1) + 1
            if code[stop:].lstrip().startswith(";"):
                yield match.start("call"), stop, "", f"without {_words(code[match.start('call') : stop])}"
    for match in _VOTE.finditer(code):
        stop = closing(code, match.end() - 1) + 1
        vote = code[match.end() - 1 : stop]
        yield match.start(), stop, vote, f"{_words(code[match.start() : stop])} -> {_words(vote[1:-1])}"
    for match in _PTX.finditer(code):
        stop = closing(code, match.end() - 1) + 1
        statement = re.sub(r"\\[nt]", " ", text[match.start() : stop])
        found = _ORDERING_PTX.search(statement)
        if found and not re.search(r'"[=+]', statement):
            instruction = re.split(r"[\s;\\\"]", statement[found.start() :], maxsplit=1)[0]
            yield match.start(), stop, "", f"without {instruction}"
    for match in _TOGGLE.finditer(code):
        kept = f"{match['assigned']}0" if match["assigned"] else ""
        yield match.start(), match.end(), kept, f"without {_words(match[0])}"
    for match in _COMPARISON.finditer(code):
        start, before = _left_end(code, match.start())
        stop, after = _right_end(code, match.end())
        # False if it is an operand of `||`, or the whole condition of an `if` that leaves the function or loop.
        whole = before == "(" and after == ")" and re.search(r"\bif\s*\(\s*$", code[:start])
        leaves = whole and _LEAVES.match(code[stop:].lstrip()[1:])
        decided = "false" if leaves or "||" in (before, after) else "true"
        yield start, stop, decided, f"{_words(code[start:stop])} -> {decided}"
    for match in _CLAMP.finditer(code):
        stop = closing(code, match.end() - 1) + 1
        middle, end = _right_end(code, match.end())
        if end != ",":
            continue
        call = _words(code[match.start() : stop])
        for argument in (code[match.end() : middle], code[middle + 1 : stop - 1]):
            yield match.start(), stop, f"({argument.strip()})", f"{call} -> {_words(argument)}"


def _code(text: str) -> str:
    """The text with everything that is not mutated replaced by blanks.

    Also directives, and code from an ``#if`` on the emulator to its ``#endif``.
    """
    code = masked(text, literals=True)
    depth, begun = 0, 0  # nesting depth since the condition on the emulator, and where that began
    spans: list[tuple[int, int]] = []
    for match in _DIRECTIVE.finditer(code):
        spans.append(match.span())
        if depth or (match["word"].startswith("if") and EMULATED_MACRO in match["rest"]):
            begun = begun if depth else match.start()
            depth += match["word"].startswith("if") - (match["word"] == "endif")
            if not depth:
                spans.append((begun, match.end()))
    for start, stop in spans:
        code = code[:start] + blanks(code[start:stop]) + code[stop:]
    code = _CONSTANT.sub(lambda match: blanks(match[0]), code)
    for match in _HEADER.finditer(code):
        stop = closing(code, match.end() - 1) + 1
        code = code[: match.start()] + blanks(code[match.start() : stop]) + code[stop:]
    return code


def _right_end(code: str, begin: int) -> tuple[int, str]:
    """End of the operand that contains ``begin``, and its delimiter."""
    depth, at, match = 0, begin, None
    while match is None and at < len(code) and not (code[at] in _CLOSING and depth == 0):
        depth += (code[at] in _OPENING) - (code[at] in _CLOSING)
        match = _OPERAND_ENDS.match(code, at) if depth == 0 else None
        at += match is None
    return len(code[:at].rstrip()), match[0] if match else code[at : at + 1]


def _left_end(code: str, end: int) -> tuple[int, str]:
    """Start of the operand that ends at ``end``, and its delimiter."""
    statement = max(code.rfind(mark, 0, end) for mark in ";{}") + 1
    ends = {match.end(): match[0] for match in _OPERAND_ENDS.finditer(code, statement, end)}
    depth, start, before = 0, statement, ""
    for at in range(end, statement, -1):
        if depth == 0 and (at in ends or code[at - 1] in _OPENING):
            start, before = at, ends.get(at, code[at - 1])
            break
        depth += (code[at - 1] in _CLOSING) - (code[at - 1] in _OPENING)
    return len(code) - len(code[start:].lstrip()), before


def _words(code: str) -> str:
    return " ".join(code.split())
