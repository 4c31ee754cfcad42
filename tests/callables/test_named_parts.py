"""Which cases a benchmark test names as its parts."""

import json

import pytest

from peakgate.base.errors import Code, PeakgateError
from peakgate.callables.settings import named_parts

WHOLE = "ops.bench_model"
KNOWN = (WHOLE, "ops.bench_attention-1024", "ops.bench_attention-2048", "ops.bench_mlp", "scale.scale-8")


def test_a_part_is_an_id_or_the_end_of_one_and_counts_as_often_as_it_is_given():
    given = ["bench_mlp", "bench_attention-1024", "ops.bench_mlp", "scale-8"]
    expected = ("ops.bench_mlp", "ops.bench_attention-1024", "ops.bench_mlp", "scale.scale-8")
    assert named_parts(WHOLE, given, KNOWN, complete=True) == expected


@pytest.mark.parametrize("part", ["bench_mpl", "mlp", WHOLE, "nothing"])
def test_a_part_that_is_no_other_case_is_refused(part):
    with pytest.raises(PeakgateError) as refused:
        named_parts(WHOLE, [part], KNOWN, complete=True)
    assert refused.value.code is Code.BENCHMARK_TEST


def test_the_nearest_case_is_named():
    with pytest.raises(PeakgateError, match="did you mean 'bench_mlp'"):
        named_parts(WHOLE, ["bench_mpl"], KNOWN, complete=True)


def test_an_end_of_several_ids_is_refused():
    known = (WHOLE, "a.bench_norm", "b.bench_norm")
    with pytest.raises(PeakgateError, match="2 cases"):
        named_parts(WHOLE, ["bench_norm"], known, complete=False)


def test_a_whole_id_is_no_end_of_another():
    assert named_parts(WHOLE, ["b.c"], ("b.c", "a-b.c"), complete=True) == ("b.c",)


def test_where_not_all_cases_are_known_a_name_is_kept():
    assert named_parts(WHOLE, ["bench_elsewhere"], KNOWN, complete=False) == ("bench_elsewhere",)


@pytest.mark.parametrize("part", ["bench_mlp", "bench_mlp-launch"])
def test_the_parts_of_a_launch_are_launches(part):
    known = ("ops.bench_model-launch", "ops.bench_mlp-launch")
    assert named_parts(known[0], [part], known, complete=True) == ("ops.bench_mlp-launch",)


TESTS = """
import numpy as np
import pytest

x = np.arange(8.0)


@pytest.mark.peakgate(reference=lambda x: 2 * x, metric=["gpu", "launch"])
def bench_part(gpu_benchmark):
    gpu_benchmark(lambda x: x + x, x)


@pytest.mark.peakgate(reference=lambda x: 4 * x, parts=["bench_part", "bench_part"])
def bench_whole(gpu_benchmark):
    gpu_benchmark(lambda x: x + x + x + x, x)


@pytest.mark.peakgate(reference=lambda x: 4 * x, parts=["bench_prat"])
def bench_misspelt(gpu_benchmark):
    gpu_benchmark(lambda x: x + x + x + x, x)


@pytest.mark.peakgate(reference=lambda x: 4 * x, parts="bench_part")
def bench_no_list(gpu_benchmark):
    gpu_benchmark(lambda x: x + x + x + x, x)
"""


def test_a_run_has_the_parts_of_its_cases_and_refuses_unknown_ones(benchmarks, bench):
    folder = benchmarks(TESTS)
    done = bench(folder, "--benchmark-json=run.json")
    assert done.returncode == 3, done.stdout + done.stderr
    saved = json.loads((folder / "run.json").read_text())
    parts = {entry["extra_info"]["case"]: entry["extra_info"]["parts"] for entry in saved["benchmarks"]}
    part = "benchmarks-bench_ops.bench_part"
    assert parts == {part: None, "benchmarks-bench_ops.bench_whole": [part, part]}
    refused = {entry["case"]: entry for entry in saved["peakgate"]["not_measured"] if "launch" not in entry["case"]}
    assert sorted(refused) == ["benchmarks-bench_ops.bench_misspelt", "benchmarks-bench_ops.bench_no_list"]
    for entry in refused.values():
        assert entry["verdict"] == "INCONCLUSIVE"
        assert f"[{Code.BENCHMARK_TEST}]" in entry["reason"]


def test_one_file_alone_may_name_parts_of_another(benchmarks, bench):
    folder = benchmarks(
        TESTS.replace("bench_part(gpu", "bench_other(gpu").partition(
            '\n\n\n@pytest.mark.peakgate(reference=lambda x: 4 * x, parts=["bench_prat"]'
        )[0]
    )
    done = bench(folder, "--benchmark-json=run.json", "benchmarks/bench_ops.py")
    assert done.returncode == 0, done.stdout + done.stderr
