"""The sgemm kernels on unusual numbers of blocks, and defects that `peakgate inspect mutants` does not inject."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from family_modules import sgemm
from sgemm_builds import FOLDER, all_cases, over_bound, random_matrices, shape_of

from peakgate.case import Buffer, Case, Role, Scalar

probes = sgemm.FAMILY.probes

COMMON = FOLDER.parent / "common"


@pytest.fixture(scope="module")
def emulator() -> ModuleType:
    module: ModuleType = pytest.importorskip("peakgate_emulator")
    return module


def launch(emulator: Any, case: Case, source: Path | None = None, *, schedule: int = 0, launches: int = 1) -> float:
    """Run a case, or another source in its place, on random inputs and a poisoned output: its error over its bound.

    Scratch memory is zero before the first of the launches and as the kernel left it before the others.
    """
    m, n, k = shape_of(case)
    inputs = random_matrices(m, n, k)
    left = iter(inputs)
    arguments: list[Any] = []
    for argument in case.arguments:
        if isinstance(argument, Scalar):
            arguments.append(np.int32(argument.value))
        elif not isinstance(argument, Buffer):
            raise TypeError(argument)
        elif argument.role is Role.IN:
            arguments.append(next(left))
        else:
            arguments.append(np.zeros(argument.shape, argument.dtype))
    kernel = emulator.load(source or case.stage.source, case.stage.name, case.defines, include=(FOLDER,))
    ratios = []
    for _ in range(launches):
        arguments[0].fill(np.nan)
        kernel.launch(
            case.launch.grid, case.launch.block, arguments, shared_bytes=case.launch.shared_bytes, schedule=schedule
        )
        assert not any(a.any() for a in arguments if a.dtype == np.uint32), "flags are not ready for the next launch"
        ratios.append(over_bound(arguments[0], inputs))
    return float(np.max(ratios))


def probe_of(stage: str, size: str) -> Case:
    case = next(case for case in all_cases() if case.stage.name == stage)
    found: Case = next(probe for probe in probes(case) if probe.size == size)
    return found


def on_blocks(case: Case, blocks: int) -> Case:
    return replace(case, launch=replace(case.launch, grid=(blocks, 1, 1)))


FILES = {stage.name: stage.source.name for stage in sgemm.FAMILY.stages if stage.source}


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
    defective = edited(tmp_path, FILES[stage], "multiply_tile((tiles - 1) & 1)", "multiply_tile(1)")
    even, odd = probe_of(stage, "129x127x9"), probe_of(stage, "31x33x17")
    assert launch(emulator, even, defective) <= 1
    assert not launch(emulator, odd, defective) <= 1


def test_a_wait_that_leaves_one_group_too_many_is_found(emulator: ModuleType, tmp_path: Path) -> None:
    defective = edited(tmp_path, FILES["async_copy"], "copy_async_wait<SLOTS - 2>();", "copy_async_wait<SLOTS - 1>();")
    with pytest.raises(emulator.KernelDefect):
        launch(emulator, probe_of("async_copy", "130x260x144"), defective)


# The emulator's wait is a barrier of the whole block and checks that all have arrived; its arrival checks that the
# round before has been waited for.
RING_STAGES = ("barrier_ring", "group_split", "stream_k")


@pytest.mark.parametrize("stage", RING_STAGES)
def test_a_wait_for_the_wrong_slice_of_the_ring_is_found(emulator: ModuleType, tmp_path: Path, stage: str) -> None:
    right = "split_barrier_wait(from.barrier(0), ring.slice / SLOTS);"
    header = edited(tmp_path, "ring_loop.cuh", right, "split_barrier_wait(from.barrier(3), 0);")
    probe = probe_of(stage, "130x260x144")
    if stage == "stream_k":
        probe = on_blocks(probe, 2)  # with more of them no block has more slices than the ring is filled with at once
    with pytest.raises(emulator.KernelDefect):
        launch(emulator, probe, header.with_name(FILES[stage]))


def test_an_arrival_for_a_round_whose_forerunner_was_not_waited_for_is_found(
    emulator: ModuleType, tmp_path: Path
) -> None:
    """Between two segments of a block, the slots past the last slice would be filled again without a wait."""
    wait = "    for (int n = 0; n < 2; ++n) {\n        split_barrier_wait(ring.barrier(0), ring.slice / SLOTS);\n"
    header = edited(tmp_path, "ring_tile.cuh", wait, wait.splitlines(keepends=True)[0])
    with pytest.raises(emulator.KernelDefect, match=r"split_barrier\.cuh:\d+: .*barrier->waits"):
        launch(emulator, probe_of("stream_k", "1025x260x16"), header.with_name(FILES["stream_k"]))


@pytest.mark.parametrize("blocks", [1, 3, 132])
@pytest.mark.parametrize("size", ["31x33x17", "130x260x144"])
def test_stream_k_is_right_for_any_number_of_blocks_and_again_at_its_next_launch(
    emulator: ModuleType, size: str, blocks: int
) -> None:
    """One to three blocks take whole tiles as well as cut ones; of 132 most have nothing to do."""
    probe = on_blocks(probe_of("stream_k", size), blocks)
    assert launch(emulator, probe, schedule=blocks, launches=2) <= 1


@pytest.mark.parametrize(
    "reset", ["atomicExch(flags + other, 0u);", "atomicExch(counter, 0u);"], ids=["flag", "counter"]
)
def test_a_flag_or_counter_that_is_not_set_back_is_found(emulator: ModuleType, tmp_path: Path, reset: str) -> None:
    defective = edited(tmp_path, FILES["stream_k"], reset, "")
    with pytest.raises(AssertionError, match="not ready for the next launch"):
        launch(emulator, probe_of("stream_k", "130x260x144"), defective)
