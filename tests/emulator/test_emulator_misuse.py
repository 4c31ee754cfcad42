"""What functions and instructions require of their caller, each met and not met."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from emulating import finds

import peakgate_emulator as emulator
from peakgate_emulator import DefectKind

LANES, BARRIER, RACE = DefectKind.WARP_MASK, DefectKind.DIVERGENT_BARRIER, DefectKind.SHARED_RACE
UNWRITTEN, CONDITION = DefectKind.UNINITIALISED_SHARED, DefectKind.ASSERTION

OBJECT = "__shared__ alignas(8) unsigned long long b; const unsigned at = (unsigned)__cvta_generic_to_shared(&b); "
INIT = 'if (t == 0) asm volatile("mbarrier.init.shared.b64 [%%0], %s;" ::"r"(at) : "memory"); __syncthreads(); '
ARRIVE = 'asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(at) : "memory"); '
INVALIDATE = '__syncthreads(); if (t == 0) asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(at) : "memory"); '
COPY = "__shared__ int s[16]; __pipeline_memcpy_async(s + t, in + t, 4); __pipeline_commit(); "
SOURCE = (
    "__shared__ int s[16]; out[t] = 1; __pipeline_memcpy_async(s + t, out + t, 4); __pipeline_commit(); "
    "%sout[t] = 2; %sout[t + 16] = s[t];"
)
GROUP = (
    "__shared__ alignas(16) int s[16]; __shared__ cuda::barrier<cuda::thread_scope_block> b; if (t == 0) init(&b, 16); "
    "__syncthreads(); cuda::memcpy_async(cooperative_groups::this_thread_block(), s, in + %d, "
    "cuda::aligned_size_t<16>(64), b); b.arrive_and_wait(); out[t] = s[t];"
)
COUNTER = "__shared__ int n; if (t == 0) %s; __syncthreads(); out[t] = atomicAdd(&n, 1);"
SEMAPHORE = (
    "__shared__ cuda::counting_semaphore<cuda::thread_scope_block, 2> s; if (t == 0) { "
    "new (&s) cuda::counting_semaphore<cuda::thread_scope_block, 2>(1); s.acquire(); s.release(%d); }"
)
GUARDED = (
    "int v = in[t]; for (int by = 16; by; by /= 2) { const int other = __shfl_down_sync(~0u, v, by); "
    "if (t + by < 16) v += other; } out[t] = v;"
)

CASES: dict[str, tuple[str, DefectKind | None]] = {
    "a value of a lane that is there": ("out[t] = __shfl_sync(~0u, in[t], 15);", None),
    "a value of a lane that is not there": ("out[t] = __shfl_sync(~0u, in[t], 31);", LANES),
    "values that are not used": (GUARDED, None),
    "a width of 8": ("out[t] = __shfl_sync(~0u, in[t], 3, 8);", None),
    "a width of 12": ("out[t] = __shfl_sync(~0u, in[t], 3, 12);", LANES),
    "a named barrier of whole warps": ('asm volatile("bar.sync 1, 32;" ::: "memory");', None),
    "a named barrier of more threads than there are": ('asm volatile("bar.sync 1, 64;" ::: "memory");', BARRIER),
    "an object for 16 arrivals": (OBJECT + INIT % 16 + ARRIVE, None),
    "an object for no arrivals": (OBJECT + INIT % 0, BARRIER),
    "an object initialised again": (OBJECT + INIT % 16 + ARRIVE + INVALIDATE + INIT % 16 + ARRIVE, None),
    "an object that is no longer valid": (
        OBJECT + INIT % 16 + ARRIVE + INVALIDATE + "__syncthreads(); " + ARRIVE,
        BARRIER,
    ),
    "an object initialised while in use": (OBJECT + INIT % 16 + ARRIVE + "__syncthreads(); " + INIT % 16, BARRIER),
    "an object initialised over data": (
        OBJECT + INIT % 16 + ARRIVE + "__syncthreads(); if (t == 0) b = 1; " + INIT % 16 + ARRIVE,
        None,
    ),
    "an object whose memory is data again": (
        OBJECT + INIT % 16 + ARRIVE + INVALIDATE + "__syncthreads(); if (t == 0) b = 1;",
        None,
    ),
    "an object whose memory is written": (
        OBJECT + INIT % 16 + "if (t == 0) b = 1; __syncthreads(); " + ARRIVE,
        BARRIER,
    ),
    "a counter that is set": (COUNTER % "n = 0", None),
    "a counter that is exchanged": (COUNTER % "atomicExch(&n, 0)", None),
    "a counter that is not set": (COUNTER % "out[0] = 1", UNWRITTEN),
    "a write after the copy": (COPY + "__pipeline_wait_prior(0); s[t] += 1; out[t] = s[t];", None),
    "a write during the copy": (COPY + "s[t] = 1; __pipeline_wait_prior(0);", RACE),
    "a source written after the copy": (SOURCE % ("__pipeline_wait_prior(0); ", ""), None),
    "a source written during the copy": (SOURCE % ("", "__pipeline_wait_prior(0); "), DefectKind.GLOBAL_RACE),
    "a copy from an aligned address": (GROUP % 4, None),
    "a copy from an address aligned to less": (GROUP % 1, CONDITION),
    "a semaphore at its maximum": (SEMAPHORE % 2, None),
    "a semaphore beyond its maximum": (SEMAPHORE % 3, CONDITION),
}
HEADERS = ("cooperative_groups.h", "cuda_pipeline.h", "cuda/barrier", "cuda/semaphore", "new")


@pytest.mark.parametrize("schedule", [0, 2])
@pytest.mark.parametrize("what", CASES)
def test_a_condition_that_is_not_met_is_found(what: str, schedule: int, tmp_path: Path) -> None:
    body, kind = CASES[what]
    includes = "".join(f"#include <{header}>\n" for header in HEADERS)
    (tmp_path / "kernel.cu").write_text(
        f"{includes}__global__ void kernel(int* out, const int* in) {{ const int t = threadIdx.x; {body} }}\n"
    )
    kernel = emulator.load(tmp_path / "kernel.cu", "kernel")
    with finds(*[kind] if kind else []):
        kernel.launch((1, 1, 1), (16, 1, 1), (np.zeros(32, np.int32), np.arange(32, dtype=np.int32)), schedule=schedule)
