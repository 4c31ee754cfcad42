"""Inline PTX as C++: each ``asm`` statement becomes the statements its instructions mean (``ptx_instructions.py``)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from peakgate.emulator.ptx_instructions import Unknown, bits_of, instruction, register, split

_TOKENS = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_ASM = re.compile(r"\b(?:asm|__asm__|__asm)\b(?:\s*(?:volatile|__volatile__|__volatile)\b)?\s*\(")
_OPERAND = re.compile(r'(?:\[\w+\]\s*)?"([=+]?)&?([a-zA-Z])"\s*\(')


def translated(text: str) -> str:
    """The source with C++ in place of its inline PTX; every line keeps its number."""
    masked = _TOKENS.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    pieces: list[str] = []
    at = 0
    for number, match in enumerate(_ASM.finditer(masked)):
        if match.start() < at:
            continue
        end = _closing(masked, match.end() - 1)
        statement = text[match.end() : end]
        pieces += [text[at : match.start()], _statement(statement, number), "\n" * text.count("\n", match.start(), end)]
        at = end + 1
    return "".join((*pieces, text[at:]))


def _closing(masked: str, opening: int) -> int:
    depth = 0
    for at in range(opening, len(masked)):
        depth += {"(": 1, ")": -1}.get(masked[at], 0)
        if depth == 0:
            return at
    return len(masked) - 1


def _statement(statement: str, number: int) -> str:
    template, outputs, inputs = _parts(statement)
    given: list[str] = []
    before: list[str] = []
    after: list[str] = []
    for place, (mode, expression) in enumerate((*outputs, *inputs)):
        name = f"peakgate_o{place}"
        given.append(name)
        before.append(f"uint64_t {name} = {'0' if mode == '=' else f'peakgate_ptx::bits({expression})'};")
        if mode:
            after.append(f"peakgate_ptx::assign({expression}, {name});")
    registers: dict[str, None] = {}
    body = [_line(line, given, registers, number) for line in _instructions(template)]
    declared = [f"uint64_t {name} = 0;" for name in registers]
    return " ".join(("do {", *before, *declared, *body, *after, "} while (0)"))


def _parts(statement: str) -> tuple[str, list[tuple[str, str]], list[tuple[str, str]]]:
    """Template, outputs and inputs of a statement; an operand is its mode (``=``, ``+`` or none) and expression."""
    clean = re.sub(r"//[^\n]*|/\*.*?\*/", " ", re.sub(_TOKENS, lambda m: m[0] if m[0][0] == '"' else " ", statement))
    sections, depth, start, quoted = [], 0, 0, False
    for at, character in enumerate(clean):
        if character == '"' and clean[at - 1] != "\\":
            quoted = not quoted
        if quoted:
            continue
        depth += {"(": 1, ")": -1, "[": 1, "]": -1}.get(character, 0)
        if character == ":" and depth == 0:
            sections.append(clean[start:at])
            start = at + 1
    sections.append(clean[start:])
    template = "".join(re.findall(r'"((?:\\.|[^"\\\n])*)"', sections[0])).replace("\\n", "\n").replace("\\t", " ")
    operands = [_operands(section) for section in (*sections[1:3], "", "")[:2]]
    return template, operands[0], operands[1]


def _operands(section: str) -> list[tuple[str, str]]:
    found, at = [], 0
    while match := _OPERAND.search(section, at):
        end = _closing(section, match.end() - 1)
        found.append((match[1], section[match.end() : end]))
        at = end + 1
    return found


def _instructions(template: str) -> list[str]:
    plain = re.sub(r"//[^\n]*|/\*.*?\*/", " ", template, flags=re.DOTALL)
    plain = re.sub(r"^\s*\{|\}\s*;?\s*$", " ", plain.strip()) if plain.strip().startswith("{") else plain
    lines = [" ".join(line.split()) for line in plain.split(";")]
    return [line for line in lines if line]


def _line(line: str, given: Sequence[str], registers: dict[str, None], number: int) -> str:
    if label := re.match(r"([A-Za-z_$][\w$]*)\s*:(?!:)\s*", line):
        rest = line[label.end() :]
        return f"peakgate_l{number}_{label[1]}: ; {_line(rest, given, registers, number) if rest else ''}"
    if line.startswith(".reg"):
        for name in line.split(maxsplit=2)[2].split(","):
            registers[register(name.strip())] = None
        return ""
    condition = ""
    if guard := re.match(r"@(!?)(%?[\w$]+)\s+", line):
        condition = f"if ({'!' if guard[1] else ''}peakgate_ptx::get<bool>({bits_of(guard[2], given)})) "
        line = line[guard.end() :]
    opcode, _, rest = line.partition(" ")
    try:
        if opcode.startswith("bra"):
            return f"{condition}goto peakgate_l{number}_{rest.strip()};"
        return f"{condition}{{ {instruction(opcode, split(rest), given)} }}"
    except (Unknown, IndexError, KeyError):
        words = f"PTX instruction {opcode}".replace('"', "'")
        return f'{condition}{{ peakgate_not_emulated("{words}"); }}'
