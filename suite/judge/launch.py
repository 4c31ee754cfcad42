"""Whether CUDA takes a launch: the limits of grids and blocks, and what one SM has for a block. Pure; needs no GPU.

The limits are those of the CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability".
"""

from __future__ import annotations

from peakgate.case import Launch
from peakgate.judge.occupancy import THREADS_PER_BLOCK_MAX, Capability, limits_of, occupancy

GRID_MAX = (2**31 - 1, 65535, 65535)
BLOCK_MAX = (1024, 1024, 64)


def refusal(
    capability: Capability,
    launch: Launch,
    *,
    registers: int = 0,
    static_shared_bytes: int = 0,
    bound: int | None = None,
) -> str | None:
    """Why a GPU of this compute capability refuses a launch; None where it takes it.

    ``registers`` per thread, ``static_shared_bytes`` per block and ``bound``, the most threads that the kernel's
    ``__launch_bounds__`` allow, are the compiler's; without them only the launch itself is judged. PeakgateError for a
    capability that is not in the table.
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


def _times(extents: tuple[int, ...]) -> str:
    return " x ".join(map(str, extents))
