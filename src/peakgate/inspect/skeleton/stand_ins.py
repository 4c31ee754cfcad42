"""What a foreign file's kernels need of headers that are not there: found by building them, written in their place.

A name whose meaning is certain is declared (``meanings``). Any other one is left to fill in, since a guess could change
the kernel.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from peakgate.base import progress
from peakgate.base.emulated import read_sources
from peakgate.base.errors import BuildError, PeakgateError
from peakgate.base.files import write_whole
from peakgate.device.cpu import load
from peakgate.inspect import workers
from peakgate.inspect.skeleton.meanings import meaning
from peakgate.inspect.workers import IdleWorkers, TaskProgress
from peakgate_emulator.errors import KernelBuildError
from peakgate_emulator.masking import DIRECTIVE, code_of, without_comments
from peakgate_emulator.sources import SourceFile

IN_FOLDER = "stand_ins"
"""The folder beside a family with the stand-ins for missing headers."""
DECLARATIONS = f"{IN_FOLDER}/needed.h"
"""What the kernels need of all of them: the others include it."""
_ABOVE = "above"
"""A folder in it from which names that begin with ``../`` are found."""
_LIMIT_S = 300.0
"""Processor time of a build."""
BUILDS_S = 120.0
"""After so long no further builds begin to find what kernels need."""

_OF_CUDA = re.compile(
    r"/|cub/(?!device/)|(?:cuda|nv)/[\w/]+$|cu(?:da|rand\w*|blas\w*|fft\w*|solver\w*|sparse\w*)\.h|"
    r"cuda_(?:fp\d+|bf16|pipeline\w*|awbarrier\w*|(?:device_)?runtime\w*)\.h"
)
"""Headers that a GPU's build finds, or names that are none: no stand-in takes their place."""
_DEFINE = re.compile(r"#define (\w+(?:\([^()]*\))?) (.+)")
_CONDITION = re.compile(r"^[ \t]*#[ \t]*(?:el)?if.*", re.MULTILINE)
_OF_A_CUDA_BUILD = re.compile(r"\b(?:\w+_)?(?:USE|WITH|HAVE|HAS|ENABLE)_CUDA\b")
_WORD = re.compile(r"[A-Za-z_]\w*")
_CALL = re.compile(r"^[ \t]*(?P<name>[A-Za-z_]\w*)[ \t]*\([^;{}]*?\)[ \t]*;?[ \t]*$", re.MULTILINE)
_OF_A_NAMESPACE = re.compile(r"\b(?:namespace\b[\w\s:]*|extern\s+)$")
_TYPE = (
    r"(?:auto|bool|char|short|int|long|unsigned|float|double|half|u?int\d+_t|size_t|[A-Z]|scalar_t|"
    r"(?:u?(?:char|short|int|long)|float|double|half)[1234])"
)
_TO_FILL_IN = "// to fill in: "
_NEEDED_HEAD = "// What the kernels need of headers that are missing here, which include this file."
_COPY, _FILL_IN = "copy {} into the project, or ", f"fill in {DECLARATIONS}; then delete family.py and run this again"
_MOST_LEFT = 12
"""Names that are left to fill in: what is behind them is often an effect of them."""


@dataclass(frozen=True, slots=True)
class StandIns:
    """What takes the place of missing headers, and why kernels still do not build.

    ``files`` are texts by path below the family's folder, ``folders`` those of them that are searched, before all
    others. ``headers`` are the missing ones, ``replaced`` those that do not build; where there are none, names are
    declared by ``defines``. ``left`` are the names to fill in, each with a line that uses it. ``problems`` are those of
    kernels by their entry.
    """

    folders: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    headers: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    defines: Mapping[str, str] = field(default_factory=dict)
    left: Mapping[str, str] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> list[Path]:
        """Write the files below a family's folder; their paths. Those that are there stay; `needed.h` gets lines."""
        written = []
        for name, text in self.files.items():
            path = folder / name
            before = path.read_text(encoding="utf-8") if path.exists() else ""
            more = (
                [line for line in text.splitlines(keepends=True) if line not in before] if name == DECLARATIONS else []
            )
            if more or not path.exists():
                write_whole(path, before + "".join(more) if before else text)
                written.append(path)
        return written

    def to_do(self, folder: str) -> list[str]:
        """What is left to do for a person, with the lines of the files below ``folder``."""
        found = []
        if self.left and self.folders:
            lines = self.files[DECLARATIONS].splitlines()
            at = [str(number) for number, line in enumerate(lines, 1) if line.startswith(_TO_FILL_IN)]
            found.append(f"{folder}/{DECLARATIONS}:{', '.join(at)}: fill in {', '.join(self.left)}")
        if self.headers:
            found.append(f"{folder}/{IN_FOLDER}: {', '.join(self.headers)}: missing, stand-ins here")
        if self.replaced:
            several = ", ".join(self.replaced)
            found.append(
                f"{folder}/{IN_FOLDER}: {several}: do not build, only their macros here; delete one to have it back"
            )
        return found


@dataclass(frozen=True, slots=True)
class _Build:
    """Why a kernel does not build, and what KernelBuildError says of it; empty if it does."""

    problem: str = ""
    undeclared: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def stand_ins(entries: Sequence[str], source: Path, include: tuple[Path, ...], idle: IdleWorkers) -> StandIns:
    """What the kernels of a file need besides the headers in the folders ``include``, found by building each.

    They are built by the ``idle`` workers. A header that is there but does not build gets a stand-in too, if more
    kernels build with it than without.
    """
    ends = time.monotonic() + BUILDS_S
    found = _built_with(entries, source, include, ends, idle, replace=False)
    if found.problems and time.monotonic() < ends:
        other = _built_with(entries, source, include, ends, idle, replace=True)
        if other.problems.keys() < found.problems.keys():
            return other
    return found


def _built_with(
    entries: Sequence[str], source: Path, include: tuple[Path, ...], ends: float, idle: IdleWorkers, *, replace: bool
) -> StandIns:
    """The stand-ins with which most kernels build, also in place of headers that do not build if ``replace``.

    The first kernels are built alone until nothing more is found, since most need the same. After ``ends``, a time of
    ``time.monotonic``, what is found by then is tried with all of them.
    """
    every = read_sources(source, include)
    of_file = dict.fromkeys(_calls_of_file(every), "#define {name}(...)")
    headers: list[str] = []
    replaced: list[str] = []
    known: dict[str, str] = {}
    in_vain: set[str] = set()
    for_cuda: dict[str, str] = {}
    tried = entries[: os.cpu_count() or 1]
    with TemporaryDirectory() as temporary:
        while True:
            folders, files = _files([*headers, *replaced], known, {})
            for path, text in files.items():
                write_whole(Path(temporary, path), text)
            searched = (*(Path(temporary, folder) for folder in folders), *include)
            macros = () if folders else filter(None, map(_DEFINE.fullmatch, known.values()))
            defines = for_cuda | {match[1]: match[2] for match in macros}
            builds = _built(tried, source, searched, defines, idle)
            failing, is_late = any(each.problem for each in builds.values()), time.monotonic() > ends
            lacking = {name for each in builds.values() for name in each.missing} - {*headers}
            if lacking and not is_late:
                headers += sorted(lacking)
                continue
            sources = read_sources(source, searched)
            undeclared = [*dict.fromkeys(name for each in builds.values() for name in each.undeclared)]
            in_vain |= known.keys() & {*undeclared}
            certain = _certain(undeclared, sources, every, only_macros=not folders)
            new = certain.keys() - known.keys() - in_vain
            if not new and failing:
                certain = {name: text.format(name=name) for name, text in of_file.items()}
                new = certain.keys() - known.keys() - in_vain
            known = {name: text for name, text in known.items() if name not in in_vain}
            if is_late and len(tried) == len(entries):
                break
            if is_late:
                tried = entries
            elif new:
                known |= {name: text for name, text in certain.items() if name in new}
            elif failing and not for_cuda and (asked_for := _for_cuda(sources)):
                for_cuda = asked_for
            elif replace and (more := _of_problems(builds.values(), sources) - {*replaced}):
                replaced += sorted(more)
            elif len(tried) < len(entries):
                tried = entries
            else:
                break
    kernels = {re.split("[<(]", entry)[0] for entry in entries}  # one of them has no head that is read
    left = _left([name for name in undeclared if name not in kernels], sources)
    folders, files = _files([*headers, *replaced], known, left)
    problems = {
        entry: _lacking([name for name in each.undeclared if name in left], left, headers, folders) or each.problem
        for entry, each in builds.items()
        if each.problem
    }
    return StandIns(folders, files, tuple(headers), tuple(replaced), defines, left, problems)


def _for_cuda(sources: Sequence[SourceFile]) -> dict[str, str]:
    """The macros that conditions ask for in a build with CUDA, such as ``WITH_CUDA``."""
    conditions = "\n".join(match[0] for file in sources for match in _CONDITION.finditer(file.text))
    return dict.fromkeys(_OF_A_CUDA_BUILD.findall(conditions), "1")


def _of_problems(builds: Iterable[_Build], sources: Sequence[SourceFile]) -> set[str]:
    """The names by which headers with the builds' errors are included, if another folder may have them too."""
    failing = {name for each in builds for name in each.files}
    names = {(name, path) for file in sources for name, path in file.includes.items()}
    beside = {path for file in sources for name, path in file.includes.items() if (file.path.parent / name).is_file()}
    return {name for name, path in names if path.name in failing and path not in beside and ".." not in name}


def searched_below(folder: Path) -> tuple[Path, ...]:
    """The folders with stand-ins that a family has already."""
    there = [folder / IN_FOLDER]
    while there[-1].is_dir():
        there.append(there[-1] / _ABOVE)
    return tuple(there[:-1])


def _files(
    headers: Sequence[str], known: Mapping[str, str], left: Mapping[str, str]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The folders that are searched, and the text of each file: an empty one for each header unless names are known."""
    if not headers:
        return (), {}
    included = f'#include "{Path(DECLARATIONS).name}"\n' if known or left else ""
    folders, files = [IN_FOLDER], {}
    for name in headers:
        above = name.count("../")
        if above:
            folders.append("/".join([IN_FOLDER, *[_ABOVE] * above]))
            files[f"{folders[-1]}/.gitkeep"] = ""
        files[f"{IN_FOLDER}/{name.removeprefix('../' * above)}"] = (
            f"// In place of a header that is missing here.\n{included}"
        )
    if included:
        lines = [f"{_TO_FILL_IN}{name}; {use}" for name, use in left.items()]
        files[DECLARATIONS] = "\n".join([_NEEDED_HEAD, "#pragma once", *dict.fromkeys(known.values()), *lines, ""])
    return tuple(dict.fromkeys(folders)), files


def _built(
    entries: Sequence[str], source: Path, include: tuple[Path, ...], defines: Mapping[str, str], idle: IdleWorkers
) -> dict[str, _Build]:
    """The builds of kernels, in processes that the kernels' code may end."""
    tasks = [partial(_build, entry, source, include, tuple(defines.items())) for entry in entries]
    builds_of = workers.run(tasks, max(1, min(len(tasks), os.cpu_count() or 1)), limit_s=_LIMIT_S, idle=idle)
    answers = dict(progress.each(builds_of, "building the kernels, to find what they need", len(tasks), "kernel"))
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
        if not isinstance(cause, KernelBuildError):
            return _Build(str(error))
        missing = tuple(name for name in cause.missing if not _OF_CUDA.match(name) and not re.search(r"\w/\.\./", name))
        return _Build(str(error), cause.undeclared, missing, cause.files)
    return _Build()


def _certain(
    names: Sequence[str], sources: Sequence[SourceFile], every: Sequence[SourceFile], *, only_macros: bool
) -> dict[str, str]:
    """The declarations of names, with the macros that the sources use of those of ``every`` file that are gone.

    ``only_macros``: no other declaration has a place, since nothing includes a stand-in.
    """
    there = {each.path for each in sources}
    gone = [file for file in every if file.path not in there]
    directly = "\n".join(without_comments(file.text) for file in sources)
    away = "\n".join(without_comments(file.text) for file in gone)
    found: dict[str, str] = {}
    words = {*_WORD.findall(directly)}
    macros = _unconditional([without_comments(file.text) for file in gone])
    while used := macros.keys() & words - found.keys():
        for name in used:
            found[name] = macros[name]
            words |= {*_WORD.findall(found[name])}
    for name in names:
        space = re.search(rf"\busing\s+namespace\s+((?:\w+::)*{re.escape(name)}(?:::\w+)*)\s*;", directly)
        text = meaning(name)
        if text is None and space:
            parts = space[1].split("::")
            text = "".join(f"namespace {each} {{ " for each in parts) + "}" * len(parts)
        if text is not None and (text.startswith("#include") or not re.search(rf"\b{re.escape(name)}\b", away)):
            found.setdefault(name, text)
    return {name: text for name, text in found.items() if text and (not only_macros or _DEFINE.fullmatch(text))}


def _unconditional(texts: Iterable[str]) -> dict[str, str]:
    """The macros that texts define once, under no condition but that of a guard or of not being defined."""
    found: dict[str, str] = {}
    again: set[str] = set()
    for text in texts:
        conditions: list[str] = []
        for match in DIRECTIVE.finditer(text):
            word, _, rest = match[0].lstrip(" \t#").partition(" ")
            name = next(iter(_WORD.findall(rest)), "")
            if word.startswith("if"):
                is_guard = word == "ifndef" and re.search(rf"#\s*define\s+{name}\b", text) is not None
                conditions.append("" if is_guard else match[0])
            elif word.startswith("endif"):
                del conditions[-1:]
            elif word.startswith("el") and conditions:
                conditions[-1] = match[0]
            elif word == "define":
                again |= {name} if name in found or any(conditions) else set()
                found[name] = match[0].strip()
    return {name: text for name, text in found.items() if name not in again}


def _calls_of_file(sources: Sequence[SourceFile]) -> list[str]:
    """Macros that a file calls outside of all functions and types, and that it does not define."""
    found: dict[str, None] = {}
    for file in sources:
        code, around, at = code_of(file.text), list[bool](), 0  # whether each bracket around is that of a namespace
        for match in re.finditer(rf"[{{}}]|{_CALL.pattern}", code, re.MULTILINE):
            if match[0] == "{":
                around.append(_OF_A_NAMESPACE.search(code, at, match.start()) is not None)
            elif match[0] == "}":
                del around[-1:]
            elif all(around) and re.search(r"[;{})]\s*$|^\s*$", code[: match.start()]):
                found[match["name"]] = None
            at = match.end()
    written = "\n".join(file.text for file in sources)
    return [name for name in found if not re.search(rf"#[ \t]*define[ \t]+{name}\b", written)]


def _left(undeclared: Sequence[str], sources: Sequence[SourceFile]) -> dict[str, str]:
    """The names to fill in, each with the line that uses it first, without those that are declared with one of them."""
    types = "|".join([_TYPE, *map(re.escape, undeclared)])
    before = rf"(?:^|[;{{}}(,]|\b(?:const|__shared__|static))\s*(?:{types})(?:\s*<[^;{{}}()]*>)?[\s*&]+"
    found: dict[str, str] = {}
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


def _lacking(names: Sequence[str], left: Mapping[str, str], headers: Sequence[str], found: Sequence[str]) -> str:
    """Why a kernel does not build that needs names to be filled in, in folders if any are ``found``; empty if none."""
    if not names:
        return ""
    places = ", ".join(f"{name} ({left[name].partition(' ')[0]})" for name in names)
    if not found:
        return str(BuildError(f"not declared: {places}; if they are macros of a build, give `defines` in family.py"))
    copy = _COPY.format(", ".join(headers)) if headers else ""
    return str(BuildError(f"not declared: {places}; {copy}{_FILL_IN}"))
