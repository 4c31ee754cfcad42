"""What a case's declared state is: a case of its own, shown in the run, or INCONCLUSIVE."""

import json
import math
import re
from dataclasses import replace

import pytest
from emulating import CUDA

from peakgate.base.errors import Code
from peakgate.base.verdict import Verdict
from peakgate.callables.settings import case_of
from peakgate.help import page
from peakgate.judge.floors import judge
from peakgate.judge.metrics import Peaks, metrics
from peakgate.judge.state import StateReading, doubt_of
from peakgate.measure.limits import sampling_limit_s
from peakgate.measure.sampling import Samples, SamplingPlan
from peakgate.spec.case import Work

PEAKS = Peaks(4800.0, 60.0, "")
WARM = StateReading(first_us=12.0, rest_us=8.0, footprint_bytes=20_000_000, l2_bytes=50_000_000, memory_gbs=4800.0)
GRAPH = replace(WARM, launches=20, nodes=20)


def test_a_warm_launch_is_shown_by_what_the_l2_saves():
    assert doubt_of("warm", WARM) is None
    assert doubt_of("warm", replace(WARM, rest_us=11.9)) is not None
    assert doubt_of("warm", replace(WARM, footprint_bytes=60_000_000)) is not None
    assert doubt_of("warm", replace(WARM, footprint_bytes=0)) is not None
    assert doubt_of("warm", replace(WARM, memory_gbs=None)) is not None


def test_a_warm_launch_of_little_memory_need_not_be_faster():
    assert doubt_of("warm", replace(WARM, first_us=200.0, rest_us=200.0)) is None


def test_the_l2_saves_a_quarter_of_the_transfers():
    full = StateReading(first_us=9.25, rest_us=8.0, footprint_bytes=20_000_000, l2_bytes=20_000_000, memory_gbs=4000.0)
    assert doubt_of("warm", full) is None
    assert doubt_of("warm", replace(full, first_us=9.24)) is not None


@pytest.mark.parametrize(("rest_us", "shown"), [(150.0, False), (200.0, False), (200.1, True)])
def test_transfers_of_3_percent_of_a_launch_matter(rest_us, shown):
    seen = StateReading(rest_us, rest_us, footprint_bytes=24_000_000, l2_bytes=50_000_000, memory_gbs=4000.0)
    assert (doubt_of("warm", seen) is None) is shown


def test_a_graph_is_shown_by_a_node_for_each_launch():
    assert doubt_of("graph", GRAPH) is None
    assert doubt_of("graph", replace(GRAPH, nodes=0)) is not None
    assert doubt_of("graph", replace(GRAPH, nodes=None)) is not None


def test_two_states_are_two_cases_of_a_test():
    cold, graph = case_of("a.py::b[8-graph]"), case_of("a.py::b[8-graph]", "graph")
    assert cold.id == graph.id == "a.b-8-graph"
    assert (cold.size, cold.state, graph.size, graph.state) == ("8-graph", "cold", "8", "graph")
    assert case_of("a.py::b[graph]", "graph").id == "a.b-graph"
    with pytest.raises(ValueError, match="hot"):
        replace(cold, state="hot")


def test_a_repeated_launchs_bytes_have_no_peak_its_flops_have():
    samples = Samples((10.0,) * 12, (None,) * 12, 0, "", first_us=12.0)
    case = replace(case_of("a.py::b[warm]", "warm"), work=Work(1_000_000_000))
    judgement = judge(samples, metrics(case, samples, PEAKS, {"copy_1GiB": 4000.0}), None)
    assert judgement.verdict is Verdict.NO_FLOOR
    assert judge(samples, metrics(case, samples, PEAKS, {}), 0.5).verdict is Verdict.INCONCLUSIVE
    counted = metrics(replace(case, work=Work(1_000_000_000, 300_000_000)), samples, PEAKS, {})
    assert counted.bound == "compute"
    assert math.isclose(counted.peak_fraction, 0.5)


def test_samples_whose_state_is_not_shown_decide_nothing():
    doubt = doubt_of("warm", replace(WARM, footprint_bytes=0))
    samples = Samples((10.0,) * 12, (None,) * 12, 0, "", doubt=doubt, first_us=12.0)
    case = replace(case_of("a.py::b[warm]", "warm"), work=Work(0, 1000))
    assert judge(samples, metrics(case, samples, PEAKS, {}), None).verdict is Verdict.INCONCLUSIVE


def test_a_graph_may_take_as_long_as_all_its_launches():
    plan = SamplingPlan()
    allowed = [sampling_limit_s(0.0, 0.1, plan, state) for state in ("cold", "warm", "graph")]
    assert allowed == sorted(allowed)
    assert allowed[2] > 2 * 20 * plan.min_samples * 0.1


def example(number):
    """A block of Python of the page."""
    return re.findall(r"```python\n(.*?)```", page("state"), re.DOTALL)[number]


def test_the_pages_examples_are_cases_in_each_of_their_states(tmp_path, bench, project):
    project("scale", example(0), scale=(CUDA / "scale.cu").read_text())
    (tmp_path / "peakgate.toml").write_text("benchmarks = ['bench.py']\n")
    (tmp_path / "bench.py").write_text("import numpy as np\nimport pytest\n" + example(1))
    done = bench(tmp_path, "--benchmark-json=run.json")
    assert done.returncode == 0, done.stdout + done.stderr
    entries = [each["extra_info"] for each in json.loads((tmp_path / "run.json").read_text())["benchmarks"]]
    states = {entry["case"]: entry["state"] for entry in entries}
    assert sorted(states.values()) == ["cold", "cold", "graph", "graph", "warm"]
    assert all(case.endswith(f"-{state}") for case, state in states.items() if state != "cold")


def test_an_unknown_state_is_undecided(bench, benchmarks):
    text = (
        "import pytest\n@pytest.mark.peakgate(state='hot')\ndef bench_x(gpu_benchmark):\n    gpu_benchmark(len, [])\n"
    )
    done = bench(benchmarks(text))
    assert done.returncode == 3
    assert Code.BENCHMARK_TEST in done.stderr + done.stdout
