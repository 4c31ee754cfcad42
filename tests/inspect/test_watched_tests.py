"""Kernels that benchmark tests launch: what is reported of them, and whole runs, of Triton's where triton-viz is."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from peakgate.base import config
from peakgate.base.emulated import LaunchNotEnded
from peakgate.base.errors import Code
from peakgate.cli import main
from peakgate.inspect.emulate import LaunchFinding
from peakgate.inspect.watched import cupy_stand_in
from peakgate.inspect.watched.kernels import MOST_NOTES, KernelFinding, KernelsOfTests, WatchedTest, begun, filled
from peakgate.inspect.watched.process import Launches, asserts
from peakgate.inspect.watched.running import running
from peakgate.inspect.watched.triton_races import ProgramAccess, races
from peakgate_emulator.defects import RaceStep

NODE = "benchmarks/bench_ops.py::bench_scale[8]"


def access(program, place, addresses, *, stores=True):
    return ProgramAccess((program, 0, 0), place, stores, np.array(addresses, np.int64))


def test_programs_that_touch_elements_of_their_own_do_not_race():
    assert races([]) == []
    assert races([access(0, "k.py:3", [0, 4]), access(1, "k.py:3", [8, 12])]) == []
    assert races([access(0, "k.py:2", [0, 4], stores=False), access(1, "k.py:2", [0, 4], stores=False)]) == []
    assert races([access(0, "k.py:2", [0], stores=False), access(0, "k.py:3", [0])]) == []
    assert races([access(0, "k.py:2", []), access(1, "k.py:2", [])]) == []


def test_two_stores_to_one_address_are_one_race_with_the_lowest_address():
    (race,) = races([access(1, "k.py:3", [8, 4]), access(0, "k.py:3", [0, 4, 8])])
    assert (race.first, race.addresses, race.other.stores) == (4, 2, True)
    assert {race.stored.program[0], race.other.program[0]} == {0, 1}


def test_a_load_of_what_another_program_stores_is_a_race_of_both_lines():
    (race,) = races(
        [access(0, "k.py:2", [4], stores=False), access(1, "k.py:5", [4]), access(1, "k.py:2", [8], stores=False)]
    )
    assert (race.stored.place, race.other.place, race.other.stores) == ("k.py:5", "k.py:2", False)


def test_each_pair_of_lines_is_reported_once():
    lines = [access(program, place, [0, 4]) for program in (0, 1) for place in ("k.py:3", "k.py:4")]
    assert len(races(lines)) == 1
    assert len(races([*lines, access(2, "k.py:9", [64]), access(3, "k.py:9", [64])])) == 2


def report(**test):
    found = KernelsOfTests()
    filled(found, {NODE: WatchedTest(**({"findings": [], "launches": {}, "limits": [], "outcome": ""} | test))})
    return found


def test_a_finding_is_a_defect_of_its_kernel_with_line_text_and_steps():
    place, kind = "bench_ops.py:7", "race between programs"
    steps = (RaceStep(place, None, (1, 0, 0)), RaceStep(place, None, (0, 2, 0)))
    finding = LaunchFinding("benchmarks-bench_ops.bench_scale-8", 0, kind, place, f"{place}: {kind}", steps)
    found = report(
        findings=[KernelFinding("scale", finding, "tl.store()", str(config.current().root / "bench_ops.py"))],
        launches={"scale": 2},
        outcome="failed: it was not run",
    )
    (kernel,) = found.reports
    assert (kernel.kernel, kernel.launches, kernel.broken) == ("benchmarks-bench_ops.scale", 2, None)
    assert kernel.findings == (finding,)
    name, root = "benchmarks-bench_ops.scale", config.current().root
    assert found.lines == {
        (name, place): (root / "bench_ops.py", 7, "tl.store()"),
        (name, None): (root / "benchmarks" / "bench_ops.py", 1, ""),
    }


def test_a_test_that_fails_without_a_finding_is_not_checked_and_a_skipped_one_is_noted():
    assert [each.broken for each in report(outcome="failed: ImportError").reports] == ["failed: ImportError"]
    skipped = report(outcome="skipped: needs a GPU")
    assert (skipped.reports, len(skipped.notes)) == ([], 1)
    limits = report(launches={"scale": 1}, limits=[f"limit {number}" for number in range(9)])
    assert len(limits.notes) == MOST_NOTES + 1


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text('[tool.peakgate]\nbenchmarks = ["benchmarks"]\n')
    (tmp_path / "benchmarks").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path / "benchmarks" / "bench_ops.py"


def test_without_triton_viz_the_extra_is_named_and_other_projects_hear_nothing(project, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    project.write_text("import torch\n")
    with begun("", [0]) as found:
        pass
    assert found == KernelsOfTests()
    project.write_text("import triton\n")
    with begun("", [0]) as found:
        pass
    assert "[triton]" in found.notes[0]


def test_a_project_of_benchmark_tests_alone_still_needs_something_to_check(project, capsys):
    project.write_text("import torch\n")
    assert main(["check"]) == 2
    assert f"[{Code.FAMILY}]" in capsys.readouterr().err


KERNELS = """
import torch, triton, triton.language as tl

@triton.jit
def scale(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)

def bench_scale(gpu_benchmark):
    def call(x):
        out = torch.empty_like(x)
        scale[(triton.cdiv(100, 32),)](x, out, 100, B=32)
        return out
    gpu_benchmark.expect(lambda x: 2 * x)(call, torch.randn(100))
"""


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("", "", None),
        ("tl.load(x + i, mask=i < n)", "tl.load(x + i)", "out of bounds"),
        ("tl.program_id(0) * B", "tl.program_id(0) * (B - 1)", "race between programs"),
        ("mask=i < n)\n", "mask=i < n - 1)\n", "uninitialised result"),
        ("2 * tl.load", "3 * tl.load", "wrong result"),
    ],
)
def test_a_kernel_is_checked_with_file_and_line(project, old, new, kind):
    pytest.importorskip("triton_viz", reason="the extra triton is not installed")
    project.write_text(KERNELS.replace(old, new) if old else KERNELS)
    assert main(["check"]) == (0 if kind is None else 1)
    (kernel,) = json.loads(Path(".peakgate/out/check.json").read_text())["kernels"]
    assert (kernel["kernel"], [each["kind"] for each in kernel["defects"]]) == (
        "benchmarks-bench_ops.scale",
        [] if kind is None else [kind],
    )
    if kind not in (None, "wrong result"):
        assert (kernel["defects"][0]["file"], kernel["defects"][0]["line"]) == ("bench_ops.py", 7)


UNLAUNCHED = """
import cupy as cp  # no RawKernel is launched

def bench_double(gpu_benchmark):
    gpu_benchmark.expect(lambda x: 3 * x)(lambda x: 2 * x, cp.ones(8, "float32"))
"""


def test_a_wrong_result_of_a_test_without_a_launch_is_a_defect(project):
    project.write_text(UNLAUNCHED)
    assert main(["check"]) == 1
    (test,) = json.loads(Path(".peakgate/out/check.json").read_text())["kernels"]
    assert (test["kernel"], test["launches"]) == ("benchmarks-bench_ops.bench_double", 0)
    assert [each["kind"] for each in test["defects"]] == ["wrong result"]


STRINGS = """
import importlib.util

import cupy as cp
import numpy as np
import pytest
from cupyx.profiler import benchmark as profiled

from kernels import HALVES

assert importlib.util.find_spec("cupy")
try:
    import cupy.cuda.nccl
except ImportError:
    pass

SCALE = cp.RawKernel(r'''
extern "C" __global__ void scale(float* out, const float* x, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at <= n) out[at] = 2.0f * x[at];
}''', "scale")


def launch(n, out, x):
    SCALE((2,), (32,), args=(out, x, np.array([n], np.int32)))
    cp.cuda.Stream.null.synchronize()


def test_right(benchmark):
    x = cp.asfortranarray(cp.random.rand(16, 4, dtype=cp.float32))
    out = cp.empty((16, 4), cp.float32, order="F")
    benchmark.pedantic(launch, args=(63, out, x), rounds=9)
    np.testing.assert_array_equal(out.get(), 2 * cp.asnumpy(x))


def test_bounds(benchmark):
    x = cp.ones(40, "float32")
    benchmark(launch, 40, cp.empty_like(x), x)


def test_race(gpu_benchmark):
    x = cp.arange(64, dtype=cp.float32)
    halves = HALVES.get_function("halves<float>")
    gpu_benchmark(halves, (1,), (64,), (x,))


class TestWeighted:
    def test_asserted(self, benchmark):
        weight = cp.ndarray((1,), cp.float32, HALVES.get_global("weight"))
        weight[...] = 3
        out = cp.zeros(8, cp.float32)
        benchmark(HALVES.get_function("weighted"), (1,), (8,), (out,))
        assert (out == 4).all()


def test_expected(gpu_benchmark):
    x = cp.ones(64, "float32")
    gpu_benchmark.expect(lambda out, x, n: 3 * x)
    gpu_benchmark(SCALE, (2,), (32,), (cp.zeros_like(x), x, np.int32(63)))


def test_timed():
    x = cp.ones(64, "float32")
    start, end = cp.cuda.Event(), cp.cuda.Event()
    start.record()
    launch(63, cp.empty_like(x), x)
    end.record()
    assert cp.cuda.get_elapsed_time(start, end) < 1


def test_profiled():
    x = cp.ones(64, "float32")
    assert profiled(launch, (63, cp.empty_like(x), x), n_repeat=9).gpu_times.mean() < 1


def test_fused(benchmark):
    benchmark(cp.ElementwiseKernel("float32 x", "float32 y", "y = 2 * x"), cp.ones(8))
"""

MODULE = """
import cupy as cp

HALVES = cp.RawModule(code=r'''
__constant__ float weight[1];

extern "C" __global__ void weighted(float* out) { out[threadIdx.x] = weight[0]; }

template <typename T>
__global__ void halves(T* x) {
    __shared__ T tile[64];
    tile[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = tile[63 - threadIdx.x] / 2;
}
''', options=("-std=c++14",), name_expressions=("halves<float>",))
"""


def test_kernels_in_strings_are_checked_with_the_arguments_of_a_test(project, capsys):
    (project.parent.parent / "pyproject.toml").write_text(
        '[tool.peakgate]\nbenchmarks = ["benchmarks"]\npythonpath = ["ours"]\n'
    )
    (project.parent.parent / "ours").mkdir()
    (project.parent.parent / "ours" / "kernels.py").write_text(MODULE)
    project.with_name("test_strings.py").write_text(STRINGS)
    assert main(["check"]) == 1
    notes = [line for line in capsys.readouterr().out.splitlines() if "cover" in line or "not checked" in line]
    found = json.loads(Path(".peakgate/out/check.json").read_text())
    assert not any(kernel["not_checked"] for kernel in found["kernels"])
    defects = {
        (each["case"].partition(".")[2], each["kind"], each["file"], each["line"])
        for kernel in found["kernels"]
        for each in kernel["defects"]
    }
    assert defects == {
        ("test_bounds", "out of bounds", "test_strings.py", 20),
        ("test_race", "shared race", "kernels.py", 13),
        ("test_race", "uninitialised shared", "kernels.py", 13),
        ("TestWeighted.test_asserted", "wrong result", None, None),
        ("test_expected", "wrong result", None, None),
    }
    assert [any(name in line for line in notes) for name in ("test_timed", "test_profiled", "test_fused")] == [True] * 3


def test_a_run_of_tests_that_breaks_off_is_not_a_pass(project):
    project.write_text("from cupy import RawKernel\n")
    (project.parent / "conftest.py").write_text("raise SystemExit(1)\n")
    assert main(["check"]) == 3


def test_a_kernel_that_does_not_end_is_not_launched_again():
    running.begin("a.py::test_long")
    kernel, launches = SimpleNamespace(name="long", stage=SimpleNamespace(source=Path("a.py"))), Launches([0, 2])
    assert [launches.orders(kernel), launches.orders(kernel)] == [[0, 2], [0]]
    launches.found(kernel, 2, LaunchNotEnded("the launch had not ended"))
    assert running.test == WatchedTest(launches={"long": 2})
    with pytest.raises(LaunchNotEnded):
        launches.orders(kernel)


def test_the_stand_in_of_cupy_copies_where_cupy_does():
    cp = cupy_stand_in.modules()["cupy"]
    host = np.arange(6, dtype=np.float32).reshape(2, 3)
    there = cp.asarray(host)
    assert not any(np.shares_memory(made, host) for made in (there, cp.array(host), cp.ascontiguousarray(host)))
    assert np.shares_memory(cp.asarray(there), there)
    assert not np.shares_memory(cp.array(there), there)
    assert not np.shares_memory(there.get(), there)
    assert not np.shares_memory(cp.asnumpy(there), there)
    assert cp.ascontiguousarray(cp.asfortranarray(host)).flags.c_contiguous
    assert type(there.get()) is np.ndarray
    there.set(host + 1)
    assert float(there[0, 0].get()) == float(there.min().get()) == 1


def test_the_stand_in_of_cupy_has_its_types_for_numpys_functions():
    cp = cupy_stand_in.modules()["cupy"]
    drawn = [cp.random.rand(3, dtype=cp.float32), cp.random.default_rng(1).random(3, dtype=cp.float32)]
    drawn += [cp.random.RandomState(1).normal(size=3, dtype=cp.float32), cp.sqrt(cp.ones(3, cp.float32))]
    assert [(type(each), each.dtype.name) for each in drawn] == [(cp.ndarray, "float32")] * 4
    assert np.isnan(cp.empty(3)).all()
    assert cp.empty(3, cp.int32).dtype == np.int32
    assert cp.get_array_module(drawn[0]) is cp
    with cp.cuda.Stream(non_blocking=True) as stream:
        stream.synchronize()
    for missing in ("ElementwiseKernel", "fft", "fuse", "__version__"):
        with pytest.raises(cupy_stand_in.NeedsCuPy):
            getattr(cp, missing)


@pytest.mark.parametrize(("compared", "unchecked"), [(False, True), (True, False)])
def test_a_kernel_whose_result_is_compared_with_nothing_ran(compared, unchecked):
    (kernel,) = report(launches={"scale": 1}, compared=compared).reports
    assert kernel.unchecked is unchecked


class Asserting:
    def by_a_statement(self, result):
        text = """
not indented"""
        assert result == text

    def by_a_library(self, result):
        np.testing.assert_allclose(result, 1)

    def by_unittest(self, result):
        self.assertEqual(result, 1)  # noqa: PT009  (what is recognized)


class NotAsserting:
    def in_a_comment(self, result):
        return result  # nothing to assert

    def in_a_docstring(self, result):
        """Would assert the result."""

    def in_a_name(self, assertion):
        return assertion.asserted


def test_a_test_asserts_by_its_code_and_not_by_the_word():
    assert [name for name, each in vars(Asserting).items() if callable(each) and not asserts(each)] == []
    assert [name for name, each in vars(NotAsserting).items() if callable(each) and asserts(each)] == []


def test_a_test_without_source_asserts_nothing_known():
    made = {}
    exec("def test(x):\n    assert x", made)
    assert not asserts(made["test"])
