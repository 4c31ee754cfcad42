"""The block size that the occupancy family proposes fills an SM, without a GPU."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.occupancy.proposal import max_potential_block_size
from peakgate.base.errors import PeakgateError
from peakgate.judge.occupancy import KIB, LIMITS, Capability, occupancy

capabilities = st.sampled_from(sorted(LIMITS))

TURING, HOPPER, BLACKWELL = (7, 5), (9, 0), (12, 0)


def test_a_proposal_has_no_shared_memory_unless_some_is_named() -> None:
    assert max_potential_block_size(TURING, 16, static_shared=64 * KIB).occupancy.blocks_per_sm == 1
    assert max_potential_block_size(TURING, 16, dynamic_shared=64 * KIB).shared_bytes == 64 * KIB
    assert max_potential_block_size(TURING, 16).shared_bytes == 0


def test_a_single_thread_is_a_block_where_no_more_are_allowed() -> None:
    proposal = max_potential_block_size(HOPPER, 32, static_shared=200 * KIB, block_limit=1)
    assert (proposal.threads_per_block, proposal.occupancy.blocks_per_sm) == (1, 1)


def test_of_equal_block_sizes_the_largest_is_proposed() -> None:
    assert max_potential_block_size(HOPPER, 32).threads_per_block == 1024
    # 1536 threads per SM: 768 is the largest of the sizes that fill it.
    assert max_potential_block_size(BLACKWELL, 32).threads_per_block == 768


def test_the_block_limit_is_tried_even_when_no_whole_warp() -> None:
    # 33 threads are 2 warps, 32 blocks, 1056 threads; 32 threads are 32 blocks, 1024 threads.
    assert max_potential_block_size(HOPPER, 32, block_limit=33).threads_per_block == 33
    assert max_potential_block_size(HOPPER, 32, block_limit=20).threads_per_block == 20


def test_shared_memory_that_grows_by_block_moves_the_proposal() -> None:
    proposal = max_potential_block_size(HOPPER, 32, dynamic_shared=lambda block: 128 * block)

    # 1024 threads need 128 KiB, once in 228 KiB; 896 need 112 KiB, twice with the reserve: 1792 threads.
    assert (proposal.threads_per_block, proposal.shared_bytes) == (896, 112 * KIB)
    assert (proposal.occupancy.blocks_per_sm, proposal.occupancy.limiters) == (2, ("warps", "registers", "shared"))


@given(capabilities, st.integers(0, 128), st.integers(0, 40 * KIB), st.integers(1, 1024))
def test_no_whole_warp_block_beats_the_proposal(
    capability: Capability, per_thread: int, static: int, limit: int
) -> None:
    proposal = max_potential_block_size(capability, per_thread, static, block_limit=limit)
    best = proposal.threads_per_block * proposal.occupancy.blocks_per_sm

    assert proposal.threads_per_block <= limit
    for block in range(32, limit + 1, 32):
        assert block * occupancy(capability, block, per_thread, static).blocks_per_sm <= best


def test_a_kernel_that_fits_nowhere_gets_no_proposal() -> None:
    with pytest.raises(PeakgateError, match=r"no block size up to 1024 threads fits .* 9\.0 .*lower the registers"):
        max_potential_block_size(HOPPER, 32, 228 * KIB)
