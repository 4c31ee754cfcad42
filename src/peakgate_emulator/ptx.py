"""Replaces inline PTX in a source by C++, one statement for each ``asm`` statement.

If macros generate a statement's text, the preprocessor runs first and its output is translated. The grammar and the
instructions are imported only for sources with ``asm``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from peakgate_emulator.attributes import in_clusters
from peakgate_emulator.masking import blanks, closing, masked, without_comments

if TYPE_CHECKING:
    from peakgate_emulator.ptx_grammar import Instruction, Names

_ASM = re.compile(r"\b(?:asm|__asm__|__asm)\b(?:\s*(?:volatile|__volatile__|__volatile)\b)?\s*\(")
_DIRECTIVE = re.compile(r"^[ \t]*#[^\n]*\n", re.MULTILINE)
_MARKER = re.compile(r'^# (?P<line>\d+) "(?P<file>[^"\n]*)"[^\n]*\n', re.MULTILINE)
_DEFINED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_PARAMETERS = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+\w+\(([^()]*)\)(?:[^\\\n]|\\\n|\\.)*?\b(?:asm|__asm__|__asm)\b", re.MULTILINE
)
"""Those of a macro with a statement in its body."""
_LITERALS = r'(?:"(?:\\.|[^"\\\n])*"\s*)*'
_GIVEN = r'\s*(?:\[\w+\]\s*)?"[^"\n]*"\s*(?P<bracket>\()'

_OPERAND = re.compile(r'"([=+]?)&?([a-zA-Z])"\s*\(')
_LITERAL = re.compile(r'"((?:\\.|[^"\\\n])*)"')
_RAW = re.compile(r'\bR"(?P<mark>[^()\\\s]{0,16})\((?P<text>.*?)\)(?P=mark)"', re.DOTALL)
_ESCAPES = {r"\n": "\n", r"\r": " ", r"\t": " ", r"\"": '"', "%%": "%", "%=": "0"}  # labels belong to their statement
_CONDITION = re.compile(r"^[ \t]*#[ \t]*(?P<word>if|elif|else|endif)[^\n]*\n", re.MULTILINE)

_WORD = re.compile(r"\b(?:threadIdx|blockIdx|blockDim|gridDim)\b|\b(?:__syncthreads|__trap)\(\)")
_WORDS = {
    "threadIdx": "(uint3{peakgate_thread_x, peakgate_thread_y, peakgate_thread_z})",
    "blockIdx": "(uint3{peakgate_block_x, peakgate_block_y, peakgate_block_z})",
    "blockDim": "(uint3{peakgate_block_size_x, peakgate_block_size_y, peakgate_block_size_z})",
    "gridDim": "(uint3{peakgate_grid_size_x, peakgate_grid_size_y, peakgate_grid_size_z})",
    "__syncthreads()": "peakgate_syncthreads(1000000 + __COUNTER__)",
    "__trap()": 'peakgate_assertion("__trap()")',
}
"""Macros that generated statements use; the preprocessor does not see them. Its own counter began at 0 as well."""


def translated(text: str) -> str:
    """The source with C++ in place of its inline PTX; line numbers stay."""
    return _translated(text, text, str)


def preprocessed(text: str, names: Collection[str]) -> str:
    """The same for a preprocessor's output, only in files of these names; its line markers stay."""
    own, user = [], False
    at = 0
    for marker in (*_MARKER.finditer(text), None):
        part = text[at : marker.start() if marker else len(text)]
        own.append(part if user else blanks(part))
        if marker:
            own.append(marker[0])
            at, user = marker.end(), Path(marker["file"]).name in names
    barriers = count()

    def expanded(code: str) -> str:
        code = _WORD.sub(lambda word: _WORDS[word[0]], code)
        return re.sub(r"\b__COUNTER__\b", lambda _: str(next(barriers)), code)

    return in_clusters(_translated(text, "".join(own), expanded))


def put_together(text: str) -> bool:
    """Whether macros generate a part of a statement's text or operands, or may generate the size of clusters."""
    if "__cluster_dims__" in text or re.match(r"#define .*\basm\b", text):  # a macro of the build
        return True
    found = _statements(text, masked(text, literals=True))
    return any(not _is_literal(_DIRECTIVE.sub("", statement)) for _, _, statement in found)


def collides(texts: Iterable[str]) -> bool:
    """Whether a source defines macros whose names the C++ in place of its inline PTX uses, or those of parameters."""
    texts = list(texts)
    macros = {name for text in texts for name in _DEFINED.findall(text)}
    macros |= {name for text in texts for names in _PARAMETERS.findall(text) for name in re.findall(r"\w+", names)}
    statements = (found for text in texts if macros for found in _statements(text, masked(text, literals=True)))
    return any(_own_words(statement) & macros for _, _, statement in statements)


def _statements(text: str, code: str) -> Iterator[tuple[int, int, str]]:
    """Start and end of each ``asm`` statement, and the text in its parentheses, without comments."""
    found = list(_ASM.finditer(code))
    if not found:
        return
    at = 0
    for match in found:
        if match.start() < at:
            continue
        at = closing(code, match.end() - 1) + 1
        statement = _RAW.sub(_ordinary, without_comments(text[match.end() : at - 1]))
        yield match.start(), at, statement.replace("\\\n", " ")


def _ordinary(raw: re.Match[str]) -> str:
    """A raw literal as an ordinary one, without PTX's comments."""
    text = without_comments(raw["text"]).replace("\\", r"\\").replace('"', r"\"")
    return f'"{text.replace(chr(10), chr(92) + "n")}"'


def _is_literal(statement: str) -> bool:
    rest = statement[re.match(rf"\s*{_LITERALS}", statement).end() :]  # type: ignore[union-attr]
    while found := re.match(rf"(?:\s*[:,])+{_GIVEN}", rest):
        rest = rest[closing(masked(rest, literals=True), found.start("bracket")) + 1 :]
    return not re.sub(_LITERALS, "", rest).replace(":", "").replace(",", "").strip()


def _translated(text: str, own: str, finished: Callable[[str], str]) -> str:
    """The text with C++, ``finished``, for those statements that are also in ``own``, a text of the same length."""
    pieces: list[str] = []
    last = 0
    for start, end, statement in _statements(own, masked(own, literals=True)):
        written = text[start:end]
        # In a macro's body every line except the last ends with a backslash.
        lines = "".join(re.findall(r"\\?\n", written))
        code = finished(_as_cpp(_MARKER.sub("", statement)))
        if markers := list(_MARKER.finditer(written)):
            lines = "\n" + markers[-1][0] + "\n" * written.count("\n", markers[-1].end())
        elif "\n" in code:
            begun = "" if code.endswith("\n") else "\n"
            lines = f"{begun}{_line_directive(text, end - 1)}"
        pieces += [text[last:start], code, lines]
        last = end
    return "".join((*pieces, text[last:]))


def _line_directive(text: str, at: int) -> str:
    """What says which line is at a position; a preprocessor's output is numbered from its last line marker."""
    begin = at
    while (begin := text.rfind("\n# ", 0, begin)) >= 0:
        if marker := _MARKER.match(text, begin + 1):
            return f'# {int(marker["line"]) + text.count(chr(10), marker.end(), at)} "{marker["file"]}"\n'
    return f"#line {text[:at].count(chr(10)) + 1}\n"


def _as_cpp(text: str) -> str:
    """The C++ statement for ``asm(text)``; an unknown instruction ends a launch that reaches it.

    If the text has preprocessor conditions, there is one statement for each branch, between the directives.
    """
    depth = 0
    own: list[re.Match[str]] = []
    for condition in _CONDITION.finditer(text):
        depth += condition["word"] == "if"
        if depth == 1:
            own.append(condition)
        depth -= condition["word"] == "endif"
        if depth == 0:
            break
    if depth or not own:
        return _statement(text)
    before, behind = text[: own[0].start()], text[own[-1].end() :]
    branches = [(here[0], text[here.end() : there.start()]) for here, there in pairwise(own)]
    if all(condition["word"] != "else" for condition in own):
        branches.append(("#else\n", ""))
    statements = (f"{directive}{_as_cpp(before + branch + behind)}\n" for directive, branch in branches)
    return "\n".join(("", *(each.rstrip("\n") for each in statements), "#endif", ""))


def _statement(text: str) -> str:
    from peakgate_emulator.ptx_grammar import Label, Names, NotUnderstood, parsed, variable  # noqa: PLC0415  (slow)

    template, outputs, inputs = _parts(text)
    if template is None:
        return _refusal("inline PTX whose text the preprocessor puts together")
    try:
        program = parsed(template)
    except NotUnderstood:
        return _refusal(f"PTX instruction {' '.join(template.split())}")
    if not program.body:  # a fence for the compiler only, which does not access its operands
        return "do { } while (0)"
    operands = (*outputs, *inputs)
    names = Names([f"peakgate_o{place}" for place in range(len(operands))], program.registers)
    body = [f"{step.name}: ;" if isinstance(step, Label) else _step(step, names) for step in program.body]
    before, after = [], []
    for place, (mode, expression, register) in enumerate(operands):
        name = names.given[place]
        if place in names.lasting:
            before.append(f"auto* const peakgate_p{place} = &({expression});")
            continue
        before.append(f"{register} {name} = {'0' if mode == '=' else f'peakgate_ptx::bits({expression})'};")
        if mode:
            after.append(f"peakgate_ptx::assign({expression}, {name});")
    declared = [f"__label__ {label};" for label in program.labels]
    declared += [f"{_register(type_)} {variable(name)} = 0;" for name, type_ in program.registers.items()]
    return " ".join(("do {", *declared, *before, *body, *after, "} while (0)"))


def _own_words(text: str) -> set[str]:
    """The words that ``_as_cpp`` generates, except those of the operands' expressions."""
    operands = (expression for _, expression, _ in (operand for section in _parts(text)[1:] for operand in section))
    for expression in sorted(operands, key=len, reverse=True):
        text = text.replace(f"({expression})", "(0)")
    return set(re.findall(r"[A-Za-z_]\w*", re.sub(r'"[^"\n]*"', "", _as_cpp(text))))


def _parts(statement: str) -> tuple[str | None, list[tuple[str, str, str]], list[tuple[str, str, str]]]:
    """Template, outputs and inputs of a statement; an operand is its mode (``=``, ``+`` or none), expression, C++ type.

    The template is None if it does not consist of literals only.
    """
    sections, depth, start, quoted = [], 0, 0, False
    for at, character in enumerate(statement):
        if character == '"' and statement[at - 1] != "\\":
            quoted = not quoted
        if quoted:
            continue
        depth += {"(": 1, ")": -1, "[": 1, "]": -1}.get(character, 0)
        if character == ":" and depth == 0:
            sections.append(statement[start:at])
            start = at + 1
    sections.append(statement[start:])
    outputs, inputs = (_operands(section) for section in (*sections[1:3], "", "")[:2])
    if _LITERAL.sub("", sections[0]).strip():
        return None, outputs, inputs
    written = "".join(_LITERAL.findall(sections[0]))
    return re.sub(r"\\[nrt\"]|%[%=]", lambda match: _ESCAPES[match[0]], written), outputs, inputs


def _register(type_: str) -> str:
    """The C++ type of a register, given its PTX type or the letter of its constraint."""
    return "unsigned __int128" if type_ in ("b128", "q") else "uint64_t"


def _operands(section: str) -> list[tuple[str, str, str]]:
    found, at = [], 0
    while match := _OPERAND.search(section, at):
        end = closing(section, match.end() - 1)
        found.append((match[1], section[match.end() : end], _register(match[2])))
        at = end + 1
    return found


def _step(step: Instruction, names: Names) -> str:
    from peakgate_emulator.ptx_grammar import Unknown  # noqa: PLC0415  (as above)
    from peakgate_emulator.ptx_instructions import statement  # noqa: PLC0415

    try:
        condition = f"if ({'!' if step.negated else ''}{names.value(step.guard, 'bool')}) " if step.guard else ""
        if step.name == "bra":
            return f"{condition}goto {step.operands[0]};"
        return f"{condition}{{ {statement(step, names)} }}"
    except (Unknown, IndexError, ValueError):
        return _refusal(f"PTX instruction {step.opcode}")


def _refusal(what: str) -> str:
    words = what.replace("\\", " ").replace('"', "'")[:120]
    return f'peakgate_not_emulated("{words}");'
