"""Removes host code from CUDA sources.

NVRTC and the emulator's C++ compiler both fail at a host function. All functions work on masked text, in which
comments, literals and directives are replaced by blanks, so that positions stay the same.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum

from peakgate_emulator.declarations import (
    CLASS,
    USING,
    WORD,
    Declaration,
    Parsed,
    before_bracket,
    behind_templates,
    declarations_in,
    defined_name,
    function_name,
)
from peakgate_emulator.masking import DIRECTIVE, blanks, closing, code_of, masked
from peakgate_emulator.sources import SourceFile, missing_header

PEAKGATE_MACRO = "PEAKGATE"
"""Macro that both builds define: code under ``#ifndef PEAKGATE`` is only for the host compiler."""
_HOST_WORDS = (
    r"cu(?:da(?!GridDependency|TriggerProgrammatic|TextureObject_t|SurfaceObject_t|BoundaryMode|PitchedPtr|Extent\b|Pos\b)[A-Z]|"
    r"blas|fft|solver|sparse|dnn)\w*|"
    r"CU(?:result|context|device\w*|module|function|stream|event|mem[A-Z]\w*|tensorMap[A-Z]\w*)|PFN_cu\w+|CUDA_SUCCESS|"
    r"cu(?:TensorMap|Ctx|Device|Module|Launch|Func|Mem|Stream|Event|Init|Get|Driver|Occupancy)[A-Z]\w*|"
    r"curand(?:Create|Generate|Set|Destroy)\w*|nccl[A-Z]\w*|MPI_\w+|"
    r"checkCudaErrors|getLastCudaError|findCudaDevice|FILE|stderr|stdout|throw|"
    r"std\s*::\s*(?:vector|string|string_view|cout|cerr|endl|[io]stream|[io]?(?:string|f)stream|chrono|thread|mt19937\w*|"
    r"\w*mutex|\w+_lock|lock_guard|once_flag|call_once|condition_variable|future|promise|type_index|"
    r"random_device|\w+_distribution|function|unique_ptr|shared_ptr|(?:unordered_)?(?:multi)?(?:map|set)|list|deque|queue|stack|"
    r"runtime_error|logic_error|invalid_argument|exception)|"
    r"thrust|std\s*::\s*(?:exit|abort|rand|srand)|argc|argv|"
    r"pybind11\s*::\s*\w+|(?:torch|at|c10)\s*::\s*(?!(?:headeronly|Half|BFloat16|complex|acc_type|opmath_type|\w*TensorAccessor(?:32|64)?|"
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

_BYTES = {
    "string": "peakgate_32",
    "vector": "peakgate_24",
    "map": "peakgate_48",
    "set": "peakgate_48",
    "function": "peakgate_32",
    "shared_ptr": "peakgate_16",
    "unique_ptr": "peakgate_8",
}
"""By type of GCC's C++ library, one of as many bytes, which takes its place in a type that a kernel takes."""
_HELD_MEMBER = re.compile(
    rf"\s*(?:\w+\s*:(?!:)\s*)*(?P<type>std\s*::\s*({'|'.join(_BYTES)})\b\s*(?:<[^;(){{}}]*>)?)\s*"
    r"(?P<name>\w+)\s*(?:=[^;]*|\{[^;]*\}\s*)?;"
)

_HANDLE = re.compile(r"\bcuda(?:Stream|Event)_t\b")
"""Types of the host's runtime that a type for device code may have as members."""

ANNOTATIONS = (
    *("__global__", "__device__", "__constant__", "__shared__", "__managed__", "constexpr", "consteval"),
    *("C10_DEVICE", "C10_HOST_DEVICE"),
)
"""Words of declarations that device code may use."""
_ON_DEVICE = ("__device__", "C10_DEVICE", "C10_HOST_DEVICE")
_SPECIALISATION = re.compile(r"\s*(?:struct|class)\s+\w+\s*<")
_NAMED_TYPE = re.compile(rf"\A\s*typedef\b[^{{}}]*?(\w+)\s*;|\A\s*using\s+(\w+)\s*=|{CLASS.pattern}")


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
    kept = "" if Parsed(file).is_divided else f", which is kept because the brackets of {name} do not match"
    return f"; {host}{kept}: put it under `#ifndef {PEAKGATE_MACRO}`, a macro that both builds define"


def separated(files: Sequence[SourceFile]) -> tuple[list[Parsed], dict[str, str]]:
    """The files, in which a call of a macro that gives a whole declaration is one, and the bodies of all macros."""
    parsed = [Parsed(file) for file in files]
    macros = dict(_MACRO.findall(" ".join(part.directives for part in parsed).replace("\\\n", " ")))
    whole = _of_declarations(macros)
    for part in parsed:
        part.macros = macros.keys()
        part.separate(whole)
    return parsed, macros


def device_texts(
    files: Sequence[SourceFile], kernels: Collection[str] | None = None, *, mentioned: bool = False
) -> list[str]:
    """The text of each file with its host code blanked, and the kernels other than ``kernels`` too, if given.

    With ``mentioned`` also without functions for the device that no kernel of ``kernels`` mentions.
    """
    parsed, macros = separated(files)
    bare = any(re.search(r"\busing\s+namespace\s+std\b", part.code) for part in parsed)
    host = _with_macros_of_host(_HOST_WITH_STD if bare else _HOST, macros)
    if kernels is not None or any(host.search(part.code) for part in parsed):
        on_device = with_their_macros(parsed, _ON_DEVICE)
        fates = _fates(parsed, kernels, host, mentioned=mentioned)
        drop, bodies = _host_code(parsed, fates, host, macros, on_device)
        if kernels is not None:
            _add_what_needs_it(parsed, drop, bodies, on_device)
        return [blanked(part, drop[id(part)], bodies[id(part)]) for part in parsed]
    return [file.text for file in files]


_Item = tuple[Parsed, Declaration]
_Fates = tuple[list[_Item], list[_Item], dict[int, list[Declaration]]]


def _fates(
    parsed: Sequence[Parsed], kernels: Collection[str] | None, host: re.Pattern[str], *, mentioned: bool
) -> _Fates:
    """Declarations to keep, those to keep if mentioned, and, by file, those to remove.

    ``mentioned``: functions for the device, other than ``kernels``, are kept only if mentioned.
    """
    annotations = with_their_macros(parsed, ANNOTATIONS)
    keep: list[_Item] = []
    optional: list[_Item] = []
    drop: dict[int, list[Declaration]] = {id(part): [] for part in parsed}
    gone = set[str]()  # types
    for part in parsed:
        if not part.is_divided:
            keep += [(part, declaration) for declaration in part.declarations]
            continue
        for declaration in part.declarations:
            body = part.code[declaration.start : declaration.end]
            fate = _fate(body, declaration, annotations, kernels, host)
            if fate is _Fate.KEPT and not declaration.is_function and _HANDLE.search(body):
                fate = _Fate.KEPT if gone.isdisjoint(WORD.findall(body)) else _Fate.DROPPED
            if mentioned and fate is _Fate.KEPT and declaration.is_function:
                fate = _Fate.KEPT if function_name(declaration.head) in (kernels or ()) else _Fate.BY_MENTION
            if fate is _Fate.DROPPED:
                drop[id(part)].append(declaration)
                named = None if declaration.is_function else _NAMED_TYPE.search(behind_templates(body))
                gone |= {*filter(None, named.groups())} if named else set()
            else:
                (optional if fate is _Fate.BY_MENTION else keep).append((part, declaration))
    functions = {function_name(each.head) for items in drop.values() for each in items if each.is_function}
    functions -= {function_name(each.head) for _, each in (*keep, *optional) if each.is_function} | {""}
    while of_gone := [
        (part, each)
        for part, each in keep
        if part.is_divided
        and defined_name(part, each)
        and (_uses(part, each, gone, annotations) or _calls(part, each, functions, annotations))
    ]:  # what needs a type that is left out is kept if a kernel mentions it
        gone |= {defined_name(part, each) for part, each in of_gone}
        keep = [item for item in keep if item not in of_gone]
        optional += of_gone
    return keep, optional, drop


def with_their_macros(parsed: Sequence[Parsed], words: Sequence[str]) -> set[str]:
    """The words, and the macros that are defined with one of them."""
    directives = " ".join(part.directives for part in parsed)
    return {*words, *re.findall(rf"#\s*define\s+(\w++)[^#]*?(?:{'|'.join(words)})", directives)}


def _with_macros_of_host(host: re.Pattern[str], macros: Mapping[str, str]) -> re.Pattern[str]:
    """A pattern of host code that also finds the macros of statements with some in their bodies, such as a throw."""
    whole = _of_declarations(macros)
    statements = {name: body for name, body in macros.items() if name not in whole}
    found = {name for name, body in statements.items() if host.search(body)}
    while more := {name for name, body in statements.items() if not found.isdisjoint(WORD.findall(body))} - found:
        found |= more
    return re.compile(rf"{host.pattern}|\b(?:{'|'.join(sorted(found))})\b") if found else host


def _uses(part: Parsed, declaration: Declaration, names: Collection[str], annotations: Collection[str]) -> bool:
    """Whether a declaration mentions one of the names, and nothing that is for the device alone."""
    words = {*WORD.findall(part.code, declaration.start, declaration.end)}
    return not words.isdisjoint(names) and words.isdisjoint({*annotations} - {"constexpr", "consteval"})


def _calls(part: Parsed, declaration: Declaration, names: Collection[str], annotations: Collection[str]) -> bool:
    """Whether members of a type, none of which are for the device alone, call one of the names."""
    if declaration.is_function or not _uses(part, declaration, names, annotations):
        return False
    return not _called(part.code, declaration.start, declaration.end).isdisjoint(names)


def _host_code(
    parsed: Sequence[Parsed],
    fates: _Fates,
    host: re.Pattern[str],
    macros: Mapping[str, str],
    on_device: Collection[str],
) -> tuple[dict[int, list[Declaration]], dict[int, list[tuple[int, int]]]]:
    """By file, the declarations to remove, and the spans of functions' bodies to remove in types that are kept."""
    keep, optional, drop = fates
    optional = _without_callers(keep, optional, drop, macros)
    types = {
        (id(part), declaration): found["name"]
        for part in parsed
        for declaration in drop[id(part)]
        if not declaration.is_function
        and (found := CLASS.search(behind_templates(part.code[declaration.start : declaration.end])))
    }
    names = {*types.values()}
    by_name: dict[str, list[_Item]] = {}
    for part, declaration in optional:
        if names.isdisjoint(_qualifiers(declaration.head)):
            name = "operator" if "operator" in declaration.head else defined_name(part, declaration)
            by_name.setdefault(name, []).append((part, declaration))
        else:
            drop[id(part)].append(declaration)
    bodies: dict[int, list[tuple[int, int]]] = {id(part): [] for part in parsed}
    for part, declaration in keep:
        body = part.code[declaration.start : declaration.end]
        if not declaration.is_function and CLASS.match(behind_templates(body).lstrip()) and host.search(body):
            bodies[id(part)] += _host_bodies(part, declaration, host, on_device) or ()
    by_directives = {word for part in parsed for word in WORD.findall(part.directives)}
    mentioned = _mentioned(keep, by_name, by_directives | {"operator"}) if keep else set()
    called = [*mentioned & macros.keys()]
    while called:  # a macro mentions what is in its body
        more = {*WORD.findall(macros[called.pop()])} - mentioned
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
    parsed: Sequence[Parsed],
    drop: dict[int, list[Declaration]],
    bodies: dict[int, list[tuple[int, int]]],
    on_device: Collection[str],
) -> None:
    """Add to ``drop`` and ``bodies`` the types with a member of a removed type, and others' host functions with one."""
    kept = [(part, each) for part in parsed for each in part.declarations if each not in drop[id(part)]]
    lost = {
        defined_name(part, each)
        for part in parsed
        for each in drop[id(part)]
        if not each.is_function or USING.match(part.code, each.start, each.end)
    }
    lost -= {"", *(defined_name(part, each) for part, each in kept)}
    types = [
        (part, each)
        for part, each in kept
        if not each.is_function
        and CLASS.match(behind_templates(part.code[each.start : each.end]).lstrip())
        and "{" in part.code[each.start : each.end]
    ]
    waiting = types
    while waiting:
        removed = set[str]()
        for part, each in waiting:
            body = part.code[each.start : each.end]
            own = {*re.findall(r"\b(?:struct|class|typename|using)\s+(\w+)", body)}
            if names := (lost & {*WORD.findall(body)}) - own:
                spans = _host_bodies(part, each, re.compile(rf"\b(?:{'|'.join(sorted(names))})\b"), on_device)
                if spans is None:
                    drop[id(part)].append(each)
                    removed.add(defined_name(part, each))
                else:
                    bodies[id(part)] += spans
        types = [(part, each) for part, each in types if each not in drop[id(part)]]
        lost, waiting = removed, types if removed else []


def _bases(used: Collection[str], heads: Mapping[str, str]) -> set[str]:
    """The words of the ``heads`` of types that are used, and of those of their bases."""
    found, waiting = set[str](), [name for name in heads if name in used]
    while waiting:
        more = {*WORD.findall(heads[waiting.pop()])} - found
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
        fresh = {*WORD.findall(part.code, declaration.start, declaration.end)} - mentioned
        mentioned |= fresh
        for word in fresh:
            waiting += by_name.pop(word, ())
    return mentioned


def _without_callers(
    keep: Sequence[_Item],
    optional: Sequence[_Item],
    drop: Mapping[int, list[Declaration]],
    macros: Mapping[str, str],
) -> list[_Item]:
    """The optional items except those that declare or call a host function; these are moved to ``drop``.

    A call of one of the ``macros`` counts as those in its body.
    """
    kept = {function_name(declaration.head) for _, declaration in keep if declaration.is_function}
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
        prototype = {function_name(each.head)} if part.code[each.end - 1] == ";" else set()
        for name in called | prototype:
            callers.setdefault(name, []).append((part, each))
    gone = [function_name(each.head) for declarations in drop.values() for each in declarations if each.is_function]
    dropped: set[tuple[int, int]] = set()
    callers.pop("", None)
    while gone:
        for part, each in callers.pop(gone.pop(), ()):
            if (id(part), each.start) not in dropped:
                dropped.add((id(part), each.start))
                drop[id(part)].append(each)
                gone.append(function_name(each.head))
    return [(part, each) for part, each in optional if (id(part), each.start) not in dropped]


def _called(code: str, start: int, end: int) -> set[str]:
    """The words before ``(``, or before template arguments and ``(``."""
    found = set[str]()
    for match in re.compile(r"([^;{}()]*+)(\(|[;{})]|\Z)").finditer(code, start, end):
        if match[2] == "(":
            found.update(before_bracket(match[1]))
    return found


def _qualifiers(head: str) -> set[str]:
    """The words before ``::``, or before template arguments and ``::``."""
    found = set[str]()
    for text in re.split("[()]", head):
        *templates, _ = re.split(r"(?<=>)\s*+::", text)
        found.update(re.findall(r"\b(\w++)\s*+::", text), before_bracket("::".join(templates)))
    return found


def _host_bodies(
    part: Parsed, type_: Declaration, host: re.Pattern[str], on_device: Collection[str]
) -> list[tuple[int, int]] | None:
    """Spans of the bodies of a type's host functions, or of those whole that take or return a type of the host.

    ``on_device`` are the words of the other functions. None if other parts of the type are host code too.
    """
    code = part.code
    opening = code.find("{", type_.start, type_.end)
    if opening < 0:
        return None
    spans, rest = [], code[type_.start : opening]
    for member in declarations_in(part, opening + 1, part.closings[opening]):
        body = code[member.start : member.end]
        if member.is_function and not {*WORD.findall(member.head)}.isdisjoint(on_device):
            continue
        if member.is_function and host.search(body):
            parameters = part.closings[member.start + len(member.head) - 1]
            begin = _ACCESS.match(code, member.start, parameters)
            declared = code[member.start : parameters]
            whole = begin is not None and host.search(declared)  # a function that no kernel can call
            if not whole and body.endswith(";"):
                continue
            spans.append((begin.end(), member.end) if begin and whole else body_of(part, member))
            body = "" if whole else declared
        elif _HELD_MEMBER.fullmatch(body):
            spans.append((member.start, member.end))
            body = ""
        rest += body
    return None if host.search(_HANDLE.sub("", rest)) else spans


def body_of(part: Parsed, function: Declaration) -> tuple[int, int]:
    """The span of a member function behind its parameters and qualifiers, such as ``const``."""
    parameters = part.closings[function.start + len(function.head) - 1]
    return _behind(_QUALIFIERS, part.code, parameters + 1), function.end


def behind_access(code: str, at: int) -> int:
    """Position behind the words for access, such as ``public:``, that precede a member."""
    return _behind(_ACCESS, code, at)


def is_specialisation(part: Parsed, type_: Declaration) -> bool:
    """Whether a declaration is a type's specialisation, without which a kernel would take another one."""
    return _SPECIALISATION.match(behind_templates(part.code[type_.start : type_.end])) is not None


def _behind(pattern: re.Pattern[str], code: str, at: int) -> int:
    found = pattern.match(code, at)
    return found.end() if found else at


_QUALIFIERS = re.compile(r"(?:\s*+\b(?:const|volatile|noexcept|override|final)\b)*+")
_ACCESS = re.compile(r"\s*+(?:(?:public|private|protected)\s*+:\s*+)*+")


class _Fate(Enum):
    """Whether a declaration is kept; ``BY_MENTION``: only if a kernel mentions it."""

    KEPT = 0
    DROPPED = 1
    BY_MENTION = 2


def _fate(
    body: str,
    declaration: Declaration,
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
        is_other = kernels is not None and is_kernel and function_name(declaration.head) not in kernels
        return _Fate.DROPPED if is_other else _Fate.KEPT
    if host.search(body) or re.search(r"\bmain\s*\($", declaration.head):
        return _Fate.DROPPED
    return _Fate.BY_MENTION if declaration.is_function else _Fate.KEPT


def blanked(part: Parsed, declarations: Sequence[Declaration], bodies: Sequence[tuple[int, int]]) -> str:
    """The file's text with some declarations and bodies blanked; directives stay, since they may be paired."""
    text = part.file.text
    directives = DIRECTIVE.finditer(masked(text, literals=False))
    kept = [match.span() for match in directives if not re.search(r"#\s*pragma\s+(?!once\b)", match[0])]
    characters = list(text)
    dropped = [(each.start, each.end) for each in declarations]
    bodies = [span for span in bodies if not any(start <= span[0] < end for start, end in dropped)]
    for first, last in (*dropped, *bodies):
        characters[first:last] = blanks(text[first:last])
        for start, end in kept[bisect_left(kept, (first,)) : bisect_left(kept, (last,))]:
            characters[start:end] = text[start:end]
    for first, last in bodies:
        if held := _HELD_MEMBER.fullmatch(part.code, first, last):
            characters[first:last] = text[first:last]
            start, end = held.span("type")
            characters[start:end] = f"{_BYTES[held[2]]:<{end - start}}"
            characters[held.end("name") : last - 1] = blanks(text[held.end("name") : last - 1])
        else:
            at = next(at for at in range(first, last) if characters[at] != "\n")
            characters[at] = ";"
    return "".join(characters)


_LAST_CALL = re.compile(r"\b(\w++)\s*+\([^()]*+\)\s*+\Z")

_MACRO = re.compile(r"#[ \t]*define[ \t]+(\w++)\(((?:[^#]|##)*+)")
