from __future__ import annotations

import pytest
from emulating import rows
from hypothesis import given
from hypothesis import strategies as st

from peakgate.base.errors import PeakgateError
from peakgate.judge.occupancy import KIB, LIMITS, Capability, Occupancy, max_potential_block_size, occupancy

capabilities = st.sampled_from(sorted(LIMITS))
threads = st.integers(1, 1024)
registers = st.integers(0, 255)
shared = st.integers(0, 230 * KIB)

TURING, AMPERE, GEFORCE_AMPERE, HOPPER, BLACKWELL = (7, 5), (8, 0), (8, 6), (9, 0), (12, 0)


@pytest.mark.parametrize("row", rows("occupancy.txt"))
def test_known_blocks_come_out_as_worked_by_hand(row: str) -> None:
    capability, threads_per_block, per_thread, shared_bytes, blocks, *limiters = row.split()
    sm = (int(capability.split(".")[0]), int(capability.split(".")[1]))
    found = occupancy(sm, int(threads_per_block), int(per_thread), 0, int(shared_bytes))
    warps = int(blocks) * -(-int(threads_per_block) // 32)
    assert found == Occupancy(int(blocks), warps, warps / LIMITS[sm].warps_per_sm, tuple(limiters))


# Resident threads and blocks per SM, KiB of shared memory per SM and per block, the unit of its allocation, what is
# reserved of it, FP32 lanes per SM: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
CUDA_TABLE = {
    (7, 0): (2048, 32, 96, 96, 256, 0, 64),
    (7, 5): (1024, 16, 64, 64, 256, 0, 64),
    (8, 0): (2048, 32, 164, 163, 128, 1024, 64),
    (8, 6): (1536, 16, 100, 99, 128, 1024, 128),
    (8, 7): (1536, 16, 164, 163, 128, 1024, 128),
    (8, 9): (1536, 24, 100, 99, 128, 1024, 128),
    **dict.fromkeys([(9, 0), (10, 0), (10, 3)], (2048, 32, 228, 227, 128, 1024, 128)),
    **dict.fromkeys([(12, 0), (12, 1)], (1536, 24, 100, 99, 128, 1024, 128)),
}


def test_the_limits_of_each_capability_are_those_of_cudas_table() -> None:
    assert {
        capability: (
            32 * limits.warps_per_sm,
            limits.blocks_per_sm,
            limits.shared_per_sm_bytes / KIB,
            limits.shared_per_block_bytes / KIB,
            limits.shared_unit_bytes,
            limits.shared_reserved_bytes,
            limits.fp32_lanes_per_sm,
        )
        for capability, limits in LIMITS.items()
    } == CUDA_TABLE


def test_static_and_dynamic_shared_memory_add_up() -> None:
    assert occupancy(HOPPER, 256, 32, 60 * KIB, 40 * KIB) == occupancy(HOPPER, 256, 32, 0, 100 * KIB)
    assert occupancy(HOPPER, 256, 32, 50 * KIB, 50 * KIB).limiters == ("shared",)


def test_a_block_has_no_shared_memory_unless_some_is_named() -> None:
    # 64 KiB exactly on Turing, which reserves nothing: one byte more would not fit.
    assert occupancy(TURING, 32, 16, static_shared=64 * KIB).blocks_per_sm == 1
    assert occupancy(TURING, 32, 16, dynamic_shared=64 * KIB).blocks_per_sm == 1
    assert max_potential_block_size(TURING, 16, static_shared=64 * KIB).occupancy.blocks_per_sm == 1
    assert max_potential_block_size(TURING, 16, dynamic_shared=64 * KIB).shared_bytes == 64 * KIB
    assert max_potential_block_size(TURING, 16).shared_bytes == 0


def test_more_than_255_registers_a_thread_fit_nowhere() -> None:
    assert occupancy(HOPPER, 32, 255).blocks_per_sm == 8
    assert occupancy(HOPPER, 32, 256).blocks_per_sm == 0


def test_a_single_thread_is_a_block_where_no_more_are_allowed() -> None:
    proposal = max_potential_block_size(HOPPER, 32, static_shared=200 * KIB, block_limit=1)
    assert (proposal.threads_per_block, proposal.occupancy.blocks_per_sm) == (1, 1)


def test_a_block_of_more_than_1024_threads_fits_nowhere() -> None:
    found = occupancy(HOPPER, 1025, 16)

    assert (found.blocks_per_sm, found.limiters) == (0, ("warps",))


def test_an_unknown_capability_is_named_with_the_known_ones() -> None:
    with pytest.raises(PeakgateError, match=r"capability 3\.5 is unknown.* 7\.0, 7\.5, .* 12\.1; add its row to"):
        occupancy((3, 5), 256, 32)


@pytest.mark.parametrize("block", [(0, 32, 0, 0), (-32, 32, 0, 0), (32, -1, 0, 0), (32, 32, -1, 0), (32, 32, 0, -1)])
def test_a_block_that_cannot_be_is_refused_in_one_line(block: tuple[int, int, int, int]) -> None:
    with pytest.raises(PeakgateError, match=r"^no such block: .* expected at least one thread.*$") as refused:
        occupancy(HOPPER, *block)

    assert "\n" not in str(refused.value)


@given(capabilities, threads, registers, shared)
def test_occupancy_never_passes_a_limit(capability: Capability, block: int, per_thread: int, bytes_: int) -> None:
    limits = LIMITS[capability]
    found = occupancy(capability, block, per_thread, 0, bytes_)

    assert 0 <= found.blocks_per_sm <= limits.blocks_per_sm
    assert found.warps_per_sm == found.blocks_per_sm * -(-block // 32) <= limits.warps_per_sm
    assert found.fraction == found.warps_per_sm / limits.warps_per_sm
    assert found.blocks_per_sm * block * per_thread <= 64 * KIB
    assert found.blocks_per_sm * bytes_ <= limits.shared_per_sm_bytes
    assert set(found.limiters) <= {"warps", "blocks", "registers", "shared"}
    assert found.limiters


@given(capabilities, threads, st.integers(1, 255), st.integers(1, 60 * KIB))
def test_lifting_a_limit_that_is_not_named_changes_nothing(
    capability: Capability, block: int, per_thread: int, bytes_: int
) -> None:
    found = occupancy(capability, block, per_thread, 0, bytes_)

    if "registers" not in found.limiters:
        assert occupancy(capability, block, 0, 0, bytes_) == found
    if "shared" not in found.limiters:
        assert occupancy(capability, block, per_thread) == found


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
