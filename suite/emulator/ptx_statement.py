"""One ``asm`` statement of inline PTX as one C++ statement."""

from __future__ import annotations

import re
from itertools import pairwise

from peakgate.build.sources import closing
from peakgate.emulator.ptx_grammar import Instruction, Label, Names, NotUnderstood, Unknown, parsed, variable
from peakgate.emulator.ptx_instructions import statement

_OPERAND = re.compile(r'"([=+]?)&?([a-zA-Z])"\s*\(')
_LITERAL = re.compile(r'"((?:\\.|[^"\\\n])*)"')
_ESCAPES = {r"\n": "\n", r"\r": " ", r"\t": " ", r"\"": '"', "%%": "%"}


_CONDITION = re.compile(r"^[ \t]*#[ \t]*(?P<word>if|elif|else|endif)[^\n]*\n", re.MULTILINE)


def as_cpp(text: str) -> str:
    """The statement that does what ``asm(text)`` does; what is not known in it ends a launch that comes to it.

    Where there are conditions of the preprocessor in the text, one statement for each branch, on lines between theirs.
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
    statements = (f"{directive}{as_cpp(before + branch + behind)}\n" for directive, branch in branches)
    return "\n".join(("", *(each.rstrip("\n") for each in statements), "#endif", ""))


def _statement(text: str) -> str:
    template, outputs, inputs = _parts(text)
    if template is None:
        return _refusal("inline PTX whose text the preprocessor puts together")
    try:
        program = parsed(template)
    except NotUnderstood:
        return _refusal(f"PTX instruction {' '.join(template.split())}")
    operands = (*outputs, *inputs)
    names = Names([f"peakgate_o{place}" for place in range(len(operands))], program.registers)
    body = [f"{step.name}: ;" if isinstance(step, Label) else _step(step, names) for step in program.body]
    before, after = [], []
    for place, (mode, expression) in enumerate(operands):
        name = names.given[place]
        if place in names.lasting:
            before.append(f"auto* const peakgate_p{place} = &({expression});")
            continue
        before.append(f"uint64_t {name} = {'0' if mode == '=' else f'peakgate_ptx::bits({expression})'};")
        if mode:
            after.append(f"peakgate_ptx::assign({expression}, {name});")
    declared = [f"__label__ {label};" for label in program.labels]
    declared += [f"uint64_t {variable(name)} = 0;" for name in program.registers]
    return " ".join(("do {", *declared, *before, *body, *after, "} while (0)"))


def own_words(text: str) -> set[str]:
    """The words that ``as_cpp`` writes by itself, those of the operands' expressions aside."""
    operands = (expression for _, expression in (pair for section in _parts(text)[1:] for pair in section))
    for expression in sorted(operands, key=len, reverse=True):
        text = text.replace(f"({expression})", "(0)")
    return set(re.findall(r"[A-Za-z_]\w*", re.sub(r'"[^"\n]*"', "", as_cpp(text))))


def _parts(statement: str) -> tuple[str | None, list[tuple[str, str]], list[tuple[str, str]]]:
    """Template, outputs and inputs of a statement; an operand is its mode (``=``, ``+`` or none) and expression.

    The template is None where it consists of more than literals.
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
    return re.sub(r"\\[nrt\"]|%%", lambda match: _ESCAPES[match[0]], written), outputs, inputs


def _operands(section: str) -> list[tuple[str, str]]:
    found, at = [], 0
    while match := _OPERAND.search(section, at):
        end = closing(section, match.end() - 1)
        found.append((match[1], section[match.end() : end]))
        at = end + 1
    return found


def _step(step: Instruction, names: Names) -> str:
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
