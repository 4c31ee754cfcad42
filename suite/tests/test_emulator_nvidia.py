"""NVIDIA's own headers in the emulator: ``cuda::std``, ``cuda::ptx`` and cuRAND's device code, right and wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from peakgate import emulator
from peakgate.build import headers
from peakgate.emulator import DefectKind, KernelBuildError, KernelDefect

LIBRARY = """
#include <cuda/std/span>
#include <cuda/std/mdspan>
#include <cuda/std/bit>
#include <cuda/std/array>
#include <cuda/std/algorithm>
#include <cuda/std/complex>
#include <cuda/cmath>
extern "C" __global__ void library(float* out, const float* in, int n) {
    __shared__ float tile[4 * 8];
    const cuda::std::span<const float> given(in, n);
    const cuda::std::mdspan<float, cuda::std::extents<int, 4, 8>> matrix(tile);
    const int row = threadIdx.x / 8, col = threadIdx.x % 8;
    matrix(row, col) = given[threadIdx.x];
    SYNC;
    const float turned = matrix((row + 1) % 4, 7 - col);
    const cuda::std::array<int, 3> sorted = {1, 2, cuda::ceil_div(n, 16)};
    const cuda::std::complex<float> square = cuda::std::complex<float>(0, 2) * cuda::std::complex<float>(0, 1);
    const unsigned bits = cuda::std::bit_cast<unsigned>(turned) + cuda::std::popcount(0u);
    const cuda::std::span<float> to(out, n);
    to[threadIdx.x + SHIFT] = cuda::std::bit_cast<float>(bits) + cuda::std::max(sorted[1], sorted[2]) + square.real();
}
"""
COPIES = """
#include <cuda/barrier>
#include <cuda/ptx>
#include <cuda/std/utility>
namespace ptx = cuda::ptx;
extern "C" __global__ void copies(float* out, const float* in) {
    __shared__ alignas(128) float tile[64];
    __shared__ alignas(8) cuda::std::uint64_t full;
    const bool leads = threadIdx.x < 32 && ptx::elect_sync(~0u);
    if (leads) {
        ptx::mbarrier_init(&full, 1);
        ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    }
    __syncthreads();
    if (leads) {
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, sizeof tile);
        ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, tile, in, sizeof tile, &full);
    }
    WAIT;
    tile[threadIdx.x] *= 2;
    FENCE;
    __syncthreads();
    if (leads) {
        ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, out, tile, sizeof tile);
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group(ptx::n32_t<0>{});
    }
}
"""
COPIED = {
    "WAIT": "while (!ptx::mbarrier_try_wait_parity(&full, 0)) {}",
    "FENCE": "ptx::fence_proxy_async(ptx::space_shared)",
}
NUMBERS = """
#include <curand_kernel.h>
template <class State> __device__ void fill(unsigned* bits, float* uniform, int n) {
    State state;
    curand_init(1234ull, threadIdx.x, 3ull, &state);
    for (int i = 0; i < n; ++i) bits[threadIdx.x * n + i] = curand(&state);
    for (int i = 0; i < n; ++i) uniform[threadIdx.x * n + i] = i % 2 ? curand_uniform(&state) : curand_normal(&state);
}
extern "C" __global__ void philox(unsigned* bits, float* uniform, int n) {
    fill<curandStatePhilox4_32_10_t>(bits, uniform, n);
}
extern "C" __global__ void xorwow(unsigned* bits, unsigned* states, int n) {
    curandState state;
    curand_init(99ull, threadIdx.x, 0ull, &state);
    for (int i = 0; i < 5; ++i) states[threadIdx.x * 6 + i] = state.v[i];
    states[threadIdx.x * 6 + 5] = state.d;
    SYNC;
    for (int i = 0; i < n; ++i) bits[threadIdx.x * n + i] = curand(&state);
}
"""

BY_GCC = any(compiler.is_gcc for compiler in emulator.available_compilers()[:1])
library = pytest.mark.skipif(
    not BY_GCC or not headers.nvidia_folders(), reason="g++ or CUDA's headers are not installed"
)


def has_curand() -> bool:
    return any((folder / "curand_kernel.h").is_file() for folder in headers.nvidia_folders())


curand = pytest.mark.skipif(not BY_GCC or not has_curand(), reason="g++ or nvidia-curand is not installed")


def loaded(folder: Path, text: str, name: str, **macros: str) -> Any:
    source = folder / f"{name}.cu"
    source.write_text(text, encoding="utf-8")
    return emulator.load(source, name, tuple(macros.items()))


def run_library(folder: Path, **macros: str) -> tuple[np.ndarray, np.ndarray]:
    given, out = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    kernel = loaded(folder, LIBRARY, "library", **({"SYNC": "__syncthreads()", "SHIFT": "0"} | macros))
    kernel.launch((1, 1, 1), (32, 1, 1), (out, given, np.int32(32)))
    return given, out


@library
def test_views_of_memory_casts_and_algorithms_are_those_of_cuda_std(tmp_path: Path) -> None:
    given, out = run_library(tmp_path)
    np.testing.assert_array_equal(out, np.roll(given.reshape(4, 8), -1, axis=0)[:, ::-1].ravel() + 2 - 2)


@library
@pytest.mark.parametrize(
    ("macros", "kind"),
    [({"SYNC": ""}, DefectKind.SHARED_RACE), ({"SHIFT": "1"}, DefectKind.OUT_OF_BOUNDS)],
    ids=["no barrier", "a view that is left"],
)
def test_a_defect_behind_a_view_of_memory_is_found_at_the_kernels_line(
    macros: dict[str, str], kind: DefectKind, tmp_path: Path
) -> None:
    with pytest.raises(KernelDefect) as caught:
        run_library(tmp_path, **macros)
    assert kind in {defect.kind for defect in caught.value.defects}
    assert "library.cu:" in str(caught.value)


def run_copies(folder: Path, **macros: str) -> tuple[np.ndarray, np.ndarray]:
    given, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    loaded(folder, COPIES, "copies", **(COPIED | macros)).launch((1, 1, 1), (64, 1, 1), (out, given), outputs=[0])
    return given, out


@library
def test_functions_of_cuda_ptx_do_what_their_instructions_do(tmp_path: Path) -> None:
    given, out = run_copies(tmp_path)
    np.testing.assert_array_equal(out, 2 * given)


@library
@pytest.mark.parametrize("missing", COPIED)
def test_a_wait_or_a_fence_of_cuda_ptx_that_is_missing_is_found(missing: str, tmp_path: Path) -> None:
    with pytest.raises(KernelDefect) as caught:
        run_copies(tmp_path, **{missing: ""})
    assert {DefectKind.SHARED_RACE, DefectKind.UNINITIALISED_SHARED} & {defect.kind for defect in caught.value.defects}


def philox(counter: tuple[int, int, int, int], key: int) -> list[int]:
    """Philox4x32-10 as Salmon, Moraes, Dror and Shaw published it."""
    words, low, high = list(counter), key & 0xFFFFFFFF, key >> 32
    for turn in range(10):
        first, second = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
        keys = (low + turn * 0x9E3779B9) & 0xFFFFFFFF, (high + turn * 0xBB67AE85) & 0xFFFFFFFF
        words = [
            (second >> 32) ^ words[1] ^ keys[0],
            second & 0xFFFFFFFF,
            (first >> 32) ^ words[3] ^ keys[1],
            first & 0xFFFFFFFF,
        ]
    return words


@curand
def test_philox_gives_the_published_bits(tmp_path: Path) -> None:
    count, threads = 9, 4
    bits, uniform = np.zeros((threads, count), np.uint32), np.zeros((threads, count), np.float32)
    loaded(tmp_path, NUMBERS, "philox", SYNC="").launch((1, 1, 1), (threads, 1, 1), (bits, uniform, np.int32(count)))
    for thread in range(threads):
        stream = [word for block in range(4) for word in philox((block, 0, thread, 0), 1234)]
        assert list(bits[thread]) == stream[3 : 3 + count]
    assert ((uniform[:, 1::2] > 0) & (uniform[:, 1::2] <= 1)).all()
    assert np.isfinite(uniform).all()


@curand
def test_xorwow_goes_on_as_marsaglia_published_it(tmp_path: Path) -> None:
    count, threads = 40, 8
    bits, states = np.zeros((threads, count), np.uint32), np.zeros((threads, 6), np.uint32)
    loaded(tmp_path, NUMBERS, "xorwow", SYNC="").launch((1, 1, 1), (threads, 1, 1), (bits, states, np.int32(count)))
    assert len(np.unique(states[:, :5], axis=0)) == threads  # subsequences of their own
    for thread in range(threads):
        *words, counter = (int(word) for word in states[thread])
        for got in bits[thread]:
            mixed = words[0] ^ words[0] >> 2
            last = words[4] ^ words[4] << 4 & 0xFFFFFFFF ^ mixed ^ mixed << 1 & 0xFFFFFFFF
            words = [*words[1:], last]
            counter = (counter + 362437) & 0xFFFFFFFF
            assert got == (last + counter) & 0xFFFFFFFF


@curand
def test_threads_that_draw_from_one_state_race(tmp_path: Path) -> None:
    text = NUMBERS.replace("curandState state;", "__shared__ curandState state;")
    kernel = loaded(tmp_path, text, "xorwow", SYNC="__syncthreads()")
    with pytest.raises(KernelDefect) as caught:
        kernel.launch((1, 1, 1), (32, 1, 1), (np.zeros(32 * 4, np.uint32), np.zeros(32 * 6, np.uint32), np.int32(4)))
    assert DefectKind.SHARED_RACE in {defect.kind for defect in caught.value.defects}


def test_without_the_headers_it_is_said_what_brings_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headers, "nvidia_folders", lambda: ())
    with pytest.raises(KernelBuildError, match="nvidia-curand"):
        loaded(tmp_path, NUMBERS, "xorwow", SYNC="")
    with pytest.raises(KernelBuildError, match="extra nvrtc"):
        loaded(tmp_path, LIBRARY, "library", SYNC="", SHIFT="0")
