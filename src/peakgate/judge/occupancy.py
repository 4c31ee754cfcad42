"""Whether CUDA accepts a launch, how many blocks fit on one SM, and which limit stops the next one; without a GPU.

The limits per compute capability are those of the CUDA C++ Programming Guide, table "Technical Specifications per
Compute Capability". The allocation rules (granularity of registers and shared memory, four register partitions per SM)
reproduce ``cuOccupancyMaxActiveBlocksPerMultiprocessor`` with the largest shared-memory carveout. Columns of tensor
memory (10.0 and 10.3) do not count: a block allocates them while it runs, and waits if too few are free.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from peakgate.base.errors import Code, PeakgateError
from peakgate.spec.case import Launch

Capability = tuple[int, int]
"""Compute capability as (major, minor)."""

SharedBytes = int | Callable[[int], int]
"""Dynamic shared memory of a block in bytes: fixed, or as a function of the threads in the block."""

KIB = 1024
WARP_THREADS = 32
THREADS_PER_BLOCK_MAX = 1024
TENSOR_COLUMNS = 512
"""Columns of tensor memory of an SM, where it has one."""

GRID_MAX = (2**31 - 1, 65535, 65535)
BLOCK_MAX = (1024, 1024, 64)
REGISTERS_PER_THREAD_MAX = 255
REGISTER_UNIT = 256
"""Registers are allocated to a warp in multiples of this."""

SM_PARTITIONS = 4
REGISTERS_PER_PARTITION = 16 * KIB
"""A warp resides in one of four partitions of the SM and uses registers of that partition only. One block may use all
registers of an SM."""


@dataclass(frozen=True, slots=True)
class SmLimits:
    """The limits of one SM of a compute capability.

    ``shared_per_block_bytes`` is the opt-in maximum per block, ``shared_unit_bytes`` the granularity of allocation,
    ``shared_reserved_bytes`` the system's reservation per block.
    """

    fp32_lanes_per_sm: int
    warps_per_sm: int
    blocks_per_sm: int
    shared_per_sm_bytes: int
    shared_per_block_bytes: int
    shared_unit_bytes: int
    shared_reserved_bytes: int


_HOPPER_ON = (128, 64, 32, 228, 227, 128, 1024)
_ADA_ON = (128, 48, 24, 100, 99, 128, 1024)

# FP32 lanes, warps, blocks, shared KiB per SM, shared KiB per block, shared unit, shared reserved.
_TABLE: dict[Capability, tuple[int, int, int, int, int, int, int]] = {
    (7, 0): (64, 64, 32, 96, 96, 256, 0),
    (7, 5): (64, 32, 16, 64, 64, 256, 0),
    (8, 0): (64, 64, 32, 164, 163, 128, 1024),
    (8, 6): (128, 48, 16, 100, 99, 128, 1024),
    (8, 7): (128, 48, 16, 164, 163, 128, 1024),
    (8, 9): _ADA_ON,
    (9, 0): _HOPPER_ON,
    (10, 0): _HOPPER_ON,
    (10, 3): _HOPPER_ON,
    (12, 0): _ADA_ON,
    (12, 1): _ADA_ON,
}

LIMITS: dict[Capability, SmLimits] = {
    capability: SmLimits(lanes, warps, blocks, sm_kib * KIB, block_kib * KIB, unit, reserved)
    for capability, (lanes, warps, blocks, sm_kib, block_kib, unit, reserved) in _TABLE.items()
}


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The occupancy of one SM by a kernel.

    ``fraction`` is resident warps over the most resident warps, 0 to 1. ``limiters`` are the limits that allow no
    further block, out of "warps", "blocks", "registers" and "shared". With ``blocks_per_sm`` 0 the launch is impossible
    because of them.
    """

    blocks_per_sm: int
    warps_per_sm: int
    fraction: float
    limiters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Resources:
    """Resources by ptxas: registers, stack and spilled bytes per thread; static shared memory per block in bytes."""

    registers: int
    stack_bytes: int
    spill_bytes: int
    static_shared_bytes: int

    def occupancy(self, capability: tuple[int, int], launch: Launch) -> Occupancy:
        """The occupancy of an SM by a launch; PeakgateError for a compute capability that is not in the table."""
        threads, shared_bytes = launch.threads_per_block, launch.shared_bytes
        return occupancy(capability, threads, self.registers, self.static_shared_bytes, shared_bytes)


@dataclass(frozen=True, slots=True)
class BlockProposal:
    """The block size with the highest occupancy, and its dynamic shared memory ``shared_bytes``."""

    threads_per_block: int
    shared_bytes: int
    occupancy: Occupancy


def limits_of(capability: Capability) -> SmLimits:
    """The limits of a compute capability; raises PeakgateError for an unknown one."""
    try:
        return LIMITS[capability]
    except KeyError:
        known = ", ".join(f"{major}.{minor}" for major, minor in LIMITS)
        given = ".".join(map(str, capability))
        raise PeakgateError(
            f"compute capability {given} is unknown: expected one of {known}; "
            "add its row to the table of peakgate/judge/occupancy.py",
            Code.NO_GPU,
        ) from None


def occupancy(
    capability: Capability,
    threads_per_block: int,
    registers: int,
    static_shared: int = 0,
    dynamic_shared: int = 0,
) -> Occupancy:
    """The occupancy of one SM by blocks of this shape.

    ``registers`` are per thread, ``static_shared`` and ``dynamic_shared`` bytes per block; above the 48 KiB default
    the kernel is assumed to opt in. A block that does not fit on an SM gives 0 blocks. Raises PeakgateError for
    negative figures or a block without threads.
    """
    limits = limits_of(capability)
    if threads_per_block < 1 or min(registers, static_shared, dynamic_shared) < 0:
        raise PeakgateError(
            f"no such block: {threads_per_block} threads, {registers} registers per thread, "
            f"{static_shared} + {dynamic_shared} bytes of shared memory; "
            "expected at least one thread and no negative figure; check the launch",
            Code.LAUNCH,
        )
    warps = _round_up(threads_per_block, WARP_THREADS) // WARP_THREADS
    fit = {
        "warps": limits.warps_per_sm // warps if threads_per_block <= THREADS_PER_BLOCK_MAX else 0,
        "blocks": limits.blocks_per_sm,
    }
    if registers:
        warps_per_partition = REGISTERS_PER_PARTITION // _round_up(registers * WARP_THREADS, REGISTER_UNIT)
        enough = registers <= REGISTERS_PER_THREAD_MAX
        fit["registers"] = warps_per_partition * SM_PARTITIONS // warps if enough else 0
    if static_shared + dynamic_shared:
        # 0 if a block requests more than allowed: with the reservation, one block may use all of an SM.
        shared = static_shared + dynamic_shared + limits.shared_reserved_bytes
        fit["shared"] = limits.shared_per_sm_bytes // _round_up(shared, limits.shared_unit_bytes)
    blocks = min(fit.values())
    return Occupancy(
        blocks_per_sm=blocks,
        warps_per_sm=blocks * warps,
        fraction=blocks * warps / limits.warps_per_sm,
        limiters=tuple(name for name, count in fit.items() if count == blocks),
    )


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
    for whole_warps in range(_round_up(limit, WARP_THREADS), 0, -WARP_THREADS):
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


def launch_refusal(
    capability: Capability,
    launch: Launch,
    *,
    registers: int = 0,
    static_shared_bytes: int = 0,
    bound: int | None = None,
) -> str | None:
    """Why a GPU of this compute capability refuses a launch; None if it accepts it.

    ``registers`` per thread, ``static_shared_bytes`` per block and ``bound``, the threads allowed by
    ``__launch_bounds__``, come from the compiler; without them only the launch shape is checked. Raises PeakgateError
    for an unknown capability.
    """
    threads = launch.threads_per_block
    for name, extents, most in (("grid", launch.grid, GRID_MAX), ("block", launch.block, BLOCK_MAX)):
        if any(extent > limit for extent, limit in zip(extents, most, strict=True)):
            return f"a {name} of {_times(extents)}, at most {_times(most)} are allowed"
    if threads > THREADS_PER_BLOCK_MAX:
        return f"{threads} threads per block, at most {THREADS_PER_BLOCK_MAX} are allowed"
    if bound is not None and threads > bound:
        return f"{threads} threads per block, its __launch_bounds__ allow {bound}"
    shared_bytes, most_bytes = static_shared_bytes + launch.shared_bytes, limits_of(capability).shared_per_block_bytes
    if shared_bytes > most_bytes:
        return (
            f"{static_shared_bytes} bytes of static and {launch.shared_bytes} of dynamic shared memory per block, "
            f"at most {most_bytes} are allowed"
        )
    if not occupancy(capability, threads, registers, static_shared_bytes, launch.shared_bytes).blocks_per_sm:
        return f"{threads} threads per block with {registers} registers each, an SM has too few registers"
    return None


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _times(extents: tuple[int, ...]) -> str:
    return " x ".join(map(str, extents))
