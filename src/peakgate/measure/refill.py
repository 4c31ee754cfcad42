"""Draws the contents of buffers: the host draws new ones for each launch, after the kernel was built.

So a kernel cannot tell timed launches from checked ones, and a cached result is wrong. For each batch of samples inputs
are drawn from a pool of elements of the same distribution, outputs from noise. Small arrays exist once per launch of a
batch. In large ones a word in every 4 KiB changes before each launch; if that takes little of the kernel's time, inputs
are redrawn completely, since otherwise a kernel could keep results by element and recompute few. A block cipher with a
key drawn for the batch chooses the words that change, so that a kernel cannot predict them from those it has seen.
Contents depend on seeds and keys only: the inputs of a launch can be drawn again in memory that kernels cannot see. The
NumPy functions here define the result; ``device.elements`` computes it on the GPU in one pass.
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
"""One word in each part of this size changes before a launch."""

CHUNK_BYTES = 32
"""Large buffers are drawn in chunks of this size, the least that a GPU reads from memory: a kernel that recognizes a
chunk by one word has read all of it."""

SEEDS = 1 << 32
"""A seed is a whole number below this, and so is each of the KEY_WORDS of a key."""

KEY_WORDS, ROUNDS = 4, 27
"""The block cipher Speck64/128 (Beaulieu and others, "The SIMON and SPECK families of lightweight block ciphers",
2013), whose rounds are a few 32-bit instructions."""

Words = np.ndarray[Any, Any]
"""An array of uint32."""

_POOL_BYTES, _LEAST_POOL_ELEMENTS = 8 << 20, 4096
_NOISE_BYTES = 4 << 20
_LARGE, _LARGE_SCALE = 0x7E, 0xFE


def renewable(buffer: Buffer) -> bool:
    """Whether an input's elements may be redrawn: those of random data and of a range.

    The elements of a function, a file or a number may have an order that matters.
    """
    return buffer.data is None or isinstance(buffer.data, tuple)


def pool_of(buffer: Buffer) -> Buffer:
    """The one-dimensional pool of elements from which contents of a renewable buffer are drawn."""
    per_byte = 2 if buffer.dtype in dtypes.PACKED else 1
    itemsize = dtypes.storage(buffer.dtype).itemsize
    stored = min(max(buffer.nbytes // itemsize, _LEAST_POOL_ELEMENTS), _POOL_BYTES // itemsize)
    return replace(buffer, role=Role.IN, shape=(stored * per_byte,))


def pools(case: Case, noise_of: Callable[[str], Array], elements: Callable[[Buffer, int], Array]) -> dict[int, Array]:
    """The pools that fill a case's buffers, by argument position; buffers that keep their contents have none.

    ``noise_of(dtype)`` returns noise, ``elements(buffer, position)`` the elements of a pool.
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
    """Random bytes for outputs of a type, as stored elements.

    In floating-point types they are huge, infinite or NaN, never a result: an element that is not written is wrong. A
    4-bit float has no such numbers.
    """
    stored = dtypes.storage(dtype)
    drawn = np.random.default_rng(seed).integers(256, size=_NOISE_BYTES, dtype=np.uint8)
    if dtypes.limits(dtype).kind in ("float", "complex", "bool") and dtype not in dtypes.PACKED:
        part = stored.itemsize // (2 if stored.kind == "c" else 1)
        drawn.reshape(-1, part)[:, -1] |= np.uint8(_LARGE_SCALE if dtype == dtypes.SCALE else _LARGE)
    return xp.asarray(drawn.view(stored))


def chunk_bytes(nbytes: int, itemsize: int) -> int:
    """The size of the chunks in which a buffer is drawn; one element for a small buffer."""
    return CHUNK_BYTES if nbytes >= SPARSE_BYTES else itemsize


def fill(target: Array, pool: Array, seed: int) -> None:
    """Draw all elements of an array from the pool, with replacement, in place."""
    data, source = target.reshape(-1), pool.reshape(-1)
    chunk = chunk_bytes(target.nbytes, target.itemsize) // target.itemsize
    chunks = -(-data.size // chunk)
    drawn = _below(random_bits(np, chunks, seed), source.size // chunk)
    data[...] = source[: source.size // chunk * chunk].reshape(-1, chunk)[drawn].reshape(-1)[: data.size]


def change(target: Array, pool: Array, seed: int, keys: Words) -> None:
    """Replace one element in every 4 KiB of an array by one of the pool, in place, at positions by the cipher."""
    data, source = target.reshape(-1), pool.reshape(-1)
    per_page = SPARSE_BYTES // target.itemsize
    pages = np.arange(-(-data.size // per_page), dtype=np.uint32)
    within = np.minimum(data.size - pages.astype(np.int64) * per_page, per_page)
    place, drawn = enciphered(pages, np.full_like(pages, seed % SEEDS), keys)
    data[pages.astype(np.int64) * per_page + _below(place, within)] = source[_below(drawn, source.size)]


def pairs_of(count: int, itemsize: int) -> int:
    """The number of pairs that ``exchange`` swaps: one element in every 4 KiB, and at least two if there are two."""
    return max(1, -(-count * itemsize // (2 * SPARSE_BYTES))) if count > 1 else 0


def exchange(target: Array, seed: int, keys: Words) -> None:
    """Swap one element of each pair of equal parts of an array, in place, at positions by the cipher.

    Part ``i`` of ``2 * pairs`` is paired with part ``i + pairs``. So indices stay valid and unique integers unique,
    unlike with redrawn elements.
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
    """The round keys, uint32, first round first, from the KEY_WORDS words of a key."""
    mask = SEEDS - 1
    keys, others = [key[0]], list(key[1:])
    for index in range(ROUNDS - 1):
        turned = (others[index] >> 8 | others[index] << 24) & mask
        others.append((keys[-1] + turned & mask) ^ index)
        keys.append(((keys[-1] << 3 | keys[-1] >> 29) & mask) ^ others[-1])
    return np.array(keys, np.uint32)


def enciphered(left: Words, right: Words, keys: Words) -> tuple[Words, Words]:
    """Encrypt blocks of two uint32 words each."""
    for key in keys:
        left = ((left >> np.uint32(8) | left << np.uint32(24)) + right) ^ key
        right = (right << np.uint32(3) | right >> np.uint32(29)) ^ left
    return left, right


def _below(bits: Words, ends: Any) -> np.ndarray[Any, Any]:
    """Map each uint32 to a whole number below ``ends``."""
    drawn: np.ndarray[Any, Any] = (bits.astype(np.uint64) * np.asarray(ends, np.uint64)) >> np.uint64(32)
    return drawn.astype(np.int64)


class Refiller(Protocol):
    """A device's implementation of ``fill`` and ``change``, in stream order with the launches."""

    def fill(self, arrays: Sequence[tuple[Array, Array, int]]) -> None:
        """``refill.fill`` for each (array, pool, seed)."""
        ...

    def change(self, arrays: Sequence[tuple[Array, Array, int]], keys: Words) -> None:
        """``refill.change`` for each (array, pool, seed), with the same keys."""
        ...

    def copy(self, target: Array, origin: Array) -> None:
        """Copy the elements of ``origin`` to ``target``."""
        ...

    def empty_like(self, array: Array) -> Array:
        """An uninitialized array of the same shape and type."""
        ...


@dataclass
class Contents:
    """The contents of a case's buffers over the launches of its batches.

    ``buffers``, ``pools`` and ``pristine`` are by argument position: renewable inputs, outputs and TEMP buffers are
    drawn from ``pools``, the other inputs copied from ``pristine``. ``draw`` returns a whole number below its argument.
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
        """Whether a cached result of an earlier launch is wrong: some input changes, or there is no input."""
        whole = (Role.INOUT,) if self.renewed else (Role.INOUT, Role.OUT, Role.TEMP)
        self._filled = {at for at, buffer in self.buffers.items() if buffer.role in whole}

    def begin(self, arrays: Mapping[int, Array]) -> None:
        """Draw all contents for a new batch, in these arrays."""
        self._arrays, self._changes, self._whole = arrays, [], self.draw(SEEDS)
        self._fill(arrays, self._whole)
        for at, array in arrays.items():
            if self.buffers[at].role is Role.SCRATCH:
                array.fill(0)

    def next(self, *, whole: bool = True) -> None:
        """Draw contents for the next launch of the batch, with ``whole`` complete inputs; SCRATCH is kept."""
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
        """The IN and INOUT buffers that a launch of this batch had, drawn again, in argument order."""
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
        """The round keys of a random key, which kernels cannot know."""
        return round_keys([self.draw(SEEDS) for _ in range(KEY_WORDS)])

    @property
    def input_bytes(self) -> int:
        """The bytes that are drawn for each launch if inputs are drawn completely."""
        return sum(buffer.nbytes for at, buffer in self.buffers.items() if buffer.role is Role.IN and at in self.pools)

    def _fill(self, arrays: Mapping[int, Array], seed: int) -> None:
        self.refiller.fill(self._drawn(arrays, seed))
        for at, array in arrays.items():
            if at in self.pristine and at not in self.pools:
                self.refiller.copy(array, self.pristine[at])

    def _drawn(self, arrays: Mapping[int, Array], seed: int) -> list[tuple[Array, Array, int]]:
        """(array, pool, seed) of the arrays that have a pool."""
        return [(array, self.pools[at], seed + at) for at, array in arrays.items() if at in self.pools]


class HostRefiller:
    """The implementation with NumPy."""

    copy = staticmethod(np.copyto)
    empty_like = staticmethod(np.empty_like)

    @staticmethod
    def fill(arrays: Sequence[tuple[Array, Array, int]]) -> None:
        """``refill.fill`` for each (array, pool, seed)."""
        for each in arrays:
            fill(*each)

    @staticmethod
    def change(arrays: Sequence[tuple[Array, Array, int]], keys: Words) -> None:
        """``refill.change`` for each (array, pool, seed)."""
        for each in arrays:
            change(*each, keys)


def replayed(contents: Contents) -> str:
    """A phrase for ``sampling`` in the run file: whether cached results are excluded."""
    if contents.renewed:
        return "contents of buffers change with every launch"
    return "a replayed answer is not excluded: its inputs are saved, or made by a function"


def outputs_of(buffers: Mapping[int, Buffer], arrays: Mapping[int, Array]) -> Sequence[Array]:
    """The OUT and INOUT arrays in argument order."""
    return [arrays[at] for at, buffer in buffers.items() if buffer.role in (Role.OUT, Role.INOUT)]
