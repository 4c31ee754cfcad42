"""The sgemm family: its plan against its kernels, and the kernels against float64 in the emulator."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from math import prod
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.case import ID_PATTERN, Array, Case, Role, Scalar, Scale, Tier
from suite.families.paths import KERNELS
from suite.families.sgemm import FAMILY, GATE_SIDES, PROBE_PROBLEMS, cases, probes, product, tolerance

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
    c, a, _ = case.buffers
    return (*c.shape, a.shape[1])  # type: ignore[return-value]


def macros(case: Case) -> dict[str, int]:
    """The integer macros of a case's kernel, as its build sees them."""
    assert case.stage.source is not None
    given_macros = dict(case.defines)
    values: dict[str, int] = {}
    for name, text in re.findall(r"^#define (\w+) (.+)$", case.stage.source.read_text(), flags=re.MULTILINE):
        expression = given_macros.get(name, text)
        if re.fullmatch(r"[\w+*/() ]+", expression):
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


@pytest.mark.parametrize("path", [*SOURCES, FOLDER / "tile_access.cuh"], ids=lambda path: path.name)
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
        if case.stage.source is None:
            continue
        m, n, _ = shape_of(case)
        tile = macros(case)
        rows, cols = tile.get("TILE_ROWS", case.launch.block[1]), tile.get("TILE_COLS", case.launch.block[0])
        assert (case.launch.grid[0] - 1) * cols < n <= case.launch.grid[0] * cols, case.id
        assert (case.launch.grid[1] - 1) * rows < m <= case.launch.grid[1] * rows, case.id


@pytest.mark.parametrize("case", BUILDS)
def test_the_launch_fits_the_kernel_and_every_chip_it_runs_on(case: Case) -> None:
    assert case.stage.source is not None
    tile = macros(case)
    assert case.launch.threads_per_block == tile.get("THREADS", case.launch.threads_per_block) <= 1024
    assert case.launch.shared_bytes == 4 * tile.get("SLOTS", 0) * tile.get("FLOATS_OF_SLOT", 0) <= SMALLEST_OPT_IN_BYTES


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
    assert gated.pop("naive") == gated.pop("split_k") == everywhere - {"4096"}
    assert all(sizes == everywhere for sizes in gated.values()), gated


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


@pytest.mark.parametrize(
    "case", [case for case in builds() if case.stage.name == "split_k"], ids=lambda case: case.size
)
def test_a_probe_of_split_k_has_more_slices_than_warps_in_whole_tiles_and_at_edges(case: Case) -> None:
    tile = macros(case)
    several = [problem for problem in PROBE_PROBLEMS if problem.k > tile["SLICE_DEPTH"] * tile["WARPS"]]
    assert any(problem.k % tile["SLICE_DEPTH"] == 0 and problem.n % 4 == 0 for problem in several)
    assert any(problem.m % tile["TILE_ROWS"] and problem.m > tile["TILE_ROWS"] for problem in several)


def test_only_asynchronous_copies_need_more_than_the_oldest_chip() -> None:
    needs = {stage.name: stage.min_capability for stage in FAMILY.stages if stage.min_capability > (7, 5)}
    assert needs == {"async_copy": (8, 0)}


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


# ---------------------------------------------------------------------------------------------- the kernels


@pytest.fixture(scope="module")
def emulator() -> ModuleType:
    module: ModuleType = pytest.importorskip("suite.device.emulator")
    return module


def launch(emulator: Any, case: Case, source: Path | None = None, *, schedule: int = 0) -> float:
    """Run a case, or another source in its place, on random inputs and a poisoned output: its error."""
    m, n, k = shape_of(case)
    inputs = random_matrices(m, n, k)
    left = iter(inputs)
    arguments: list[Any] = []
    for argument in case.arguments:
        if isinstance(argument, Scalar):
            arguments.append(np.int32(argument.value))
        elif argument.role is Role.IN:
            arguments.append(next(left))
        else:
            arguments.append(np.full(argument.shape, np.nan, np.float32))
    kernel = emulator.load(source or case.stage.source, case.stage.name, case.defines, include=(FOLDER,))
    kernel.launch(
        case.launch.grid, case.launch.block, arguments, shared_bytes=case.launch.shared_bytes, schedule=schedule
    )
    return error(arguments[0], inputs)


@pytest.mark.parametrize("case", BUILDS)
def test_every_probe_is_right_in_every_build(emulator: ModuleType, case: Case) -> None:
    for number, probe in enumerate(probes(case)):
        assert launch(emulator, probe, schedule=number) <= tolerance(shape_of(probe)[2]), probe.id


def probe_of(stage: str, size: str) -> Case:
    case = next(case for case in all_cases() if case.stage.name == stage)
    return next(probe for probe in probes(case) if probe.size == size)


def edited(tmp_path: Path, source: str, old: str, new: str) -> Path:
    """A copy of a kernel file with one passage replaced."""
    text = (FOLDER / source).read_text()
    assert old in text
    path = tmp_path / source
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
    edited(tmp_path, "tile_access.cuh", "if (cols % 4 == 0) {", "if (cols > 0) {")
    kernel = tmp_path / "double_buffer.cu"  # includes the edited header, which lies beside it
    shutil.copy(FOLDER / kernel.name, kernel)
    with pytest.raises(emulator.KernelDefect):
        launch(emulator, probe_of("double_buffer", "129x127x9"), kernel)


@pytest.mark.parametrize(
    ("stage", "barrier"),
    [
        ("tiled", "        __syncthreads();\n\n"),
        ("moved_sync", "        __syncthreads();\n        write4"),
        ("double_buffer", "        __syncthreads();\n    }"),
        ("warp_tiled", "        __syncthreads();\n        read_fragments"),
        ("async_copy", "        __syncthreads();\n        if (tile"),
        ("split_k", "            __syncwarp();\n            write_slice"),
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
