"""The probes of the sgemm family: the edge-size problems that prove each build reach all of its code."""

from __future__ import annotations

import re

import pytest
from family_modules import sgemm
from sgemm_builds import BUILDS, builds, is_persistent, macros, shape_of, text_of

from peakgate.case import Case

BANDS_SIZE = sgemm.BANDS_SIZE
BANDS_LABEL = "x".join(map(str, BANDS_SIZE))
FEW_BLOCKS = sgemm.FEW_BLOCKS
PROBE_SIZES = sgemm.PROBE_SIZES
probes = sgemm.FAMILY.probes


@pytest.mark.parametrize("case", BUILDS)
def test_probes_share_the_build_and_the_block_of_their_case(case: Case) -> None:
    for probe in probes(case):
        assert (probe.stage, probe.defines) == (case.stage, case.defines)
        assert (probe.launch.block, probe.launch.shared_bytes) == (case.launch.block, case.launch.shared_bytes)


@pytest.mark.parametrize("depth", [8, 16])
def test_probes_have_odd_and_even_numbers_of_tiles_ragged_k_and_unaligned_rows(depth: int) -> None:
    ks = [k for *_, k in PROBE_SIZES]
    assert {-(-k // depth) % 2 for k in ks} == {0, 1}
    assert {k % depth == 0 for k in ks} == {True, False}
    assert {(k % 4 == 0, n % 4 == 0) for _, n, k in PROBE_SIZES} >= {(True, True), (False, False)}


def whole_tiles(case: Case, probe: Case) -> bool:
    """Whether a tile is inside C and k is a whole number of slices, which kernels ask before reading four at once."""
    tile = macros(case)
    m, n, k = shape_of(probe)
    depth = tile.get("SLICE_DEPTH", tile.get("TILE_DEPTH", 1))
    return tile.get("TILE_ROWS", 1) <= m and tile.get("TILE_COLS", 1) <= n and k % depth == 0


@pytest.mark.parametrize("case", BUILDS)
def test_probes_have_whole_tiles_whose_rows_are_aligned_and_whose_rows_are_not(case: Case) -> None:
    assert {shape_of(probe)[1] % 4 == 0 for probe in probes(case) if whole_tiles(case, probe)} == {True, False}


BAND = re.compile(r"int BAND = (\d+)")


def takes_tiles_in_bands(case: Case) -> bool:
    return case.stage.source is not None and BAND.search(text_of(case.stage.source)) is not None


@pytest.mark.parametrize("case", [case for case in builds() if takes_tiles_in_bands(case)], ids=lambda case: case.id)
def test_a_stage_in_bands_has_a_probe_of_a_whole_band_and_a_part_of_one(case: Case) -> None:
    assert case.stage.source is not None
    tile, (band,) = macros(case), {int(rows) for rows in BAND.findall(text_of(case.stage.source))}
    down, across = -(-BANDS_SIZE[0] // tile["TILE_ROWS"]), -(-BANDS_SIZE[1] // tile["TILE_COLS"])
    assert down > band
    assert down % band
    assert across > 1
    assert BANDS_LABEL in {probe.size for probe in probes(case)}


@pytest.mark.parametrize(
    "case", [case for case in builds() if is_persistent(case)], ids=lambda case: case.defines[0][1]
)
def test_a_persistent_grid_has_a_probe_whose_blocks_have_several_segments_and_whole_tiles(case: Case) -> None:
    (probe,) = (probe for probe in probes(case) if probe.launch.grid == (FEW_BLOCKS, 1, 1))
    tile = macros(case)
    partial, flags = probe.buffers[3:]
    assert probe.id == f"sgemm.{case.stage.name}-{BANDS_LABEL}-b{FEW_BLOCKS}"
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
    several = [(m, n, k) for m, n, k in PROBE_SIZES if k > tile["SLICE_DEPTH"] * tile["WARPS"]]
    assert any(k % tile["SLICE_DEPTH"] == 0 and n % 4 == 0 for _, n, k in several)
    assert any(m % tile["TILE_ROWS"] and m > tile["TILE_ROWS"] for m, *_ in several)
