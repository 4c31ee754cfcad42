"""What a foreign file's kernels need of headers that are not there: found by building them, written in their place.

A name whose meaning is certain is declared (``meanings``). Any other one is left to fill in, since a guess could change
the kernel.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from peakgate.base.emulated import read_sources
from peakgate.base.errors import BuildError, PeakgateError
from peakgate.base.files import write_whole
from peakgate.device.cpu import load
from peakgate.inspect import workers
from peakgate.inspect.skeleton.meanings import meaning
from peakgate.inspect.workers import TaskProgress
from peakgate_emulator.errors import KernelBuildError
from peakgate_emulator.masking import code_of
from peakgate_emulator.sources import SourceFile, missing_header

FOLDER = "stand_ins"
"""The folder beside a family with the stand-ins for missing headers."""
NEEDED = f"{FOLDER}/needed.h"
"""What the kernels need of all of them: the others include it."""
_ABOVE = "above"
"""A folder in it from which names that begin with ``../`` are found."""
_LIMIT_S = 300.0
"""Processor time of a build."""

_OF_CUDA = re.compile(
    r"/|(?:cub|cuda|nv|thrust)/|cu(?:da|rand\w*|blas\w*|fft\w*|solver\w*|sparse\w*)\.h|"
    r"cuda_(?:fp\d+|bf16|pipeline\w*|awbarrier\w*|(?:device_)?runtime\w*)\.h"
)
"""Headers that a GPU's build finds, or names that are none: no stand-in takes their place."""
_DEFINE = re.compile(r"#define (\w+(?:\([^()]*\))?) (.+)")
_CALL = re.compile(r"^[ \t]*(?P<name>[A-Za-z_]\w*)[ \t]*\([^;{}]*?\)[ \t]*;?[ \t]*$", re.MULTILINE)
_TYPE = (
    r"(?:auto|bool|char|short|int|long|unsigned|float|double|half|u?int\d+_t|size_t|[A-Z]|scalar_t|"
    r"(?:u?(?:char|short|int|long)|float|double|half)[1234])"
)
_HEAD = "// In place of a header that is missing here.\n"
_TO_FILL_IN = "// to fill in: "
_NEEDED_HEAD = "// What the kernels need of headers that are missing here, which include this file."
_THEN = f"copy {{}} into the project, or fill in {NEEDED}; then delete family.py and run this again"
_MOST_LEFT = 12
"""Names that are left to fill in: what is behind them is often an effect of them."""


@dataclass(frozen=True, slots=True)
class StandIns:
    """What takes the place of missing headers, and why kernels still do not build.

    ``files`` are texts by path below the family's folder, ``folders`` those of them that are searched. ``headers`` are
    the missing ones; where there are none, names are declared by ``defines``. ``left`` are the names to fill in, each
    with a line that uses it. ``problems`` are those of kernels by their entry.
    """

    folders: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    headers: tuple[str, ...] = ()
    defines: Mapping[str, str] = field(default_factory=dict)
    left: Mapping[str, str] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> list[Path]:
        """Write the files below a family's folder; their paths. Those that are there stay; `needed.h` gets lines."""
        written = []
        for name, text in self.files.items():
            path = folder / name
            before = path.read_text(encoding="utf-8") if path.exists() else ""
            more = [line for line in text.splitlines(keepends=True) if line not in before] if name == NEEDED else []
            if more or not path.exists():
                write_whole(path, before + "".join(more) if before else text)
                written.append(path)
        return written

    def to_do(self, folder: str) -> list[str]:
        """What is left to do for a person, with the lines of the files below ``folder``."""
        found = []
        if self.left and self.headers:
            lines = self.files[NEEDED].splitlines()
            at = [str(number) for number, line in enumerate(lines, 1) if line.startswith(_TO_FILL_IN)]
            found.append(f"{folder}/{NEEDED}:{', '.join(at)}: fill in {', '.join(self.left)}")
        if self.headers:
            found.append(f"{folder}/{FOLDER}: {', '.join(self.headers)}: missing, stand-ins here")
        return found


@dataclass(frozen=True, slots=True)
class _Build:
    """Why a kernel does not build, and the names without a declaration; empty if it does."""

    problem: str = ""
    undeclared: tuple[str, ...] = ()


def stand_ins(entries: Sequence[str], source: Path, include: tuple[Path, ...]) -> StandIns:
    """What the kernels of a file need besides the headers in the folders ``include``, found by building each."""
    sources = read_sources(source, include)
    code = "\n".join(code_of(file.text) for file in sources)
    of_file = dict.fromkeys(_calls_of_file(sources), "#define {name}(...)")
    headers: list[str] = []
    known: dict[str, str] = {}
    in_vain: set[str] = set()
    with TemporaryDirectory() as temporary:
        while True:
            folders, files = _files(headers, known, {})
            for path, text in files.items():
                write_whole(Path(temporary, path), text)
            searched = (*include, *(Path(temporary, folder) for folder in folders))
            builds = _built(entries, source, searched, {} if headers else _macros(known))
            header = next((name for each in builds.values() if (name := _missing(each.problem, headers))), None)
            if header is not None:
                headers.append(header)
                continue
            undeclared = [*dict.fromkeys(name for each in builds.values() for name in each.undeclared)]
            in_vain |= known.keys() & {*undeclared}
            certain = {name: text for name in undeclared if (text := _certain(name, code)) is not None}
            if not headers:  # nothing includes a stand-in
                certain = {name: text for name, text in certain.items() if _DEFINE.fullmatch(text)}
            new = certain.keys() - known.keys() - in_vain
            if not new and any(each.problem for each in builds.values()):
                certain = {name: text.format(name=name) for name, text in of_file.items()}
                new = certain.keys() - known.keys() - in_vain
            known = {name: text for name, text in known.items() if name not in in_vain}
            if not new:
                break
            known |= {name: text for name, text in certain.items() if name in new}
    kernels = {re.split("[<(]", entry)[0] for entry in entries}  # one of them has no head that is read
    left = _left([name for name in undeclared if name not in kernels], sources)
    folders, files = _files(headers, known, left)
    problems = {
        entry: _lacking([name for name in each.undeclared if name in left], left, headers) or each.problem
        for entry, each in builds.items()
        if each.problem
    }
    return StandIns(folders, files, tuple(headers), {} if headers else _macros(known), left, problems)


def searched_below(folder: Path) -> tuple[Path, ...]:
    """The folders with stand-ins that a family has already."""
    there = [folder / FOLDER]
    while there[-1].is_dir():
        there.append(there[-1] / _ABOVE)
    return tuple(there[:-1])


def _files(
    headers: Sequence[str], known: Mapping[str, str], left: Mapping[str, str]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The folders that are searched, and the text of each file: an empty one for each header unless names are known."""
    if not headers:
        return (), {}
    included = f'#include "{Path(NEEDED).name}"\n' if known or left else ""
    folders, files = [FOLDER], {}
    for name in headers:
        above = name.count("../")
        if above:
            folders.append("/".join([FOLDER, *[_ABOVE] * above]))
            files[f"{folders[-1]}/.gitkeep"] = ""
        files[f"{FOLDER}/{name.removeprefix('../' * above)}"] = (
            f"// In place of a header that is missing here.\n{included}"
        )
    if included:
        lines = [f"{_TO_FILL_IN}{name}; {use}" for name, use in left.items()]
        files[NEEDED] = "\n".join([_NEEDED_HEAD, "#pragma once", *dict.fromkeys(known.values()), *lines, ""])
    return tuple(dict.fromkeys(folders)), files


def _macros(known: Mapping[str, str]) -> dict[str, str]:
    return dict(match.groups() for text in known.values() if (match := _DEFINE.fullmatch(text)))


def _missing(problem: str, headers: Sequence[str]) -> str | None:
    """The header that a build misses and that a stand-in may replace."""
    name = missing_header(problem)
    if name is None or name in headers or ".." in re.sub(r"^(?:\.\./)+", "", name) or _OF_CUDA.match(name):
        return None
    return name


def _built(
    entries: Sequence[str], source: Path, include: tuple[Path, ...], defines: Mapping[str, str]
) -> dict[str, _Build]:
    """The builds of kernels, in processes that the kernels' code may end."""
    tasks = [partial(_build, entry, source, include, tuple(defines.items())) for entry in entries]
    answers = dict(workers.run(tasks, max(1, min(len(tasks), os.cpu_count() or 1)), limit_s=_LIMIT_S))
    found = (answers[number] for number in range(len(tasks)))
    builds = (_Build(each.how) if isinstance(each, workers.Died) else each for each in found)
    return dict(zip(entries, builds, strict=True))


def _build(
    entry: str, source: Path, include: tuple[Path, ...], defines: tuple[tuple[str, str], ...], report: TaskProgress
) -> _Build:
    report(entry)
    try:
        load(source, entry, defines, include=include)
    except PeakgateError as error:
        cause = error.__cause__
        return _Build(str(error), cause.undeclared if isinstance(cause, KernelBuildError) else ())
    return _Build()


def _certain(name: str, code: str) -> str | None:
    """The declaration of a name, also of a namespace whose members the code may use without its name."""
    used = re.search(rf"\busing\s+namespace\s+((?:\w+::)*{re.escape(name)}(?:::\w+)*)\s*;", code)
    if (text := meaning(name)) is None and used:
        parts = used[1].split("::")
        return "".join(f"namespace {each} {{ " for each in parts) + "}" * len(parts)
    return text


def _calls_of_file(sources: Sequence[SourceFile]) -> list[str]:
    """Macros that a file calls outside of all functions, and that it does not define."""
    found = []
    for file in sources:
        code = code_of(file.text)
        for match in _CALL.finditer(code):
            before = code[: match.start()]
            outside = before.count("{") == before.count("}") and before.count("(") == before.count(")")
            if outside and re.search(r"[;})]\s*$|^\s*$", before):
                found.append(match["name"])
    written = "\n".join(file.text for file in sources)
    return [name for name in dict.fromkeys(found) if not re.search(rf"#[ \t]*define[ \t]+{name}\b", written)]


def _left(undeclared: Sequence[str], sources: Sequence[SourceFile]) -> dict[str, str]:
    """The names to fill in, each with the line that uses it first, without those that are declared with one of them."""
    types = "|".join([_TYPE, *map(re.escape, undeclared)])
    before = rf"(?:^|[;{{}}(,]|\b(?:const|__shared__|static))\s*(?:{types})(?:\s*<[^;{{}}()]*>)?[\s*&]+"
    found = {}
    for name in undeclared:
        declared = rf"{before}{name}\s*[;,=)\[]"
        word = re.compile(rf"\b{re.escape(name.rpartition('::')[2])}\b")
        if not any(re.search(declared, code_of(file.text), re.MULTILINE) for file in sources):
            places = ((file, match) for file in sources if (match := word.search(code_of(file.text))))
            if (place := next(places, None)) is not None:
                line = place[0].text.count("\n", 0, place[1].start()) + 1
                used = " ".join(place[0].text.splitlines()[line - 1].split())
                found[name] = f"{place[0].path.name}:{line} uses: {used}"
        if len(found) == _MOST_LEFT:
            break
    return found


def _lacking(names: Sequence[str], left: Mapping[str, str], headers: Sequence[str]) -> str:
    """Why a kernel does not build that needs names to be filled in; empty if it does not."""
    if not names:
        return ""
    places = ", ".join(f"{name} ({left[name].partition(' ')[0]})" for name in names)
    if not headers:
        return str(BuildError(f"not declared: {places}; if they are macros of a build, give `defines` in family.py"))
    several = ", ".join(headers)
    return str(BuildError(f"not declared: {places}; {_THEN.format(several)}"))
