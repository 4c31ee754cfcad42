"""Removes host code from CUDA sources.

NVRTC and the emulator's C++ compiler both fail at a host function. All functions work on masked text, in which
comments, literals and directives are replaced by blanks, so that positions stay the same.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path

from peakgate_emulator.files import write_whole
from peakgate_emulator.masking import DIRECTIVE, blanks, closing, code_of, masked
from peakgate_emulator.sources import INCLUDE, SourceFile, missing_header

PEAKGATE_MACRO = "PEAKGATE"
"""Macro that both builds define: code under ``#ifndef PEAKGATE`` is only for the host compiler."""
_WORD = re.compile(r"[A-Za-z_]\w*")
_HOST_WORDS = (
    r"cu(?:da(?!GridDependency|TriggerProgrammatic|TextureObject_t|SurfaceObject_t|BoundaryMode)[A-Z]|"
    r"blas|fft|solver|sparse|dnn)\w*|"
    r"CU(?:result|context|device\w*|module|function|stream|event|mem[A-Z]\w*|tensorMap[A-Z]\w*)|PFN_cu\w+|CUDA_SUCCESS|"
    r"cu(?:TensorMap|Ctx|Device|Module|Launch|Func|Mem|Stream|Event|Init|Get|Driver|Occupancy)[A-Z]\w*|"
    r"curand(?:Create|Generate|Set|Destroy)\w*|nccl[A-Z]\w*|MPI_\w+|"
    r"checkCudaErrors|getLastCudaError|findCudaDevice|FILE|stderr|stdout|throw|"
    r"std\s*::\s*(?:vector|string|string_view|cout|cerr|endl|ostream|istream|[io]fstream|stringstream|chrono|thread|mt19937\w*|"
    r"random_device|\w+_distribution|function|unique_ptr|shared_ptr|(?:unordered_)?(?:multi)?(?:map|set)|list|deque|queue|stack|"
    r"runtime_error|logic_error|invalid_argument|exception)|"
    r"thrust|std\s*::\s*(?:exit|abort|rand|srand)|argc|argv|"
    r"pybind11\s*::\s*\w+|(?:torch|at|c10)\s*::\s*(?!(?:Half|BFloat16|complex|acc_type|opmath_type|\w*TensorAccessor(?:32|64)?|"
    r"\w+PtrTraits|cuda\s*::\s*detail\s*::\s*(?:TensorInfo|IndexToOffset))\b)\w+|"
    r"(?:TORCH|PYBIND11|AT)_[A-Z]\w*"
)
_HOST_CALLS = r"malloc|calloc|realloc|free|exit|fopen|fclose|fprintf|fflush|getenv|atoi|atof|rand|srand|system"
_HOST = re.compile(rf"(?P<launch>\b\w++\s*+(?:<[^<>;{{}}]*+>\s*+)?<<<)|\b(?:{_HOST_WORDS})\b|\b(?:{_HOST_CALLS})\s*\(")
_HOST_WITH_STD = re.compile(
    rf"{_HOST.pattern}|\b(?:string|[io]?stringstream|[io]f?stream|cout|cerr|endl)\b|\b(?:vector|map|set|list|queue)\s*<"
)
"""The same for a source with ``using namespace std``."""

_HELD_BY_HOST = re.compile(
    r"\bstd\s*::\s*(?:vector|string|string_view|[io]stream|(?:unordered_)?(?:map|set)|function)\b"
)
"""Types of parameters with which no kernel can call a function, also where it is annotated for the device."""

_HANDLE = re.compile(r"\bcuda(?:Stream|Event)_t\b")
"""Types of the host's runtime that a type for device code may have as members."""

_ANNOTATIONS = (
    *("__global__", "__device__", "__constant__", "__shared__", "__managed__", "constexpr", "consteval"),
    *("C10_DEVICE", "C10_HOST_DEVICE"),
)
_ON_DEVICE = ("__device__", "C10_DEVICE", "C10_HOST_DEVICE")
_HOST_TYPE = re.compile(r"\b(?:struct|class)\s+(?P<name>\w+)")
_NAMED_TYPE = re.compile(rf"\A\s*typedef\b[^{{}}]*?(\w+)\s*;|\A\s*using\s+(\w+)\s*=|{_HOST_TYPE.pattern}")
_TYPE = re.compile(r"\s*(?:typedef\s+)?(?:struct|class|union|enum)\b")


def host_code(text: str, line: int) -> str | None:
    """A description of the host code on a line; None if there is none."""
    lines = code_of(text).splitlines()
    match = _HOST.search(lines[line - 1]) if 0 < line <= len(lines) else None
    if match is None:
        return None
    return f"`{match['launch']}...>>>` is a launch" if match["launch"] else f"`{match[0].rstrip('( ')}` is host code"


def remedy(files: Sequence[SourceFile], name: str, line: int, message: str) -> str:
    """Advice for an error at a line of a file, as "; do this": an include folder, or to exclude host code."""
    if missing_header(message):
        guarded = f"put the line under `#ifndef {PEAKGATE_MACRO}`"
        empty = "write an empty file of that name in a folder of `include`"
        return f"; add its folder to the stage's `include`; if only host code needs it, {empty}, or {guarded}"
    file = next((file for file in files if file.path.name == name), None)
    host = host_code(file.text, line) if file else None
    if file is None or host is None:
        return ""
    kept = "" if _Parsed(file).is_divided else f", which is kept because the brackets of {name} do not match"
    return f"; {host}{kept}: put it under `#ifndef {PEAKGATE_MACRO}`, a macro that both builds define"


def device_only(
    files: Sequence[SourceFile], kernels: Collection[str], folder: Path, rewrite: Callable[[str], str] = str
) -> Iterator[Path]:
    """Yields files to compile, to be tried in order: without host code, then also without other kernels.

    Each is the source itself or a copy in ``folder``. Functions and other declarations that use the host's libraries
    are removed, and host functions that no kernel mentions; line numbers stay. Each text is then passed to ``rewrite``,
    which must keep lines too. If something needed was removed, the compiler reports it.
    """
    first = _copied(files, device_texts(files), folder, rewrite)
    yield first
    if (alone := _copied(files, device_texts(files, kernels), folder, rewrite)) != first:
        yield alone


def _copied(files: Sequence[SourceFile], texts: Sequence[str], folder: Path, rewrite: Callable[[str], str]) -> Path:
    """The path of the first file, copied with the files it includes if any text differs from the file's."""
    blanked = [rewrite(text) for text in texts]
    if all(text == file.text for text, file in zip(blanked, files, strict=True)):
        return files[0].path
    key = hashlib.sha256(repr([[str(file.path) for file in files], blanked]).encode()).hexdigest()[:20]
    copies = {file.path: folder / key / f"{at}-{file.path.name}" for at, file in enumerate(files)}
    for file, text in zip(files, blanked, strict=True):
        if not copies[file.path].exists():
            write_whole(copies[file.path], f'#line 1 "{file.path.name}"\n' + _redirected(text, file, copies))
    return copies[files[0].path]


def device_texts(files: Sequence[SourceFile], kernels: Collection[str] | None = None) -> list[str]:
    """The text of each file with its host code blanked, and the kernels other than ``kernels`` too, if given."""
    parsed = [_Parsed(file) for file in files]
    bare = any(re.search(r"\busing\s+namespace\s+std\b", part.code) for part in parsed)
    macros = dict(_MACRO.findall(" ".join(part.directives for part in parsed).replace("\\\n", " ")))
    host = _with_macros_of_host(_HOST_WITH_STD if bare else _HOST, macros)
    if kernels is not None or any(host.search(part.code) for part in parsed):
        drop, bodies = _host_code(parsed, kernels, host, macros)
        if kernels is not None:
            _add_what_needs_it(parsed, drop, bodies)
        return [_blanked(part, drop[id(part)], bodies[id(part)]) for part in parsed]
    return [file.text for file in files]


def _redirected(text: str, file: SourceFile, copies: Mapping[Path, Path]) -> str:
    """The text with its includes of other copied files pointing at the copies."""

    def redirect(match: re.Match[str]) -> str:
        target = file.includes.get(match["quoted"] or match["angled"])
        return match[0] if target is None else f'#include "{copies[target]}"'

    return INCLUDE.sub(redirect, text)


@dataclass(frozen=True, slots=True)
class _Declaration:
    """A declaration; ``head`` is a function's text up to the parenthesis of its parameters, inclusive."""

    start: int
    end: int
    head: str
    is_function: bool


class _Parsed:
    """A file as masked code.

    If its brackets match only within one branch of each preprocessor condition, ``code`` has the first branches alone.
    If they do not match then either, the file has one declaration, which is kept.
    """

    def __init__(self, file: SourceFile) -> None:
        self.file = file
        code = code_of(file.text)
        self.directives = " ".join(match[0] for match in DIRECTIVE.finditer(masked(file.text, literals=True)))
        candidates = ((tried, _closings(tried)) for tried in (code, _first_branches(file.text, code)))
        self.code, found = next((pair for pair in candidates if pair[1] is not None), (code, None))
        self.closings: Mapping[int, int] = found or {}
        self.is_divided = found is not None
        self.macros: Collection[str] = ()

    def separate(self, macros: Collection[str]) -> None:
        """End each call of a macro that gives whole declarations, which is written without a semicolon."""
        ends = [self.closings.get(call.end() - 1, -1) + 1 for call in _CALL.finditer(self.code) if call[1] in macros]
        characters = list(self.code)
        for end in ends:
            if 0 < end < len(characters) and characters[end].isspace():
                characters[end] = ";"
        self.code = "".join(characters)

    @cached_property
    def declarations(self) -> Sequence[_Declaration]:
        """The file's declarations, in order."""
        if self.is_divided:
            return tuple(_declarations(self, 0, len(self.code)))
        return (_Declaration(0, len(self.code), "", is_function=True),)


def _closings(code: str) -> Mapping[int, int] | None:
    """Where each bracket of masked code closes, by where it opens; None if they do not match."""
    found: dict[int, int] = {}
    opened: list[int] = []
    for match in re.finditer(r"[(){}\[\]]", code):
        if match[0] in "({[":
            opened.append(match.start())
        elif opened:
            found[opened.pop()] = match.start()
        else:
            return None
    return None if opened else found


def _first_branches(text: str, code: str) -> str:
    """The code with each ``#elif`` and ``#else`` branch replaced by blanks."""
    kept, begun, depth, hidden_at = [], 0, 0, 0
    for match in DIRECTIVE.finditer(masked(text, literals=True)):
        word = match[0].lstrip(" \t#")
        if word.startswith("if"):
            depth += 1
        elif word.startswith("el") and not hidden_at:
            kept.append(code[begun : match.start()])
            begun, hidden_at = match.start(), depth
        elif word.startswith("endif"):
            if hidden_at == depth:
                kept.append(blanks(code[begun : match.start()]))
                begun, hidden_at = match.start(), 0
            depth -= 1
    return "".join((*kept, code[begun:]))


_Item = tuple[_Parsed, _Declaration]


def _fates(
    parsed: Sequence[_Parsed], kernels: Collection[str] | None, host: re.Pattern[str]
) -> tuple[list[_Item], list[_Item], dict[int, list[_Declaration]]]:
    """Declarations to keep, those to keep if mentioned, and, by file, those to remove."""
    annotations = _with_their_macros(parsed, _ANNOTATIONS)
    keep: list[_Item] = []
    optional: list[_Item] = []
    drop: dict[int, list[_Declaration]] = {id(part): [] for part in parsed}
    gone = set[str]()  # types
    for part in parsed:
        if not part.is_divided:
            keep += [(part, declaration) for declaration in part.declarations]
            continue
        for declaration in part.declarations:
            body = part.code[declaration.start : declaration.end]
            fate = _fate(body, declaration, annotations, kernels, host)
            if fate is _Fate.KEPT and not declaration.is_function and _HANDLE.search(body):
                fate = _Fate.KEPT if gone.isdisjoint(_WORD.findall(body)) else _Fate.DROPPED
            if fate is _Fate.DROPPED:
                drop[id(part)].append(declaration)
                named = None if declaration.is_function else _NAMED_TYPE.search(_behind_templates(body))
                gone |= {*filter(None, named.groups())} if named else set()
            else:
                (optional if fate is _Fate.BY_MENTION else keep).append((part, declaration))
    functions = {_name(each.head) for items in drop.values() for each in items if each.is_function}
    functions -= {_name(each.head) for _, each in (*keep, *optional) if each.is_function} | {""}
    while of_gone := [
        (part, each)
        for part, each in keep
        if part.is_divided
        and _defined_name(part, each)
        and (_uses(part, each, gone, annotations) or _calls(part, each, functions, annotations))
    ]:  # what needs a type that is left out is kept if a kernel mentions it
        gone |= {_defined_name(part, each) for part, each in of_gone}
        keep = [item for item in keep if item not in of_gone]
        optional += of_gone
    return keep, optional, drop


def _with_their_macros(parsed: Sequence[_Parsed], words: Sequence[str]) -> set[str]:
    """The words, and the macros that are defined with one of them."""
    directives = " ".join(part.directives for part in parsed)
    return {*words, *re.findall(rf"#\s*define\s+(\w++)[^#]*?(?:{'|'.join(words)})", directives)}


def _with_macros_of_host(host: re.Pattern[str], macros: Mapping[str, str]) -> re.Pattern[str]:
    """A pattern of host code that also finds the macros of statements with some in their bodies, such as a throw."""
    whole = _of_declarations(macros)
    statements = {name: body for name, body in macros.items() if name not in whole}
    found = {name for name, body in statements.items() if host.search(body)}
    while more := {name for name, body in statements.items() if not found.isdisjoint(_WORD.findall(body))} - found:
        found |= more
    return re.compile(rf"{host.pattern}|\b(?:{'|'.join(sorted(found))})\b") if found else host


def _defined_name(part: _Parsed, declaration: _Declaration) -> str:
    """The name of the type, function or variable that a declaration defines; empty if it defines none."""
    if declaration.is_function:
        return _name(declaration.head)
    text = _behind_templates(part.code[declaration.start : declaration.end])
    found = re.match(r"\s*using\s+(\w+)\s*=|\s*typedef\b[^{}]*?(\w+)\s*;", text)
    if found is None and _TYPE.match(text):
        found = _HOST_TYPE.match(text.lstrip()) if "{" in text else None
    elif found is None:
        found = re.search(r"(\w+)\s*(?:\[[^\]]*\]\s*)*[={;]", text)
    return next(filter(None, found.groups()), "") if found else ""


def _uses(part: _Parsed, declaration: _Declaration, names: Collection[str], annotations: Collection[str]) -> bool:
    """Whether a declaration mentions one of the names, and nothing that is for the device alone."""
    words = {*_WORD.findall(part.code, declaration.start, declaration.end)}
    return not words.isdisjoint(names) and words.isdisjoint({*annotations} - {"constexpr", "consteval"})


def _calls(part: _Parsed, declaration: _Declaration, names: Collection[str], annotations: Collection[str]) -> bool:
    """Whether members of a type, none of which are for the device alone, call one of the names."""
    if declaration.is_function or not _uses(part, declaration, names, annotations):
        return False
    return not _called(part.code, declaration.start, declaration.end).isdisjoint(names)


def _host_code(
    parsed: Sequence[_Parsed], kernels: Collection[str] | None, host: re.Pattern[str], macros: Mapping[str, str]
) -> tuple[dict[int, list[_Declaration]], dict[int, list[tuple[int, int]]]]:
    """By file, the declarations to remove, and the spans of functions' bodies to remove in types that are kept."""
    whole = _of_declarations(macros)
    for part in parsed:
        part.macros = macros.keys()
        part.separate(whole)
    on_device = _with_their_macros(parsed, _ON_DEVICE)
    keep, optional, drop = _fates(parsed, kernels, host)
    optional = _without_callers(keep, optional, drop, macros)
    types = {
        (id(part), declaration): found["name"]
        for part in parsed
        for declaration in drop[id(part)]
        if not declaration.is_function
        and (found := _HOST_TYPE.search(_behind_templates(part.code[declaration.start : declaration.end])))
    }
    names = {*types.values()}
    by_name: dict[str, list[_Item]] = {}
    for part, declaration in optional:
        if names.isdisjoint(_qualifiers(declaration.head)):
            name = "operator" if "operator" in declaration.head else _defined_name(part, declaration)
            by_name.setdefault(name, []).append((part, declaration))
        else:
            drop[id(part)].append(declaration)
    bodies: dict[int, list[tuple[int, int]]] = {id(part): [] for part in parsed}
    for part, declaration in keep:
        body = part.code[declaration.start : declaration.end]
        if not declaration.is_function and _HOST_TYPE.match(_behind_templates(body).lstrip()) and host.search(body):
            bodies[id(part)] += _host_bodies(part, declaration, host, on_device) or ()
    by_directives = {word for part in parsed for word in _WORD.findall(part.directives)}
    mentioned = _mentioned(keep, by_name, by_directives | {"operator"}) if keep else set()
    called = [*mentioned & macros.keys()]
    while called:  # a macro mentions what is in its body
        more = {*_WORD.findall(macros[called.pop()])} - mentioned
        mentioned |= more
        called += more & macros.keys()
    heads = {
        type_name: part.code[declaration.start : declaration.end].partition("{")[0]
        for part in parsed
        for declaration in drop[id(part)]
        if (type_name := types.get((id(part), declaration)))
    }
    mentioned |= _bases(mentioned, heads)
    for part in parsed:  # keep types that a kernel uses, without the bodies of their host functions
        gone = []
        for declaration in drop[id(part)]:
            used = types.get((id(part), declaration)) in mentioned
            if used and (spans := _host_bodies(part, declaration, host, on_device)) is not None:
                bodies[id(part)] += spans
            else:
                gone.append(declaration)
        drop[id(part)] = gone
    for part, declaration in (item for items in by_name.values() for item in items):
        drop[id(part)].append(declaration)
    return drop, bodies


def _add_what_needs_it(
    parsed: Sequence[_Parsed], drop: dict[int, list[_Declaration]], bodies: dict[int, list[tuple[int, int]]]
) -> None:
    """Add to ``drop`` and ``bodies`` the types with a member of a removed type, and others' host functions with one."""
    kept = [(part, each) for part in parsed for each in part.declarations if each not in drop[id(part)]]
    lost = {
        _defined_name(part, each)
        for part in parsed
        for each in drop[id(part)]
        if not each.is_function or _USING.match(part.code, each.start, each.end)
    }
    lost -= {"", *(_defined_name(part, each) for part, each in kept)}
    on_device = _with_their_macros(parsed, _ON_DEVICE)
    types = [
        (part, each)
        for part, each in kept
        if not each.is_function
        and _HOST_TYPE.match(_behind_templates(part.code[each.start : each.end]).lstrip())
        and "{" in part.code[each.start : each.end]
    ]
    waiting = types
    while waiting:
        removed = set[str]()
        for part, each in waiting:
            body = part.code[each.start : each.end]
            own = {*re.findall(r"\b(?:struct|class|typename|using)\s+(\w+)", body)}
            if names := (lost & {*_WORD.findall(body)}) - own:
                spans = _host_bodies(part, each, re.compile(rf"\b(?:{'|'.join(sorted(names))})\b"), on_device)
                if spans is None:
                    drop[id(part)].append(each)
                    removed.add(_defined_name(part, each))
                else:
                    bodies[id(part)] += spans
        types = [(part, each) for part, each in types if each not in drop[id(part)]]
        lost, waiting = removed, types if removed else []


def _bases(used: Collection[str], heads: Mapping[str, str]) -> set[str]:
    """The words of the ``heads`` of types that are used, and of those of their bases."""
    found, waiting = set[str](), [name for name in heads if name in used]
    while waiting:
        more = {*_WORD.findall(heads[waiting.pop()])} - found
        found |= more
        waiting += more & heads.keys()
    return found


def _of_declarations(macros: Mapping[str, str]) -> set[str]:
    """The macros that give whole declarations, themselves or by the macro that they call last."""
    whole = {name for name, body in macros.items() if body.rstrip().endswith((";", "}"))}
    last = {name: found[1] for name, body in macros.items() if (found := _LAST_CALL.search(body))}
    while more := {name for name, called in last.items() if called in whole} - whole:
        whole |= more
    return whole


def _mentioned(keep: Sequence[_Item], by_name: dict[str, list[_Item]], words: Iterable[str]) -> set[str]:
    """The words in ``keep`` and, transitively, in the items of ``by_name`` for these words or for ``words``.

    Such items are removed from ``by_name``.
    """
    waiting, mentioned = [*keep], set[str]()
    for word in words:
        waiting += by_name.pop(word, ())
    while waiting:
        part, declaration = waiting.pop()
        fresh = {*_WORD.findall(part.code, declaration.start, declaration.end)} - mentioned
        mentioned |= fresh
        for word in fresh:
            waiting += by_name.pop(word, ())
    return mentioned


def _without_callers(
    keep: Sequence[_Item],
    optional: Sequence[_Item],
    drop: Mapping[int, list[_Declaration]],
    macros: Mapping[str, str],
) -> list[_Item]:
    """The optional items except those that declare or call a host function; these are moved to ``drop``.

    A call of one of the ``macros`` counts as those in its body.
    """
    kept = {_name(declaration.head) for _, declaration in keep if declaration.is_function}
    callers: dict[str, list[_Item]] = {}
    for part, each in optional:
        called = _called(part.code, each.start, each.end)
        waiting = [*called & macros.keys()]
        while waiting:
            body = macros[waiting.pop()]
            more = _called(body, 0, len(body)) - called
            called |= more
            waiting += more & macros.keys()
        called -= kept
        prototype = {_name(each.head)} if part.code[each.end - 1] == ";" else set()
        for name in called | prototype:
            callers.setdefault(name, []).append((part, each))
    gone = [_name(each.head) for declarations in drop.values() for each in declarations if each.is_function]
    dropped: set[tuple[int, int]] = set()
    callers.pop("", None)
    while gone:
        for part, each in callers.pop(gone.pop(), ()):
            if (id(part), each.start) not in dropped:
                dropped.add((id(part), each.start))
                drop[id(part)].append(each)
                gone.append(_name(each.head))
    return [(part, each) for part, each in optional if (id(part), each.start) not in dropped]


def _called(code: str, start: int, end: int) -> set[str]:
    """The words before ``(``, or before template arguments and ``(``."""
    found = set[str]()
    for match in re.compile(r"([^;{}()]*+)(\(|[;{})]|\Z)").finditer(code, start, end):
        if match[2] == "(":
            found.update(_before_bracket(match[1]))
    return found


def _before_bracket(text: str) -> list[str]:
    """The last word of a text; if it ends with template arguments, each word before a ``<``."""
    return re.findall(r"\b(\w++)\s*+<" if text.rstrip().endswith(">") else r"\b(\w++)\s*+\Z", text)


def _qualifiers(head: str) -> set[str]:
    """The words before ``::``, or before template arguments and ``::``."""
    found = set[str]()
    for text in re.split("[()]", head):
        *templates, _ = re.split(r"(?<=>)\s*+::", text)
        found.update(re.findall(r"\b(\w++)\s*+::", text), _before_bracket("::".join(templates)))
    return found


def _host_bodies(
    part: _Parsed, type_: _Declaration, host: re.Pattern[str], on_device: Collection[str]
) -> list[tuple[int, int]] | None:
    """Spans of the bodies of a type's host functions, or of those whole that take or return a type of the host.

    ``on_device`` are the words of the other functions. None if other parts of the type are host code too.
    """
    code = part.code
    opening = code.find("{", type_.start, type_.end)
    if opening < 0:
        return None
    spans, rest = [], code[type_.start : opening]
    for member in _declarations(part, opening + 1, part.closings[opening]):
        body = code[member.start : member.end]
        if member.is_function and not {*_WORD.findall(member.head)}.isdisjoint(on_device):
            continue
        if member.is_function and host.search(body):
            parameters = part.closings[member.start + len(member.head) - 1]
            begin = _ACCESS.match(code, member.start, parameters)
            declared = code[member.start : parameters]
            whole = begin is not None and host.search(declared)  # a function that no kernel can call
            if not whole and body.endswith(";"):
                continue
            spans.append((begin.end() if begin and whole else parameters + 1, member.end))
            body = "" if whole else declared
        rest += body
    return None if host.search(_HANDLE.sub("", rest)) else spans


_ACCESS = re.compile(r"\s*+(?:(?:public|private|protected)\s*+:\s*+)*+")


class _Fate(Enum):
    """Whether a declaration is kept; ``BY_MENTION``: only if a kernel mentions it."""

    KEPT = 0
    DROPPED = 1
    BY_MENTION = 2


def _fate(
    body: str,
    declaration: _Declaration,
    annotations: Collection[str],
    kernels: Collection[str] | None,
    host: re.Pattern[str],
) -> _Fate:
    if not declaration.is_function:
        body = _HANDLE.sub("", body)
    device = declaration.head if declaration.is_function else body
    if declaration.head.endswith("(") and _HELD_BY_HOST.search(body, 0, closing(body, len(declaration.head) - 1)):
        return _Fate.DROPPED
    words = {*re.findall(r"\w+", device)}
    if host.search(device):  # a host type may have constexpr members
        words -= {"constexpr", "consteval"}
    if not words.isdisjoint(annotations):
        is_kernel = declaration.is_function and "__global__" in declaration.head
        is_other = kernels is not None and is_kernel and _name(declaration.head) not in kernels
        return _Fate.DROPPED if is_other else _Fate.KEPT
    if host.search(body) or re.search(r"\bmain\s*\($", declaration.head):
        return _Fate.DROPPED
    return _Fate.BY_MENTION if declaration.is_function else _Fate.KEPT


def _blanked(part: _Parsed, declarations: Sequence[_Declaration], bodies: Sequence[tuple[int, int]]) -> str:
    """The file's text with some declarations and bodies blanked; directives stay, since they may be paired."""
    text = part.file.text
    kept = [match.span() for match in DIRECTIVE.finditer(masked(text, literals=False)) if "pragma" not in match[0]]
    characters = list(text)
    for first, last in (*((each.start, each.end) for each in declarations), *bodies):
        characters[first:last] = blanks(text[first:last])
        for start, end in kept[bisect_left(kept, (first,)) : bisect_left(kept, (last,))]:
            characters[start:end] = text[start:end]
    for first, _ in bodies:
        characters[first] = ";"
    return "".join(characters)


def _declarations(part: _Parsed, start: int, end: int, depth: int = 0) -> Iterator[_Declaration]:
    """The declarations of a namespace, including those of nested namespaces and linkage blocks."""
    code = part.code
    if depth > _DEEPEST:
        return
    head, at = _Head(part, start, end), start
    while at < end:
        character = code[at]
        if character in "([":
            at = part.closings[at]
        elif character == "{":
            close = part.closings[at]
            if head.opens_scope(at):
                yield from _declarations(part, at + 1, close, depth + 1)
                head = _Head(part, close + 1, end)
            elif head.opens_function(at):
                yield _Declaration(head.begin, close + 1, head.of_function(at), is_function=True)
                head = _Head(part, close + 1, end)
            at = close
        elif character == ";":
            # An explicit instantiation or a prototype is treated as its function is.
            if using := _USING.fullmatch(code, head.begin, at):
                yield _Declaration(head.begin, at + 1, using[1] + "(", is_function=True)
            else:
                named = head.declares(at)
                text = head.of_function(at) if named else code[head.begin : at]
                yield _Declaration(head.begin, at + 1, text, named)
            head = _Head(part, at + 1, end)
        at += 1


class _Head:
    """The beginning of a declaration, up to one of its braces or its end; read incrementally, each character once."""

    def __init__(self, part: _Parsed, begin: int, end: int) -> None:
        self.begin, self._part, self._behind = begin, part, _behind_template(part.code, begin, end)
        self._read = self._behind
        self._first, self._parameters, self._assigned = True, False, False

    def opens_scope(self, at: int) -> bool:
        """Whether a brace at ``at`` opens a namespace or a linkage block."""
        first, self._first = self._first, False
        return first and _SCOPE.fullmatch(self._part.code, self.begin, at) is not None

    def opens_function(self, at: int) -> bool:
        """Whether a brace at ``at`` opens a function's body, not a type or an initialiser."""
        more, self._read = self._part.code[self._read : at], max(self._read, at)
        bracket, equals = max(more.rfind("("), more.rfind(")")), more.rfind("=")
        self._assigned = equals > bracket or (self._assigned and bracket < 0)
        self._parameters |= "(" in more
        if _MEMBER_BRACE.search(self._part.code, self._behind, at):
            return False
        return self._parameters and not self._assigned and not _TYPE.match(self._part.code, self._behind)

    def declares(self, at: int) -> bool:
        """Whether the declaration, which ends at ``at`` without a body, declares a function."""
        code = self._part.code
        if _INSTANTIATION.match(code, self.begin, at) and code.find("(", self.begin, at) >= 0:
            return True
        declared = code[self._behind : at]
        called = _CALL.fullmatch(code[self.begin : code.find("(", self.begin, at) + 1].strip())
        if called and called[1] in self._part.macros:
            return True
        return not _TYPE.match(declared) and _PROTOTYPE.fullmatch(_without_template_arguments(declared)) is not None

    def of_function(self, end: int) -> str:
        """The text up to the parenthesis of the parameters, including attributes such as ``__launch_bounds__()``."""
        code, before = self._part.code, self._behind
        at = code.index("(", before, end)
        while _ATTRIBUTE.search(code, before, at) and (next_ := code.find("(", self._part.closings[at], end)) >= 0:
            before, at = at, next_
        return code[self.begin : at + 1]


_MEMBER_BRACE = re.compile(r"\)\s*+(?:noexcept\s*+)?:(?!:)[^;]*[\w>]\s*+\Z")
"""Before a brace that initialises a member in a constructor's list, such as ``A() : x(0), y``."""

_SCOPE = re.compile(r"\s*+(?:(?:inline\s++)?namespace\b[\w:\s]*+|extern\s*+)")

_INSTANTIATION = re.compile(r"\s*(?:extern\s+)?template\s++[^<]")

_USING = re.compile(r"\s*using\s+(?:\w+\s*::\s*)+(\w+)\s*")
"""A using declaration, such as of a name of the host's library; kept if a kernel mentions it."""

_DEEPEST = 100
"""Maximum depth of nested namespaces; what is nested deeper is kept."""

_TEMPLATE = re.compile(r"\s*template\s*<")

_CALL = re.compile(r"^[ \t]*(\w++)[ \t]*\(", re.MULTILINE)

_LAST_CALL = re.compile(r"\b(\w++)\s*+\([^()]*+\)\s*+\Z")

_MACRO = re.compile(r"#[ \t]*define[ \t]+(\w++)\(((?:[^#]|##)*+)")

_PROTOTYPE = re.compile(
    r"\s*(?!(?:typedef|using|friend|return)\b)(?:[\w:]+(?:<>)?[\s*&]+)+[\w:]+\s*\([^;]*\)"
    r"\s*(?:(?:const|noexcept|override|final|=\s*(?:0|default|delete))\s*)*"
)
"""A prototype: a type, a name and parameters, without template arguments."""


def _without_template_arguments(declared: str) -> str:
    """The text with ``<>`` in place of each list of template arguments; unchanged if ``<`` and ``>`` do not match."""
    kept, depth, begun = [], 0, 0
    for match in re.finditer("[<>]", declared):
        if match[0] == "<":
            if depth == 0:
                kept.append(declared[begun : match.end()])
            depth += 1
        elif depth:
            depth -= 1
            begun = match.start() if depth == 0 else begun
    return declared if depth else "".join([*kept, declared[begun:]])


_LISTED = re.compile(r"[<>;(){}\[\]]")


def _behind_template(code: str, begin: int, end: int) -> int:
    """Position after a declaration's ``template <...>``, possibly several; the end if one is unterminated."""
    while match := _TEMPLATE.match(code, begin, end):
        lists, brackets = 1, 0
        for each in _LISTED.finditer(code, match.end(), end):
            lists += {"<": 1, ">": -1}.get(each[0], 0)
            brackets += 1 if each[0] in "({[" else -1 if each[0] in ")}]" else 0
            if lists == 0 or brackets < 0 or (each[0] == ";" and brackets == 0):
                break
        else:
            return end
        if lists:  # the list is unterminated
            return end
        begin = each.end()
    return begin


def _behind_templates(declaration: str) -> str:
    return declaration[_behind_template(declaration, 0, len(declaration)) :]


_ATTRIBUTE = re.compile(
    r"\b(?:operator|__launch_bounds__|\w*LAUNCH_BOUNDS\w*|__cluster_dims__|__block_size__|__maxnreg__|__align__|__attribute__|alignas)\s*\Z"
)
"""Words before a parenthesis that is not that of the parameters: attributes, and ``operator`` of ``operator()``."""


def _name(head: str) -> str:
    """A function's name: the word before its parameters, or before its template arguments."""
    if not head.endswith("("):
        return ""
    last = head[max(head.rfind(")"), head.rfind("(", 0, -1)) + 1 : -1]
    return next(iter(_before_bracket(last)), "")
