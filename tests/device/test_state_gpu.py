"""Declared states on a GPU: shown by the run that times them, or INCONCLUSIVE."""

import json
import os
import subprocess
import sys

import pytest
from emulating import CUDA

pytestmark = pytest.mark.gpu

FAMILY = """
from peakgate.family import In, Out, Value, kernel

FAMILY = kernel(
    "scale.cu",
    arguments=lambda n: [Out(n), In(n), Value(n)],
    grid=lambda n: -(-n // 256),
    block=256,
    bytes=lambda n: 8 * n,
    reference=lambda xp, x: 2 * x,
    sizes={"fits": 1 << 21, "large": 1 << 26},
    state=("cold", "warm", "graph"),
)
"""


def test_a_kernel_is_timed_in_each_state_that_it_can_be_in(project, tmp_path):
    project("scale", FAMILY, scale=(CUDA / "scale.cu").read_text())
    command = [sys.executable, "-m", "peakgate", "bench", "--device=gpu", f"--benchmark-json={tmp_path / 'run.json'}"]
    done = subprocess.run(command, env=os.environ | {"NO_COLOR": "1"}, capture_output=True, text=True, check=False)
    sys.stdout.write(done.stdout + done.stderr)
    report = json.loads((tmp_path / ".peakgate" / "out" / "bench.json").read_text())
    verdicts = {each["case"].partition(".")[2]: (each["verdict"], each["reason"]) for each in report["cases"]}
    saved = [each["extra_info"] for each in json.loads((tmp_path / "run.json").read_text())["benchmarks"]]
    entries = {each["case"].partition(".")[2]: each for each in saved}
    undecided = {case for case, (verdict, _) in verdicts.items() if verdict == "INCONCLUSIVE"}
    assert undecided == {"scale-large-warm"}
    assert "warm not shown" in verdicts["scale-large-warm"][1]
    assert {verdict for case, (verdict, _) in verdicts.items() if case not in undecided} == {"NO_FLOOR"}
    cold, warm, graph = (entries[f"scale-fits{state}"] for state in ("", "-warm", "-graph"))
    assert warm["time_us"] < 0.95 * cold["time_us"]
    assert graph["time_us"] < 0.95 * cold["time_us"]
    assert abs(warm["first_us"] / cold["time_us"] - 1) < 0.1
    assert warm["footprint_bytes"] == 2 * 4 * (1 << 21)
    assert (cold["first_us"], warm["peak_fraction"]) == (None, None)
