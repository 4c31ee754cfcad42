"""The sgemm family: its plan against its kernel files, its reference and its tolerance."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.case import ID_PATTERN, Array, Case, Role, Scale, Tier
from suite.families.paths import KERNELS
from suite.families.sgemm import (
    BANDS_PROBLEM,
    BENCH_SIDES,
    BEST,
    BLOCKS_OF_A_FULL_CHIP,
    FAMILY,
    FEW_BLOCKS,
    GATE_SIDES,
    PROBE_PROBLEMS,
    cases,
    probes,
    product,
    tolerance,
)

FOLDER = KERNELS / "sgemm"
SOURCES = sorted(FOLDER.glob("*.cu"))
SMALLEST_OPT_IN_BYTES = 99 * 1024
"""Dynamic shared memory a block may have on every chip that has asynchronous copies."""


def all_cases() -> list[Case]:
    return [*cases(Scale.BENCH), *cases(Scale.SMALL)]


def builds() -> Iterator[Case]:
    """One case for each build: a kernel and its macros."""
    seen = set()
    for case in all_cases():
        if case.stage.source and (key := (case.stage.name, case.defines)) not in seen:
            seen.add(key)
            yield case


BUILDS = [
    pytest.param(case, id="-".join((case.stage.name, *(value for _, value in case.defines)))) for case in builds()
]


def shape_of(case: Case) -> tuple[int, int, int]:
    c, a, *_ = case.buffers
    return (*c.shape, a.shape[1])  # type: ignore[return-value]


def is_persistent(case: Case) -> bool:
    return any(buffer.role is Role.SCRATCH for buffer in case.buffers)


def text_of(path: Path) -> str:
    """A kernel file with its includes written out, each once, where it is included."""
    included: set[Path] = set()

    def expanded(file: Path) -> str:
        if file in included:
            return ""
        included.add(file)
        lines = (re.fullmatch(r'#include "(.+)"', line) or line for line in file.read_text().splitlines())
        return "\n".join(
            line if isinstance(line, str) else expanded((file.parent / line[1]).resolve()) for line in lines
        )

    return expanded(path)


def macros(case: Case) -> dict[str, int]:
    """The integer macros of a case's kernel, as its build sees them; of two definitions the first one holds."""
    assert case.stage.source is not None
    given_macros = dict(case.defines)
    values: dict[str, int] = {}
    for name, text in re.findall(r"^#define (\w+) (.+)$", text_of(case.stage.source), flags=re.MULTILINE):
        expression = given_macros.get(name, text)
        if name not in values and re.fullmatch(r"[\w+*/() ]+", expression):
            values[name] = eval(expression.replace("/", "//"), {}, values)
    return values


# ------------------------------------------------------------------------------------------------ the plan


def test_every_kernel_file_belongs_to_a_stage() -> None:
    named = {stage.source for stage in FAMILY.stages}
    assert [path.name for path in SOURCES if path not in named] == []


def test_every_stage_has_its_kernel_file() -> None:
    assert [stage.name for stage in FAMILY.stages if stage.source and not stage.source.is_file()] == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_a_kernel_file_has_one_entry_named_like_the_file_and_a_header_that_names_it(path: Path) -> None:
    text = path.read_text()
    entries = re.findall(r'extern "C" __global__ void\s+(?:__launch_bounds__\([^)]*\)\s+)?(\w+)\(', text)
    assert entries == [path.stem]
    assert text.startswith(f"// {path.stem}: ")


@pytest.mark.parametrize("path", [*SOURCES, *FOLDER.glob("*.cuh")], ids=lambda path: path.name)
def test_no_address_is_an_int_product(path: Path) -> None:
    products = re.findall(r"^.*\* (?:N|K|cols)\b.*$", path.read_text(), flags=re.MULTILINE)
    code = [line.strip() for line in products if not line.lstrip().startswith("//")]
    assert [line for line in code if "static_cast<size_t>" not in line] == []


@pytest.mark.parametrize("scale", Scale)
def test_ids_are_unique_and_well_formed(scale: Scale) -> None:
    ids = [case.id for case in cases(scale)]
    assert len(set(ids)) == len(ids)
    assert all(ID_PATTERN.fullmatch(case_id) for case_id in ids)


def test_sizes_are_labelled_by_their_side_or_by_m_n_k() -> None:
    ids = {case.id for case in all_cases()}
    assert {"sgemm.double_buffer-4096", "sgemm.naive-65x97x40", "sgemm.cublas-16384"} <= ids


def test_the_grid_covers_c_and_no_block_lies_outside_it() -> None:
    every = [*all_cases(), *(probe for case in builds() for probe in probes(case))]
    for case in every:
        if case.stage.source is None or is_persistent(case):
            continue
        m, n, _ = shape_of(case)
        tile = macros(case)
        rows, cols = tile.get("TILE_ROWS", case.launch.block[1]), tile.get("TILE_COLS", case.launch.block[0])
        assert (case.launch.grid[0] - 1) * cols < n <= case.launch.grid[0] * cols, case.id
        assert (case.launch.grid[1] - 1) * rows < m <= case.launch.grid[1] * rows, case.id


@pytest.mark.parametrize("case", BUILDS)
def test_a_persistent_grid_fills_the_chip_and_has_scratch_for_every_block(case: Case) -> None:
    if not is_persistent(case):
        assert len(case.buffers) == 3
        return
    tile = macros(case)
    partial, flags = case.buffers[3:]
    assert case.launch.grid == (BLOCKS_OF_A_FULL_CHIP, 1, 1)
    assert partial.shape == (case.launch.grid[0], tile["TILE_ROWS"] * tile["TILE_COLS"])
    assert (flags.shape, flags.dtype) == ((case.launch.grid[0] + 1,), "uint32")


@pytest.mark.parametrize("case", BUILDS)
def test_the_launch_fits_the_kernel_and_every_chip_it_runs_on(case: Case) -> None:
    assert case.stage.source is not None
    tile = macros(case)
    ring_floats = tile.get("RING_FLOATS", tile.get("SLOTS", 0) * tile.get("FLOATS_OF_SLOT", 0))
    assert case.launch.threads_per_block == tile.get("THREADS", case.launch.threads_per_block) <= 1024
    assert case.launch.shared_bytes == 4 * ring_floats <= SMALLEST_OPT_IN_BYTES


@pytest.mark.parametrize("case", BUILDS)
def test_static_shared_memory_stays_within_48_kib(case: Case) -> None:
    assert case.stage.source is not None
    tile = macros(case)
    if "SHARED_FLOATS" in case.stage.source.read_text():
        tile["SHARED_FLOATS"] = tile["WARPS"] * max(tile["FLOATS_OF_WARP"], tile["FLOATS_OF_STRIP"])
    arrays = re.findall(
        r"(?<!extern )__shared__ (?:__align__\(16\) )?float \w+((?:\[\w+\])+);", case.stage.source.read_text()
    )
    floats = sum(prod(eval(size, {}, tile) for size in re.findall(r"\[(\w+)\]", sizes)) for sizes in arrays)
    assert 4 * floats <= 48 * 1024


def test_work_is_two_flops_a_product_and_each_matrix_once() -> None:
    case = next(case for case in cases(Scale.SMALL) if case.size == "65x97x40")
    assert case.work.flops == 2 * 65 * 97 * 40
    assert case.work.bytes == sum(buffer.nbytes for buffer in case.buffers) == 4 * (65 * 40 + 40 * 97 + 65 * 97)


def test_every_stage_is_gated_at_the_gate_sizes_it_is_meant_for() -> None:
    gated = {
        stage.name: {c.size for c in cases(Scale.BENCH) if c.stage == stage and c.tier is Tier.GATE}
        for stage in FAMILY.stages
    }
    everywhere = {str(side) for side in GATE_SIDES}
    assert gated.pop("naive") == gated.pop("split_k") == gated.pop("group_split") == everywhere - {"4096"}
    assert all(sizes == everywhere for sizes in gated.values()), gated


def test_the_best_stage_of_every_side_is_one_of_its_cases() -> None:
    ids = {case.id for case in cases(Scale.BENCH)}
    assert tuple(BEST) == BENCH_SIDES
    assert [side for side, stage in BEST.items() if f"sgemm.{stage}-{side}" not in ids] == []


def test_small_scale_holds_a_tidy_and_a_ragged_case_of_every_stage() -> None:
    sizes = {stage.name: [case.size for case in cases(Scale.SMALL) if case.stage == stage] for stage in FAMILY.stages}
    assert all(found == ["128", "65x97x40"] for found in sizes.values()), sizes


@pytest.mark.parametrize("case", BUILDS)
def test_probes_share_the_build_and_the_block_of_their_case(case: Case) -> None:
    for probe in probes(case):
        assert (probe.stage, probe.defines) == (case.stage, case.defines)
        assert (probe.launch.block, probe.launch.shared_bytes) == (case.launch.block, case.launch.shared_bytes)


@pytest.mark.parametrize("depth", [8, 16])
def test_probes_have_odd_and_even_numbers_of_tiles_ragged_k_and_unaligned_rows(depth: int) -> None:
    ks = [problem.k for problem in PROBE_PROBLEMS]
    assert {-(-k // depth) % 2 for k in ks} == {0, 1}
    assert {k % depth == 0 for k in ks} == {True, False}
    assert {(problem.k % 4 == 0, problem.n % 4 == 0) for problem in PROBE_PROBLEMS} >= {(True, True), (False, False)}


def whole_tiles(case: Case, probe: Case) -> bool:
    """Whether a tile lies inside C and k is a whole number of slices, which kernels ask before reading four at once."""
    tile = macros(case)
    m, n, k = shape_of(probe)
    depth = tile.get("SLICE_DEPTH", tile.get("TILE_DEPTH", 1))
    return tile.get("TILE_ROWS", 1) <= m and tile.get("TILE_COLS", 1) <= n and k % depth == 0


@pytest.mark.parametrize("case", BUILDS)
def test_probes_have_whole_tiles_whose_rows_are_aligned_and_whose_rows_are_not(case: Case) -> None:
    assert {shape_of(probe)[1] % 4 == 0 for probe in probes(case) if whole_tiles(case, probe)} == {True, False}


def takes_tiles_in_bands(case: Case) -> bool:
    return case.stage.source is not None and "RASTER_ROWS" in text_of(case.stage.source)


@pytest.mark.parametrize("case", [case for case in builds() if takes_tiles_in_bands(case)], ids=lambda case: case.id)
def test_a_stage_in_bands_has_a_probe_of_a_whole_band_and_a_part_of_one(case: Case) -> None:
    tile = macros(case)
    down, across = -(-BANDS_PROBLEM.m // tile["TILE_ROWS"]), -(-BANDS_PROBLEM.n // tile["TILE_COLS"])
    assert down > tile["RASTER_ROWS"]
    assert down % tile["RASTER_ROWS"]
    assert across > 1
    assert BANDS_PROBLEM.label in {probe.size for probe in probes(case)}


@pytest.mark.parametrize(
    "case", [case for case in builds() if is_persistent(case)], ids=lambda case: case.defines[0][1]
)
def test_a_persistent_grid_has_a_probe_whose_blocks_have_several_segments_and_whole_tiles(case: Case) -> None:
    (probe,) = (probe for probe in probes(case) if probe.launch.grid == (FEW_BLOCKS, 1, 1))
    tile = macros(case)
    partial, flags = probe.buffers[3:]
    assert probe.id == f"sgemm.{case.stage.name}-{BANDS_PROBLEM.label}-b{FEW_BLOCKS}"
    assert (partial.shape[0], flags.shape) == (FEW_BLOCKS, (FEW_BLOCKS + 1,))
    m, n, k = shape_of(probe)
    tiles, slices = -(-m // tile["TILE_ROWS"]) * -(-n // tile["TILE_COLS"]), -(-k // tile["SLICE_DEPTH"])
    dealt_out_whole = (tiles // FEW_BLOCKS - 1) * FEW_BLOCKS
    slices_a_block = (tiles - dealt_out_whole) * slices / FEW_BLOCKS
    assert dealt_out_whole > 0
    assert slices_a_block > slices  # so that a range takes parts of two tiles
    assert slices_a_block % slices


@pytest.mark.parametrize(
    "case", [case for case in builds() if case.stage.name == "split_k"], ids=lambda case: case.size
)
def test_a_probe_of_split_k_has_fewer_slices_than_warps_in_whole_tiles(case: Case) -> None:
    tile = macros(case)
    whole = [shape_of(probe) for probe in probes(case) if whole_tiles(case, probe)]
    assert any(k < tile["SLICE_DEPTH"] * tile["WARPS"] and n % 4 == 0 for _, n, k in whole)


@pytest.mark.parametrize(
    "case", [case for case in builds() if case.stage.name == "split_k"], ids=lambda case: case.size
)
def test_a_probe_of_split_k_has_more_slices_than_warps_in_whole_tiles_and_at_edges(case: Case) -> None:
    tile = macros(case)
    several = [problem for problem in PROBE_PROBLEMS if problem.k > tile["SLICE_DEPTH"] * tile["WARPS"]]
    assert any(problem.k % tile["SLICE_DEPTH"] == 0 and problem.n % 4 == 0 for problem in several)
    assert any(problem.m % tile["TILE_ROWS"] and problem.m > tile["TILE_ROWS"] for problem in several)


def test_a_stage_needs_more_than_the_oldest_chip_just_where_it_uses_newer_instructions() -> None:
    newer = re.compile(r"cp\.async|mbarrier")
    needs = {stage.name for stage in FAMILY.stages if stage.min_capability > (7, 5)}
    assert needs == {path.stem for path in SOURCES if newer.search(text_of(path))}


# ------------------------------------------------------------------------------------- reference and tolerance


def random_matrices(m: int, n: int, k: int, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, (m, k)).astype(np.float32), rng.uniform(-1, 1, (k, n)).astype(np.float32)


def error(got: Array, inputs: tuple[Array, Array]) -> float:
    (expected,) = product(np, inputs)
    return float(np.abs(got - expected).max() / np.abs(expected).max())


def tf32(matrix: Array) -> Array:
    """Rounded to the 10 bits of mantissa that tensor cores keep of a float32."""
    bits = matrix.view(np.uint32)
    return ((bits + 0xFFF + ((bits >> 13) & 1)) & 0xFFFFE000).astype(np.uint32).view(np.float32)


def test_the_reference_is_computed_in_float64() -> None:
    (expected,) = product(np, (np.array([[1e8, 1, -1e8]], np.float32), np.ones((3, 1), np.float32)))
    assert expected.dtype == np.float64
    assert expected.item() == 1.0


@settings(deadline=None)
@given(k=st.integers(1, 2048), seed=st.integers(0, 1000))
def test_sums_added_one_by_one_in_float32_are_within_tolerance(k: int, seed: int) -> None:
    a, b = random_matrices(16, 16, k, seed)
    in_order = np.cumsum(a[:, :, None] * b[None, :, :], axis=1, dtype=np.float32)[:, -1, :]
    assert error(in_order, (a, b)) <= tolerance(k)


@pytest.mark.parametrize("k", [256, 1024, 4096, 16384])
def test_one_lost_product_of_average_size_is_outside_tolerance(k: int) -> None:
    a, b = random_matrices(64, 64, k)
    got = product(np, (a, b))[0].copy()
    terms = a[0].astype(np.float64) * b[:, 0]
    got[0, 0] -= terms[np.argmin(np.abs(np.abs(terms) - 0.25))]
    assert error(got, (a, b)) > tolerance(k)


@pytest.mark.parametrize("k", [256, 1024, 4096, 16384])
def test_inputs_rounded_to_tf32_are_outside_tolerance(k: int) -> None:
    a, b = random_matrices(64, 64, k)
    assert error(product(np, (tf32(a), tf32(b)))[0], (a, b)) > tolerance(k)
