"""A tuner's choice in the run file: from PyTorch's trace, from Triton, and from a tuner that the test names."""

import json
import re
import sys
from types import SimpleNamespace

import pytest

from peakgate.callables import kernels
from peakgate.help import page
from peakgate.spec.recorded import TunedChoice


def event(name, category, **arguments):
    return {"name": name, "cat": category, "args": arguments}


GENERATED = {"kernel_backend": "triton", "kernel_kwargs": "XBLOCK=1024", "num_warps": 8, "num_stages": 1}
TRACE = [
    event("aten::mm", "cpu_op"),
    event("triton_poi_fused_add_0", "cpu_op", kernel_hash="0123456789abcdef", **GENERATED),
    event("triton_poi_fused_add_0", "kernel", device=0),
    event("nvjet_hsh_128x256", "kernel", device=0),
]


def test_a_trace_has_each_generated_kernel_with_its_configuration_and_the_librarys_by_name():
    assert list(kernels.of_trace({"traceEvents": TRACE})) == [
        TunedChoice("triton_poi_fused_add_0", "XBLOCK=1024, num_warps=8, num_stages=1", "0123456789ab"),
        TunedChoice("nvjet_hsh_128x256", "not tuned here"),
    ]


def test_without_a_tuner_nothing_is_run_again(monkeypatch):
    for name in ("triton", "torch._inductor.compile_fx"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert kernels.choices(lambda: pytest.fail("ran")) == ()


class Autotuner:
    """Triton's, as far as it is public: what it has tuned by key, and the configuration of its last launch."""

    def __init__(self, function, configs):
        self.base_fn, self.cache, self.configs = function, {}, configs

    def run(self, size):
        self.best_config = self.cache.setdefault((size,), self.configs[size])


def scale(): ...


def shift(): ...


@pytest.fixture
def _triton(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(runtime=SimpleNamespace(Autotuner=Autotuner)))
    monkeypatch.delitem(sys.modules, "torch._inductor.compile_fx", raising=False)


@pytest.mark.usefixtures("_triton")
def test_a_kernel_that_the_call_launches_has_the_configuration_of_its_last_launch():
    tuned, other, unused = (Autotuner(each, {4: "BLOCK: 256", 8: "BLOCK: 64"}) for each in (scale, shift, shift))
    other.run(4)
    found = kernels.choices(lambda: [tuned.run(4), tuned.run(8)])
    assert found == (TunedChoice("scale", "BLOCK: 64"),)
    assert kernels.choices(lambda: tuned.run(4)) == (TunedChoice("scale", "BLOCK: 256"),)
    assert (other.best_config, hasattr(unused, "best_config")) == ("BLOCK: 256", False)


@pytest.mark.usefixtures("_triton")
def test_two_kernels_that_the_call_launches_are_both_found():
    first, second = (Autotuner(each, {4: "BLOCK: 256"}) for each in (scale, shift))
    found = kernels.choices(lambda: [second.run(4), first.run(4)])
    assert found == (TunedChoice("scale", "BLOCK: 256"), TunedChoice("shift", "BLOCK: 256"))


@pytest.mark.usefixtures("_triton")
def test_a_tuner_is_left_as_it_was_where_a_call_fails():
    tuned = Autotuner(scale, {4: "BLOCK: 256"})
    tuned.run(4)
    with pytest.raises(KeyError):
        kernels.choices(lambda: tuned.run(8))
    assert (tuned.best_config, tuned.cache) == ("BLOCK: 256", {(4,): "BLOCK: 256"})


def test_the_pages_example_has_its_tuners_choice_in_the_run_file(tmp_path, bench, benchmarks):
    (example,) = re.findall(r"```python\n(.*?)```", page("tuners"), re.DOTALL)
    done = bench(benchmarks(example), "--benchmark-json=run.json")
    assert done.returncode == 0, done.stdout + done.stderr
    (entry,) = json.loads((tmp_path / "run.json").read_text())["benchmarks"]
    (choice,) = entry["extra_info"]["tuned"]
    assert choice["kernel"] == "blocked_sum"
    assert choice["configuration"] in ("64", "256", "1024")


def test_a_choice_that_is_no_mapping_is_bad_input(bench, benchmarks):
    text = "import numpy as np\ndef bench_x(gpu_benchmark):\n    gpu_benchmark.tuned(7)(lambda x: x + 1, np.ones(3))\n"
    done = bench(benchmarks(text))
    assert done.returncode == 3
    assert "tuned is 7" in done.stdout
