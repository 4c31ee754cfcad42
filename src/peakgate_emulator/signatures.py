"""Reads from a CUDA source, as text, how its kernels are declared and launched."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from peakgate_emulator.declarations import behind_templates
from peakgate_emulator.masking import closing, code_of
from peakgate_emulator.sources import KERNEL_HEAD, SourceFile


@dataclass(frozen=True, slots=True)
class Signature:
    """A kernel as a text defines it: its template's parameters, all that is before its name, its parameters.

    ``body`` is its code without comments and literals.
    """

    name: str
    template: tuple[str, ...]
    declared: str
    parameters: tuple[str, ...]
    body: str


@lru_cache(maxsize=256)
def signatures(text: str) -> tuple[Signature, ...]:
    """The kernels that a text defines in so many words, one for each name and parameters."""
    code, found, behind = code_of(text), dict[tuple[str, tuple[str, ...]], Signature](), 0
    for match in KERNEL_HEAD.finditer(code):
        end = closing(code, match.end() - 1)
        opening = code.find("{", end)
        if code[end + 1 : opening].strip():  # a prototype
            continue
        declared = code[
            max(behind, *(code.rfind(each, behind, match.start()) + 1 for each in ";}{")) : match.start("name")
        ]
        head = declared.removesuffix(behind_templates(declared))
        template = re.search(r"\btemplate\s*<(.*)>", head, re.DOTALL)
        body = code[opening : _closing_brace(code, opening)]
        written = code[match.end() : end]
        parameters = () if written.strip() == "void" else listed(written)
        made = Signature(match["name"], listed(template[1]) if template else (), declared, parameters, body)
        found.setdefault((made.name, parameters), made)
        behind = end
    return tuple(found.values())


def _closing_brace(code: str, opening: int) -> int:
    depth = 0
    for match in re.compile("[{}]").finditer(code, max(opening, 0)):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.end()
    return len(code)


def listed(text: str) -> tuple[str, ...]:
    """The parts between the commas of a list of C++ arguments or parameters; none of an empty text."""
    parts, depth, begin = list[str](), 0, 0
    for match in re.finditer(r"<<|[(\[{<]|[)\]}>]|,", text):
        if match[0] == "<<":
            continue
        if match[0] != ",":
            depth = max(0, depth + (1 if match[0] in "([{<" else -1))
        elif depth == 0:
            parts.append(" ".join(text[begin : match.start()].split()))
            begin = match.end()
    last = " ".join(text[begin:].split())
    return (*parts, last) if last else tuple(parts)


@dataclass(frozen=True, slots=True)
class WrittenLaunch:
    """A launch ``kernel<template><<<shape>>>(arguments)`` as texts, and the code of the file before it.

    ``if_so``: it stands in the branch of an ``if``.
    """

    kernel: str
    template: tuple[str, ...]
    shape: tuple[str, ...]
    arguments: tuple[str, ...]
    before: str
    if_so: bool = False

    @property
    def line(self) -> int:
        return self.before.count("\n") + 1


_LAUNCH = re.compile(r"(?P<kernel>\w+)\s*(?:<(?P<template>[^;{}]*?)>)?\s*<<<(?P<shape>[^;{}]*?)>>>\s*\(")


def launches(text: str) -> list[WrittenLaunch]:
    """The launches in a text's host code, in order."""
    code = code_of(text)
    found = []
    for match in _LAUNCH.finditer(code):
        given = listed(code[match.end() : closing(code, match.end() - 1)])
        template, shape = listed(match["template"] or ""), listed(match["shape"])
        before = code[: match.start()]
        found.append(WrittenLaunch(match["kernel"], template, shape, given, before, _in_branch(before)))
    return found


def _in_branch(before: str) -> bool:
    """Whether the statement behind ``before`` is a branch of an ``if``, alone or in its braces."""
    opened, depth = len(before), 0
    for match in re.finditer(r"[{}]", before[::-1]):
        depth += 1 if match[0] == "}" else -1
        if depth < 0:
            opened = len(before) - match.end()
            break
    direct = before[max(before.rfind(end) for end in ";{}") + 1 :]
    around = before[max(before.rfind(end, 0, opened) for end in ";{}") + 1 : opened]
    return any(re.match(r"\s*(?:else\s+)?if\b", text) for text in (direct, around))


def parameter_names(files: Iterable[SourceFile], kernel: str) -> list[str]:
    """The names of a kernel's parameters, in order; empty where no file defines the kernel in so many words."""
    found = (each for file in files for each in signatures(file.text) if each.name == kernel)
    return [parameter_name(each) for each in next((each.parameters for each in found), ())]


def parameter_name(declared: str) -> str:
    """The name of a declared parameter, such as ``x`` of ``const float (&x)[4]``; empty without one."""
    bare = re.sub(r"<[^<>()]*>|\[[^\[\]]*\]|=.*", "", declared)
    named = re.search(r"(\w+)\s*\)?\s*$", bare)
    return named[1] if named else ""
