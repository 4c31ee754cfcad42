"""Contents of a launch's buffers: drawn by the host after the kernel was built, new ones for each launch.

So nothing tells a kernel that is timed from one that is checked, and an answer that it kept is wrong. Inputs are drawn
from a pool of elements of the same distribution, outputs from noise, anew for each batch of samples. Small arrays are
there once for each launch of a batch. Of large ones a word in every 4 KiB changes before each launch; where that takes
little of a kernel's time inputs are drawn whole: else one that keeps every element beside its result has little to do.
Which words change follows from a cipher with a key that was drawn for the batch, so that no kernel can compute from the
changes it found where the others are. Contents follow from seeds and keys alone: what a launch was given can be drawn
again in memory that no kernel sees. NumPy's functions here say what must come out, ``device.elements`` does it in one
pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from peakgate.measure.data import random_bits
from peakgate.spec import dtypes
from peakgate.spec.case import Array, Buffer, Case, Role

SPARSE_BYTES = 4096
"""One word of each such part of a buffer changes before a launch."""

CHUNK_BYTES = 32
"""Contents of a large buffer are drawn in parts of this size. A GPU reads at least so much of its memory: a kernel that
knows a part by one of its words has read all of it."""

SEEDS = 1 << 32
"""A seed is a whole number below, and so is each of the KEY_WORDS of a key."""

KEY_WORDS, ROUNDS = 4, 27
"""Of the block cipher Speck64/128 (Beaulieu and others, "The SIMON and SPECK families of lightweight block ciphers",
2013), whose rounds are a few instructions of 32 bits."""

Words = np.ndarray[Any, Any]
"""Of uint32."""

_POOL_BYTES, _LEAST_POOL_ELEMENTS = 8 << 20, 4096
_NOISE_BYTES = 4 << 20
_LARGE = 0x7E


def renewable(buffer: Buffer) -> bool:
    """Whether an input has elements that others of the same kind may replace: random ones, and ones of a range.

    The elements of a function, a file or a number may have an order that matters.
    """
    return buffer.data is None or isinstance(buffer.data, tuple)


def pool_of(buffer: Buffer) -> Buffer:
    """The elements, in one dimension, that contents of a renewable buffer are drawn from."""
    per_byte = 2 if buffer.dtype in dtypes.PACKED else 1
    itemsize = dtypes.storage(buffer.dtype).itemsize
    stored = min(max(buffer.nbytes // itemsize, _LEAST_POOL_ELEMENTS), _POOL_BYTES // itemsize)
    return replace(buffer, role=Role.IN, shape=(stored * per_byte,))


def pools(case: Case, noise_of: Callable[[str], Array], elements: Callable[[Buffer, int], Array]) -> dict[int, Array]:
    """The pools that fill a case's buffers, by argument position; buffers that keep their contents have none.

    ``noise_of`` gives the noise of a type, ``elements`` those of a pool, for an argument position.
    """
    found = {}
    for at, buffer in enumerate(case.arguments):
        if not isinstance(buffer, Buffer) or buffer.role is Role.SCRATCH:
            continue
        if buffer.role in (Role.OUT, Role.TEMP):
            found[at] = noise_of(buffer.dtype)
        elif renewable(buffer) and not isinstance(case.reference, tuple):
            found[at] = elements(pool_of(buffer), at)
    return found


def noise(xp: Any, dtype: str, seed: int) -> Array:
    """Random bytes for outputs of a type, as its stored elements.

    Those of real types are huge, infinite or NaN and never a result: an element that a kernel leaves is wrong.
    """
    stored = dtypes.storage(dtype)
    drawn = np.random.default_rng(seed).integers(256, size=_NOISE_BYTES, dtype=np.uint8)
    if dtypes.limits(dtype).kind in ("float", "complex", "bool"):
        part = stored.itemsize // (2 if stored.kind == "c" else 1)
        drawn.reshape(-1, part)[:, -1] |= np.uint8(_LARGE)
    return xp.asarray(drawn.view(stored))


def chunk_bytes(nbytes: int, itemsize: int) -> int:
    """The size of the parts in which contents of a buffer are drawn: an element of a small one."""
    return CHUNK_BYTES if nbytes >= SPARSE_BYTES else itemsize


def fill(target: Array, pool: Array, seed: int) -> None:
    """Draw all of an array from the pool, with replacement, in place."""
    data, source = target.reshape(-1), pool.reshape(-1)
    chunk = chunk_bytes(target.nbytes, target.itemsize) // target.itemsize
    chunks = -(-data.size // chunk)
    drawn = _below(random_bits(np, chunks, seed), source.size // chunk)
    data[...] = source[: source.size // chunk * chunk].reshape(-1, chunk)[drawn].reshape(-1)[: data.size]


def change(target: Array, pool: Array, seed: int, keys: Words) -> None:
    """Replace one element in every 4 KiB of an array by one of the pool, in place, at places by ``round_keys``."""
    data, source = target.reshape(-1), pool.reshape(-1)
    per_page = SPARSE_BYTES // target.itemsize
    pages = np.arange(-(-data.size // per_page), dtype=np.uint32)
    within = np.minimum(data.size - pages.astype(np.int64) * per_page, per_page)
    place, drawn = enciphered(pages, np.full_like(pages, seed % SEEDS), keys)
    data[pages.astype(np.int64) * per_page + _below(place, within)] = source[_below(drawn, source.size)]


def pairs_of(count: int, itemsize: int) -> int:
    """How many pairs ``exchange`` lets change places: an element in every 4 KiB does, and two where there are two."""
    return max(1, -(-count * itemsize // (2 * SPARSE_BYTES))) if count > 1 else 0


def exchange(target: Array, seed: int, keys: Words) -> None:
    """Let one element of each pair of equal parts of an array change places, in place, at places by ``round_keys``.

    Part ``i`` of ``2 * pairs`` goes with part ``i + pairs``. So integers that are an index stay one, and unique ones
    stay unique, which elements drawn anew would not.
    """
    data = target.reshape(-1)
    pairs = pairs_of(data.size, data.itemsize)
    parts = np.arange(2 * pairs + 1, dtype=np.uint64)
    begins = parts * np.uint64(data.size) // np.uint64(max(1, 2 * pairs))
    numbers = parts[:-1].astype(np.uint32)
    bits, _ = enciphered(numbers, np.full_like(numbers, seed % SEEDS), keys)
    places = begins[:-1].astype(np.int64) + _below(bits, np.diff(begins))
    data[places] = data[np.roll(places, pairs)]


def round_keys(key: Sequence[int]) -> Words:
    """The keys of all rounds, uint32, from the KEY_WORDS words of a key, the one of the first round first."""
    mask = SEEDS - 1
    keys, others = [key[0]], list(key[1:])
    for index in range(ROUNDS - 1):
        turned = (others[index] >> 8 | others[index] << 24) & mask
        others.append((keys[-1] + turned & mask) ^ index)
        keys.append(((keys[-1] << 3 | keys[-1] >> 29) & mask) ^ others[-1])
    return np.array(keys, np.uint32)


def enciphered(left: Words, right: Words, keys: Words) -> tuple[Words, Words]:
    """Blocks of two words each, uint32, enciphered."""
    for key in keys:
        left = ((left >> np.uint32(8) | left << np.uint32(24)) + right) ^ key
        right = (right << np.uint32(3) | right >> np.uint32(29)) ^ left
    return left, right


def _below(bits: Words, ends: Any) -> np.ndarray[Any, Any]:
    """A whole number below an end for each uint32."""
    drawn: np.ndarray[Any, Any] = (bits.astype(np.uint64) * np.asarray(ends, np.uint64)) >> np.uint64(32)
    return drawn.astype(np.int64)


class Refiller(Protocol):
    """A device's way to change its arrays, in the order of the launches."""

    def fill(self, arrays: Sequence[tuple[Array, Array, int]]) -> None:
        """As ``refill.fill`` each array with its pool and seed."""
        ...

    def change(self, arrays: Sequence[tuple[Array, Array, int]], keys: Words) -> None:
        """As ``refill.change`` each array with its pool and seed, all with these keys."""
        ...

    def copy(self, target: Array, origin: Array) -> None:
        """Give an array the elements of another."""
        ...

    def empty_like(self, array: Array) -> Array:
        """Memory for such an array."""
        ...


@dataclass
class Contents:
    """The contents of a case's buffers over the launches of its batches.

    ``buffers``, ``pools`` and ``pristine`` are by argument position: ``pools`` holds what renewable inputs, outputs and
    TEMP buffers are drawn from, ``pristine`` the elements of the other inputs. ``draw`` gives a whole number below its
    argument.
    """

    refiller: Refiller
    buffers: Mapping[int, Buffer]
    pools: Mapping[int, Array]
    pristine: Mapping[int, Array]
    draw: Callable[[int], int]
    _whole: int = 0
    _changes: list[tuple[int, bool]] = field(default_factory=list)
    _arrays: Mapping[int, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        inputs = {at for at, buffer in self.buffers.items() if buffer.role in (Role.IN, Role.INOUT)}
        self.renewed = not inputs or bool(inputs & self.pools.keys())
        """Whether an answer that was kept from an earlier launch is wrong: some input changes, or there is none."""
        whole = (Role.INOUT,) if self.renewed else (Role.INOUT, Role.OUT, Role.TEMP)
        self._filled = {at for at, buffer in self.buffers.items() if buffer.role in whole}

    def begin(self, arrays: Mapping[int, Array]) -> None:
        """Draw all contents of a batch anew, in these arrays."""
        self._arrays, self._changes, self._whole = arrays, [], self.draw(SEEDS)
        self._fill(arrays, self._whole)
        for at, array in arrays.items():
            if self.buffers[at].role is Role.SCRATCH:
                array.fill(0)

    def next(self, *, whole: bool = True) -> None:
        """Draw contents for the next launch of the batch, ``whole`` inputs; SCRATCH stays as the last one left it."""
        seed = self.draw(SEEDS)
        self._changes.append((seed, whole))
        filled = {
            at: array
            for at, array in self._arrays.items()
            if at in self._filled or (whole and self.buffers[at].role is Role.IN and at in self.pools)
        }
        self._fill(filled, seed)
        changed = {at: array for at, array in self._arrays.items() if at not in filled}
        self.refiller.change(self._drawn(changed, seed), self._keys)

    def given(self, launch: int) -> list[Array]:
        """The IN and INOUT buffers as a launch of this batch found them, by argument position, drawn again."""
        found = []
        for at, buffer in self.buffers.items():
            if buffer.role not in (Role.IN, Role.INOUT):
                continue
            if at not in self.pools:
                found.append(self.pristine[at])
                continue
            array = self.refiller.empty_like(self._arrays[at])
            draws = [(self._whole, True), *self._changes[: launch + 1]]
            last = max(index for index, (_, whole) in enumerate(draws) if whole or buffer.role is Role.INOUT)
            self._fill({at: array}, draws[last][0])
            for seed, _ in draws[last + 1 :]:
                self.refiller.change(self._drawn({at: array}, seed), self._keys)
            found.append(array)
        return found

    @cached_property
    def _keys(self) -> Words:
        """Where words change, by a key that no kernel knows."""
        return round_keys([self.draw(SEEDS) for _ in range(KEY_WORDS)])

    @property
    def input_bytes(self) -> int:
        """The bytes that are drawn for each launch where inputs are drawn whole."""
        return sum(buffer.nbytes for at, buffer in self.buffers.items() if buffer.role is Role.IN and at in self.pools)

    def _fill(self, arrays: Mapping[int, Array], seed: int) -> None:
        self.refiller.fill(self._drawn(arrays, seed))
        for at, array in arrays.items():
            if at in self.pristine and at not in self.pools:
                self.refiller.copy(array, self.pristine[at])

    def _drawn(self, arrays: Mapping[int, Array], seed: int) -> list[tuple[Array, Array, int]]:
        """Those arrays that have a pool, with it and their own seed."""
        return [(array, self.pools[at], _of(seed, at)) for at, array in arrays.items() if at in self.pools]


def _of(seed: int, position: int) -> int:
    """The seed of one buffer."""
    return seed + position


class HostRefiller:
    """NumPy's way."""

    copy = staticmethod(np.copyto)
    empty_like = staticmethod(np.empty_like)

    @staticmethod
    def fill(arrays: Sequence[tuple[Array, Array, int]]) -> None:
        """One array after the other."""
        for each in arrays:
            fill(*each)

    @staticmethod
    def change(arrays: Sequence[tuple[Array, Array, int]], keys: Words) -> None:
        """One array after the other."""
        for each in arrays:
            change(*each, keys)


def replayed(contents: Contents) -> str:
    """Whether the run file excludes replayed answers, as a phrase of its ``sampling``."""
    if contents.renewed:
        return "contents of buffers change with every launch"
    return "a replayed answer is not excluded: its inputs are saved, or made by a function"


def outputs_of(buffers: Mapping[int, Buffer], arrays: Mapping[int, Array]) -> Sequence[Array]:
    """The OUT and INOUT arrays in argument order."""
    return [arrays[at] for at, buffer in buffers.items() if buffer.role in (Role.OUT, Role.INOUT)]
