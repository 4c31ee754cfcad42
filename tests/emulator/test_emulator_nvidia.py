"""NVIDIA's own headers in the emulator: ``cuda::std``, ``cuda::ptx`` and cuRAND's device code, right and wrong."""

from __future__ import annotations

import numpy as np
import pytest
from emulating import COMPILERS, ONE, finds, loaded

from peakgate_emulator import DefectKind, KernelBuildError, headers

BY_GCC = any(compiler.is_gcc for compiler in COMPILERS[:1])
library = pytest.mark.skipif(
    not BY_GCC or not headers.nvidia_folders(), reason="g++ or CUDA's headers are not installed"
)


def has_curand() -> bool:
    return any((folder / "curand_kernel.h").is_file() for folder in headers.nvidia_folders())


curand = pytest.mark.skipif(not BY_GCC or not has_curand(), reason="g++ or nvidia-curand is not installed")


def run_library(waits: int = 1, shift: int = 0) -> tuple[np.ndarray, np.ndarray]:
    given, out = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    loaded("library").launch(ONE, (32, 1, 1), (out, given, *map(np.int32, (32, waits, shift))))
    return given, out


@library
def test_views_casts_and_algorithms_are_those_of_cuda_std() -> None:
    given, out = run_library()
    np.testing.assert_array_equal(out, np.roll(given.reshape(4, 8), -1, axis=0)[:, ::-1].ravel() + 2 - 2)


@library
def test_a_defect_behind_a_view_is_found_at_the_kernels_line() -> None:
    with finds(DefectKind.SHARED_RACE) as race:
        run_library(waits=0)
    with finds(DefectKind.OUT_OF_BOUNDS) as outside:
        run_library(shift=1)
    assert all("library.cu:" in str(caught.value) for caught in (race, outside))


def run_copies(waits: int = 1, fences: int = 1) -> tuple[np.ndarray, np.ndarray]:
    given, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    arguments = (out, given, np.int32(waits), np.int32(fences))
    loaded("copies").launch(ONE, (64, 1, 1), arguments, outputs=[0])
    return given, out


@library
def test_functions_of_cuda_ptx_do_what_their_instructions_do() -> None:
    given, out = run_copies()
    np.testing.assert_array_equal(out, 2 * given)


@library
@pytest.mark.parametrize("missing", ["waits", "fences"])
def test_a_wait_or_a_fence_of_cuda_ptx_that_is_missing_is_found(missing: str) -> None:
    with finds(DefectKind.SHARED_RACE, DefectKind.UNINITIALISED_SHARED):
        run_copies(**{missing: 0})


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
def test_philox_gives_the_published_bits() -> None:
    count, threads = 9, 4
    bits, uniform = np.zeros((threads, count), np.uint32), np.zeros((threads, count), np.float32)
    loaded("numbers", {"SYNC": ""}, "philox").launch((1, 1, 1), (threads, 1, 1), (bits, uniform, np.int32(count)))
    for thread in range(threads):
        stream = [word for block in range(4) for word in philox((block, 0, thread, 0), 1234)]
        assert list(bits[thread]) == stream[3 : 3 + count]
    assert ((uniform[:, 1::2] > 0) & (uniform[:, 1::2] <= 1)).all()
    assert np.isfinite(uniform).all()


@curand
def test_xorwow_goes_on_as_marsaglia_published_it() -> None:
    count, threads = 40, 8
    bits, states = np.zeros((threads, count), np.uint32), np.zeros((threads, 6), np.uint32)
    loaded("numbers", {"SYNC": ""}, "xorwow").launch((1, 1, 1), (threads, 1, 1), (bits, states, np.int32(count)))
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
def test_threads_that_draw_from_one_state_race() -> None:
    kernel = loaded("numbers", {"SYNC": "__syncthreads()", "STATE": "__shared__ curandState state"}, "xorwow")
    with finds(DefectKind.SHARED_RACE):
        kernel.launch((1, 1, 1), (32, 1, 1), (np.zeros(32 * 4, np.uint32), np.zeros(32 * 6, np.uint32), np.int32(4)))


def test_without_the_headers_it_is_said_what_brings_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headers, "nvidia_folders", lambda: ())
    with pytest.raises(KernelBuildError, match="nvidia-curand"):
        loaded("numbers", {"SYNC": ""}, "xorwow")
    with pytest.raises(KernelBuildError, match="extra nvrtc"):
        loaded("library")
