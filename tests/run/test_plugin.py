"""The plug-in in a stranger's test run: there, and inert."""

from functools import partial

import pytest
from runs import plain_pytest

from peakgate.base.errors import Code

CONFTEST = """
import pytest

def pytest_addoption(parser):
    for name in ("--device", "--tier", "--out", "--cases"):
        parser.addoption(name, default="of their own")

@pytest.fixture
def session():
    return "their session"

@pytest.fixture
def case(request):
    return request.config.getoption("--device")
"""
TESTS = """
import sys

import pytest

def test_their_fixtures_are_theirs(session, case):
    assert (session, case) == ("their session", "tpu")

@pytest.mark.gpu
def test_their_marker_is_theirs():
    pass

def test_nothing_of_a_run_is_imported():
    ours = {name for name in sys.modules if name.partition(".")[0] in ("peakgate", "cupy", "rich", "numpy")}
    assert ours <= {"peakgate", "peakgate.run", "peakgate.run.plugin", "peakgate.run.request"}
"""


@pytest.fixture
def strangers(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_theirs.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    gpu: theirs\nfilterwarnings = error\n")

    return partial(plain_pytest, tmp_path, "--strict-markers")


def test_a_strangers_options_fixtures_and_markers_stay_theirs(strangers):
    done = strangers("--device", "tpu", "--tier=most", "--out", "x", "--cases", "y")
    assert "3 passed" in done.stdout, done.stdout + done.stderr


def test_every_name_that_the_plugin_adds_carries_peakgate(strangers):
    own, without = (strangers(*arguments, "--help").stdout for arguments in ((), ("-p", "no:peakgate.run.plugin")))
    added = set(own.split()) - set(without.split())
    assert {word for word in added if word.startswith("--")}
    assert all("peakgate" in word for word in added if word.startswith("--"))


def test_the_plugin_works_without_pytest_benchmark(strangers):
    assert "3 passed" in strangers("--device", "tpu", "-p", "no:benchmark").stdout


def test_without_pytest_benchmark_one_line_says_so(tmp_path):
    (tmp_path / "test_theirs.py").write_text("def test_x(gpu_benchmark):\n    gpu_benchmark(abs, 1)\n")
    done = plain_pytest(tmp_path, "-p", "no:benchmark")
    assert (done.returncode, done.stderr.count(f"[{Code.OPTION}]")) == (4, 1)
    assert "INTERNALERROR" not in done.stdout + done.stderr


def test_a_kernel_of_another_project_is_refused_and_none_of_its_name_measured(tmp_path):
    test = "def test_x(load_kernel, gpu_benchmark):\n    load_kernel('k.cu', 'copy')\n"
    for name in ("one", "other"):
        (folder := tmp_path / name).mkdir()
        (folder / "peakgate.toml").touch()
        (folder / "k.cu").write_text("__global__ void copy(float*) {}")
        (folder / "test_k.py").write_text(test)
    done = plain_pytest(tmp_path / "one", "../other/test_k.py")
    assert (done.returncode, f"[{Code.BENCHMARK_TEST}]" in done.stdout) == (1, True), done.stdout
