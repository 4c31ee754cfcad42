"""Frameworks, tuners, energy and states on a GPU: the tests in ``lab/frameworks``, as far as they run there."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

TESTS = Path(__file__).parents[2] / "lab" / "frameworks" / "tests"
PACKAGES = {"jax": "jax", "numba": "numba", "triton": "triton", "torch": "torch", "cuda_core": "cuda.core"}
QUIET = {"NO_COLOR": "1", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


def measured(folder, name, *arguments):
    """Exit code of a run of a file of benchmark tests, verdicts and reasons, and what the run file has; by test."""
    (folder / "bench.py").write_text((TESTS / f"bench_{name}.py").read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "peakgate.toml").write_text('benchmarks = ["bench.py"]\n')
    command = [sys.executable, "-m", "peakgate", "bench", "--device=gpu", "--benchmark-json=run.json", *arguments]
    done = subprocess.run(command, cwd=folder, env=os.environ | QUIET, capture_output=True, text=True, check=False)
    sys.stdout.write(done.stdout + done.stderr)
    judged = json.loads((folder / ".peakgate" / "out" / "bench.json").read_text())["cases"]
    saved = [each["extra_info"] for each in json.loads((folder / "run.json").read_text())["benchmarks"]]
    verdicts = {each["case"].partition(".")[2]: (each["verdict"], each["reason"]) for each in judged}
    return done.returncode, verdicts, {each["case"].partition(".")[2]: each for each in saved}


def entries(folder, name, *arguments):
    """What the run file has of a file of benchmark tests, all of which must be right; by the name of the test."""
    code, verdicts, found = measured(folder, name, *arguments)
    assert (code, {verdict for verdict, _ in verdicts.values()}) == (0, {"NO_FLOOR"})
    return found


@pytest.mark.parametrize("name", PACKAGES)
def test_callables_of_a_framework_are_right_on_fresh_inputs(tmp_path, name):
    pytest.importorskip(PACKAGES[name], exc_type=ImportError)
    for case, entry in entries(tmp_path, name).items():
        assert "on fresh inputs" in entry["sampling"], case
        assert "not checked" not in entry["sampling"], case
        assert entry["relative_error"] is not None, case


def test_the_configuration_of_an_autotuned_kernel_is_in_the_run_file(tmp_path):
    pytest.importorskip("triton")
    (entry,) = entries(tmp_path, "tuners").values()
    (choice,) = entry["tuned"]
    assert choice["kernel"] == "scale_kernel"
    assert "BLOCK" in choice["configuration"]


def test_energy_is_power_over_time_with_the_spread_of_loops(tmp_path):
    pytest.importorskip("torch")
    for case, entry in entries(tmp_path, "energy", "--energy").items():
        found = entry["energy"]
        assert 0 < found["least_joules"] <= found["joules"] <= found["most_joules"] < 1.2 * found["least_joules"], case
        assert found["idle_w"] < found["power_w"], case
        # Launches that follow each other write back what those before left in the L2, and are bound by power.
        assert 0.8 * entry["time_us"] < found["launch_us"] < 2 * entry["time_us"], case


def test_callables_are_timed_in_each_state_that_they_can_be_in(tmp_path):
    pytest.importorskip("torch")
    _, verdicts, found = measured(tmp_path, "states")
    undecided = {case for case, (verdict, _) in verdicts.items() if verdict == "INCONCLUSIVE"}
    # The arrays of bench_copy-16 take more than half of the L2: how much of them it keeps differs between GPUs.
    assert undecided - {"bench_copy-16-warm"} == {
        "bench_copy-256-warm",
        "bench_waits_for_the_host-graph",
        "bench_in_place-graph",
        "bench_on_a_stream_of_its_own-graph",
    }
    assert all("not shown" in verdicts[case][1] for case in undecided)
    assert {verdict for case, (verdict, _) in verdicts.items() if case not in undecided} == {"NO_FLOOR"}
    for name in ("bench_copy-1", "bench_copy-4", "bench_cupy_allocates", "bench_torch_softmax"):
        assert found[f"{name}-warm"]["time_us"] < found[name]["time_us"], name
        assert found[f"{name}-graph"]["time_us"] < found[name]["time_us"], name
