"""Triton kernels of benchmark tests: races between programs, what is reported, and whole runs where triton-viz is."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from peakgate.base.errors import Code
from peakgate.cli import main
from peakgate.inspect import triton_tests
from peakgate.inspect.triton_tests import (
    ProgramAccess,
    ProgramStep,
    TritonCheck,
    TritonFinding,
    WatchedTest,
    filled,
    races,
)

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
    found = TritonCheck()
    filled(found, {NODE: WatchedTest(**({"findings": [], "launches": {}, "limits": [], "outcome": ""} | test))})
    return found


def test_a_finding_is_a_defect_of_its_kernel_with_line_text_and_steps():
    steps = (ProgramStep("bench_ops.py:7", (1,)), ProgramStep("bench_ops.py:7", (0, 2)))
    finding = TritonFinding(
        "scale", "race between programs", "bench_ops.py:7", "write after write", steps, "tl.store()"
    )
    found = report(findings=[finding], launches={"scale": 2}, outcome="failed: it was not run")
    (kernel,) = found.reports
    assert (kernel.kernel, kernel.launches, kernel.broken) == ("benchmarks-bench_ops.scale", 2, None)
    (defect,) = kernel.findings
    assert (defect.case, defect.where) == ("benchmarks-bench_ops.bench_scale-8", "bench_ops.py:7")
    assert [step.block for step in defect.order] == [(1, 0, 0), (0, 2, 0)]
    assert found.texts == {("benchmarks-bench_ops.scale", "bench_ops.py:7"): "tl.store()"}


def test_a_test_that_fails_without_a_finding_is_not_checked_and_a_skipped_one_is_noted():
    assert [each.broken for each in report(outcome="failed: ImportError").reports] == ["failed: ImportError"]
    skipped = report(outcome="skipped: needs a GPU")
    assert (skipped.reports, len(skipped.notes)) == ([], 1)
    limits = report(launches={"scale": 1}, limits=[f"limit {number}" for number in range(9)])
    assert len(limits.notes) == triton_tests.MOST_NOTES + 1


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text('[tool.peakgate]\nbenchmarks = ["benchmarks"]\n')
    (tmp_path / "benchmarks").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path / "benchmarks" / "bench_ops.py"


def test_without_triton_viz_the_extra_is_named_and_other_projects_hear_nothing(project, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    project.write_text("import torch\n")
    with triton_tests.begun("") as found:
        pass
    assert found == TritonCheck()
    project.write_text("import triton\n")
    with triton_tests.begun("") as found:
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
