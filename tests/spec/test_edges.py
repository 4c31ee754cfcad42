"""Sizes beside every tile are chosen for a family that leaves them open, as far as it takes them."""

from datetime import date
from itertools import islice
from math import prod
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peakgate.family import In, Out, Value, family, kernel
from peakgate.inspect import emulate, problems, report
from peakgate.judge.waivers import rule
from peakgate.spec.case import Scale
from peakgate.spec.edges import Tiling, chosen, edge_sizes, searched, tiling_of
from peakgate.spec.stage import SourceLine


def sized(arguments, grid, block, usual, **more):
    def doubled(xp, x):
        return 2 * x

    described = kernel(
        "k.cu",
        arguments=arguments,
        grid=grid,
        block=block,
        sizes=[usual],
        bytes=lambda *n: 0,
        reference=doubled,
        **more,
    )
    return described.sized(None)


def vector(n):
    return [Out(n), In(n), Value(n)]


def matrix(rows, columns):
    return [Out(rows, columns), In(rows, columns), Value(columns)]


def of_four(n):
    if n % 4:
        raise ValueError("n is a multiple of 4")
    return vector(n)


@pytest.mark.parametrize(
    ("of", "tiling"),
    [
        (sized(vector, lambda n: -(-n // 1024), 256, 1 << 26), Tiling((1024,), (1,), (1024,))),
        (sized(vector, 528, 256, 1 << 26), Tiling((256,), (1,), (256,))),
        (sized(of_four, lambda n: -(-n // 1024), 256, 1 << 26), Tiling((1024,), (4,), (1024,))),
        (
            sized(matrix, lambda h, w: (-(-w // 32), -(-h // 8)), (32, 8), (4096, 4096)),
            Tiling((8, 32), (1, 1), (8, 32)),
        ),
        (sized(matrix, lambda h, w: h, 128, (4096, 96)), Tiling((1, 128), (1, 1), (1, 128))),
    ],
)
def test_a_tile_is_how_far_a_number_grows_before_the_grid_does(of, tiling):
    assert tiling_of(of) == tiling


@given(tile=st.integers(1, 3000), step=st.sampled_from([1, 2, 8]), block=st.sampled_from([1, 32, 256]))
def test_the_sizes_are_on_the_tile_and_on_both_sides_of_it(tile, step, block):
    def arguments(n):
        if n % step:
            raise ValueError(n)
        return vector(n)

    tile *= step
    found = chosen(sized(arguments, lambda n: -(-n // tile), block, 8 * tile))
    assert {(tile,), (tile + step,), (step,)} <= found.cases.keys()
    assert (tile == step) or (tile - step,) in found.cases
    assert all(n % step == 0 for (n,) in found.cases)


def test_each_number_is_off_its_tile_alone():
    sizes = chosen(sized(matrix, lambda h, w: (-(-w // 32), -(-h // 8)), (32, 8), (1 << 20, 100))).cases
    assert {(9, 32), (7, 32), (8, 33), (8, 31), (9, 33), (8, 100), (8, 99), (8, 101)} <= sizes.keys()


def test_a_fixed_grid_is_tried_with_one_element_too_many():
    assert {(2047,), (2048,), (2049,)} <= chosen(sized(vector, 8, 256, 1 << 26)).cases.keys()


def test_a_fixed_number_stays_and_a_refusal_keeps_its_reason():
    def arguments(rows, columns):
        if columns != 96:
            raise ValueError("columns are 96")
        if rows == 101:
            raise ValueError("not 101 rows")
        return matrix(rows, columns)

    found = chosen(sized(arguments, lambda h, w: -(-h // 100), 128, (1 << 20, 96)))
    assert {columns for _, columns in found.cases} == {96}
    assert (99, 96) in found.cases
    assert found.refused[101, 96].startswith("ValueError: ")


def test_four_numbers_of_a_flat_grid_are_all_above_1():
    def arguments(*numbers):
        return [Out(*numbers), In(*numbers), *map(Value, numbers)]

    of = sized(arguments, lambda *numbers: -(-prod(numbers) // 256), 256, (32, 64, 56, 56))
    found = [size for size in edge_sizes(of, ()) if min(size) > 1]
    assert found
    assert any(len({*size}) == len(size) for size in found)


def test_a_measured_number_is_tried_where_only_some_are_accepted():
    def arguments(rows, columns):
        if columns not in (512, 4096):
            raise ValueError("columns are 512 or 4096")
        return matrix(rows, columns)

    found = chosen(sized(arguments, lambda h, w: h, 128, (1 << 14, 4096)))
    assert {columns for _, columns in found.cases} == {512, 4096}


def test_a_family_that_refuses_usual_edges_has_chosen_sizes():
    def arguments(rows, columns):
        if columns != 96:
            raise ValueError("columns are 96")
        return matrix(rows, columns)

    def made(name, *, of, **more):
        return kernel(
            name, arguments=of, grid=lambda h, w: -(-h // 8), block=32, bytes=lambda *n: 0, reference=max, **more
        )

    narrow = made("narrow.cu", of=arguments, sizes=[(4096, 96)])
    wide = made("wide.cu", of=matrix, sizes=[(4096, 96)], edges=[(3, 5)])
    both = family(narrow, wide)
    small = {case.stage.name: case for case in both.cases(Scale.SMALL)}
    assert {case.size.split("x")[1] for case in both.probes(small["narrow"])} == {"96"}
    assert [case.size for case in both.probes(small["wide"])] == ["3x5"]
    assert both.sized(small["narrow"]).usual == (4096, 96)
    assert both.sized(small["wide"]) is None


def test_a_family_that_gives_its_edges_keeps_to_them():
    assert sized(vector, 8, 256, 1 << 26, edges=[5]) is None


def test_what_would_take_the_emulator_seconds_is_left_out():
    assert not chosen(sized(lambda n: vector(n << 22), 8, 256, 1 << 4)).cases


def test_a_search_draws_the_same_sizes_again():
    of = sized(of_four, lambda n: -(-n // 1024), 256, 1 << 26)
    once, again = ([int(case.size) for case in islice(searched(of, seed=0), 200)] for _ in range(2))
    assert once == again
    assert len(set(once)) == 200
    assert all(size % 4 == 0 for size in once)


SCALE = """
extern "C" __global__ void scale(float* out, const float* in, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (%s) out[i] = 2 * in[i];
}
"""
SCALE_FAMILY = """
from peakgate.family import In, Out, Value, kernel
FAMILY = kernel(
    "scale.cu", block=64, grid=lambda n: -(-n // 64), arguments=lambda n: [Out(n), In(n), Value(n)],
    bytes=lambda n: 8 * n, sizes=[1 << 24], reference=lambda xp, x: %s,
)
"""


@pytest.fixture
def check(tmp_path):
    """Check a kernel with a guard, in this process: what is printed, and the report on the kernel."""

    def run(guard, reference="2 * x", **more):
        folder = tmp_path / f"scale{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        (folder / "scale.cu").write_text(SCALE % guard)
        (folder / "family.py").write_text(SCALE_FAMILY % reference)
        (key,) = problems.builds("", folder / "family.py")
        found = emulate.check_build("", folder / "family.py", key, (0,), lambda _: None, **more)
        (kernel,) = report.by_kernel([found], lambda kernel, place: SourceLine(Path("own.cu")))
        made = report.report([kernel], rule(kernel.defects, {}, lambda key: True, date(2026, 11, 22)), (0,), 0.0)
        return "\n".join(f"{row.name}: {row.reason}" for row in made.rows), kernel

    return run


def test_values_that_break_bounds_are_named_beside_others(check):
    said, _ = check("i < n || n == 65")
    assert "= 65, not" in said


def test_a_chosen_size_that_the_reference_refuses_is_no_defect(check):
    said, kernel = check("i < n", "x.reshape(-1, 2) if x.size == 65 else 2 * x")
    assert kernel.defects == ()
    assert list(kernel.refused) == ["65"]
    assert "such as 65" in said


def test_a_value_that_no_chosen_size_has_is_found_by_a_search(check):
    guard = "i < n || n % 12 == 2"
    assert check(guard)[1].defects == ()
    said, kernel = check(guard, search_s=2.0)
    assert "out of bounds" in said
    shown = kernel.defects[0].facts["sizes"].split("= ")[1].split(", not")[0].split(" and ")[0].split(", ")
    assert all(int(size) % 12 == 2 for size in shown)


def test_sizes_that_there_is_no_time_for_are_counted(check, monkeypatch):
    monkeypatch.setattr(emulate, "CHOSEN_LIMIT_S", -1.0)
    said, kernel = check("i < n")
    assert kernel.not_reached > 0
    assert f"no time for {kernel.not_reached}" in said
