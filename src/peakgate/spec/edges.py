"""Chooses edge sizes for a family that gives none: next to each tile, beyond several tiles, next to measured sizes.

Scalar arguments of a kernel (a length, a stride, an offset) follow from the size, so other sizes test other values. The
tile of a number is how far it can grow before the grid does; if the grid does not depend on it, the largest extent of
the block. A kernel may also loop over tiles inside a block: its macros, its block and the usual tile sizes are the
candidates for those.

What a family refuses shows how numbers are related. Those that it accepts in their measured proportion alone, such as
equal ones, are chosen as one number. Where it refuses all sizes of unrelated numbers, the measured size is scaled down.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, combinations, count, islice
from math import gcd, lcm, prod
from typing import Any

import numpy as np

from peakgate.base.errors import PeakgateError, RefusedSize
from peakgate.base.formatting import one_line
from peakgate.spec.case import Array, Case, Sized

SizeNumbers = tuple[int, ...]

MOST_BYTES, MOST_THREADS, MOST_FLOPS = 8 << 20, 1 << 18, 1 << 25
"""Larger problems are left out: the emulator takes seconds for each. Threads that every size has do not count."""
_MOST_BYTES_OF_ROUNDS = 4 * MOST_BYTES
"""Limit for the one size that is more than a round of the grid, in place of ``MOST_BYTES``."""
_MOST_RAGGED_FLOPS = MOST_FLOPS // 4
"""Limit for ragged sizes, which prove a build in every run."""
_LARGEST_STEP = 1024
"""A number is fixed if the kernel accepts no other power of two, and no divisor, up to this one."""
_LARGEST_TILE = 1 << 16
_NEAR = 3
"""A searched size is at most this many steps from a multiple of a tile."""

USUAL_TILES = (16, 32, 64, 128)
TILES_BEYOND = 4
"""Full tiles before the last, partial one: with fewer a kernel may use another path."""
_MOST_TIED = 4
"""Numbers of a size that are in proportion to each other."""
_DIVISORS = (2, 3, 5, 7)
"""By which a measured number is scaled down."""
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47)
"""Numbers of a size that cannot have several tiles in all of its numbers."""
_VECTOR = 4
"""Elements of a 16-byte load of float32: other row lengths use another path."""
_LARGEST_OWN_TILE = 1024
"""Larger macros are not tiles but sizes of memory or of the problem, or limits."""

_LONG = ((1 << 16) + _VECTOR, (1 << 15) + _VECTOR, (1 << 12) + _VECTOR)
"""Long extents, of which the first affordable is taken: beyond a limit at which a kernel may truncate its problem."""

_REFUSALS = (ValueError, AssertionError, ArithmeticError, PeakgateError)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The chosen problems by size, and why the family refuses other sizes."""

    cases: Mapping[SizeNumbers, Case]
    refused: Mapping[SizeNumbers, str]


@dataclass(frozen=True, slots=True)
class Tiling:
    """Per number of a size: its tile, the step of accepted values (0: fixed), and a value of full tiles.

    ``threads`` are those that a problem may have: the usual limit, or as many as the least problem has.
    """

    tiles: SizeNumbers
    steps: SizeNumbers
    whole: SizeNumbers
    threads: int = field(default=MOST_THREADS, compare=False)

    @property
    def least(self) -> SizeNumbers:
        """The least accepted value of each number; the usual value of a fixed one."""
        return tuple(step or whole for whole, step in zip(self.whole, self.steps, strict=True))

    @property
    def small(self) -> SizeNumbers:
        """Up to a vector's elements of each number; the usual value of a fixed one."""
        pairs = zip(self.whole, self.steps, strict=True)
        return tuple(min(whole, lcm(step, _VECTOR)) if step else whole for whole, step in pairs)


def accepted(sized: Sized, numbers: SizeNumbers) -> Case | str:
    """The problem of a size, or why there is none: the family raises, or grid or arrays are empty."""
    try:
        case = sized.make(numbers)
    except _REFUSALS as error:
        return f"{type(error).__name__}: {one_line(str(error))}"
    if any(min(each.launch.grid) < 1 for each in case.launches) or not all(prod(b.shape) for b in case.buffers):
        return "its grid or one of its arrays is empty"
    return case


def chosen(sized: Sized) -> Chosen:
    """Sizes one step off each tile, in one number and in all, full tiles, the least, a prime and long ones."""
    free = independent(sized)
    tiling = tiling_of(free)
    cases: dict[SizeNumbers, Case] = {}
    refused: dict[SizeNumbers, str] = {}
    for numbers in dict.fromkeys((*_beside_tiles(free, tiling), *long(free, tiling))):
        case, size = accepted(free, numbers), free.size_of(numbers)
        if isinstance(case, str):
            refused[size] = case
        elif not too_large(case, most_threads=tiling.threads) and (free is sized or 2 * prod(size) <= MOST_FLOPS):
            cases[size] = _refusing(case)  # work grows faster than numbers that grow together
    return Chosen(cases, refused)


def edge_sizes(sized: Sized, usual: Sequence[SizeNumbers]) -> list[SizeNumbers]:
    """The edge sizes of a build: ragged and long ones, then the accepted ``usual`` ones, or else chosen ones.

    The last is the small problem of a family that gives none: of chosen ones the least with all numbers above 1. None
    are left where all are 1 in every number, which proves nothing: a matrix of one element is its own transpose.
    """
    free = independent(sized)
    tiling = tiling_of(free)
    taken = [size for size in usual if not isinstance(accepted(sized, size), str)]
    if free is not sized or all(max(size) == 1 for size in taken):
        taken = sorted(chosen(sized).cases, key=lambda size: (min(size) > 1, -prod(size)))
    known = taken if free is sized else ()
    sizes = [*map(free.size_of, chain(ragged(free, tiling, known), long(free, tiling))), *taken]
    more = [*map(free.size_of, rounds(free, tiling, sizes)), *(uneven(sized, sizes) if free is not sized else ())]
    if all(max(size) == 1 for size in sizes) and max(sized.usual) > 1:
        return []
    return list(dict.fromkeys([*more, *sizes]))


def independent(sized: Sized) -> Sized:
    """The problems as a function of fewer numbers; ``sized`` itself if all its numbers are independent.

    Numbers of which the family takes no other value alone, but others in their measured proportion, such as equal ones,
    become one number: their unit.
    """
    every = range(len(sized.usual))
    fixed = [at for at in every if not _step(sized, (at,))]
    groups: list[tuple[int, ...]] = [(at,) for at in every if at not in fixed]
    while fixed:
        first, *others = fixed
        more = chain.from_iterable(combinations(others, size) for size in range(1, _MOST_TIED))
        group = next((each for each in ((first, *rest) for rest in more) if _step(sized, each)), (first,))
        groups.append(group)
        fixed = [at for at in others if at not in group]
    if len(groups) == len(every):
        return sized
    groups.sort()
    proportions = [_proportion(sized, group) for group in groups]

    def size_of(numbers: SizeNumbers) -> SizeNumbers:
        pairs = zip(numbers, proportions, strict=True)
        scaled = {at: number * unit for number, (_, units) in pairs for at, unit in units.items()}
        return tuple(scaled[at] for at in every)

    usual = tuple(measured for measured, _ in proportions)
    return Sized(lambda numbers: sized.make(size_of(numbers)), usual, sized.names, size_of)


def uneven(sized: Sized, sizes: Collection[SizeNumbers]) -> Iterator[SizeNumbers]:
    """A size with one number 1 larger, where the family takes it: a proportion may be rounded, as of halved widths."""
    most = max(sizes, key=min, default=())
    larger = (_with(most, at, number + 1) for at, number in enumerate(most))
    yield from (size for size in larger if not isinstance(accepted(sized, size), str))


def rounds(sized: Sized, tiling: Tiling, known: Collection[SizeNumbers]) -> Iterator[SizeNumbers]:
    """A size of more elements than several rounds of the measured grid, if that has the same extents at half the size.

    One round and a bit where several are too large a problem; nothing where ``known`` sizes have as many elements.
    """
    measured = accepted(sized, sized.usual)
    halves = [
        accepted(sized, _with(sized.usual, at, number // 2 // step * step))
        for at, (number, step) in enumerate(zip(sized.usual, tiling.steps, strict=True))
        if 0 < step <= number // 2
    ]
    halved = [_grids(half) for half in halves if not isinstance(half, str)]
    if isinstance(measured, str) or not halved or any(grids != _grids(measured) for grids in halved):
        return
    threads, elements = _threads(measured), max(map(prod, known), default=0)

    def above(wanted: int, others: SizeNumbers, at: int) -> SizeNumbers:
        unit = lcm(tiling.steps[at], _VECTOR)
        found = bisect_right(
            range(wanted), wanted, key=lambda units: prod(sized.size_of(_with(others, at, unit * units)))
        )
        return _with(others, at, unit * found)

    sizes = (
        above(wanted, others, at)
        for wanted in (TILES_BEYOND * threads, threads)
        for others in (tiling.small, tiling.least)
        for at, step in enumerate(tiling.steps)
        if step and wanted >= elements
    )
    limit = replace(tiling, threads=max(threads, tiling.threads))
    yield from _first_affordable(sized, limit, sizes, most_bytes=_MOST_BYTES_OF_ROUNDS)


def ragged(sized: Sized, tiling: Tiling, known: Collection[SizeNumbers] = ()) -> Iterator[SizeNumbers]:
    """Sizes with a partial tile after more than TILES_BEYOND full ones: in each number alone, then in all.

    For the usual tiles and the kernel's own, as far as the problem is not too large. A number alone is a multiple of a
    vector while the others are small. Numbers that ``known`` sizes already cover are left out. Where several tiles in
    all numbers make too large a problem, as with four numbers, these are different primes; where the family refuses
    these too, its numbers are related, and the measured size is scaled down.
    """
    case = accepted(sized, tiling.whole)
    own = set() if isinstance(case, str) else _own_tiles(case)
    open_to = {at: step for at, step in enumerate(tiling.steps) if step}
    tiles = {at: sorted({*USUAL_TILES, *own, tiling.tiles[at]}) for at in open_to}
    for at, step in open_to.items():
        ragged_before = (
            size[at] > TILES_BEYOND * tiles[at][-1] and all(size[at] % tile for tile in tiles[at] if step % tile)
            for size in known
        )
        if not any(ragged_before):
            numbers = [_beyond(most, tiles[at], lcm(step, _VECTOR)) for most in reversed(tiles[at])]
            yield from _first_affordable(
                sized, tiling, (_with(of, at, each) for each in numbers for of in (tiling.small, tiling.least))
            )
    if len(open_to) > 1:
        every = sorted({tile for each in tiles.values() for tile in each}, reverse=True)
        beyond_tiles = (_together(tiling.small, tiles, tiling.steps, most) for most in every)
        different = _different(tiling.small, open_to)
        yield from _first_affordable(sized, tiling, chain(beyond_tiles, different, _scaled_down(sized)))


def _together(small: SizeNumbers, tiles: Mapping[int, Sequence[int]], steps: SizeNumbers, most: int) -> SizeNumbers:
    """A size whose numbers are all ragged beyond their largest tile up to ``most``, and all different."""
    numbers = small
    for at, each in tiles.items():
        fitting = max((tile for tile in each if tile <= most), default=each[0])
        numbers = _with(numbers, at, _beyond(fitting, each, steps[at], at))
    return numbers


def _different(small: SizeNumbers, steps: Mapping[int, int]) -> Iterator[SizeNumbers]:
    """Sizes whose open numbers are successive primes, in units of their steps; the largest first."""
    for first in reversed(range(len(_PRIMES) - len(steps) + 1)):
        numbers = small
        for (at, step), prime in zip(steps.items(), _PRIMES[first:], strict=False):
            numbers = _with(numbers, at, step * prime)
        yield numbers


def _scaled_down(sized: Sized) -> Iterator[SizeNumbers]:
    """The measured size, then ever smaller ones: each time the largest number that can be is divided.

    So small numbers stay as they are, and so do ratios between them.
    """
    size: SizeNumbers | None = sized.usual
    while size is not None:
        yield size
        largest_first = sorted(range(len(size)), key=size.__getitem__, reverse=True)
        smaller = [_with(size, at, size[at] // by) for at in largest_first for by in _DIVISORS if size[at] >= by]
        size = next((each for each in smaller if not isinstance(accepted(sized, each), str)), None)


def _own_tiles(case: Case) -> set[int]:
    """Candidate tiles from a kernel's macros and blocks."""
    macros = (int(value) for _, value in case.defines if value.isdecimal())
    blocks = (extent for each in case.launches for extent in (*each.launch.block, each.launch.threads_per_block))
    return {number for number in (*macros, *blocks) if 1 < number <= _LARGEST_OWN_TILE}


def _beyond(tile: int, tiles: Sequence[int], step: int, skipped: int = 0) -> int:
    """A multiple of ``step`` beyond several tiles, and of none of the ``tiles``; 0 if there is none near."""
    apart = [each for each in tiles if step % each]
    first = (TILES_BEYOND * tile // step + 1) * step
    near = range(first, first + step * (tiles[-1] + 1), step)
    fitting = (number for number in near if apart and all(number % each for each in apart))
    return next(islice(fitting, skipped, None), 0)


def _first_affordable(
    sized: Sized,
    tiling: Tiling,
    sizes: Iterator[SizeNumbers],
    most_flops: int = _MOST_RAGGED_FLOPS,
    most_bytes: int = MOST_BYTES,
) -> Iterator[SizeNumbers]:
    """The first accepted size that is small enough, or nothing."""
    for numbers in sizes:
        case = accepted(sized, numbers) if 0 < 2 * prod(sized.size_of(numbers)) <= most_flops else ""
        if not isinstance(case, str) and not too_large(case, most_flops, tiling.threads, most_bytes):
            yield numbers
            return


def searched(sized: Sized, seed: int) -> Iterator[Case]:
    """Random problems: near multiples of the tiles, near powers of two, and uniform; without repeats."""
    sized = independent(sized)
    tiling, draw, seen = tiling_of(sized), np.random.default_rng(seed), set[SizeNumbers]()
    for _ in range(1 << 16):
        numbers = tuple(
            _drawn(draw, tile, step) if step else usual
            for tile, step, usual in zip(tiling.tiles, tiling.steps, tiling.whole, strict=True)
        )
        if numbers in seen:
            continue
        seen.add(numbers)
        case = accepted(sized, numbers)
        if not isinstance(case, str) and not too_large(case, most_threads=tiling.threads):
            yield _refusing(case)


def too_large(
    case: Case, most_flops: int = MOST_FLOPS, most_threads: int = MOST_THREADS, most_bytes: int = MOST_BYTES
) -> bool:
    """Whether the emulator would need seconds for it."""
    return case.buffer_bytes > most_bytes or _threads(case) > most_threads or case.work.flops > most_flops


def tiling_of(sized: Sized) -> Tiling:
    """How the grid depends on each number, found from the family's launches without running any."""
    usual = sized.usual
    steps = tuple(_step(sized, (at,)) for at in range(len(usual)))
    least = tuple(step or number for step, number in zip(steps, usual, strict=True))
    smallest = accepted(sized, least)
    start = usual if isinstance(smallest, str) else least
    tiles = tuple(_tile(sized, start, at, step) if step else usual[at] for at, step in enumerate(steps))
    whole = start
    for at, tile in enumerate(tiles):
        if not isinstance(accepted(sized, _with(whole, at, tile)), str):
            whole = _with(whole, at, tile)
    threads = 0 if isinstance(smallest, str) else _threads(smallest)
    return Tiling(tiles, steps, whole, max(threads, MOST_THREADS))


def _step(sized: Sized, together: Sequence[int]) -> int:
    """The least accepted value of one number, or of the unit of several in their measured proportion; 0 if fixed.

    Of the powers of two, else of the divisors of the measured value.
    """
    measured, units = _proportion(sized, together)

    def accepts(value: int) -> bool:
        numbers = (units[at] * value if at in units else number for at, number in enumerate(sized.usual))
        return not isinstance(accepted(sized, tuple(numbers)), str)

    powers = (1 << exponent for exponent in range(_LARGEST_STEP.bit_length()))
    divisors = (value for value in range(3, min(measured, _LARGEST_STEP + 1)) if measured % value == 0)
    least = next(filter(accepts, chain(powers, divisors)), 0)
    return least if least != measured or accepts(2 * measured) else 0


def _proportion(sized: Sized, together: Sequence[int]) -> tuple[int, dict[int, int]]:
    """The measured value of the unit of some numbers, and how many units each is: 1, of the number, for one alone."""
    measured = gcd(*(sized.usual[at] for at in together))
    return measured, {at: sized.usual[at] // measured if measured else 1 for at in together}


def _tile(sized: Sized, start: SizeNumbers, at: int, step: int) -> int:
    """The largest multiple of ``step`` with the same grid as ``step`` itself."""

    def grids(number: int) -> object:
        case = accepted(sized, _with(start, at, number))
        return None if isinstance(case, str) else _grids(case)

    first = grids(step)
    below, above = 1, 2
    while grids(above * step) in (None, first):
        below, above = above, 2 * above
        if above * step > _LARGEST_TILE:
            case = accepted(sized, start)
            extent = 1 if isinstance(case, str) else max(max(each.launch.block) for each in case.launches)
            return -(-extent // step) * step
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (middle, above) if grids(middle * step) in (None, first) else (below, middle)
    while grids(below * step) is None:
        below -= 1
    return below * step


def _beside_tiles(sized: Sized, tiling: Tiling) -> Iterator[SizeNumbers]:
    """Full tiles, then each number alone off its tile, then all of them."""
    yield tiling.whole
    options = [
        (tile - step, tile + step, step, step * _prime_above(2 * tile // step)) if step else ()
        for tile, step in zip(tiling.tiles, tiling.steps, strict=True)
    ]
    for at, numbers in enumerate(options):
        yield from (_with(tiling.whole, at, number) for number in numbers if number > 0)
    for each in range(4):
        together = [numbers[each] if numbers else own for numbers, own in zip(options, tiling.whole, strict=True)]
        if min(together) > 0:
            yield tuple(together)
    if len(tiling.tiles) == 1 and tiling.steps[0]:
        case = accepted(sized, tiling.whole)
        threads, (step,) = 0 if isinstance(case, str) else _threads(case), tiling.steps
        if threads > tiling.tiles[0]:  # a grid-stride loop
            whole = -(-threads // step) * step
            yield from ((whole - step,), (whole,), (whole + step,))
    # Next to measured numbers if these are small, such as a row's length or a filter's width; a larger one itself where
    # only some are accepted.
    for at, (number, step) in enumerate(zip(sized.usual, tiling.steps, strict=True)):
        if step and len(sized.usual) > 1 and number <= _LARGEST_STEP:
            yield from (_with(tiling.whole, at, other) for other in (number - step, number, number + step) if other > 0)
        elif step > 1:
            yield _with(tiling.whole, at, number)


def long(sized: Sized, tiling: Tiling) -> Iterator[SizeNumbers]:
    """Each number alone long, the others small: a multiple of a vector, but of no usual tile."""
    for at, step in enumerate(tiling.steps):
        if step:
            unit = lcm(step, _VECTOR)
            numbers = [-(-length // unit) * unit for length in _LONG]
            others = (tiling.small, tiling.least)
            sizes = (_with(of, at, each) for each in numbers for of in others)
            yield from _first_affordable(sized, tiling, sizes, MOST_FLOPS)


def _drawn(draw: np.random.Generator, tile: int, step: int) -> int:
    """A random multiple of ``step``: near a few tiles, near a power of two, or any up to four tiles."""
    beside = step * int(draw.integers(-_NEAR, _NEAR + 1))
    match int(draw.integers(3)):
        case 0:
            number = tile * int(draw.integers(0, 5)) + beside
        case 1:
            number = step * (1 << int(draw.integers(0, 12))) + beside
        case _:
            number = step * int(draw.integers(1, 4 * max(tile // step, 1) + 1))
    return max(number, step)


def _refusing(case: Case) -> Case:
    """The case with a reference function that raises RefusedSize if it does not support the size."""
    if not callable(case.reference):
        return case
    written = [buffer.shape for buffer in case.outputs]
    return replace(case, reference=partial(_or_refuse, case.reference, written))


def _or_refuse(
    reference: Callable[..., Sequence[Array]], written: Sequence[SizeNumbers], xp: Any, inputs: Sequence[Array]
) -> Sequence[Array]:
    try:
        wanted = reference(xp, inputs)
    except (ValueError, AssertionError, ArithmeticError) as error:
        raise RefusedSize(f"its reference: {type(error).__name__}: {one_line(str(error))}") from error
    shapes = [array.shape for array in wanted]
    if shapes != list(written):
        raise RefusedSize(f"its reference gives {shapes}, the outputs are {list(written)}")
    return wanted


def _grids(case: Case) -> list[tuple[int, ...]]:
    return [each.launch.grid for each in case.launches]


def _threads(case: Case) -> int:
    return max(prod(each.launch.grid) * each.launch.threads_per_block for each in case.launches)


def _prime_above(number: int) -> int:
    return next(n for n in count(max(number, 2) + 1) if all(n % of for of in range(2, int(n**0.5) + 1)))


def _with(numbers: SizeNumbers, at: int, number: int) -> SizeNumbers:
    return (*numbers[:at], number, *numbers[at + 1 :])
