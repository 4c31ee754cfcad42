"""Writes a short family for a foreign .cu file, as a person's starting point, and says what is left to decide.

Types and launches are those of the text (``signature``), shapes those that the kernel reaches in the emulator
(``extents``). What neither says is a guess, which is listed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from peakgate.base.emulated import read_sources
from peakgate.base.errors import Code, PeakgateError
from peakgate.inspect import workers
from peakgate.inspect.skeleton import extents
from peakgate.inspect.skeleton.extents import Found
from peakgate.inspect.skeleton.signature import BLOCKS, Draft, LeftOut, Operand, drafts
from peakgate.spec import dtypes
from peakgate.spec.arguments import Role
from peakgate_emulator.headers import emulator_headers

MOST_KERNELS = 12
"""More kernels of a file are left out: a family of them is no starting point."""
ALWAYS_LEFT = "reference: what the outputs have to be", "sizes: those that you measure on a GPU"
WIDTH = 118
HEADERS = (".h", ".hpp", ".cuh", ".hh", ".inl")
_SIZES = {1: "1 << 24", 2: "(4096, 4096)", 3: "(1024, 1024, 1024)"}
_ROLES = {Role.IN: "In", Role.OUT: "Out", Role.INOUT: "InOut"}
_DEFAULTS = {"int32", "float32"}
"""The types that `Value` has for a whole number and for another one."""


@dataclass(frozen=True, slots=True)
class Skeleton:
    """The text of a family, and what is left to decide; ``guessed`` if more than the reference and the sizes is."""

    text: str
    to_do: tuple[str, ...]
    guessed: bool


def skeleton(source: Path, folder: Path, root: Path) -> Skeleton:
    """A family in ``folder`` of the kernels that a .cu file defines; it runs each of them in the emulator.

    Headers that the file does not find itself are looked for below ``root``, the project. Raises PeakgateError if the
    file cannot be read, or has no kernel that a family can describe.
    """
    include = _include(source, root)
    texts = [file.text for file in read_sources(source, include)]
    given = drafts(texts[0], "\n".join(texts[1:]))
    possible = [each for each in given if isinstance(each, Draft)]
    described = possible[:MOST_KERNELS]
    left_out = [f"left out: {each.name}: {each.why}" for each in given if isinstance(each, LeftOut)]
    left_out += [f"left out: {each.name}: more than {MOST_KERNELS} kernels" for each in possible[MOST_KERNELS:]]
    found = _found(described, source, include)
    left_out += [
        f"left out: {draft.name}: its shapes are not found, {of.shapeless}"
        for draft, of in zip(described, found, strict=True)
        if of.shapeless
    ]
    kept = [(_typed(draft, of.types), of) for draft, of in zip(described, found, strict=True) if not of.shapeless]
    if not kept:
        why = "; ".join(left_out) or "it defines no __global__ function"
        raise PeakgateError(f"{source}: no kernel that a family can describe: {why}", Code.SOURCE)
    file = os.path.relpath(source, folder)
    folders = [os.path.relpath(each, folder) for each in include]
    several = len(given) > 1
    parts = [_kernel(draft, of, file, folders, several=several, in_family=len(kept) > 1) for draft, of in kept]
    body = parts[0] if len(parts) == 1 else "family(\n" + "".join(f"    {part},\n" for part in parts) + ")"
    names = sorted(
        name for name in ("In", "InOut", "Out", "Value", "family", "kernel") if re.search(rf"\b{name}\(", body)
    )
    text = f"from peakgate.family import {', '.join(names)}\n\nFAMILY = {body}\n"
    to_do = _to_do(kept)
    commented = "".join(f"# {line}\n" for line in left_out)
    return Skeleton(text + commented, (*to_do, *left_out), guessed=len(to_do) > len(ALWAYS_LEFT))


def _include(source: Path, root: Path) -> tuple[Path, ...]:
    """Folders below ``root`` with the headers that a source includes and does not have beside it."""
    known: dict[str, list[Path]] = {}
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if not name.startswith(".")]
        for name in files:
            if name.endswith(HEADERS):
                known.setdefault(name, []).append(Path(folder, name))
    stand_ins = emulator_headers()
    include: list[Path] = []
    while True:
        missing = [name for file in read_sources(source, include) for _, name in file.foreign if name not in stand_ins]
        found = [
            path.parents[name.count("/")]
            for name in missing
            for path in known.get(name.rpartition("/")[2], ())
            if path.as_posix().endswith(f"/{name}")
        ]
        new = [folder for folder in found if folder not in include]
        if not new:
            return tuple(include)
        include.append(min(new, key=lambda folder: len(folder.parts)))


def _typed(draft: Draft, types: Mapping[str, str]) -> Draft:
    operands = tuple(replace(each, dtype=types.get(each.name, each.dtype)) for each in draft.operands)
    return replace(draft, operands=operands)


def _found(described: Sequence[Draft], source: Path, include: tuple[Path, ...]) -> list[Found]:
    """What the emulator says of each kernel, in a process that a kernel may end."""
    tasks = [partial(extents.found, draft, source, include) for draft in described]
    answers = dict(workers.run(tasks, max(1, min(len(tasks), os.cpu_count() or 1)), limit_s=2 * extents.LIMIT_S))
    return [
        Found(problem=answer.how) if isinstance(answer, workers.Died) else answer
        for answer in (answers[number] for number in range(len(tasks)))
    ]


def _kernel(draft: Draft, found: Found, file: str, include: Sequence[str], *, several: bool, in_family: bool) -> str:
    """The call of ``kernel`` for one kernel."""
    indent = "    " if in_family else ""
    takes = ", ".join(draft.sizes)
    arrays = [each for each in draft.operands if each.is_array]
    lengths = {each.name: found.lengths.get(each.name, " * ".join(draft.sizes)) for each in arrays}
    roles = {each.name: found.roles.get(each.name, Role.INOUT if each.writable else Role.IN) for each in arrays}
    written = [_argument(each, lengths.get(each.name, ""), roles.get(each.name), draft) for each in draft.operands]
    inputs = ["xp", *(each.name for each in arrays if roles[each.name] is not Role.OUT)]
    outputs = [each.name for each in arrays if roles[each.name] is not Role.IN]
    usual = str(tuple(extents.problems(draft.sizes)[0].values()))
    sizes = "1 << 14" if draft.sizes == (BLOCKS,) else _SIZES.get(len(draft.sizes), usual)
    lines = [
        f"{json.dumps(file)},",
        *([f'name="{draft.name}",'] if several else []),
        *([f"entry={json.dumps(draft.entry)},"] if draft.entry != draft.name else []),
        *([f"include={json.dumps(include)},"] if include else []),
        *_wrapped(f"arguments=lambda {takes}: [", written, WIDTH - 4 - len(indent)),
        f"grid=lambda {takes}: {_one(draft.grid)},",
        f"block={draft.block[0] if len(draft.block) == 1 else draft.block},",
        *([f"shared_bytes={draft.shared_bytes},"] if draft.shared_bytes else []),
        f"bytes=lambda {takes}: {_work(arrays, lengths, roles)},",
        _fitting(f"# reference=lambda {', '.join(inputs)}: ...,", f"  # to decide: the expected {', '.join(outputs)}"),
        *([f"edges={_edges(draft)},  # to decide: other sizes"] if _needs_edges(draft, found) else []),
        f"sizes=[{sizes}],  # to decide: the sizes that are measured on a GPU",
    ]
    return "kernel(\n" + "".join(f"{indent}    {line}\n" for line in lines) + f"{indent})"


def _fitting(line: str, comment: str) -> str:
    """A line with its comment, if there is room for it."""
    return line + comment if len(line + comment) < WIDTH - 8 else line


def _wrapped(head: str, parts: Sequence[str], width: int) -> list[str]:
    """A list in one line, or in several with the brackets in lines of their own."""
    whole = head + ", ".join(parts) + "],"
    if len(whole) <= width:
        return [whole]
    lines, line = [head], "   "
    for part in parts:
        if len(line) + len(part) + 2 > width:
            lines.append(line)
            line = "   "
        line += f" {part},"
    return [*lines, line, "],"]


def _argument(operand: Operand, length: str, role: Role | None, draft: Draft) -> str:
    if role is None:
        of_type = "" if operand.dtype in _DEFAULTS else f', "{operand.dtype}"'
        return f"Value({operand.value}{of_type})"
    shape = length
    if all(part.isidentifier() for part in length.split(" * ")):
        shape = ", ".join(length.split(" * "))
    of_type = "" if operand.dtype == "float32" else f', dtype="{operand.dtype}"'
    data = ""
    if extents.is_index(operand) and role is not Role.OUT:
        least = draft.sizes[0] if len(draft.sizes) == 1 else f"min({', '.join(draft.sizes)})"
        data = f", data=(0, {least})"
    return f"{_ROLES[role]}({shape}{of_type}{data})"


def _one(grid: Sequence[str]) -> str:
    return grid[0] if len(grid) == 1 else f"({', '.join(grid)})"


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
    """Whether other sizes are left to decide: a shape is uncertain, or odd ones fail and the grid does not round up."""
    return bool(found.open) or (bool(found.ragged) and not draft.any_size)


def _edges(draft: Draft) -> str:
    both = [tuple(each.values()) for each in extents.problems(draft.sizes)]
    return f"[{', '.join(str(each if len(each) > 1 else each[0]) for each in both)}]"


def _to_do(kept: Sequence[tuple[Draft, Found]]) -> list[str]:
    """What is left to decide, each line once with the kernels that it is about."""
    of: dict[str, list[str]] = {line: [] for line in ALWAYS_LEFT}
    for draft, known in kept:
        for line in _open(draft, known):
            of.setdefault(line, []).append(draft.name)
    several = len(kept) > 1
    return [f"{line} ({', '.join(names)})" if names and several else line for line, names in of.items()]


def _open(draft: Draft, found: Found) -> list[str]:
    """What is left to decide of one kernel, besides its reference and its sizes."""
    indices = ", ".join(each.name for each in draft.operands if extents.is_index(each))
    ragged = f"edges: {found.ragged}; a defect, unless it takes multiples alone, as edges says" if found.ragged else ""
    ranges = (
        f"ranges: which whole numbers {indices} may have, and whether they repeat; 0 up to the least size is a guess"
    )
    return [
        *([ranges] if indices else []),
        *draft.open,
        *found.open,
        *([f"shapes: {found.problem}"] if found.problem else []),
        *([ragged] if ragged and _needs_edges(draft, found) else []),
    ]
