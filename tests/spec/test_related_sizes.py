"""Sizes are chosen as related as a family takes them: equal, in proportion, divided, of more than a round of a grid."""

from math import prod

import pytest

from peakgate.base.verdict import Verdict
from peakgate.family import Out, Value, kernel
from peakgate.spec.case import NO_SMALL_PROBLEM, RefusedCase, Scale
from peakgate.spec.edges import MOST_FLOPS, chosen, searched


def blocks(*size):
    return -(-prod(size) // 256)


def family(holds, usual, grid=blocks, elements=lambda *size: prod(size), **more):
    """A family of one output that refuses all sizes for which a relation of its numbers does not hold."""

    def arguments(*size):
        if not holds(*size):
            raise ValueError("not so related")
        return [Out(elements(*size)), *map(Value, size)]

    return kernel(
        "k.cu",
        arguments=arguments,
        grid=grid,
        block=256,
        bytes=lambda *size: 4 * prod(size),
        reference=max,
        sizes=[usual],
        **more,
    )


def extents(case):
    return tuple(map(int, case.size.split("x")))


def proven(*described, **more):
    """The sizes of the edge-size problems of a family."""
    return [extents(case) for case in family(*described, **more).probes(None)]


@pytest.mark.parametrize("measured", [4096, 1024, 96])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_numbers_that_must_be_equal_grow_together(measured, dimensions):
    found = proven(lambda *size: len({*size}) == 1, (measured,) * dimensions)
    sides = {size[0] for size in found}
    assert all(len({*size}) == 1 for size in found)
    assert len(sides) >= 5
    assert any(side > 1 and side % 2 for side in sides)
    assert not any(2 * prod(size) > MOST_FLOPS for size in found)


def test_numbers_in_proportion_keep_it():
    found = proven(lambda m, n, k: n == 2 * m, (2048, 4096, 512))
    assert len({m for m, _, _ in found}) >= 5
    assert len({k for _, _, k in found}) >= 5
    assert any(m % 2 and k % 2 and min(m, k) > 1 for m, _, k in found)


def test_only_numbers_that_are_related_grow_together():
    of = family(lambda b, m, n: m == n, (64, 1024, 1024)).sized(None)
    assert len({b for b, _, _ in chosen(of).cases}) >= 5
    assert all(m == n for _, m, n in map(extents, (case for case, _ in zip(searched(of, 0), range(50), strict=False))))


def test_a_proportion_that_is_rounded_has_odd_numbers_too():
    found = proven(lambda h, w, oh, ow: (oh, ow) == (h // 2, w // 2) and oh * ow > 0, (224, 224, 112, 112))
    assert any(w % 2 and oh > 1 for _, w, oh, _ in found)
    assert any(h % 2 and ow > 1 for h, _, _, ow in found)


def test_a_step_is_no_power_of_two():
    found = proven(lambda m, n: m % 48 == 0 and n % 80 == 0, (4800, 4800))
    assert len({m for m, _ in found}) >= 3
    assert len({n for _, n in found}) >= 3


def test_a_number_that_is_fixed_leaves_the_others_ragged():
    found = proven(lambda m, n, k: k == 128, (4096, 4096, 128))
    assert any(min(m, n) > 4 and m % 16 and n % 16 for m, n, _ in found)


@pytest.mark.parametrize("dimensions", [(64, 128), range(1, 1 << 20)])
def test_divided_numbers_have_their_measured_ratio(dimensions):
    def heads(b, s, h, g, d):
        return b * s * h * d

    def tiles(*size):
        return -(-heads(*size) // 256)

    found = proven(lambda b, s, h, g, d: h % g == 0 and d in dimensions, (4, 2048, 32, 8, 128), tiles, heads)
    assert any((b, h, g) == (4, 32, 8) and min(s, d) > 1 for b, s, h, g, d in found)


def test_powers_of_two_alone_are_more_than_1():
    assert len(proven(lambda n: n & (n - 1) == 0, 1 << 20)) > 1


@pytest.mark.parametrize("grid", [8, 132, 528, 1056, 4096, lambda n: min(blocks(n), 1056)])
def test_a_loop_over_the_grid_has_a_second_round(grid):
    found = proven(lambda n: True, 1 << 26, grid)
    launched = grid(1 << 26) if callable(grid) else grid
    assert max(found)[0] > 256 * launched * (4 if launched <= 1056 else 1)


@pytest.mark.parametrize("holds", [lambda m, n: True, lambda m, n: m == n])
def test_a_loop_over_the_grid_goes_over_all_numbers(holds):
    assert max(map(prod, proven(holds, (8192, 8192), 1056))) > 256 * 1056


def test_a_grid_that_grows_has_no_second_round():
    assert max(proven(lambda n: True, 1 << 20))[0] < 1 << 17


@pytest.mark.parametrize("holds", [lambda m, n: n == m * m, lambda m, n: (m, n) == (1024, 1 << 20)])
def test_nothing_but_ones_is_no_small_problem(holds):
    of = family(lambda m, n: holds(m, n) or m == n == 1, (1024, 1 << 20))
    (refused,) = of.cases(Scale.SMALL)
    assert isinstance(refused, RefusedCase)
    assert refused.judgement.verdict is Verdict.INCONCLUSIVE
    assert NO_SMALL_PROBLEM in refused.reason
    assert len(list(of.cases(Scale.BENCH))) == 1


def test_a_measured_1_is_a_small_problem():
    assert proven(lambda n: n == 1, 1) == [(1,)]


def test_a_family_without_a_small_problem_stays_unchecked_alone():
    assert list(family(lambda m, n: n == m * m, (1024, 1 << 20), small_sizes=None).cases(Scale.SMALL)) == []


COPIED = """
extern "C" __global__ void copied(float* out, const float* in, int m, int n) {
    const int t = blockIdx.x * 256 + threadIdx.x;
    if (t < m * n) out[%s] = in[t];
}
"""
SQUARE = """
from peakgate.family import In, Out, Value, kernel

def arguments(m, n):
    if %s:
        raise ValueError("not so related")
    return [Out(n, m), In(m, n), Value(m), Value(n)]

FAMILY = kernel(
    "copied.cu", arguments=arguments, grid=lambda m, n: -(-m * n // 256), block=256, bytes=lambda m, n: 8 * m * n,
    reference=lambda xp, x: x.T, sizes=[(4096, 4096)],
)
"""


@pytest.mark.parametrize(("place", "code"), [("t % n * m + t / n", 0), ("t", 1)])
def test_a_transpose_of_squares_that_copies_is_wrong(project, checked, place, code):
    project("copied", SQUARE % "m != n", copied=COPIED % place)
    assert checked("--schedules", "1")[0] == code


def test_a_kernel_proven_on_one_element_is_not_checked(project, checked, bench, tmp_path):
    project("copied", SQUARE % "(m, n) not in ((1, 1), (4096, 4096))", copied=COPIED % "t")
    code, verdict = checked("--schedules", "1")
    assert code == 3
    assert NO_SMALL_PROBLEM in verdict["kernels"][0]["not_checked"]
    assert bench(tmp_path).returncode == 3
