"""A mistake in a benchmark test leaves its case undecided in one line: only a callable that ran is wrong."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
from expecting import refuses

from peakgate.base import config
from peakgate.base.errors import Code
from peakgate.callables import settings
from peakgate.device.driver import gpu_count

HEAD = """
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
import numpy as np
import pytest

x = np.arange(4.0)
double = lambda x: 2 * x
wrong = lambda x: 9 * x
mark = pytest.mark.peakgate
"""


@pytest.fixture
def judged(benchmarks, bench):
    """The exit code of a run of benchmark tests, each by its name, and of each the verdict and the reason."""

    def run(tests, functions=""):
        """``tests`` has the settings, the callable and its arguments of each test."""
        text = HEAD + functions
        for name, (marks, call) in tests.items():
            text += f"\n@mark({marks})\ndef bench_{name}(gpu_benchmark):\n    gpu_benchmark({call})\n"
        done = bench(benchmarks(text), "--benchmark-json=run.json")
        assert "Traceback" not in done.stdout + done.stderr
        assert "defect" not in done.stderr, done.stderr
        cases = json.loads((config.current().out / "bench.json").read_text())["cases"]
        return done.returncode, {each["case"].split("bench_")[-1]: (each["verdict"], each["reason"]) for each in cases}

    return run


def undecided(found, code):
    """Assert that every case is undecided with this code, in one line without the name of a class of ours."""
    for name, (verdict, reason) in found.items():
        assert verdict == "INCONCLUSIVE", (name, verdict, reason)
        assert reason.endswith(f"[{code}]"), (name, reason)
        assert "\n" not in reason
        assert "peakgate.base" not in reason, (name, reason)


def test_a_tolerance_that_is_no_finite_number_from_0_up_leaves_a_wrong_callable_undecided(judged):
    values = ["-1", "np.inf", "np.nan", "True", "10**400", "'x'", "np.ones(3)", "lambda x: 1"]
    bad = [f"{name}={each}" for name in ("tolerance", "atol", "rtol") for each in values]
    bad += ["tolerance=9, atol=9", "tolerance=0, rtol=0"]
    code, found = judged({f"t{at}": (f"{each}, reference=double", "wrong, x") for at, each in enumerate(bad)})
    assert (code, len(found)) == (3, len(bad))
    undecided(found, Code.BENCHMARK_TEST)


def test_a_reference_that_fails_or_gives_no_array_leaves_its_callable_undecided(judged):
    bad = ["lambda x: 1 / 0", "lambda: 1", "lambda x: None", "lambda x: 'text'", "'text'", "lambda x: x.nothing"]
    bad += ["lambda x: (x, None)", "lambda x: exit()", "lambda x: np.ma.masked_array(x)", "lambda x: x.astype('S4')"]
    code, found = judged({f"t{at}": (f"reference={each}", "wrong, x") for at, each in enumerate(bad)})
    assert (code, len(found)) == (3, len(bad))
    undecided(found, Code.REFERENCE)
    assert all("reference" in reason for _, reason in found.values())


def test_settings_that_fail_or_are_of_a_wrong_type_leave_their_callable_undecided(judged):
    bad = ["bytes=lambda: 1", "bytes=lambda x: 1 / 0", "bytes='x'", "bytes=10**400", "bytes=10**5000", "flops=x",
           "bytes=lambda x: 'x'", "flops=-1", "outputs=3", "outputs='x'", "outputs=lambda: 1", "outputs=lambda x: None",
           "outputs=lambda x: x[9]", "tuned=lambda: 1", "tuned=3", "peak_tflops='x'", "peak_tflops=-1",
           "tolerance=10**5000", "math='half'"]  # fmt: skip
    code, found = judged({f"t{at}": (f"{each}, reference=double", "double, x") for at, each in enumerate(bad)})
    assert (code, len(found)) == (3, len(bad))
    undecided(found, Code.BENCHMARK_TEST)


def test_a_result_that_cannot_be_compared_is_undecided_and_its_type_is_named(judged):
    bad = {
        "x.astype('S4')": "S4", "x.astype('U4')": "U4", "x.astype('V4')": "V4", "x.astype(object)": "object",
        "np.zeros(4, 'i4,f4')": "f1", "x.astype('datetime64[s]')": "datetime64", "np.ma.masked_array(x)": "MaskedArray",
        "(x, None)": "None", "'text'": "str", "b'text'": "bytes", "Decimal(1)": "Decimal", "Fraction(1)": "Fraction",
        "Own(x)": "Own", "np.datetime64(1, 's')": "datetime64", "np.str_('x')": "str_", "10**400": "integer",
    }  # fmt: skip
    own = "@dataclass\nclass Own:\n    x: object\n"
    tests = {f"t{at}": ("reference=lambda x: x", f"lambda x: {each}, x") for at, each in enumerate(bad)}
    code, found = judged(tests, own)
    assert (code, len(found)) == (3, len(bad))
    undecided(found, Code.TYPE)
    for at, (each, kind) in enumerate(bad.items()):
        reason = found[f"t{at}"][1]
        assert "callable" in reason
        assert kind in reason, (each, reason)


def test_an_array_of_objects_among_the_arguments_is_no_mistake(judged):
    code, found = judged({"t": ("reference=lambda x, o: 2 * x", "lambda x, o: 2 * x, x, x.astype(object)")})
    assert (code, found["t"][0]) == (0, "NO_FLOOR"), found


def test_a_callable_that_fails_is_wrong_and_a_lazy_result_is(judged):
    lazy = "class Lazy(np.ndarray):\n    pass\n"
    code, found = judged(
        {
            "fails": ("reference=double", "lambda x: 1 / 0, x"),
            "lazy": ("reference=double", "lambda x: double(x).view(Lazy), x"),
            "wrong": ("reference=double", "wrong, x"),
        },
        lazy,
    )
    assert (code, {verdict for verdict, _ in found.values()}) == (1, {"WRONG", "INCONCLUSIVE"})
    assert "lazily" in found["lazy"][1]


def test_without_a_gpu_a_reference_that_needs_one_skips_its_test(judged):
    if gpu_count():
        pytest.skip("a GPU is here")
    stopped = "class NoGpu(RuntimeError):\n    __module__ = 'torch'\ndef stop(x):\n    raise NoGpu('no driver')\n"
    code, found = judged({"a": ("reference=stop", "double, x"), "b": ("reference=double", "double, x")}, stopped)
    assert (code, found.keys()) == (0, {"b"})


def test_a_skip_without_a_gpu_is_reported_at_its_test(benchmarks, bench):
    if gpu_count():
        pytest.skip("a GPU is here")
    no_gpu = "class NoGpu(RuntimeError):\n    __module__ = 'torch'\n"
    test = f"{no_gpu}\n\ndef bench_a(gpu_benchmark):\n    raise NoGpu('no driver')\n"
    assert "bench_ops.py:5: " in bench(benchmarks(test)).stdout


def test_other_errors_of_a_framework_skip_no_test(judged):
    functions = """
import types
torch = types.ModuleType("torch")
exec('''
def mismatch(x): raise RuntimeError("shapes cannot be multiplied")
def assert_close(x, y): assert (x == y).all(), "Tensor-likes are not close"
''', vars(torch))
"""
    tests = {
        "raises": ("reference=double", "torch.mismatch, x"),
        "asserts": ("", "double, x); torch.assert_close(double(x), wrong(x)"),
    }
    code, found = judged(tests, functions)
    assert (code, {name: verdict for name, (verdict, _) in found.items()}) == (
        1,
        {"raises": "INCONCLUSIVE", "asserts": "WRONG"},
    )


def test_a_fixture_that_is_called_wrongly_leaves_its_test_undecided(judged):
    twice = "double, x); gpu_benchmark(double, x"
    wrong = {"twice": ("reference=double", twice), "number": ("", "3, x"), "nothing": ("", "None")}
    code, found = judged(wrong, "@mark()\nasync def bench_waits(gpu_benchmark):\n    gpu_benchmark(double, x)\n")
    assert (code, len(found)) == (3, 4)
    undecided(found, Code.BENCHMARK_TEST)
    saved = json.loads((config.current().root / "run.json").read_text())
    assert saved["benchmarks"] == []


@pytest.mark.parametrize("mark", ["state=[]", "gpus=[1, 1]", "gpus=None"])
def test_a_setting_that_is_none_is_undecided_in_one_line(benchmarks, bench, mark):
    text = f"{HEAD}\n@mark({mark})\ndef bench_it(gpu_benchmark):\n    gpu_benchmark(double, x)\n"
    done = bench(benchmarks(text))
    assert done.returncode == 3, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert "INTERNALERROR" not in done.stdout + done.stderr
    assert f"[{Code.BENCHMARK_TEST}]" in done.stdout
    assert mark.partition("=")[0] in done.stdout


def marked(*marks, **attributes):
    """A test that has these markers."""
    closest = {"get_closest_marker": lambda _: marks[0], "own_markers": marks}
    return SimpleNamespace(nodeid="bench_ops.py::bench_it", **closest, **attributes)


@pytest.mark.parametrize(
    "given",
    [
        *({"state": each} for each in ([], ["cold", "cold"], "hot", ["warm", 3], None)),
        *({"gpus": each} for each in (0, [], [1, 1], True, None, [1, "1"], 1.0)),
        *({"metric": each} for each in ([], ["gpu", "gpu"], "host", ["gpu", 1], None)),
    ],
    ids=str,
)
def test_a_state_metric_or_number_of_gpus_that_is_none_is_refused(given):
    mark = pytest.mark.peakgate(**given).mark
    with refuses(Code.BENCHMARK_TEST):
        settings.given_by(marked(mark))


def test_several_markers_of_one_test_are_refused():
    mark = pytest.mark.peakgate(bytes=8).mark
    assert settings.given_by(marked(mark)).bytes == 8
    with refuses(Code.BENCHMARK_TEST):
        settings.given_by(marked(mark, mark))


@pytest.mark.parametrize(("state", "gpus"), [("warm", 0), ("graph", 1), ("cold", 2)])
def test_a_launch_has_no_state_and_one_gpu(state, gpus):
    mark = pytest.mark.peakgate(state=state, gpus=gpus or 1, metric="launch").mark
    params = {"gpu_benchmark": (state, gpus, "launch")}
    with refuses(Code.BENCHMARK_TEST):
        settings.given_by(marked(mark, callspec=SimpleNamespace(params=params)))


def test_what_the_fixture_does_not_have_leaves_its_test_undecided(judged):
    calls = [
        "work(byte=8)(double, x)",
        "expect(double, tol=1)(wrong, x)",
        "expects(double)",
    ]
    tests = [f"def bench_t{at}(gpu_benchmark):\n    gpu_benchmark.{call}\n" for at, call in enumerate(calls)]
    tests.append("def bench_both(gpu_benchmark, benchmark):\n    gpu_benchmark(wrong, x)\n    benchmark(double, x)\n")
    code, found = judged({}, "\n".join(tests))
    assert (code, len(found)) == (3, len(tests))
    undecided(found, Code.BENCHMARK_TEST)


def test_deprecations_and_traces_of_frameworks_are_not_printed(benchmarks, bench):
    test = """
import logging
import warnings

def bench_wrong(gpu_benchmark):
    framework = logging.getLogger("framework")
    framework.setLevel(logging.DEBUG)
    framework.debug("a trace")
    warnings.warn("an old name", DeprecationWarning)
    warnings.warn("a doubt", UserWarning)
    gpu_benchmark.expect(lambda: 3.0)(lambda: 2.0)
"""
    done = bench(benchmarks(test))
    assert done.returncode == 1
    assert "a trace" not in done.stdout
    assert "an old name" not in done.stdout
    assert "a doubt" in done.stdout


def test_a_misspelt_setting_is_one_line_under_plain_pytest_too(benchmarks, bench):
    text = HEAD + "\n@mark(refrence=double)\ndef bench_it(gpu_benchmark): gpu_benchmark(double, x)\n"
    project = benchmarks(text + "\ndef bench_other(gpu_benchmark): gpu_benchmark(double, x)\n")
    command = [sys.executable, "-m", "pytest", "-q", "benchmarks", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stdout
    assert "KeyError" not in done.stdout
    assert (
        f"did you mean 'reference'?; expected one of {', '.join(settings.NAMES)} [{Code.BENCHMARK_TEST}]" in done.stdout
    )
    assert "1 passed, 1 error" in done.stdout.replace(", 1 warning", "")
    assert "not run, benchmarks/bench_ops.py::bench_it: " in bench(project, "-k", "bench").stdout
