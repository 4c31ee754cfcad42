"""The sgemm kernels against float64 in the emulator, and what their injected defects lead to."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from family_modules import sgemm
from peakgate.case import Case, Role, Scalar, Struct
from sgemm_builds import BUILDS, FOLDER, all_cases, error, random_matrices, shape_of

probes = sgemm.probes
tolerance = sgemm.tolerance


COMMON = FOLDER.parent / "common"


@pytest.fixture(scope="module")
def emulator() -> ModuleType:
    module: ModuleType = pytest.importorskip("peakgate.device.emulator")
    return module


def launch(emulator: Any, case: Case, source: Path | None = None, *, schedule: int = 0, launches: int = 1) -> float:
    """Run a case, or another source in its place, on random inputs and a poisoned output: its largest error.

    Scratch memory is zero before the first of the launches and as the kernel left it before the others.
    """
    m, n, k = shape_of(case)
    inputs = random_matrices(m, n, k)
    left = iter(inputs)
    arguments: list[Any] = []
    for argument in case.arguments:
        if isinstance(argument, Scalar):
            arguments.append(np.int32(argument.value))
        elif isinstance(argument, Struct):
            raise TypeError(argument)
        elif argument.role is Role.IN:
            arguments.append(next(left))
        else:
            arguments.append(np.zeros(argument.shape, argument.dtype))
    kernel = emulator.load(source or case.stage.source, case.stage.name, case.defines, include=(FOLDER,))
    errors = []
    for _ in range(launches):
        arguments[0].fill(np.nan)
        kernel.launch(
            case.launch.grid, case.launch.block, arguments, shared_bytes=case.launch.shared_bytes, schedule=schedule
        )
        assert not any(a.any() for a in arguments if a.dtype == np.uint32), "flags are not ready for the next launch"
        errors.append(error(arguments[0], inputs))
    return float(np.max(errors))


@pytest.mark.parametrize("case", BUILDS)
def test_every_probe_is_right_in_every_build(emulator: ModuleType, case: Case) -> None:
    for number, probe in enumerate(probes(case)):
        assert launch(emulator, probe, schedule=number) <= tolerance(shape_of(probe)[2]), probe.id


def probe_of(stage: str, size: str) -> Case:
    case = next(case for case in all_cases() if case.stage.name == stage)
    found: Case = next(probe for probe in probes(case) if probe.size == size)
    return found


def on_blocks(case: Case, blocks: int) -> Case:
    return replace(case, launch=replace(case.launch, grid=(blocks, 1, 1)))


def edited(tmp_path: Path, source: str, old: str, new: str) -> Path:
    """A copy of a kernel file, or of a header beside a copy of the folder, with one passage replaced."""
    shutil.copytree(FOLDER, tmp_path / FOLDER.name)
    shutil.copytree(COMMON, tmp_path / COMMON.name)
    path = tmp_path / FOLDER.name / source
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return path


@pytest.mark.parametrize("stage", ["fake_double_buffer", "double_buffer"])
def test_a_hard_coded_last_buffer_is_wrong_for_an_odd_number_of_tiles(
    emulator: ModuleType, tmp_path: Path, stage: str
) -> None:
    defective = edited(tmp_path, f"{stage}.cu", "multiply_tile((tiles - 1) & 1)", "multiply_tile(1)")
    even, odd = probe_of(stage, "129x127x9"), probe_of(stage, "31x33x17")
    assert launch(emulator, even, defective) <= even.tolerance
    assert not launch(emulator, odd, defective) <= odd.tolerance


@pytest.mark.parametrize("stage", ["vectorized", "double_buffer", "warp_tiled", "split_k"])
def test_without_guards_a_size_off_the_tile_reaches_past_the_matrix(
    emulator: ModuleType, tmp_path: Path, stage: str
) -> None:
    unguarded = "const bool whole = true || first_row"
    defective = edited(tmp_path, f"{stage}.cu", "const bool whole = first_row", unguarded)
    with pytest.raises(emulator.KernelDefect):
        launch(emulator, probe_of(stage, "132x264x44"), defective)


def test_float4_on_rows_that_are_not_16_byte_aligned_is_misaligned(emulator: ModuleType, tmp_path: Path) -> None:
    header = edited(tmp_path, "tile_access.cuh", "if (cols % 4 == 0) {", "if (cols > 0) {")
    kernel = header.with_name("double_buffer.cu")
    with pytest.raises(emulator.KernelDefect):
        launch(emulator, probe_of("double_buffer", "129x127x9"), kernel)


@pytest.mark.parametrize(
    ("stage", "barrier"),
    [
        ("tiled", "        __syncthreads();\n\n"),
        ("moved_sync", "        __syncthreads();\n        write4"),
        ("double_buffer", "        __syncthreads();\n    }"),
        ("warp_tiled", "        __syncthreads();\n        read_fragments"),
        ("async_copy", "        __syncthreads();\n        read_fragments"),
        ("split_k", "            __syncwarp();\n            if (!WHOLE)"),
        ("split_k", "        __syncthreads();\n        for (int e"),
    ],
)
def test_a_missing_barrier_is_a_race(emulator: ModuleType, tmp_path: Path, stage: str, barrier: str) -> None:
    defective = edited(tmp_path, f"{stage}.cu", barrier, barrier.split(";", 1)[1])
    with pytest.raises(emulator.KernelDefect):
        launch(emulator, probe_of(stage, "130x260x144"), defective)


def test_a_missing_wait_for_asynchronous_copies_is_found(emulator: ModuleType, tmp_path: Path) -> None:
    defective = edited(tmp_path, "async_copy.cu", "copy_async_wait<SLOTS - 2>();", "")
    with pytest.raises(emulator.KernelDefect):
        launch(emulator, probe_of("async_copy", "130x260x144"), defective)


def test_a_wait_that_leaves_one_group_too_many_is_found(emulator: ModuleType, tmp_path: Path) -> None:
    defective = edited(tmp_path, "async_copy.cu", "copy_async_wait<SLOTS - 2>();", "copy_async_wait<SLOTS - 1>();")
    with pytest.raises(emulator.KernelDefect):
        launch(emulator, probe_of("async_copy", "130x260x144"), defective)


# The emulator's wait is a barrier of the whole block and checks that all have arrived; its arrival checks that the
# round before has been waited for.
RING_STAGES = ("barrier_ring", "group_split", "stream_k")


@pytest.mark.parametrize("stage", RING_STAGES)
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("        split_barrier_arrive(ring.barrier(2));\n", ""),
        ("split_barrier_wait(ring.barrier(0), ring.slice / SLOTS);", ""),
        ("split_barrier_wait(ring.barrier(0), ring.slice / SLOTS);", "split_barrier_wait(ring.barrier(3), 0);"),
    ],
    ids=["nobody arrives", "nobody waits", "a wait for the wrong slice"],
)
def test_a_ring_whose_barriers_do_not_order_it_is_found(
    emulator: ModuleType, tmp_path: Path, stage: str, right: str, wrong: str
) -> None:
    header = edited(tmp_path, "ring_tile.cuh", right, wrong)
    probe = probe_of(stage, "130x260x144")
    if stage == "stream_k":
        probe = on_blocks(probe, 2)  # with more of them no block has more slices than the ring is filled with at once
    with pytest.raises(emulator.KernelDefect):
        launch(emulator, probe, header.with_name(f"{stage}.cu"))


def test_an_arrival_for_a_round_whose_forerunner_was_not_waited_for_is_found(
    emulator: ModuleType, tmp_path: Path
) -> None:
    """Between two segments of a block, the slots past the last slice would be filled again without a wait."""
    wait = "    for (int n = 0; n < 2; ++n) {\n        split_barrier_wait(ring.barrier(0), ring.slice / SLOTS);\n"
    header = edited(tmp_path, "ring_tile.cuh", wait, wait.splitlines(keepends=True)[0])
    with pytest.raises(emulator.KernelDefect, match=r"split_barrier\.cuh:\d+: .*barrier->waits"):
        launch(emulator, probe_of("stream_k", "1025x260x16"), header.with_name("stream_k.cu"))


def test_partial_tiles_that_are_read_before_all_groups_wrote_them_are_a_race(
    emulator: ModuleType, tmp_path: Path
) -> None:
    defective = edited(tmp_path, "group_split.cu", "    __syncthreads();\n    for (int e", "    for (int e")
    with pytest.raises(emulator.KernelDefect):
        launch(emulator, probe_of("group_split", "130x260x144"), defective)


@pytest.mark.parametrize("blocks", [1, 2, 3, 5, 132])
@pytest.mark.parametrize("size", ["31x33x17", "130x260x144"])
def test_stream_k_is_right_for_any_number_of_blocks_and_again_at_its_next_launch(
    emulator: ModuleType, size: str, blocks: int
) -> None:
    """One to five blocks take whole tiles as well as cut ones; of 132 most have nothing to do."""
    probe = on_blocks(probe_of("stream_k", size), blocks)
    assert launch(emulator, probe, schedule=blocks, launches=2) <= probe.tolerance


@pytest.mark.parametrize(
    "reset", ["atomicExch(flags + other, 0u);", "atomicExch(counter, 0u);"], ids=["flag", "counter"]
)
def test_a_flag_or_counter_that_is_not_set_back_is_found(emulator: ModuleType, tmp_path: Path, reset: str) -> None:
    defective = edited(tmp_path, "stream_k.cu", reset, "")
    with pytest.raises(AssertionError, match="not ready for the next launch"):
        launch(emulator, probe_of("stream_k", "130x260x144"), defective)
