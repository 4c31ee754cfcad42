"""The tests of a suite under plain pytest: parametrized by families, measured, and everything pytest offers works."""

import json

import pytest
import runs
from rank_processes import variables
from runs import plain_pytest

from peakgate.base.errors import Code
from peakgate.device.driver import gpu_count

SETTINGS = "[tool.peakgate]\n[tool.pytest.ini_options]\naddopts = ['--strict-markers']\n"
KERNEL = """
#ifndef ADDED
#define ADDED 0
#endif
extern "C" __global__ void twice(float* out, const float* in, int n) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) { out[at] = 2.0f * in[at] + ADDED; }
}
"""
FAMILY = """
from peakgate.family import In, Out, Value, kernel

FAMILY = kernel(
    "twice.cu",
    arguments=lambda n: [Out(n), In(n), Value(n)],
    axes={"block": [32, 64]},
    grid=lambda n, block: -(-n // block),
    bytes=lambda n: 8 * n,
    reference=lambda xp, x: 2 * x,
    sizes=[1 << 20],
    small_sizes=[100],
    edges=[1],
)
"""
SUITE = """
from peakgate.suite import cases

@cases("twice")
def test_twice(case, gpu_benchmark):
    gpu_benchmark(case)
"""
BY_ITSELF = """
import numpy as np
import pytest

@pytest.mark.parametrize("added", [0, 1])
def test_loaded(added, load_kernel, gpu_benchmark):
    kernel = load_kernel("kernels/twice/twice.cu", "twice", ADDED=added)
    x, out = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    gpu_benchmark.expect(lambda out, x, n: 2 * x)
    gpu_benchmark.pedantic(kernel, ((2,), (32,), (out, x, x.size)), rounds=9)

def test_out_of_bounds(load_kernel, gpu_benchmark):
    x, out = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    gpu_benchmark(load_kernel("kernels/twice/twice.cu", "twice"), (3,), (32,), (out, x, np.int32(65)))

def test_no_entry(load_kernel, gpu_benchmark):
    gpu_benchmark(load_kernel("kernels/twice/twice.cu", "twise"), (3,), (32,), ())

def test_resources(load_kernel):
    kernel = load_kernel("kernels/twice/twice.cu", "twice")
    assert kernel.attributes["num_regs"] > 0
    assert kernel.max_threads_per_block == 1024
"""
IDS = ["twice.twice-100-32", "twice.twice-100-64"]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    root = tmp_path_factory.mktemp("project")
    for name, text in {
        "pyproject.toml": SETTINGS,
        "kernels/twice/twice.cu": KERNEL,
        "kernels/twice/family.py": FAMILY,
        "suite/test_twice.py": SUITE,
        "own/test_by_itself.py": BY_ITSELF,
        "wrong/test_name.py": SUITE.replace('"twice"', '"twise"'),
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture(scope="module")
def saved(project):
    """The file of a run of the suite."""
    done = plain_pytest(project, "suite", "-m", "gate", "--benchmark-json=saved.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    return project / "saved.json"


def test_cases_are_tests_by_their_ids_and_axes(saved):
    run = json.loads(saved.read_text())
    assert [each["param"] for each in run["benchmarks"]] == IDS
    assert [each["fullname"] for each in run["benchmarks"]] == [f"peakgate::test_kernel[{case}]" for case in IDS]
    assert run["benchmarks"][0]["params"] == {"stage": "twice", "size": "100", "block": "32", "variant": ""}
    assert run["peakgate"]["verdicts"] == {"NO_FLOOR": 2}
    assert run["peakgate"]["whole"] is False


@pytest.mark.parametrize(("factor", "code"), [(1e-3, 1), (1e3, 0)] if gpu_count() else [(1e3, 0)])
def test_a_saved_run_is_compared_and_a_slower_one_fails_on_a_gpu(project, saved, factor, code):
    run = json.loads(saved.read_text())
    for benchmark in run["benchmarks"]:
        benchmark["name"] = f"test_kernel[{benchmark['param']}]"  # as in runs of `peakgate bench`
        benchmark["stats"]["median"] *= factor
    (project / "changed.json").write_text(json.dumps(run))
    fail, by = "--benchmark-compare-fail=median:1%", "--benchmark-group-by=param:block"
    judged = [fail] if gpu_count() else []
    done = plain_pytest(project, "suite", "--benchmark-compare=changed.json", by, *judged)
    assert done.returncode == (code if judged else 0), done.stdout + done.stderr
    assert "benchmark 'block=32'" in done.stdout
    assert "machine_info is different" not in done.stdout + done.stderr
    if not judged:
        refused = plain_pytest(project, "suite", "--benchmark-compare=changed.json", fail)
        assert f"[{Code.EMULATED}]" in refused.stdout + refused.stderr


@pytest.mark.parametrize(
    ("option", "code"),
    [
        ("--peakgate-device=gpx", Code.OPTION),
        ("--peakgate-cases=nowhere", Code.UNREADABLE),
        ("--peakgate-baselines-from=nowhere", Code.COMMIT),
    ],
)
def test_a_mistake_in_an_option_is_one_line_for_all_tests(project, option, code):
    done = plain_pytest(project, "suite", "own", option)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert (done.stdout + done.stderr).count(f"[{code}]") == 1, done.stdout + done.stderr
    assert "--device" not in done.stdout + done.stderr  # which pytest does not have
    assert "Traceback" not in done.stdout + done.stderr


def test_tests_without_a_parameter_are_a_group_of_their_own(project):
    done = plain_pytest(project, "suite", "own", "-k", "twice or loaded", "--benchmark-group-by=param:block")
    assert "1 failed, 3 passed" in done.stdout, done.stdout + done.stderr  # as ADDED is wrong
    assert [f"benchmark 'block={block}'" in done.stdout for block in ("32", "64", "-")] == [True] * 3


def test_a_skipped_case_is_no_unfinished_one(project):
    (project / "later").mkdir()
    marked = SUITE.replace("@cases", '@pytest.mark.skip("later")\n@cases')
    (project / "later" / "test_later.py").write_text(f"import pytest\n{marked}")
    done = plain_pytest(project, "later", "own", "-k", "later or loaded", "--benchmark-json=later.json")
    found = json.loads((project / "later.json").read_text())["peakgate"]
    assert (found["partial"], found["skipped"]) == (None, dict.fromkeys(IDS, "later")), done.stdout


def test_disabled_benchmarks_are_proven_alone(project):
    done = plain_pytest(
        project, "suite", "own", "--benchmark-disable", "-k", "twice or loaded", "--benchmark-max-time=9"
    )
    assert (done.returncode, "1 failed, 3 passed" in done.stdout) == (1, True), done.stdout
    assert "WRONG" in done.stdout
    assert "--benchmark-max-time" in done.stdout


def test_in_several_processes_of_torchrun_only_pytest_measures(project, monkeypatch):
    for name, value in variables(0, 2, 29500).items():
        monkeypatch.setitem(runs.ENVIRONMENT, name, value)
    assert plain_pytest(project, "suite", "--collect-only", "own").returncode == 0
    done = runs.run(project / "out", project=project)
    assert (done.returncode, f"[{Code.OPTION}]" in done.stderr) == (2, True), done.stdout + done.stderr
    monkeypatch.setitem(runs.ENVIRONMENT, "LOCAL_WORLD_SIZE", "1")
    done = plain_pytest(project, "own")
    assert (done.returncode, f"[{Code.OPTION}]" in done.stdout + done.stderr) == (4, True), done.stdout


def test_skipped_benchmarks_are_skipped(project):
    assert "2 skipped" in plain_pytest(project, "suite", "--benchmark-skip").stdout


def test_a_case_of_two_tests_is_refused(project):
    (project / "twice").mkdir()
    for name in ("one", "two"):
        (project / "twice" / f"test_{name}.py").write_text(SUITE)
    done = plain_pytest(project, "twice")
    assert done.returncode not in (0, 1)
    assert f"has the case {IDS[0]} too" in done.stdout + done.stderr
    assert plain_pytest(project, "twice", "-k", "test_one").returncode == 0


HIDING = """
import pytest
from peakgate.suite import cases

@cases("swallows")
def test_swallows(case, gpu_benchmark):
    try:
        gpu_benchmark(case)
    except BaseException:
        pass

@cases("never_calls")
def test_never_calls(case, gpu_benchmark):
    pass

@cases("takes_no_fixture")
def test_takes_no_fixture(case):
    pass

@cases("fails_after_it")
def test_fails_after_it(case, gpu_benchmark):
    gpu_benchmark(case)
    assert case is None
"""
HALF = """
import numpy as np

def test_half(load_kernel, gpu_benchmark):
    kernel = load_kernel("kernels/twice/twice.cu", "twice")
    x = np.arange(64, dtype="float32")
    gpu_benchmark.expect(lambda out, x, n: 2 * x)
    gpu_benchmark(kernel, (1,), (32,), (2 * x, x, np.int32(32)))  # the other half is there before
"""
HIDERS = ["swallows", "never_calls", "takes_no_fixture", "fails_after_it"]


def test_a_test_that_hides_its_verdict_fails(project):
    for name in HIDERS:
        (folder := project / "kernels" / name).mkdir()
        factor = "3.0f" if name == "swallows" else "2.0f"
        (folder / f"{name}.cu").write_text(KERNEL.replace("2.0f", factor).replace("twice(", f"{name}("))
        (folder / "family.py").write_text(FAMILY.replace("twice.cu", f"{name}.cu"))
    (project / "hiding").mkdir()
    (project / "hiding" / "test_hiding.py").write_text(HIDING)
    (project / "hiding" / "test_half.py").write_text(HALF)
    (project / "hidden.json").write_text("an older run")
    done = plain_pytest(project, "hiding", "-rfE", "--benchmark-json=hidden.json")
    assert done.returncode == 1, done.stdout
    assert " passed" not in done.stdout
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    assert all(any(f"::test_{name}" in line for line in failed) for name in (*HIDERS, "half")), failed
    if (project / "hidden.json").exists():
        assert json.loads((project / "hidden.json").read_text())["benchmarks"] == []


def test_a_test_with_two_marks_of_cases_is_refused(project):
    (project / "twofold").mkdir()
    (project / "twofold" / "test_twofold.py").write_text(SUITE.replace("@cases", '@cases("twice")\n@cases'))
    done = plain_pytest(project, "twofold")
    assert (done.returncode, "has @cases twice" in done.stdout) == (2, True)


def test_tests_side_by_side_are_refused_in_one_line(project):
    done = plain_pytest(project, "suite", "-n", "1")
    assert done.returncode == 1
    assert "pytest-xdist" in done.stdout
    assert "Warning" not in done.stdout


def test_a_family_that_is_not_there_costs_its_file(project):
    done = plain_pytest(project, "suite", "wrong", "--continue-on-collection-errors")
    assert done.returncode == 1
    assert "'twice'" in done.stdout
    assert "2 passed, 1 error" in done.stdout


def test_a_kernel_by_itself_is_proven_in_the_emulator(project):
    done = plain_pytest(project, "own")
    assert (done.returncode, "3 failed, 2 passed" in done.stdout) == (1, True), done.stdout
    assert "2 WRONG" in done.stdout
    assert "1 INCONCLUSIVE" in done.stdout  # a mistake is no wrong kernel
    assert "Error" not in done.stdout
    assert "twice.cu:7" in done.stdout  # where it reads out of bounds
