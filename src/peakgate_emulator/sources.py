"""Reads CUDA sources: their text, the files that they include, their kernels, and what a stage's ``entry`` names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from peakgate_emulator.errors import SourceError
from peakgate_emulator.files import read_source
from peakgate_emulator.masking import DIRECTIVE, code_of, masked

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"(?P<quoted>[^"\n]+)"|<(?P<angled>[^>\n]+)>)', re.MULTILINE)

_ARGUMENTS = r"\((?:[^()]|\((?:[^()]|\([^()]*+\))*+\))*+\)"
KERNEL_HEAD = re.compile(
    r"__global__\s+(?:(?:__launch_bounds__|\w*LAUNCH_BOUNDS\w*|__maxnreg__|__cluster_dims__|__attribute__)\s*"
    rf"{_ARGUMENTS}\s*|"
    r"(?!__global__\b)[\w:]+\s+)*"
    r"(?P<name>\w+)\s*\("
)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a source: its text, and the user's files that it includes, by the name in the include."""

    path: Path
    text: str
    includes: Mapping[str, Path]
    foreign: tuple[tuple[int, str], ...]
    """Line and name of each include that is not a user's file: CUDA's, the host compiler's, or missing."""


def read_sources(source: Path, include: Sequence[Path] = ()) -> list[SourceFile]:
    """The file and every file it includes from its own folder or an include folder, in the order of first mention.

    Preprocessor conditions around includes are ignored. Raises SourceError if ``source`` cannot be read. A missing
    include is left for the compiler to report.
    """
    found: dict[Path, SourceFile] = {}
    waiting = [source]
    while waiting:
        path = waiting.pop(0)
        if path in found:
            continue
        text = source_text(path)
        commentless = masked(text, literals=False)
        included: dict[str, Path] = {}
        foreign: list[tuple[int, str]] = []
        line, counted = 1, 0
        for match in INCLUDE.finditer(commentless):
            name = match["quoted"] or match["angled"]
            folders = (path.parent, *include) if match["quoted"] else include
            target = next((folder / name for folder in folders if _is_file(folder / name)), None)
            if target is None:
                line, counted = line + text.count("\n", counted, match.start()), match.start()
                foreign.append((line, name))
            else:
                included[name] = target.resolve()
        waiting += included.values()
        found[path] = SourceFile(path, text, included, tuple(foreign))
    return list(found.values())


def _is_file(path: Path) -> bool:
    """Whether the file exists; False if its name is impossible."""
    try:
        return path.is_file()
    except OSError:
        return False


def kernels(text: str) -> list[str]:
    """Names of the kernels that a text defines, ``softmax<...>`` for a template; without duplicates."""
    code = code_of(text)
    names, start, is_template = [], 0, False
    for match in KERNEL_HEAD.finditer(code):
        before = max(code.rfind(end, start, match.start()) for end in ";}{")
        declared = code[max(start, before + 1) : match.start()]
        is_template = (is_template and before < 0) or bool(re.search(r"\btemplate\b", declared))
        start = match.start()
        names.append(match["name"] + ("<...>" if is_template else ""))
    return list(dict.fromkeys(names))


_ENTRY = re.compile(
    r"(?P<kernel>(?P<scope>(?:::)?(?:[A-Za-z_]\w*::)*)(?P<name>[A-Za-z_]\w*)\s*(?:<[^;{}()]*>)?)\s*"
    r"(?P<parameters>\([^;{}]*\))?"
)
_NAMESPACE = re.compile(r"\bnamespace\s*+(?P<name>\w++(?:\s*+::\s*+\w++)*+)?(?>(?!\bnamespace\b)[^;{}()=])*+\{")


@dataclass(frozen=True, slots=True)
class KernelEntry:
    """A kernel as a stage's ``entry`` names it: ``name`` alone, ``kernel`` with namespaces and template arguments.

    ``parameters`` are the types in parentheses that select an overload; empty if not given.
    """

    name: str
    kernel: str
    parameters: str

    @property
    def expression(self) -> str:
        """The C++ expression for the kernel in both builds."""
        return f"static_cast<void (*){self.parameters}>(&{self.kernel})" if self.parameters else self.kernel


def entry_of(written: str, files: Sequence[SourceFile]) -> KernelEntry:
    """The kernel that an ``entry`` names; without namespaces it may be in any namespace.

    Raises SourceError if the text cannot be a kernel's name.
    """
    match = _ENTRY.fullmatch(written.strip())
    if match is None:
        raise SourceError(
            f"{written!r} given as the name of a kernel in {files[0].path.name}; expected a C++ name, qualified, with "
            "template arguments or with its parameters' types in brackets as it needs"
        )
    found = set() if match["scope"] else {scope for file in files for scope in _scopes(file.text, match["name"])}
    (scope,) = found if len(found) == 1 else ("",)
    return KernelEntry(match["name"], scope + match["kernel"].strip(), match["parameters"] or "")


def _scopes(text: str, kernel: str) -> Iterator[str]:
    """The namespaces around each definition of a kernel, as ``outer::inner::``."""
    code = code_of(text)
    names = {each.end() - 1: "".join(each["name"].split()) + "::" for each in _NAMESPACE.finditer(code) if each["name"]}
    wanted = {each.start() for each in KERNEL_HEAD.finditer(code) if each["name"] == kernel}
    around: list[str] = []
    before: list[list[str]] = []  # by condition, what is around it: each of its branches may close that
    directives = DIRECTIVE.finditer(masked(text, literals=True))
    for match in sorted([*re.finditer("[{}]|__global__", code), *directives], key=lambda each: each.start()):
        word = match[0].lstrip(" \t#")
        if word == "{":
            around.append(names.get(match.start(), ""))
        elif word == "}":
            del around[-1:]
        elif word.startswith("if"):
            before.append([*around])
        elif word.startswith("el") and before:
            around = [*before[-1]]
        elif word.startswith("endif"):
            del before[-1:]
        elif match.start() in wanted:
            yield "".join(around)


def no_such_kernel(files: Sequence[SourceFile], entry: str, detail: str = "") -> str:
    """The message for an entry that the files do not have: which kernels they have, and how to name one."""
    names = [name for file in files for name in kernels(file.text)]
    known = f"it has {', '.join(names)}" if names else "it defines no __global__ function"
    example = next((name.replace("...", "float, 256") for name in names if "<" in name), "softmax<float, 256>")
    return (
        f"{files[0].path.name} has no entry point `{entry}`{detail}: {known}; give the stage's `entry` as a name, a "
        f"template-id such as `{example}`, or, of several of one name, as `{example}(float*, int)`"
    )


_MISSING_FILE = re.compile(
    r"open source file \"([^\"]+)\"|(?:^|: |')([^'\":\n]+)'?(?:: No such file| file not found)", re.MULTILINE
)


def missing_header(message: str) -> str | None:
    """The header that is missing according to a compiler's error."""
    found = _MISSING_FILE.search(message)
    return (found[1] or found[2]) if found else None


def source_text(path: Path) -> str:
    """The text of a source, UTF-8 or Latin-1. SourceError if it cannot be read or is binary."""
    content = read_source(path)
    if b"\0" in content:
        raise SourceError(f"{path}: expected the source of a kernel, UTF-8 or Latin-1 text; it has a zero byte")
    try:
        text = content.decode("utf-8-sig")  # NVRTC takes no byte-order mark
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    return text.replace("\r\n", "\n").replace("\r", "\n")
