"""A mistake in a benchmark test leaves its case undecided in one line: only a callable that ran is wrong."""

import json

import pytest
from peakgate.core import config
from peakgate.core.errors import Code

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
        done = bench(benchmarks(text))
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
        assert "peakgate.core" not in reason, (name, reason)


@pytest.mark.parametrize("name", ["tolerance", "atol", "rtol"])
def test_a_tolerance_that_is_no_finite_number_from_0_up_leaves_a_wrong_callable_undecided(name, judged):
    bad = ["-1", "np.inf", "np.nan", "True", "10**400", "'x'", "np.ones(3)", "lambda x: 1"]
    code, found = judged({f"t{at}": (f"{name}={each}, reference=double", "wrong, x") for at, each in enumerate(bad)})
    assert (code, len(found)) == (3, len(bad))
    undecided(found, Code.BENCHMARK_TEST)
