"""Frameworks, tuners and energy on a GPU: the benchmark tests in ``frameworks``, as far as their packages are there."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

TESTS = Path(__file__).parent / "frameworks"
PACKAGES = {"jax": "jax", "numba": "numba", "triton": "triton", "torch": "torch", "cuda_core": "cuda.core"}
QUIET = {"NO_COLOR": "1", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


def entries(folder, name, *arguments):
    """The cases of a file of benchmark tests, all of which must be right; by the name of the test."""
    (folder / "bench.py").write_text((TESTS / f"bench_{name}.py").read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "peakgate.toml").write_text('benchmarks = ["bench.py"]\n')
    command = [sys.executable, "-m", "peakgate", "bench", "--device=gpu", "--benchmark-json=run.json", *arguments]
    done = subprocess.run(command, cwd=folder, env=os.environ | QUIET, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    saved = json.loads((folder / "run.json").read_text())["benchmarks"]
    found = {each["extra_info"]["case"].partition(".")[2]: each["extra_info"] for each in saved}
    assert {each["verdict"] for each in found.values()} == {"NO_FLOOR"}
    return found


@pytest.mark.parametrize("name", PACKAGES)
def test_callables_of_a_framework_are_right_on_fresh_inputs(tmp_path, name):
    pytest.importorskip(PACKAGES[name], exc_type=ImportError)
    for case, entry in entries(tmp_path, name).items():
        assert "on fresh inputs" in entry["sampling"], case
        assert "not checked" not in entry["sampling"], case
        assert entry["relative_error"] is not None, case


def test_the_configuration_of_an_autotuned_kernel_is_in_the_run_file_with_its_code(tmp_path):
    pytest.importorskip("triton")
    (entry,) = entries(tmp_path, "tuners").values()
    (choice,) = entry["tuned"]
    assert choice["kernel"] == "scale_kernel"
    assert "BLOCK" in choice["configuration"]
    assert choice["code"]


def test_energy_is_power_over_time_with_the_spread_of_loops(tmp_path):
    pytest.importorskip("torch")
    for case, entry in entries(tmp_path, "energy", "--energy").items():
        found = entry["energy"]
        assert 0 < found["least_joules"] <= found["joules"] <= found["most_joules"] < 1.2 * found["least_joules"], case
        assert found["idle_w"] < found["power_w"], case
        # Launches that follow each other write back what those before left in the L2, and are bound by power.
        assert 0.8 * entry["time_us"] < found["launch_us"] < 2 * entry["time_us"], case
