"""The hgemm family: what a tiling promises the kernels that are built with it."""

from __future__ import annotations

import numpy as np
import pytest
from family_modules import hgemm

from peakgate.case import Buffer, Case, Scale
from peakgate.spec.arguments import TensorMapArgument

MOST_SHARED_BYTES = 227 * 1024
"""Of dynamic shared memory that a block may have on 9.0."""
EVERY = [case for scale in Scale for case in hgemm.FAMILY.cases(scale)]
BUILDS = {(case.stage.name, case.defines): case for case in EVERY}.values()


def sides(case: Case) -> tuple[int, int, int]:
    numbers = [int(number) for number in case.size.split("x")]
    m, n, k = numbers * 3 if len(numbers) == 1 else numbers
    return m, n, k


def macros(case: Case) -> dict[str, int]:
    return {name: int(value) for name, value in case.defines}


@pytest.mark.parametrize("case", BUILDS, ids=lambda case: f"{case.stage.name}-{'-'.join(v for _, v in case.defines)}")
def test_blocks_and_their_shared_memory_fit_an_sm(case: Case) -> None:
    assert case.launch.shared_bytes <= MOST_SHARED_BYTES
    if given := macros(case):
        assert case.launch.block[0] == 128 * (given["ROWS"] // 64 + 1)
        slices = given["SLOTS"] * (given["ROWS"] + given["COLS"]) * 128
        assert case.launch.shared_bytes >= slices + 16 * given["SLOTS"]


@pytest.mark.parametrize("case", EVERY, ids=lambda case: case.id)
def test_tiles_cover_c_and_clusters_are_whole(case: Case) -> None:
    given = macros(case)
    m, n, _ = sides(case)
    x, y, z = case.launch.grid
    if case.stage.name == "clusters":
        assert x % given["CLUSTER"] == 0
        tiles = -(-m // (given["ROWS"] * given["CLUSTER"])) * -(-n // given["COLS"])
        at_once = x // given["CLUSTER"]
        most = hgemm.FEW_BLOCKS if (m, n) == hgemm.MANY_TILES[:2] else hgemm.BLOCKS_OF_A_FULL_GPU
        turns = -(-tiles // (most // given["CLUSTER"]))
        assert (at_once - 1) * turns < tiles <= at_once * turns, "the fewest blocks, in no more turns"
    elif given:
        across, down = -(-n // given["COLS"]), -(-m // given["ROWS"])
        assert (x, y, z) == ((across, down, given["SPLIT"]) if "SPLIT" in given else (down, across, 1))


def test_maps_bring_what_a_slot_holds() -> None:
    for case in BUILDS:
        given = macros(case)
        boxes = [argument.box for argument in case.arguments if isinstance(argument, TensorMapArgument)]
        if given:
            of_a, of_b = boxes[-2:]
            assert of_a == (given["ROWS"], 64), case.id
            assert of_b == (given["COLS"] // given.get("CLUSTER", 1), 64), case.id


def test_a_size_is_measured_once_by_each_stage() -> None:
    ids = [case.id for case in EVERY]
    assert len(ids) == len(set(ids))
    sizes: dict[str, set[str]] = {}
    for case in hgemm.FAMILY.cases(Scale.BENCH):
        sizes.setdefault(case.stage.name, set()).add(case.size)
    assert sizes["specialised"] | sizes["clusters"] | sizes["split_k"] == sizes["cublas"], "a tile for every size"


def test_the_reference_multiplies_by_the_transposed_weights() -> None:
    generator = np.random.default_rng(1)
    a, b = generator.standard_normal((5, 16)), generator.standard_normal((7, 16))
    np.testing.assert_allclose(hgemm.product(np, a, b), np.einsum("mk,nk->mn", a, b))
    exact = np.sqrt(np.einsum("mk,nk->mn", a * a, b * b))
    estimated = hgemm.magnitude(np, a, b)
    assert estimated.shape == exact.shape
    assert np.all(estimated / exact < 2.5)
    assert np.all(estimated / exact > 0.4)


def test_every_number_of_every_size_but_the_rows_is_divided_by_eight() -> None:
    probes = [probe for case in BUILDS for probe in hgemm.FAMILY.probes(case)]
    for case in (*EVERY, *probes):
        assert [side % 8 for side in sides(case)[1:]] == [0, 0], case.id
        rows = [argument.shape for argument in case.arguments if isinstance(argument, Buffer)]
        assert all(shape[1] % 8 == 0 for shape in rows), case.id
