"""Writes a short family for a foreign .cu file, as a person's starting point, and says what is left to decide.

Types and launches are those of the text (``signature``), shapes those that the kernel reaches in the emulator
(``extents``). What neither says is a guess, which is listed.
"""

from __future__ import annotations

import ast
import json
import os
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from peakgate.base import progress
from peakgate.base.emulated import read_sources
from peakgate.base.errors import Code, PeakgateError
from peakgate.inspect import workers
from peakgate.inspect.skeleton import extents
from peakgate.inspect.skeleton.extents import Found
from peakgate.inspect.skeleton.host_code import Decision, evaluated
from peakgate.inspect.skeleton.signature import BLOCKS, WIDTH_NAMES, Draft, LeftOut, Operand, arguments_of, drafts
from peakgate.inspect.skeleton.stand_ins import DECLARATIONS, IN_FOLDER, StandIns, searched_below, stand_ins
from peakgate.inspect.skeleton.trials import problems, with_blocks
from peakgate.inspect.workers import IdleWorkers
from peakgate.spec import dtypes
from peakgate.spec.arguments import Role
from peakgate.spec.catalogue import FAMILY_FILE
from peakgate_emulator.headers import emulator_headers
from peakgate_emulator.masking import closing

MOST_KERNELS = 12
"""More kernels of a file are left out: a family of them is no starting point."""
LAUNCHES_S, CHECK_S = 20.0, 20.0
"""Processor time to find the shapes of all kernels, and to check them: with the builds a minute at most."""
REFERENCE, SIZES = "reference: the expected outputs", "sizes: those that are measured on a GPU"
WIDTH = 118
_SIZES = {1: ("1 << 24", "1 << 12", "1 << 8"), 2: ("(4096, 4096)", "(256, 256)"), 3: ("(1024, 1024, 1024)",)}
_ROLES = {Role.IN: "In", Role.OUT: "Out", Role.INOUT: "InOut"}
_DEFAULTS = {"int32", "float32"}
"""The types that `Value` has for a whole number and for another one."""
MOST_BLOCKS, MOST_ELEMENTS = 65535, 1 << 31
"""Of a grid's other axes, and of an array in the size that is measured."""
_MARGIN = 20
"""Columns left free beside a struct, for what it stands in."""
_LEAST_ROW = 16
"""A constant number of elements from which on it is the last dimension, not a factor of another."""
_MOST_NAMED = 3
"""Guesses that are named beside a defect."""


@dataclass(frozen=True, slots=True)
class Skeleton:
    """The text of a family, what is left to decide, and the guesses of each kernel, by its name in the family.

    ``problem``: why no kernel ran. ``stand_ins`` take the place of missing headers.
    """

    text: str
    to_do: tuple[str, ...]
    guesses: Mapping[str, str]
    problem: str = ""
    stand_ins: StandIns = field(default_factory=StandIns)


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a family, and what is left to decide of it."""

    text: str
    notes: tuple[str, ...] = ()


def skeleton(source: Path, folder: Path, root: Path) -> Skeleton:
    """A family in ``folder`` of the kernels that a .cu file defines; it runs each of them in the emulator.

    Headers that the file does not find itself are looked for below ``root``, the project. Raises PeakgateError if the
    file cannot be read, or has no kernel that a family can describe.
    """
    include = (*searched_below(folder), *_include(source, root))
    texts = [file.text for file in read_sources(source, include)]
    named = [each.entry for each in drafts(texts[0], "\n".join(texts[1:])) if isinstance(each, Draft)]
    with workers.kept() as idle:
        lacking = stand_ins(named[:MOST_KERNELS], source, include, idle)
        given = drafts(texts[0], "\n".join([*texts[1:], lacking.files.get(DECLARATIONS, "")]))
        possible = [each for each in given if isinstance(each, Draft)]
        described = possible[:MOST_KERNELS]
        found = _found(described, source, include, lacking, idle)
    left_out = [f"left out: {each.name}: {each.why}" for each in given if isinstance(each, LeftOut)]
    left_out += [f"left out: {each.name}: more than {MOST_KERNELS} kernels" for each in possible[MOST_KERNELS:]]
    left_out += [
        f"left out: {draft.name}: its shapes are not found, {of.shapeless}"
        for draft, of in zip(described, found, strict=True)
        if of.shapeless
    ]
    kept = []
    for draft, of in zip(described, found, strict=True):
        if not of.shapeless:
            typed = tuple(replace(each, dtype=of.types.get(each.name, each.dtype)) for each in draft.operands)
            kept.append((replace(draft, operands=typed), of))
    if not kept:
        why = "; ".join(left_out) or "it defines no __global__ function"
        raise PeakgateError(f"{source}: no kernel that a family can describe: {why}", Code.SOURCE)
    file = os.path.relpath(source, folder)
    folders = [*dict.fromkeys([*lacking.folders, *(os.path.relpath(each, folder) for each in include)])]
    parts = [_kernel(draft, of, file, folders, lacking.defines, several=len(given) > 1) for draft, of in kept]
    lines = [_Line("")]
    for part in parts:
        lines += [_Line(f"    {line.text}" if len(parts) > 1 else line.text, line.notes) for line in part]
        lines[-1] = _Line(lines[-1].text + ("," if len(parts) > 1 else ""))
    first = lines[1] if len(parts) == 1 else _Line("family(")
    lines = [lines[0], _Line(f"FAMILY = {first.text}"), *lines[2 if len(parts) == 1 else 1 :]]
    lines += [_Line(")")] if len(parts) > 1 else []
    lines += [_Line(f"# {line}") for line in left_out]
    body = "\n".join(line.text for line in lines)
    names = ("In", "InOut", "Out", "Struct", "Value", "family", "kernel")
    imported = ", ".join(name for name in names if re.search(rf"\b{name}\(", body))
    written = _commented([_Line(f"from peakgate.family import {imported}"), *lines])
    text = "".join(f"{line.text}\n" for line in written)
    known: dict[str, list[int]] = {REFERENCE: [], SIZES: []}
    for number, line in enumerate(written, 1):
        for note in line.notes:
            known.setdefault(note, []).append(number)
    place = os.path.relpath(folder / FAMILY_FILE, root)
    to_do = [f"{place}:{', '.join(map(str, at))}: {note}" for note, at in known.items() if at]
    to_do += lacking.to_do(os.path.relpath(folder, root))
    guesses = {}
    for draft, of in kept:
        guessed = [
            f"{note.text.removesuffix(' is a guess')} ({FAMILY_FILE}:{known[note.text][0]})"
            for note in _open(draft, of)
        ]
        if guessed:
            guesses[draft.stage if len(given) > 1 else source.stem] = "; ".join(guessed[:_MOST_NAMED])
    problem = kept[0][1].problem if all(of.problem for _, of in kept) else ""
    return Skeleton(text, (*to_do, *left_out), guesses, problem, lacking)


def _commented(lines: Sequence[_Line]) -> list[_Line]:
    """The lines with what is left to decide of each as a comment behind it, or in a line above it."""
    found = []
    for line in lines:
        # The line itself says which parameter it is.
        said = [
            re.sub(r"^(?:reference|sizes|edges|the block|the grid|shared_bytes): | is a guess$", "", each)
            for each in line.notes
        ]
        comment = f"# to decide: {'; '.join(said)}"
        first, *more = line.text.split("\n")
        indent = " " * (len(first) - len(first.lstrip()))
        behind = line.notes and not more and len(f"{first}  {comment}") <= WIDTH
        if line.notes and not behind:
            parts = textwrap.wrap(comment, WIDTH - len(indent), subsequent_indent="# ")
            found += [_Line(f"{indent}{part}") for part in parts]
        found.append(_Line(f"{first}  {comment}" if behind else first, line.notes))
        found += [_Line(f"{indent}{each}") for each in more]
    return found


def _include(source: Path, root: Path) -> tuple[Path, ...]:
    """Folders below ``root`` with the headers that a source includes and does not have beside it."""
    known: dict[str, list[Path]] = {}
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if not name.startswith(".") and name != IN_FOLDER]
        for name in files:
            known.setdefault(name, []).append(Path(folder, name))
    replaced = {
        name for name in emulator_headers() if not name.startswith("helper_")
    }  # CUDA's samples are no part of it
    include: list[Path] = []
    while True:
        missing = [name for file in read_sources(source, include) for _, name in file.foreign if name not in replaced]
        found = [
            path.parents[name.count("/")]
            for name in missing
            for path in known.get(name.rpartition("/")[2], ())
            if path.as_posix().endswith(f"/{name}")
        ]
        new = [folder for folder in found if folder not in include]
        if not new:
            return tuple(include)
        include.append(min(new, key=lambda folder: (_apart(folder, source), len(folder.parts))))


def _apart(folder: Path, source: Path) -> int:
    """How many folders are between a source and the one that has ``folder`` too."""
    return len(source.parts) - len(Path(os.path.commonpath([folder, source])).parts)


def _found(
    described: Sequence[Draft], source: Path, include: tuple[Path, ...], lacking: StandIns, idle: IdleWorkers
) -> list[Found]:
    """What the emulator says of each kernel that builds, in a process that the kernel may end."""
    found = {draft.entry: Found(problem=lacking.problems.get(draft.entry, "")) for draft in described}
    with TemporaryDirectory() as temporary:
        lacking.write(Path(temporary))
        searched = (*(Path(temporary, each) for each in lacking.folders), *include)
        building = [draft for draft in described if not found[draft.entry].problem]
        jobs = max(1, min(len(building), os.cpu_count() or 1))
        limit_s = min(extents.LIMIT_S, LAUNCHES_S / max(1, len(building)))
        defines = tuple(lacking.defines.items())
        tasks = [partial(extents.found, draft, source, searched, defines, limit_s=limit_s) for draft in building]
        answers = workers.run(tasks, jobs, limit_s=2 * limit_s, idle=idle)
        text = "running the kernels in the emulator, to find the shapes of their arrays"
        for number, answer in progress.each(answers, text, len(tasks), "kernel"):
            entry = building[number].entry
            found[entry] = Found(problem=answer.how) if isinstance(answer, workers.Died) else answer
    return [found[draft.entry] for draft in described]


def _kernel(
    draft: Draft, found: Found, file: str, include: Sequence[str], defines: Mapping[str, str], *, several: bool
) -> list[_Line]:
    """The lines of the call of ``kernel`` for one kernel."""
    takes = ", ".join(draft.sizes)
    arrays = [each for each in draft.operands if each.is_array]
    lengths = {each.name: found.lengths.get(each.name, " * ".join(draft.sizes)) for each in arrays}
    roles = {each.name: found.roles.get(each.name, Role.INOUT if each.writable else Role.IN) for each in arrays}
    open_at: dict[str, list[str]] = {}
    for note in _open(draft, found):
        open_at.setdefault(note.at, []).append(note.text)

    def notes(at: str) -> tuple[str, ...]:
        return tuple(open_at.pop(at, ()))

    inputs = ["xp", *(each.name for each in arrays if roles[each.name] is not Role.OUT)]

    def made(each: Operand) -> tuple[_Line, str]:
        text = _argument(each, lengths.get(each.name, ""), roles.get(each.name), draft, found)
        kind = "pointer" if each.is_array else "struct" if each.members else each.dtype
        return _Line(text, notes(each.name)), kind

    written = [replace(each, text=_broken(each.text)) for each in arguments_of(draft.operands, made, _struct)]
    only = str(draft.only if len(draft.only) > 1 else draft.only[0]) if draft.only else ""
    both = [tuple(each.values()) for each in found.small or with_blocks(draft, problems(draft.sizes))]
    usual = f"[{', '.join(str(each if len(each) > 1 else each[0]) for each in both)}]"
    edges = f"[{only}]" if only else usual if _needs_edges(draft, found) else ""
    grid = draft.grid[0] if len(draft.grid) == 1 else f"({', '.join(draft.grid)})"
    lines = [
        _Line(f"{json.dumps(file)},"),
        *([_Line(f'name="{draft.stage}",')] if several else []),
        *([_Line(f"entry={json.dumps(draft.entry)},", notes("entry"))] if draft.entry != draft.name else []),
        *([_Line(f"include={json.dumps(include)},")] if include else []),
        *([_Line(f"defines={json.dumps(dict(defines))},")] if defines else []),
        *_wrapped(f"arguments=lambda {takes}: [", written, notes("arguments")),
        _Line(f"grid=lambda {takes}: {grid},", notes("grid")),
        _Line(f"block={draft.block[0] if len(draft.block) == 1 else draft.block},", notes("block")),
        *([_Line(f"shared_bytes={draft.shared_bytes},", notes("shared_bytes"))] if draft.shared_bytes else []),
        _Line(f"bytes=lambda {takes}: {_work(arrays, lengths, roles) or '...'},"),
        _Line(f"# reference=lambda {', '.join(inputs)}: ...,", (REFERENCE,)),
        *([_Line(f"edges={edges},", notes("edges"))] if edges else []),
        _Line(f"sizes=[{only or _measured(draft, lengths)}],", (SIZES,)),
    ]
    return [_Line("kernel("), *(_Line(f"    {line.text}", line.notes) for line in lines), _Line(")")]


def _measured(draft: Draft, lengths: Mapping[str, str]) -> str:
    """A large size whose grid CUDA takes, and whose arrays are in memory."""
    usual = tuple(with_blocks(draft, problems(draft.sizes))[0].values())
    few = str(usual if len(usual) > 1 else usual[0])
    if draft.sizes == (BLOCKS,):
        return "1 << 14"
    for text in _SIZES.get(len(draft.sizes), ()):
        given = ast.literal_eval(text) if "<<" not in text else evaluated(text, {})
        size = dict(zip(draft.sizes, given if isinstance(given, tuple) else (given,), strict=True))
        grid = [evaluated(extent, size) for extent in draft.grid]
        if all(extent <= MOST_BLOCKS for extent in grid[1:]) and all(
            evaluated(length, size) <= MOST_ELEMENTS for length in lengths.values()
        ):
            return text
    return few


def _struct(values: Sequence[_Line | tuple[_Line, ...]], members: tuple[tuple[str, str], ...]) -> _Line:
    """A struct in one line, with what is left to decide of its members."""
    several = [each if isinstance(each, tuple) else (each,) for each in values]
    notes = tuple(note for each in several for line in each for note in line.notes)
    texts = [_tuple(line.text for line in each) if isinstance(each, tuple) else each.text for each in values]
    types = _tuple(f'("{name}", "{dtype}")' for name, dtype in members)
    return _Line(f"Struct({_tuple(texts)}, {types})", notes)


def _broken(argument: str) -> str:
    """An argument; a struct that is long with its values and its members in lines of their own."""
    if len(argument) <= WIDTH - _MARGIN or not argument.startswith("Struct("):
        return argument
    begin = len("Struct(")
    end = closing(argument, begin) + 1
    lines = [f"{argument[begin:end]},", f"{argument[end + 2 : -1]},"]
    whole = [re.sub(r'(\("\w+",) ', "\\1\0", line) for line in lines]  # a member in one line
    rows = [textwrap.fill(line, WIDTH - _MARGIN, subsequent_indent=" ").replace("\0", " ") for line in whole]
    return f"Struct(\n{textwrap.indent(chr(10).join(rows), '    ')}\n)"


def _tuple(texts: Iterable[str]) -> str:
    several = [*texts]
    return f"({', '.join(several)}{',' * (len(several) == 1)})"


def _wrapped(head: str, parts: Sequence[_Line], notes: tuple[str, ...]) -> list[_Line]:
    """A list in one line, or in several with those parts in lines of their own of which something is left to decide."""
    whole = head + ", ".join(part.text for part in parts) + "],"
    if len(whole) <= WIDTH - 8 and not any(part.notes or "\n" in part.text for part in parts):
        return [_Line(whole, notes)]
    lines, line = [_Line(head, notes)], "   "
    for part in parts:
        if line.strip() and (part.notes or len(line) + len(part.text) + 2 > WIDTH - 8):
            lines.append(_Line(line))
            line = "   "
        line += f" {part.text},"
        if part.notes or "\n" in part.text:
            lines.append(_Line(line, part.notes))
            line = "   "
    return [*lines, *([_Line(line)] if line.strip() else []), _Line("],")]


def _argument(operand: Operand, length: str, role: Role | None, draft: Draft, found: Found) -> str:
    if operand.undecided:
        return "..."
    if operand.members:
        return _struct([_Line(text) for text in operand.value.split(", ")], operand.members).text
    if role is None and operand.member:
        return operand.value
    if role is None:
        of_type = "" if operand.dtype in _DEFAULTS else f', "{operand.dtype}"'
        return f"Value({operand.value}{of_type})"
    of_type = "" if operand.dtype == "float32" else f', dtype="{operand.dtype}"'
    if operand.name in found.distinct:
        unsigned = f', dtype="{operand.dtype}"' if operand.dtype.startswith("u") else ""
        return f"{_ROLES[role]}({length}{of_type}, data=lambda xp, shape: xp.arange(*shape{unsigned}))"
    factor, _, rest = length.partition(" * ")
    is_last = bool(rest) and factor.isdigit() and (int(factor) == operand.each or int(factor) >= _LEAST_ROW)
    extents_of = (rest if is_last else length).split(" * ")
    shape = length
    if all(part.isidentifier() or part.startswith("-(-") for part in extents_of):
        # The width, by its name, is behind the others in a row-major array.
        ordered = sorted(extents_of, key=lambda extent: re.fullmatch(WIDTH_NAMES, extent) is not None)
        shape = ", ".join([*ordered, *([factor] if is_last else [])])
    data = ""
    if operand.name in found.indices and role is not Role.OUT:
        least = draft.sizes[0] if len(draft.sizes) == 1 else f"min({', '.join(draft.sizes)})"
        data = f", data=(0, {least})"
    return f"{_ROLES[role]}({shape}{of_type}{data})"


def _work(arrays: Sequence[Operand], lengths: dict[str, str], roles: dict[str, Role]) -> str:
    """The bytes that a launch moves at least: each array once, one that is read and written twice."""
    bytes_of: dict[str, int] = {}
    for each in arrays:
        times = 2 if roles[each.name] is Role.INOUT else 1
        size = times * dtypes.storage(each.dtype).itemsize
        bytes_of[lengths[each.name]] = bytes_of.get(lengths[each.name], 0) + size
    return " + ".join(
        f"{size} * ({text})" if {*"+-/"} & {*text} else f"{size} * {text}" for text, size in bytes_of.items()
    )


def _needs_edges(draft: Draft, found: Found) -> bool:
    """Whether sizes are left to decide: a shape is uncertain, usual ones are slow, odd ones fail in a grid of tiles."""
    return bool(found.open or found.small) or (bool(found.ragged) and not draft.any_size)


def _open(draft: Draft, found: Found) -> list[Decision]:
    """What is left to decide of one kernel, besides its reference and its sizes."""
    read = [each for each in draft.operands if found.roles.get(each.name) is not Role.OUT]
    ranges = [
        Decision(each.name, f"the numbers of {each.name}: each once is a guess, since launches race where one repeats")
        if each.name in found.distinct
        else Decision(each.name, f"the numbers of {each.name}: indices from 0 to the least size is a guess")
        for each in read
        if each.name in found.indices
    ]
    ragged = f"edges: {found.ragged}; a defect, unless it takes multiples alone" if found.ragged else ""
    if draft.only:
        edges = [Decision("edges", "edges: the launch is for this size alone")]
    elif _needs_edges(draft, found):
        small = "edges: small, since the emulator takes long for more" if found.small else ""
        edges = [Decision("edges", ragged or small or "edges: other sizes")]
    else:
        edges = []
    problem = [Decision("arguments", "shapes: guesses, since the kernel did not run")] if found.problem else []
    return [*draft.open, *ranges, *found.open, *problem, *edges]
