"""Launches of a kernel in the checked emulator, on arrays of given lengths: what it accesses and writes of each."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from peakgate.base.errors import PeakgateError
from peakgate.device.cpu import CpuLaunchable, load
from peakgate.device.interface import KernelFault
from peakgate.inspect.skeleton.host_code import Unknown, evaluated
from peakgate.inspect.skeleton.signature import BLOCKS, Draft, Operand, arguments_of
from peakgate.inspect.workers import TaskProgress
from peakgate.measure.data import input_array
from peakgate.spec import dtypes
from peakgate.spec.case import Buffer, Case, KernelLaunch, Launch, Role, Scalar, Stage, Struct, Work
from peakgate.spec.operands import Operands
from peakgate_emulator import KernelDefect
from peakgate_emulator.defects import DefectKind, EmulatorDefect

Numbers = Mapping[str, int]

ACCESSES, FEW_ACCESSES = 10_000_000, 1_000_000
"""The most memory accesses of one launch; of a first one, after more a smaller problem is tried."""
QUICK_S = 0.4
"""So too after more processor time, such as of conversions that overflow."""
LONGEST = 1 << 20
"""The most elements of an array."""

_FIRST = {1: (1024,), 2: (64, 96), 3: (32, 64, 96)}
_SECOND = {1: (1536,), 2: (160, 64), 3: (64, 96, 32)}
_MANY = (2, 16, 64, 8, 4), (3, 20, 96, 6, 5)
_BLOCKS = (8,), (12,)
_SQUARE = (64,), (96,)
_DIVISORS, _LEAST = (1, 2, 4, 8), 8
"""By which problems are made smaller, and the least size that they get so."""
ENOUGH = 4
"""An array of so many times all sizes is long enough."""
_MORE = 64
"""How much longer arrays are tried where one is too short, such as of rows of a constant length."""
_FREE, _BELOW, _DISTINCT = "any", "below the least size", "each once"
"""How whole numbers are drawn."""
_RACES = {DefectKind.GLOBAL_RACE, DefectKind.SAME_VALUE_RACE}
_OUTSIDE = {DefectKind.OUT_OF_BOUNDS, DefectKind.FAULT, DefectKind.ENDLESS_LOOP}


class Shapeless(Exception):
    """A kernel reaches beyond an array of any length."""


class TooLong(Exception):
    """The time for the launches is over."""


def problems(names: tuple[str, ...], axes: int = 1) -> tuple[Numbers, Numbers]:
    """Two problems, multiples of 32 where the sizes are few, for which every expression has other values.

    A size that is the extent of several ``axes`` of a grid is small, since there may be as much work as its cube.
    """
    first, second = _BLOCKS if names == (BLOCKS,) else (given.get(len(names)) for given in (_FIRST, _SECOND))
    if len(names) == 1 < axes and names != (BLOCKS,):
        first, second = _SQUARE
    if first is None or second is None:
        first, second = ((*many, *[4] * len(names))[: len(names)] for many in _MANY)
    return dict(zip(names, first, strict=True)), dict(zip(names, second, strict=True))


def with_blocks(draft: Draft, tried: tuple[Numbers, Numbers]) -> tuple[Numbers, Numbers]:
    """Problems made larger until the grid has blocks at both, as of a kernel whose grid is ``n / 256``."""
    for times in (1, 4, 16):
        first, second = ({name: times * number for name, number in size.items()} for size in tried)
        if has_blocks(draft, first) and has_blocks(draft, second):
            return first, second
    return tried


def has_blocks(draft: Draft, size: Numbers) -> bool:
    """Whether the grid is known and has blocks at a size."""
    with suppress(Unknown):
        return all(evaluated(extent, size) > 0 for extent in draft.grid)
    return False


def divided(size: Numbers, divisor: int) -> Numbers:
    """A smaller problem: each size divided, those of at most _LEAST as they are."""
    return {name: max(number // divisor, min(number, _LEAST)) for name, number in size.items()}


class TrialLaunches:
    """Launches of a kernel on arrays of given lengths."""

    def __init__(
        self,
        draft: Draft,
        source: Path,
        include: tuple[Path, ...],
        defines: tuple[tuple[str, str], ...],
        report: TaskProgress,
    ) -> None:
        self.draft, self._report, self._folder, self._defines = draft, report, source.parent, defines
        self._stage = Stage(draft.name, "", source, entry=draft.entry, include=include)
        self._load = cache(load)
        self._ends = float("inf")
        self._pools: dict[tuple[str, int, str], np.ndarray[Any, Any]] = {}
        self._drawn: dict[str, str] = {}
        self._enough = 0
        self._accesses = ACCESSES

    def learn_types(self, limit_s: float) -> None:
        """Correct the types that the text leaves open, such as those of a condition of the preprocessor.

        All launches after these have ``limit_s`` of processor time.
        """
        size, _ = with_blocks(self.draft, problems(self.draft.sizes, len(self.draft.grid)))
        for _ in self.draft.operands:
            try:
                self._defects(self._launchable({each.name: 1 for each in self.draft.operands}, {}, size))
            except PeakgateError as error:
                fits = re.search(r"argument (\d+).* expected ((?:b?float|int)\d\w*)", str(error))
                if fits is None:
                    raise
                operands = list(self.draft.operands)
                at = next(at for at, each in enumerate(operands) if each.argument == int(fits[1]))
                operands[at] = replace(operands[at], dtype=fits[2])
                self.draft = replace(self.draft, operands=tuple(operands))
            else:
                break
        self._ends = time.process_time() + limit_s  # from here on: the first launch waits for its compiler

    def divisor(self, size: Numbers) -> int:
        """The least of _DIVISORS by which a problem is divided for a quick launch, or the largest with blocks."""
        self._accesses = FEW_ACCESSES
        divisor = 1
        for tried in _DIVISORS:
            smaller = divided(size, tried)
            if not has_blocks(self.draft, smaller):
                break
            divisor = tried
            lengths = {each.name: LONGEST for each in self.draft.operands if each.is_array}  # so that it does not end
            with suppress(TooLong):
                launchable = self._launchable(lengths, {}, smaller)
                begun = time.process_time()
                self._defects(launchable)
                if time.process_time() - begun < QUICK_S:
                    break
        self._accesses = ACCESSES
        return divisor

    def reached(self, array: Operand, size: Numbers, guesses: list[int]) -> int | None:
        """The elements of an array up to the last that a launch accesses; None if it accesses some before the first.

        Raises Shapeless if no length is enough.
        """
        enough = max(self._enough, min(max(ENOUGH * prod(size.values()), 2 * guesses[-1], 4096), LONGEST))
        lengths = {each.name: enough for each in self.draft.operands if each.is_array}

        def fits(length: int) -> bool:
            return not self._beyond(array, {**lengths, array.name: length}, size)

        before_or_behind = self._beyond(array, lengths, size)
        if before_or_behind and not re.search(r"at byte -\d", before_or_behind.message):
            self._enough = enough = min(_MORE * enough, LONGEST)
            lengths = dict.fromkeys(lengths, enough)
            before_or_behind = self._beyond(array, lengths, size)
        if before_or_behind:
            if re.search(r"at byte -\d", before_or_behind.message):
                return None
            raise Shapeless(f"{array.name} of {enough} elements is too short: {before_or_behind}")
        steps = [0, *(guess for guess in guesses if 0 < guess < enough), enough]
        low, high = 0, len(steps) - 1  # steps[high] fits
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if fits(steps[middle]) else (middle, high)
        least, most = steps[low], steps[high]  # `least` is too short, or 0
        if most - least > 1 and not fits(most - 1):
            return most
        while most - least > 1:
            middle = (least + most) // 2
            least, most = (least, middle) if fits(middle) else (middle, most)
        return most if least or not fits(0) else 0

    def learn_indices(self, lengths: Mapping[str, str], size: Numbers) -> None:
        """Find which arrays of whole numbers may have any, and which may have each number only once."""
        arrays = [each.name for each in self.draft.operands if is_whole(each)]
        at_size = _at(lengths, size)

        def kinds(array: str, drawn: str) -> set[DefectKind]:
            self._drawn[array] = drawn
            try:
                return {each.kind for each in self._defects(self._launchable(at_size, {}, size))}
            except TooLong:
                return {DefectKind.ENDLESS_LOOP}

        for array in arrays:
            below, free = kinds(array, _BELOW), kinds(array, _FREE)
            if free <= below and not free & _OUTSIDE:
                continue
            races = below & _RACES
            self._drawn[array] = _DISTINCT if races and not kinds(array, _DISTINCT) & _RACES else _BELOW

    @property
    def indices(self) -> frozenset[str]:
        """The arrays of whole numbers that have to be below an extent."""
        whole = (each.name for each in self.draft.operands if is_whole(each))
        return frozenset(name for name in whole if self._drawn.get(name) is not _FREE)

    @property
    def distinct(self) -> frozenset[str]:
        """Those of them that may not repeat a number."""
        return frozenset(name for name, drawn in self._drawn.items() if drawn is _DISTINCT)

    def roles(self, lengths: Mapping[str, str], size: Numbers) -> dict[str, Role]:
        """In for an array that a launch leaves as it is, Out for one that it writes in full and does not read.

        InOut for any other, and for what no type says to be read only if a launch changes nothing at all.
        """
        known = {
            each.name: Role.IN if not each.writable else Role.INOUT for each in self.draft.operands if each.is_array
        }
        at_size = _at(lengths, size)
        launchable = self._launchable(at_size, known, size)
        if any(each.kind is DefectKind.OUT_OF_BOUNDS for each in self._defects(launchable)):
            return known  # the launch ended there
        changed = [
            not np.array_equal(_bytes(after), _bytes(before))
            for after, before in zip(launchable.outputs, self._given, strict=True)
        ]
        written = [name for name, role in known.items() if role is Role.INOUT]
        for name, is_changed in zip(written, changed, strict=True):
            if not is_changed and any(changed):
                known[name] = Role.IN
                continue
            alone = self._defects(self._launchable(at_size, {**known, name: Role.OUT}, size))
            if not any(each.kind in (DefectKind.UNINITIALISED_GLOBAL, DefectKind.UNWRITTEN_OUTPUT) for each in alone):
                known[name] = Role.OUT
        return known

    def ragged(self, lengths: Mapping[str, str], roles: Mapping[str, Role], size: Numbers) -> str:
        """A defect that a launch has at odd sizes and not at ``size``; empty without one."""
        kinds = {each.kind for each in self._defects(self._launchable(_at(lengths, size), roles, size))}
        odd = {name: number + 1 for name, number in size.items()}
        new = [
            each for each in self._defects(self._launchable(_at(lengths, odd), roles, odd)) if each.kind not in kinds
        ]
        at = ", ".join(f"{name} = {number}" for name, number in odd.items())
        return f"{new[0].kind.words}{f' at {new[0].location}' if new[0].location else ''} with {at}" if new else ""

    def _beyond(self, array: Operand, lengths: Mapping[str, int], size: Numbers) -> EmulatorDefect | None:
        """The access of a launch that is out of the bounds of an array, or far from all of them; None without one.

        A defect names an array by its place among the arguments, or in one of them.
        """
        for each in self._defects(self._launchable(lengths, {}, size)):
            if each.kind in (DefectKind.OUT_OF_BOUNDS, DefectKind.FAULT):
                place = re.search(r"argument (\d+)(?: \(\w+(?:\.([^)]+))?\))?", each.message)
                named = place is not None and (int(place[1]), place[2] or "") == (array.argument, array.member)
                if named or "all memory" in each.message:
                    return each
        return None

    def _launchable(self, lengths: Mapping[str, int], roles: Mapping[str, Role], size: Numbers) -> CpuLaunchable:
        draft = self.draft
        if time.process_time() > self._ends:
            raise TooLong

        def given(each: Operand) -> tuple[Any, str]:
            if each.is_array:
                role = roles.get(each.name, Role.INOUT)
                data = None if role is Role.OUT else partial(_beginning, self._numbers(each, size))
                return Buffer(role, (lengths[each.name],), each.dtype, data), "pointer"
            if each.members:
                return Struct(tuple(number(text, size) for text in each.value.split(", ")), each.members), "struct"
            if each.dtype == "pointer":  # a null one
                return None, each.dtype
            value = number(each.value, size)
            return value if each.member else Scalar(value, each.dtype), each.dtype

        operands = Operands.of(arguments_of(draft.operands, given, Struct), self._folder, "")
        if not has_blocks(draft, size):
            raise Unknown
        grid, block = ((*each, 1, 1)[:3] for each in ([evaluated(text, size) for text in draft.grid], draft.block))
        launch = Launch(tuple(grid), tuple(block), draft.shared_bytes)
        sequence = (KernelLaunch(self._stage.kernel, launch, operands.passed),)
        case = Case(
            "measured",
            self._stage,
            launch,
            operands.every,
            Work(1),
            reference=None,
            sequence=sequence,
            defines=self._defines,
        )
        made = CpuLaunchable(case, self._accesses, load=self._load)
        self._given = [each.copy() for each in made.outputs]
        return made

    def _numbers(self, operand: Operand, size: Numbers) -> np.ndarray[Any, Any]:
        """Numbers for an array of any length, made once for a problem: random, or each once from the last down."""
        least = min(size.values())
        drawn = self._drawn.get(operand.name, _BELOW if is_whole(operand) else _FREE)
        if drawn is _DISTINCT:
            return np.arange(LONGEST).astype(dtypes.storage(operand.dtype))
        if (operand.name, least, drawn) not in self._pools:
            pool = Buffer(Role.IN, (LONGEST,), operand.dtype, (0.0, float(least)) if drawn is _BELOW else None)
            self._pools[operand.name, least, drawn] = dtypes.decoded(
                np, input_array(np, pool, len(self._pools)), operand.dtype
            )
        return self._pools[operand.name, least, drawn]

    def _defects(self, launchable: CpuLaunchable) -> tuple[EmulatorDefect, ...]:
        self._report(self.draft.name)
        try:
            launchable.run()
        except KernelFault as fault:
            if not isinstance(fault.__cause__, KernelDefect):
                raise
            kinds = {each.kind for each in fault.__cause__.defects}
            if DefectKind.ENDLESS_LOOP in kinds:  # or a problem that is too large
                raise TooLong from None
            return fault.__cause__.defects
        return ()


def is_whole(operand: Operand) -> bool:
    """Whether the numbers of an array may be indices, which random bits would put anywhere."""
    return operand.is_array and re.fullmatch(r"u?int(16|32|64)", operand.dtype) is not None


def number(text: str, size: Numbers) -> float:
    """The number that the text of a value gives at a size."""
    if text[0] in "-.0123456789" and set(text) & {*".e"}:
        return float(text)
    return evaluated(text, size)


def _at(lengths: Mapping[str, str], size: Numbers) -> dict[str, int]:
    return {name: evaluated(text, size) for name, text in lengths.items()}


def _beginning(numbers: np.ndarray[Any, Any], _xp: Any, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return numbers[: shape[0]]


def _bytes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(array).view(np.uint8)
