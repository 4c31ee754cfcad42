"""The block size with the highest occupancy, as the driver proposes it, without a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from peakgate.base.errors import Code, PeakgateError
from peakgate.judge.occupancy import THREADS_PER_BLOCK_MAX, WARP_THREADS, Capability, Occupancy, occupancy

SharedBytes = int | Callable[[int], int]
"""Dynamic shared memory of a block in bytes: fixed, or as a function of the threads in the block."""


@dataclass(frozen=True, slots=True)
class BlockProposal:
    """The block size with the highest occupancy, and its dynamic shared memory ``shared_bytes``."""

    threads_per_block: int
    shared_bytes: int
    occupancy: Occupancy


def max_potential_block_size(
    capability: Capability,
    registers: int,
    static_shared: int = 0,
    dynamic_shared: SharedBytes = 0,
    block_limit: int = THREADS_PER_BLOCK_MAX,
) -> BlockProposal:
    """The block size with most resident threads per SM, as ``cuOccupancyMaxPotentialBlockSize`` chooses it.

    Sizes are multiples of a warp, and of equal ones the largest is chosen. ``dynamic_shared`` may be a function of the
    block size. ``block_limit`` is the kernel's own maximum (``__launch_bounds__``). Raises PeakgateError if no block
    size can be launched.
    """
    best: BlockProposal | None = None
    limit = min(block_limit, THREADS_PER_BLOCK_MAX)
    for whole_warps in range(-(-limit // WARP_THREADS) * WARP_THREADS, 0, -WARP_THREADS):
        threads = min(whole_warps, limit)
        shared = dynamic_shared(threads) if callable(dynamic_shared) else dynamic_shared
        found = occupancy(capability, threads, registers, static_shared, shared)
        if threads * found.blocks_per_sm > (best.threads_per_block * best.occupancy.blocks_per_sm if best else 0):
            best = BlockProposal(threads, shared, found)
    if best is None:
        raise PeakgateError(
            f"no block size up to {block_limit} threads fits a SM of compute capability "
            f"{capability[0]}.{capability[1]} with {registers} registers per thread "
            f"and {static_shared} bytes of static shared memory; lower the registers or the shared memory",
            Code.LAUNCH,
        )
    return best
