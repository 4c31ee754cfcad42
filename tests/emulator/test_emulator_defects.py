"""Every kind of defect is detected where it was injected, and sound kernels are left alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulating import COMPILERS, every_compiler, finds

import peakgate_emulator as emulator
from peakgate_emulator import Compiler, DefectKind, EmulatorDefect, KernelDefect
from peakgate_emulator.defects import in_reading_order

KERNELS = Path(__file__).parents[1] / "data" / "defects"
DEFECTS = sorted((KERNELS / "injected").glob("*.cu"))
FOUND_BY_GCC_ONLY = {"misaligned_vector", "dead_load_race", "fragment_of_returned_function"}
"""Clang checks no alignment of whole structs, deletes loads whose values are not used, and inlines more."""
SCHEDULES = (0, 1, 7)

Vector = np.ndarray[Any, np.dtype[np.float32]]


def run(source: Path, compiler: Compiler, schedule: int = 0) -> Vector:
    """Two blocks of 64 threads on 128 elements: what all kernels in defects/ are written for."""
    kernel = emulator.load(source, source.stem, compiler=compiler)
    out = np.zeros(128, np.float32)
    arguments = (out, np.arange(128, dtype=np.float32), np.int32(100))
    kernel.launch((2, 1, 1), (64, 1, 1), arguments, shared_bytes=256, schedule=schedule, access_budget=100_000)
    return out


def injected_in(source: Path) -> tuple[DefectKind, str]:
    marks = re.findall(r"^.*// DEFECT: (\w+)$", source.read_text(), re.MULTILINE)
    assert len(marks) == 1, f"{source.name} must mark one line with its defect"
    line = next(number for number, text in enumerate(source.read_text().splitlines(), 1) if "// DEFECT" in text)
    return DefectKind[marks[0]], f"{source.name}:{line}"


@pytest.fixture(scope="module", autouse=True)
def _prebuilt() -> None:
    sources = (*DEFECTS, *(KERNELS / "clean").glob("*.cu"))
    for compiler in COMPILERS:
        emulator.prebuild([(source, source.stem, ()) for source in sources], compiler=compiler)


@every_compiler
@pytest.mark.parametrize("source", DEFECTS, ids=lambda source: source.stem)
def test_an_injected_defect_is_found_at_its_line(source: Path, compiler: Compiler) -> None:
    if source.stem in FOUND_BY_GCC_ONLY and not compiler.is_gcc:
        pytest.skip("found by g++ only")
    kind, location = injected_in(source)
    with pytest.raises(KernelDefect) as caught:
        run(source, compiler)
    assert (kind, location) in {(defect.kind, defect.location) for defect in caught.value.defects}
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("source", DEFECTS, ids=lambda source: source.stem)
def test_an_injected_defect_is_found_in_any_order_of_threads(source: Path) -> None:
    compiler = emulator.find_compiler()
    if source.stem in FOUND_BY_GCC_ONLY and not compiler.is_gcc:
        pytest.skip("found by g++ only")
    kind, _ = injected_in(source)
    for schedule in SCHEDULES:
        with finds(kind):
            run(source, compiler, schedule)


def test_every_kind_of_defect_has_a_kernel() -> None:
    injected = {injected_in(source)[0] for source in DEFECTS}
    # Those of outputs and of numbers that are not finite are asked for (test_emulator_writes.py); a race on registers
    # needs more threads (test_emulator_wgmma.py), tensor memory another architecture (test_emulator_tensor.py).
    elsewhere = {DefectKind.UNWRITTEN_OUTPUT, DefectKind.NONFINITE, DefectKind.UNSET_VALUE}
    tensors = {kind for kind in DefectKind if "TENSOR" in kind.name} | {DefectKind.INVALID_DESCRIPTOR}
    assert injected == set(DefectKind) - elsewhere - tensors - {DefectKind.REGISTER_RACE}


def blocks_of(values: Vector) -> Vector:
    return values.reshape(2, 64)


def both_blocks(values: Vector) -> Vector:
    return np.concatenate((values, values))


def last_block_sum(values: Vector) -> Vector:
    expected = values.copy()
    expected[0] = values.sum()
    return expected


def histogram(values: Vector) -> Vector:
    expected = np.zeros_like(values)
    expected[:8] = np.bincount(values.astype(int) % 8)
    return expected


def neighbours_below_100(values: Vector) -> Vector:
    swapped = values.reshape(-1, 2)[:, ::-1].ravel()
    return np.where(np.arange(128) < 100, swapped, 0).astype(np.float32)


def pipelined(values: Vector) -> Vector:
    quads = values.reshape(2, 16, 4).copy()
    quads[1, :, 2:] = 0
    return both_blocks(quads.sum(axis=(0, 2))[::-1].repeat(4))


CLEAN: dict[str, Callable[[Vector], Vector]] = {
    "builtin_copies": lambda values: both_blocks(blocks_of(values)[0][::-1]),
    "mirror": lambda values: blocks_of(values)[:, ::-1].ravel(),
    "reused_tile": lambda values: both_blocks(blocks_of(values).sum(axis=0)[::-1]),
    "warp_reduction": lambda values: values.reshape(4, 32).sum(axis=1).repeat(32),
    "last_block_sums": last_block_sum,
    "neighbouring_shorts": lambda values: values + 1,
    "shared_histogram": histogram,
    "early_exit": neighbours_below_100,
    "async_pipeline": pipelined,
    "copies_left_open": lambda values: both_blocks(blocks_of(values)[0]),
    "one_dynamic_allocation": lambda values: blocks_of(values)[:, ::-1].ravel(),
    "relaxed_between_fences": lambda values: both_blocks(blocks_of(values)[0][::-1]),
    "written_after_discard": lambda values: both_blocks(blocks_of(values)[0] + 1),
    "fragment_by_value": lambda values: 8 * values,
}


@every_compiler
@pytest.mark.parametrize("name", CLEAN)
def test_a_sound_kernel_gives_no_report_in_any_order(name: str, compiler: Compiler) -> None:
    expected = CLEAN[name](np.arange(128, dtype=np.float32))
    for schedule in SCHEDULES:
        np.testing.assert_array_equal(run(KERNELS / "clean" / f"{name}.cu", compiler, schedule), expected)


def test_every_clean_kernel_has_an_expected_result() -> None:
    assert {source.stem for source in (KERNELS / "clean").glob("*.cu")} == set(CLEAN)


def races(name: str) -> list[EmulatorDefect]:
    with pytest.raises(KernelDefect) as caught:
        run(KERNELS / "injected" / f"{name}.cu", emulator.find_compiler())
    return [defect for defect in caught.value.defects if defect.kind is DefectKind.SHARED_RACE]


def test_a_read_before_its_write_is_at_the_line_that_reads() -> None:
    (race,) = races("missing_barrier")
    assert (race.location, race.other_location) == ("missing_barrier.cu:6", "missing_barrier.cu:5")
    assert (race.thread, race.other_thread, race.count) == ((31, 0, 0), (32, 0, 0), 128)
    assert race.message.startswith("read after write")
    assert "read came first" in race.message
    assert race.missing is not None
    assert "missing_barrier.cu:5 and missing_barrier.cu:6" in race.missing


def test_two_lines_that_race_both_ways_name_both_places() -> None:
    found = races("missing_second_barrier")
    assert [defect.message[:16] for defect in found] == ["read after write", "write after read"]
    write, read = "missing_second_barrier.cu:6", "missing_second_barrier.cu:8"
    missing = f"a barrier is missing between {write} and {read}, or between {read} and the next {write}"
    assert [defect.missing for defect in found] == [missing, missing]
    (reordered, *_) = in_reading_order([replace(each, both_ways=False) for each in found[::-1]])
    assert reordered == found[0]


@pytest.mark.parametrize(("name", "reads"), [("missing_syncwarp", True), ("dead_store_race", False)])
def test_a_line_that_races_with_itself_says_where_a_barrier_goes(name: str, reads: bool) -> None:
    (race, *_) = races(name)
    assert race.location == race.other_location
    assert race.missing is not None
    assert ("between its read and its write" in race.missing) == reads


def test_the_bits_that_a_write_replaces_are_named() -> None:
    _, overwritten = races("missing_second_barrier")
    assert "0x42c00000 replace 0x42000000" in overwritten.message
    assert " replace " not in races("async_copy_into_tile_in_use")[-1].message


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lane_that_never_arrives", "waits for all 32 lanes of its warp, some of which never arrive"),
        ("mask_without_caller", "lane 16 calls a warp primitive whose mask 0xffff (bit n: lane n) leaves it out"),
    ],
)
def test_a_mask_is_explained(name: str, message: str) -> None:
    with pytest.raises(KernelDefect) as caught:
        run(KERNELS / "injected" / f"{name}.cu", emulator.find_compiler())
    assert caught.value.defects[0].message == message


@pytest.mark.parametrize(("chosen", "width"), [("fmaxf", 4), ("fminf", 4), ("max", 2), ("min", 2)])
def test_a_value_of_an_absent_lane_changes_a_result(chosen: str, width: int, tmp_path: Path) -> None:
    type_ = {4: "float", 2: "__half"}[width]
    (tmp_path / "k.cu").write_text(
        f"#include <cuda_fp16.h>\n__global__ void k({type_}* out) {{\n    {type_} value = 1.0f;\n"
        "    if (threadIdx.x < 20) for (int d = 16; d; d /= 2)\n"
        f"        value = {chosen}(value, __shfl_down_sync(~0u, value, d));\n"
        "    if (threadIdx.x == 0) *out = value;\n}\n"
    )
    results = []
    for schedule in (0, 1):
        out = np.zeros(1, f"f{width}")
        emulator.load(tmp_path / "k.cu", "k").launch((1, 1, 1), (32, 1, 1), (out,), schedule=schedule)
        results.append(out[0])
    assert not all(result == 1 for result in results)


def test_a_value_of_an_absent_lane_may_equal_the_readers_own(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(
        "__global__ void k(int* out, int n) {\n    if (threadIdx.x >= n) return;\n"
        "    for (int d = 1; d < 32; d *= 2) *out += 5 == __shfl_down_sync(~0u, 5, d);\n}\n"
    )
    for schedule, wrong in ((0, False), (1, True), (2, True)):
        out = np.zeros(1, np.int32)
        emulator.load(tmp_path / "k.cu", "k").launch((1, 1, 1), (32, 1, 1), (out, np.int32(1)), schedule=schedule)
        assert (out[0] > 0) == wrong


def test_a_defect_that_repeats_is_told_once_with_its_count() -> None:
    with pytest.raises(KernelDefect) as caught:
        run(KERNELS / "injected" / "uninitialised_shared.cu", emulator.find_compiler())
    (only,) = caught.value.defects
    assert only.count == 64
    assert str(caught.value).endswith(", 64 times")


@pytest.mark.parametrize("place", ["read_out_of_bounds.cu:4", "async_copy_out_of_bounds_without_wait.cu:5"])
def test_an_access_out_of_bounds_has_its_line_and_thread(
    place: str,
) -> None:
    with pytest.raises(KernelDefect) as caught:
        run(KERNELS / "injected" / place.partition(":")[0], emulator.find_compiler())
    (defect, *_) = caught.value.defects
    assert (defect.kind, defect.location) == (DefectKind.OUT_OF_BOUNDS, place)
    assert (defect.thread, defect.block, "byte 512" in defect.message) == ((63, 0, 0), (1, 0, 0), True)
    assert (defect.other_location, defect.other_thread) == (None, None)


def test_a_race_is_told_before_the_early_read_that_comes_with_it() -> None:
    with pytest.raises(KernelDefect) as caught:
        run(KERNELS / "injected" / "missing_barrier.cu", emulator.find_compiler())
    kinds = [defect.kind for defect in caught.value.defects]
    assert caught.value.kind is DefectKind.SHARED_RACE
    assert kinds[-1] is DefectKind.UNINITIALISED_SHARED
    assert str(caught.value).endswith(f"(and {len(kinds) - 1} more)")


def test_a_kernel_runs_soundly_after_one_that_was_abandoned() -> None:
    compiler = emulator.find_compiler()
    with pytest.raises(KernelDefect):
        run(KERNELS / "injected" / "lane_that_never_arrives.cu", compiler)
    expected = CLEAN["warp_reduction"](np.arange(128, dtype=np.float32))
    np.testing.assert_array_equal(run(KERNELS / "clean" / "warp_reduction.cu", compiler), expected)


IN_FUNCTIONS = """
__device__ __forceinline__ void put(float* to, int at, float value) {
    to[at] = value;
}
__device__ __forceinline__ void put_twice(float* to, int at) {
    put(to, at, 1.0f);
    put(to, at + 64, 1.0f);
}
extern "C" __global__ void in_functions(float* out, const float*, int) {
    __shared__ float shared[128];
    put_twice(shared, threadIdx.x);
    out[blockIdx.x * 64 + threadIdx.x] = shared[63 - threadIdx.x];
}
"""


@every_compiler
def test_a_defect_in_a_function_says_where_the_kernel_calls_it(compiler: Compiler, tmp_path: Path) -> None:
    source = tmp_path / "in_functions.cu"
    source.write_text(IN_FUNCTIONS)
    with pytest.raises(KernelDefect) as caught:
        run(source, compiler)
    (race,) = (each for each in caught.value.defects if each.kind is DefectKind.SHARED_RACE)
    sides = {(race.location, race.called_from), (race.other_location, race.other_called_from)}
    assert sides == {("in_functions.cu:12", None), ("in_functions.cu:3", "in_functions.cu:11")}
    assert race.missing is not None
    assert {"in_functions.cu:11", "in_functions.cu:12"} <= {*race.missing.split()}
