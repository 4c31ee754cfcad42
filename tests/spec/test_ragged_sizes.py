"""A last, partial tile that is dropped only where an extent is long is found, whichever extent it is of."""

import json
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peakgate.family import EDGES, Out, Value, kernel
from peakgate.spec.edges import too_large

DROPPING = """
extern "C" __global__ void dropping(float* out, const int* e, int tile, int limit, int at) {
    const int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= e[0] * e[1] * e[2]) return;
    const int place[] = {i / (e[1] * e[2]), i / e[2] % e[1], i % e[2]};
    const bool dropped = e[at] > limit && place[at] >= e[at] / tile * tile;
    out[i] = dropped ? 0.0f : 1.0f + i % 2;
}
"""
DROPPING_FAMILY = """
from math import prod
from peakgate.family import In, Out, Value, family, kernel

NUMBERS = {
    1: lambda f: lambda a: f((a,)),
    2: lambda f: lambda a, b: f((a, b)),
    3: lambda f: lambda a, b, c: f((a, b, c)),
}

def dropping(name, size, at, tile, limit):
    dimensions = len(size)
    def arguments(e):
        extents = In(3, dtype="int32", data=lambda xp, _: xp.array((*e, 1, 1)[:3], "int32"))
        return [Out(*e), extents, Value(tile), Value(limit), Value(at)]
    return kernel(
        "dropping.cu", name=name, entry="dropping", block=128, sizes=[size], arguments=NUMBERS[dimensions](arguments),
        grid=lambda *e: -(-prod(e) // 128), bytes=lambda *e: 4 * prod(e),
        reference=lambda xp, e: (1.0 + xp.arange(int(e.prod())) % 2).reshape(tuple(map(int, e[:dimensions]))),
    )

FAMILY = family(
    dropping("right", (128, 128, 128), 0, 16, 1 << 30),
    dropping("vector", (1 << 20,), 0, 256, 512),
    dropping("rows", (1024, 1024), 0, 64, 128),
    dropping("columns", (1024, 1024), 1, 256, 512),
    dropping("planes", (128, 128, 128), 0, 256, 512),
    dropping("lines", (128, 128, 128), 1, 128, 256),
    dropping("points", (128, 128, 128), 2, 16, 64),
)
"""
WRONG = ["columns", "lines", "planes", "points", "rows", "vector"]


def test_check_finds_a_dropped_tile_whichever_extent_it_is_of(project, checked):
    project("dropping", DROPPING_FAMILY, dropping=DROPPING)
    code, verdict = checked("--schedules", "1")
    assert code == 1
    found = {each["kernel"]: len(each["defects"]) for each in verdict["kernels"]}
    assert found == {"dropping.right": 0, **{f"dropping.{name}": 1 for name in WRONG}}


def test_bench_finds_a_dropped_tile_whichever_extent_it_is_of(project, bench, tmp_path):
    project("dropping", DROPPING_FAMILY, dropping=DROPPING)
    file = tmp_path / "run.json"
    done = bench(tmp_path, f"--benchmark-json={file}")
    saved = json.loads(file.read_text())
    found = saved["peakgate"]["not_measured"]
    assert done.returncode == 1
    assert sorted(each["case"].split("-")[0] for each in found) == [f"dropping.{name}" for name in WRONG]
    assert {each["verdict"] for each in found} == {"WRONG"}
    assert len(saved["benchmarks"]) == 1


NUMBERS = {
    1: lambda f: lambda a: f((a,)),
    2: lambda f: lambda a, b: f((a, b)),
    3: lambda f: lambda a, b, c: f((a, b, c)),
    4: lambda f: lambda a, b, c, d: f((a, b, c, d)),
}
"""A function of a size as one of its numbers, which a family's ``arguments`` are."""


def problems(dimensions, grid, block, step=1, flops=None, **more):
    """The numbers of the edge-size problems of a kernel of so many extents."""

    def arguments(numbers):
        if any(number % step for number in numbers):
            raise ValueError(f"multiples of {step}")
        return [Out(*numbers), *map(Value, numbers)]

    described = kernel(
        "k.cu",
        arguments=NUMBERS[dimensions](arguments),
        grid=lambda *e: grid(e),
        block=block,
        bytes=lambda *e: 4 * prod(e),
        flops=None if flops is None else lambda *e: flops * prod(e),
        reference=max,
        sizes=[(4096, 4096, 1024, 128)[:dimensions]],
        **more,
    )
    return list(described.probes(None))


def numbers_of(size):
    return size if isinstance(size, tuple) else (size,)


def extents(case):
    return tuple(map(int, case.size.split("x")))


GRIDS = {
    "every tile": lambda tile: lambda e: prod(-(-number // tile) for number in e),
    "rows": lambda tile: lambda e: e[0],
    "fixed": lambda tile: lambda e: 8,
}


@pytest.mark.parametrize("grid", GRIDS)
@given(
    dimensions=st.integers(1, 4),
    tile=st.sampled_from([16, 32, 48, 64, 96, 128, 192, 256]),
    step=st.sampled_from([1, 2, 4, 8]),
    flops=st.sampled_from([None, 2]),
)
def test_each_extent_is_ragged_beyond_four_tiles(grid, dimensions, tile, step, flops):
    found = problems(dimensions, GRIDS[grid](tile), 64, step, flops, defines={"TILE": tile})
    assert not any(too_large(case) for case in found if extents(case) not in map(numbers_of, EDGES.get(dimensions, ())))
    for at in range(dimensions):
        numbers = {extents(case)[at] for case in found}
        for each in {16, 32, 64, 128, tile}:
            assert any(number > 4 * max(tile, 128) and number % each for number in numbers), (at, each)
    together = [size for size in map(extents, found) if all(number > 64 and number % 16 for number in size)]
    assert together or dimensions == 4
