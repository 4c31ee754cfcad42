from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from peakgate.measure.data import PAGE_BYTES, alignment_bytes, random_offsets

sizes = st.lists(st.integers(1, 8 * PAGE_BYTES), min_size=1, max_size=6)
seeds = st.integers(0, 2**32)


@given(sizes, seeds, st.integers(2, 5))
def test_arrays_lie_aligned_inside_the_room_and_apart(sizes, seed, times_as_large):
    room = times_as_large * sum(size + alignment_bytes(size) for size in sizes)
    offsets = random_offsets(sizes, room, np.random.default_rng(seed))
    spans = sorted((offset, offset + size) for offset, size in zip(offsets, sizes, strict=True))
    assert spans[0][0] >= 0
    assert spans[-1][1] <= room
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert all(offset % alignment_bytes(size) == 0 for offset, size in zip(offsets, sizes, strict=True))


@given(sizes, seeds)
def test_arrays_beyond_half_the_room_stay_where_they_are(sizes, seed):
    room = 2 * sum(size + alignment_bytes(size) for size in sizes) - 1
    assert random_offsets(sizes, room, np.random.default_rng(seed)) is None


def test_every_draw_is_another_placement_in_any_order():
    rng = np.random.default_rng(1)
    drawn = [tuple(random_offsets([1000, 1000], 1 << 30, rng)) for _ in range(50)]
    assert len(set(drawn)) == 50
    assert {first < second for first, second in drawn} == {True, False}


def test_an_array_of_a_page_or_more_begins_on_a_page():
    assert alignment_bytes(PAGE_BYTES) == PAGE_BYTES
    assert alignment_bytes(PAGE_BYTES - 1) == 512
