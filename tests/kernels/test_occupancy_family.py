from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from emulated import defect_is_noticed
from family_modules import occupancy as family
from hypothesis import given
from hypothesis import strategies as st

from peakgate.case import Case, Scalar, Scale, Stage, Tier
from peakgate.judge.occupancy import KIB, LIMITS, max_potential_block_size, occupancy

FAMILY = family.FAMILY
minus_largest = family.minus_largest


BENCH = {case.id: case for case in FAMILY.cases(Scale.BENCH)}
SMALL = {case.id: case for case in FAMILY.cases(Scale.SMALL)}
PROBES = {probe.id: probe for case in BENCH.values() for probe in FAMILY.probes(case)}
HOPPER = (9, 0)
LARGE_L2_BYTES = 60_000_000


def count_of(case: Case) -> int:
    return next(int(argument.value) for argument in case.arguments if isinstance(argument, Scalar))


@pytest.mark.parametrize("stage", FAMILY.stages, ids=lambda stage: stage.name)
def test_addresses_are_computed_in_size_t(stage: Stage) -> None:
    assert stage.source is not None
    firsts = [line for line in stage.source.read_text().splitlines() if "blockIdx.x" in line]

    assert firsts
    assert all("(size_t)blockIdx.x" in line for line in firsts)


def test_ids_are_unique_and_keep_their_form() -> None:
    assert len(BENCH) == len(list(FAMILY.cases(Scale.BENCH)))
    assert len(SMALL) == len(list(FAMILY.cases(Scale.SMALL))) <= 25
    assert {
        "occupancy.multiply-256MiB-1024",
        "occupancy.square-256MiB-1024-proposed",
        "occupancy.registers-256MiB-256-m4",
        "occupancy.shared_limited_float4-256MiB-256-s227K",
        "occupancy.staged-256MiB-896-e32-proposed",
    } <= BENCH.keys()


def test_every_stage_is_in_the_gate_and_the_gate_is_short() -> None:
    gate = [case for case in BENCH.values() if case.tier is Tier.GATE]

    assert {case.stage for case in gate} == set(FAMILY.stages)
    assert {case.stage for case in SMALL.values()} == set(FAMILY.stages)
    assert 30 <= len(gate) <= 40


@pytest.mark.parametrize(
    ("stage", "crossings"),
    [("multiply", 3), ("multiply_float4", 3), ("square", 2), ("registers", 2), ("shared_limited", 2), ("staged", 2)],
)
def test_work_counts_each_crossing_of_each_array(stage: str, crossings: int) -> None:
    work = {case.work for case in BENCH.values() if case.stage.name == stage}

    assert {(w.bytes, w.flops) for w in work} == {(crossings * (256 << 20), 64 << 20)}


def test_every_array_of_a_benchmark_outgrows_the_l2() -> None:
    assert all(buffer.nbytes >= 4 * LARGE_L2_BYTES for case in BENCH.values() for buffer in case.buffers)


FLOATS_A_THREAD = {"multiply_float4": 4, "shared_limited_float4": 4, "registers": family.REGISTER_VALUES}


def test_grids_cover_the_problem_and_no_block_is_idle() -> None:
    for case in [*BENCH.values(), *SMALL.values(), *PROBES.values()]:
        floats = int(dict(case.defines).get("ELEMENTS", FLOATS_A_THREAD.get(case.stage.name, 1)))
        span = case.launch.block[0] * floats
        assert (case.launch.grid[0] - 1) * span < count_of(case) <= case.launch.grid[0] * span, case.id


def test_every_benchmark_fits_a_hopper_sm() -> None:
    for case in BENCH.values():
        fit = occupancy(HOPPER, case.launch.threads_per_block, 32, 0, case.launch.shared_bytes)
        assert fit.blocks_per_sm >= 1, case.id


def test_probes_run_the_build_and_the_launch_of_their_case() -> None:
    for case in BENCH.values():
        probes = list(FAMILY.probes(case))
        assert len(probes) >= 5, case.id
        for probe in probes:
            assert (probe.stage, probe.defines, probe.variant) == (case.stage, case.defines, case.variant)
            assert probe.launch == replace(case.launch, grid=probe.launch.grid), probe.id


def test_shared_memory_steps_take_a_sm_from_all_its_warps_to_one_block() -> None:
    steps = [case.launch.shared_bytes for case in BENCH.values() if case.stage.name == "shared_limited"]
    blocks = [occupancy(HOPPER, 256, 16, 0, step).blocks_per_sm for step in steps]

    assert blocks == [8, 8, 6, 4, 3, 2, 1, 1]
    assert max(steps) == LIMITS[HOPPER].shared_per_block_bytes


def test_shared_memory_asked_for_holds_what_the_kernel_puts_there() -> None:
    for case in BENCH.values():
        threads = case.launch.threads_per_block
        used = {
            "shared_limited": 4 * threads,
            "shared_limited_float4": 16 * threads,
            "staged": 4 * threads * int(dict(case.defines).get("ELEMENTS", "0")),
        }.get(case.stage.name, 0)
        assert used <= case.launch.shared_bytes, case.id


@given(st.integers(1, 32))
def test_proposed_blocks_do_not_depend_on_the_exact_register_count(registers: int) -> None:
    assert max_potential_block_size(HOPPER, registers).threads_per_block == 1024
    assert (
        max_potential_block_size(HOPPER, registers, dynamic_shared=lambda block: 128 * block).threads_per_block == 896
    )
    assert BENCH["occupancy.staged-256MiB-896-e32-proposed"].launch.shared_bytes == 896 * 128 == 112 * KIB


@given(st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=60), st.integers(1, 5), st.integers(1, 4))
def test_each_float_loses_the_largest_of_its_thread(listed: list[float], block: int, values: int) -> None:
    floats, n = np.array(listed, np.float32), len(listed)
    result = minus_largest(np, floats, block=block, values=values)

    for i in range(n):
        first = i // (block * values) * block * values + i % (block * values) % block
        mine = floats[[j for j in range(first, first + block * values, block) if j < n]]
        assert result[i] == floats[i] - mine.max()


DEFECTS = [
    ("multiply", "if (i < n)", "if (true)"),
    # Nobody takes the floats that fill no float4; or too many do.
    ("multiply_float4", "if (i < n % 4)", "if (false)"),
    ("shared_limited_float4", "if (i < n / 4)", "if (i <= n / 4)"),
    ("square", "*= values[i]", "*= 2"),
    # One guard for a whole batch: tails are dropped.
    ("direct", "if (i < n) {", "if (first + (k + BATCH - 1) * blockDim.x < n) {"),
    ("direct", "i < n ? in[i] : 0", "in[i]"),
    # Either barrier missing, or inside a bounds test.
    ("staged", "    }\n    __syncthreads();\n#pragma unroll 4", "    }\n#pragma unroll 4"),
    ("staged", "*= elements[slot];\n    }\n    __syncthreads();", "*= elements[slot];\n    }"),
    ("staged", "    __syncthreads();", "    if (first + threadIdx.x < n) { __syncthreads(); }"),
    ("registers", "if (k * BLOCK < reach)", "if (true)"),
    ("registers", "min(n - first, (size_t)(BLOCK * VALUES))", "n"),
    ("shared_limited", "slots[threadIdx.x] = in[i];", "slots[threadIdx.x / 2] = in[i];"),
]


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(("stage", "right", "wrong"), DEFECTS)
def test_an_injected_defect_does_not_pass(stage: str, right: str, wrong: str, tmp_path: Path) -> None:
    assert defect_is_noticed(FAMILY, stage, right, wrong, tmp_path)
