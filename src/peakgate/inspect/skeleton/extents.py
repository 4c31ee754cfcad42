"""How long a kernel's arrays are, and whether it reads what it writes: found by running it in the checked emulator.

At two problems an array is shortened until the kernel reaches beyond its end. The expression in the names of sizes that
has this length at both is that of the array.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from math import prod
from pathlib import Path

from peakgate.base.errors import PeakgateError
from peakgate.device.interface import KernelFault
from peakgate.inspect.skeleton.host_code import Decision, Unknown, evaluated
from peakgate.inspect.skeleton.signature import BLOCKS, Draft, Operand
from peakgate.inspect.skeleton.trials import (
    ENOUGH,
    Numbers,
    Shapeless,
    TooLong,
    TrialLaunches,
    divided,
    is_whole,
    problems,
    with_blocks,
)
from peakgate.inspect.workers import TaskProgress
from peakgate.spec.case import Role

LIMIT_S = 15.0
"""Processor time for the launches of one kernel; what is not known by then is left to decide."""

_FACTORS = (2, 3, 4)
_PARTS = (2, 4, 8, 32)
_LARGER = 4
_NEAR = 64
"""A length is that of an expression if it differs by at most this many elements, and by the same at both problems."""


@dataclass(frozen=True, slots=True)
class Found:
    """The type of elements, length and role of each array by name; ``open`` says what is to be decided.

    ``indices`` are the arrays of whole numbers that have to be below an extent, ``distinct`` those of them that may not
    repeat one. ``ragged``: a launch has another defect at sizes off every power of two. ``problem``: why nothing was
    found.
    ``shapeless``: an array for which no length was enough, so that any access could be out of its bounds.
    ``small``: the problems that were launched, where the usual ones take too long.
    """

    types: Mapping[str, str] = field(default_factory=dict)
    lengths: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, Role] = field(default_factory=dict)
    indices: frozenset[str] = frozenset()
    distinct: frozenset[str] = frozenset()
    open: tuple[Decision, ...] = ()
    ragged: str = ""
    problem: str = ""
    shapeless: str = ""
    small: tuple[Numbers, ...] = ()


class _BeforeBegin(Exception):
    """A kernel accesses what is before an array."""


def found(
    draft: Draft,
    source: Path,
    include: tuple[Path, ...],
    defines: tuple[tuple[str, str], ...],
    report: TaskProgress,
    *,
    limit_s: float = LIMIT_S,
) -> Found:
    """What is known of a kernel's arrays after launches of ``limit_s`` of processor time, as a task for a worker."""
    if any(each.undecided for each in draft.operands):
        return Found(problem="an argument is left to decide")
    runs = TrialLaunches(draft, source, include, defines, report)
    enough = " * ".join([str(ENOUGH), *draft.sizes])
    lengths: dict[str, str] = {}
    notes: list[Decision] = []
    roles: Mapping[str, Role] = {}
    size: Numbers = {}
    ragged = problem = shapeless = ""
    small: tuple[Numbers, ...] = ()
    try:
        runs.learn_types(limit_s)
        only = dict(zip(draft.sizes, draft.only, strict=True)) if draft.only else {}
        tried = (only, only) if only else with_blocks(draft, problems(draft.sizes, len(draft.grid)))
        if not only and (divisor := runs.divisor(tried[0])) > 1:
            first, second = (divided(each, divisor) for each in tried)
            tried = small = (first, second)
        for times in (1,) if only or small else (1, _LARGER):  # a tile of 128 needs larger problems
            first, second = ({name: times * number for name, number in size.items()} for size in tried)
            found_now, open_now = _lengths(runs, first, second)
            if not lengths or len(open_now) < len(notes):
                lengths, notes, size = found_now, open_now, first
            if not notes or len(draft.sizes) > 2:
                break
        runs.learn_indices(lengths, size)
        roles = runs.roles(lengths, size)
        ragged = "" if draft.only else runs.ragged(lengths, roles, size)
    except (PeakgateError, KernelFault) as error:
        problem = str(error)
    except ValueError as error:
        problem = f"the sizes that were tried are too large: {error}"
    except Unknown:
        problem = "the grid has no value at the sizes that were tried"
    except Shapeless as error:
        shapeless = str(error)
    except TooLong:
        left = (
            "arrays: a launch took too long to find out which are written"
            if lengths
            else "shapes: a launch took too long"
        )
        notes.append(Decision("arguments", left))
    for each in runs.draft.operands:
        if each.is_array and each.name not in lengths:
            usual = " * ".join([*([str(each.each)] if each.each > 1 else []), *draft.sizes])
            lengths[each.name] = usual if problem else enough
    types = {each.name: each.dtype for each in runs.draft.operands}
    return Found(types, lengths, roles, runs.indices, runs.distinct, tuple(notes), ragged, problem, shapeless, small)


def _lengths(runs: TrialLaunches, first: Numbers, second: Numbers) -> tuple[dict[str, str], list[Decision]]:
    """The length of each array, and notes on those that are not certain.

    All are the usual one if a launch reaches before an array's begin: a defect, whatever the lengths, which ends it.
    """
    try:
        each = {array.name: _length(runs, array, first, second) for array in runs.draft.operands if array.is_array}
    except _BeforeBegin:
        return {array.name: " * ".join(runs.draft.sizes) for array in runs.draft.operands if array.is_array}, []
    return (
        {name: length for name, (length, _) in each.items()},
        [Decision(name, note) for name, (_, note) in each.items() if note],
    )


def _length(runs: TrialLaunches, array: Operand, first: Numbers, second: Numbers) -> tuple[str, str]:
    """The length of an array as an expression, and a note if it is not certain."""
    known = _expressions(runs.draft, first, second, array.each)
    one = runs.reached(array, first, sorted({value for value, _ in known.values()}))
    other = runs.reached(array, second, sorted({value for _, value in known.values()}))
    if one is not None and other is not None:  # whole elements
        one, other = (-(-length // array.each) * array.each for length in (one, other))
    usual, note = " * ".join(runs.draft.sizes), f"the shape of {array.name}: the kernel"
    if one is None or other is None:
        raise _BeforeBegin
    exact = next((text for text, pair in known.items() if pair == (one, other)), "")
    per, rest = divmod(one, prod(first.values()))
    if not exact and per and not rest and other == per * prod(second.values()):
        exact = f"{per} * {usual}"
    if not exact and all(size / 2 < reach <= size for reach, size in zip((one, other), known[usual], strict=True)):
        exact = usual  # which elements are accessed depends on the data
    if not exact and any(is_whole(each) and each is not array for each in runs.draft.operands):
        exact = _begun(known, (one, other), (first, second))
    if exact:
        return exact, ""
    if one == other:
        return str(max(one, 1)), "" if one else f"{note} accesses nothing of it"
    more = {text: one - pair[0] for text, pair in known.items() if one - pair[0] == other - pair[1]}
    near = min(more, key=lambda text: abs(more[text]), default=None)
    if near and -_NEAR <= more[near] < 0:
        return near, ""
    if near and 0 < more[near] <= _NEAR:
        return f"{near} + {more[near]}", f"{note} reaches {more[near]} beyond {near}, a defect if it ends there"
    enough = (text for text, pair in known.items() if pair[0] >= one and pair[1] >= other)
    times = max(-(-one // prod(first.values())), -(-other // prod(second.values())))
    at = ", ".join(f"{name} = {number}" for name, number in first.items())
    return next(enough, f"{times} * {usual}"), f"{note} reaches {one} elements with {at}"


def _begun(known: Mapping[str, tuple[int, int]], reached: tuple[int, int], problems: tuple[Numbers, Numbers]) -> str:
    """The expression of which a kernel accesses all but a part of the last row, as indices below the least size do.

    Empty if there is none.
    """
    for text, lengths in known.items():
        *outer, last = text.split(" * ")
        if outer and all(name in problems[0] for name in (*outer, last)):
            left = [length - reach for length, reach in zip(lengths, reached, strict=True)]
            if all(0 <= rest < size[last] for rest, size in zip(left, problems, strict=True)):
                return text
    return ""


def _expressions(draft: Draft, first: Numbers, second: Numbers, each: int = 1) -> dict[str, tuple[int, int]]:
    """Expressions that a length may have, with their values at both problems: the smallest and simplest first.

    ``each`` is the number of numbers per element. A constant argument may be the length of a row.
    """
    products = [
        " * ".join(names) for count in range(1, len(draft.sizes) + 1) for names in combinations(draft.sizes, count)
    ]
    if len(draft.sizes) == 1 < len(draft.grid):
        products.append(" * ".join(2 * draft.sizes))
    rows = (int(operand.value) for operand in draft.operands if operand.value.isdigit() and int(operand.value) > 1)
    texts = [*products, *(f"{factor} * {product}" for factor in (*_FACTORS, each, *rows) for product in products)]
    *outer, last = draft.sizes  # words or tiles of a row
    texts += [" * ".join([*outer, f"-(-{last} // {part})"]) for part in _PARTS]
    grid = [f"({extent})" if " " in extent else extent for extent in draft.grid]
    threads = prod(draft.block)
    if draft.sizes == (BLOCKS,):
        texts += [f"{factor * threads} * {BLOCKS}" for factor in (1, 2, 4, 8)]
    texts += [*draft.grid, *([" * ".join(grid)] if len(grid) > 1 else [])]
    values = {text: (evaluated(text, first), evaluated(text, second)) for text in dict.fromkeys(texts)}
    return dict(sorted(values.items(), key=lambda pair: pair[1][0]))
