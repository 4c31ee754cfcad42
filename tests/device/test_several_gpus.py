"""Cases on several GPUs, without one: which GPUs a run takes, what is refused and skipped, what is judged."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.verdict import Verdict
from peakgate.callables import arrays
from peakgate.callables.settings import case_of, too_few, variants_of
from peakgate.device import choose, driver
from peakgate.help import page
from peakgate.judge.floors import judge
from peakgate.judge.metrics import metrics, theoretical_peaks
from peakgate.measure.sampling import Samples, slowest
from peakgate.run.lock import device_uuid
from peakgate.spec.case import Work

LINKS = Path(__file__).parents[1] / "data" / "links" / "bench_links.py"
H200 = {
    "name": "NVIDIA H200",
    "memory_clock_mhz": 3201.0,
    "bus_width_bits": 6144,
    "sm_count": 132,
    "sm_clock_mhz": 1980.0,
}


@pytest.fixture
def machine(monkeypatch):
    """A machine with GPUs of these models."""

    def pretend(*models):
        monkeypatch.setattr(driver, "gpu_count", lambda: len(models))
        monkeypatch.setattr(driver, "gpu_name", lambda index: models[index])
        monkeypatch.setattr(driver, "gpu_uuid", lambda index: f"GPU-{index}")

    return pretend


def test_a_sample_of_several_gpus_is_that_of_the_slowest():
    batches = [(10.0, 1980.0), (12.0, None)], [(11.0, 1500.0), (9.0, None)]
    assert slowest(batches) == [(11.0, 1500.0), (12.0, None)]
    assert slowest([[(3.0, None)], [(2.0, 1700.0)], [(1.0, 1800.0)]]) == [(3.0, 1700.0)]
    assert slowest(batches[:1]) == batches[0]


@pytest.mark.parametrize(
    ("choice", "indices"),
    [("auto", (0,)), ("gpu", (0,)), ("gpu:3", (3,)), ("gpu:2,0", (2, 0)), ("cpu", ()), ("gpu:0,", ()), ("gpu:,1", ())],
)
def test_a_choice_names_its_gpus_in_order(choice, indices):
    assert driver.named_gpus(choice) == indices


@pytest.mark.parametrize(
    ("choice", "code"),
    [("gpu:0,0", Code.OPTION), ("gpu:0,1,", Code.OPTION), ("gpu:0,7", Code.NO_GPU), ("gpu:0,2", Code.GPU_MODELS)],
)
def test_gpus_that_are_no_group_are_refused(machine, choice, code):
    machine("NVIDIA H200", "NVIDIA H200", "NVIDIA A10")
    with pytest.raises(PeakgateError, check=lambda error: error.code is code):
        choose.open_device(choice)


def test_a_run_on_two_gpus_is_known_by_the_uuids_of_both(machine):
    machine("NVIDIA H200", "NVIDIA H200", "NVIDIA H200")
    assert device_uuid("gpu:1,0") == "GPU-1,GPU-0"


@pytest.mark.parametrize(
    ("needed", "has", "here", "said"),
    [
        (2, 2, 2, None),
        (0, 0, 0, None),
        (2, 1, 1, "needs 2 GPUs, 1 is here"),
        (8, 2, 2, "needs 8 GPUs, 2 are here"),
        (1, 0, 0, "needs 1 GPU, none is here"),
        (2, 1, 4, "needs 2 GPUs, this run has 1; give --device gpu:0,1"),
    ],
)
def test_a_test_that_needs_more_gpus_than_there_are_says_so(needed, has, here, said):
    assert too_few(needed, has, here) == said


def test_each_number_of_gpus_state_and_metric_is_a_test():
    assert variants_of(None) == (("cold", 0, "gpu"),)
    assert variants_of(pytest.mark.peakgate(gpus=2).mark) == (("cold", 2, "gpu"),)
    assert variants_of(pytest.mark.peakgate(gpus=(1, 2), state=("cold", "warm")).mark) == (
        *(("cold", 1, "gpu"), ("warm", 1, "gpu")),
        *(("cold", 2, "gpu"), ("warm", 2, "gpu")),
    )
    assert variants_of(pytest.mark.peakgate(metric=["gpu", "launch"]).mark) == (
        *(("cold", 0, "gpu"), ("cold", 0, "launch")),
    )


def peaks(*nvlinks_mbs):
    return theoretical_peaks(**H200, capability=(9, 0), nvlinks_mbs=nvlinks_mbs)


def test_the_peak_of_the_links_is_their_line_rates_sum():
    assert peaks(*[26562] * 18).nvlink_gbs == pytest.approx(478.1, abs=0.1)
    assert "18 NVLinks" in peaks(*[26562] * 18).derivation
    assert peaks().nvlink_gbs is None
    assert "NVLink" not in peaks().derivation


def case(sent, gpus=2):
    return replace(case_of(f"b.py::t[{gpus}gpu]", gpus=gpus), work=Work(sent), roof="nvlink")


def test_bytes_between_gpus_are_judged_by_the_links():
    samples = Samples((1000.0,) * 12, (1980.0,) * 12, 0, "")
    found = metrics(case(400_000_000), samples, peaks(*[25000] * 20), {"copy_1GiB": 4000.0})
    assert (found.bound, found.roof) == ("nvlink", None)
    assert found.peak_fraction == pytest.approx(0.8)
    assert judge(samples, found, None).verdict is Verdict.NO_FLOOR
    assert judge(samples, found, 0.75).verdict is Verdict.PASS
    assert judge(samples, found, 0.85).verdict is Verdict.BELOW_FLOOR
    impossible = metrics(case(600_000_000), samples, peaks(*[25000] * 20), {})
    assert judge(samples, impossible, 0.5).verdict is Verdict.IMPOSSIBLE


def test_without_reported_links_no_peak_is_claimed():
    samples = Samples((1000.0,) * 12, (1980.0,) * 12, 0, "")
    assert judge(samples, metrics(case(400_000_000), samples, peaks(), {}), None).verdict is Verdict.NO_FLOOR


def test_numbers_of_gpus_are_cases_with_floors_of_their_own():
    assert case(1, 2).id == "b.t-2gpu"
    assert case(1, 4).id == "b.t-4gpu"
    assert case(1, 4).gpus == 4


def test_arrays_in_the_hosts_memory_are_on_no_gpu():
    x = np.arange(3.0)
    assert arrays.here(x) is x
    assert arrays.gpu_of(x) is None
    arrays.wait_for([x])


def project(folder, text):
    (folder / "peakgate.toml").write_text('benchmarks = ["bench_links.py"]\n')
    (folder / "bench_links.py").write_text(text)
    return folder


def test_the_pages_examples_are_the_benchmarks_that_are_measured():
    *links, ranks = re.findall(r"```python\n(.*?)```", page("several-gpus"), re.DOTALL)
    assert "\n\n".join(links) == LINKS.read_text()
    assert ranks == (LINKS.parents[1] / "ranks" / "bench_all_reduce.py").read_text()


def test_the_pages_example_is_skipped_where_no_gpu_is(tmp_path, bench):
    alone = "\n\ndef bench_alone(gpu_benchmark):\n    gpu_benchmark.expect(2)(lambda: 2)\n"
    done = bench(project(tmp_path, LINKS.read_text() + alone), "--benchmark-json=run.json")
    assert done.returncode == 0, done.stdout + done.stderr
    saved = json.loads((tmp_path / "run.json").read_text())
    assert [each["extra_info"]["case"] for each in saved["benchmarks"]] == ["bench_links.bench_alone"]
    skipped = saved["peakgate"]["skipped"]
    assert set(skipped) == {
        *(f"bench_links.bench_all_{name}-{count}gpu" for name in ("reduce", "gather") for count in (1, 2, 4, 8)),
        "bench_links.bench_peer_copy-2gpu",
    }
    assert skipped["bench_links.bench_peer_copy-2gpu"].startswith("needs 2 GPUs, ")


def test_a_run_that_could_measure_nothing_is_no_pass(tmp_path, bench):
    done = bench(project(tmp_path, LINKS.read_text()))
    assert done.returncode == 2
    assert "needs 2 GPUs" in done.stdout + done.stderr


@pytest.mark.parametrize(
    "given",
    ["gpus=-1", "gpus='2'", "gpus=True", "gpus=2, state='warm'", "gpus=(1, 2), state='graph'", "gpus=2, stream=1"],
)
def test_gpus_that_cannot_be_meant_are_undecided(tmp_path, bench, given):
    text = f"import pytest\n@pytest.mark.peakgate({given})\ndef bench_x(gpu_benchmark):\n    gpu_benchmark(len, [])\n"
    done = bench(project(tmp_path, text))
    assert done.returncode == 3
    assert f"[{Code.BENCHMARK_TEST}]" in done.stdout + done.stderr
