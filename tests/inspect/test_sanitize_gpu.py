"""Injected defects, each detected by its tool on a real GPU."""

import json
import os
import shutil
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(shutil.which("compute-sanitizer") is None, reason="compute-sanitizer is not on PATH"),
]

DEFECTS = {
    "memcheck": ("past_end", "out[i + 1] = in[i];"),
    "racecheck": ("racing", "__shared__ float tile[256]; tile[i] = in[i]; out[i] = tile[255 - i];"),
    "initcheck": ("unwritten", "out[i] += in[i];"),
    "synccheck": ("excluded", "__syncwarp(1u); out[i] = in[i];"),
}
FAMILY = """
from pathlib import Path
from peakgate.case import Buffer, Case, Family, Launch, Role, Stage, Work

STAGES = tuple(Stage(path.stem, "wrong on purpose", path) for path in sorted(Path(__file__).parent.glob("*.cu")))

def cases(scale):
    for stage in STAGES:
        arguments = (Buffer(Role.OUT, (256,)), Buffer(Role.IN, (256,)))
        launch = Launch((1, 1, 1), (256, 1, 1))
        yield Case("flawed", stage, launch, arguments, Work(2048), lambda xp, inputs: inputs, size="256")

FAMILY = Family("flawed", "injected defects", STAGES, cases, lambda case: iter(()))
"""


def sanitize(tmp_path, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "peakgate", "inspect", "sanitize", "-k", "flawed.", f"--out={tmp_path}", *arguments],
        cwd=tmp_path,
        env=os.environ | {"PEAKGATE_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_tool_finds_the_defect_injected_for_it_and_no_other(tmp_path):
    (tmp_path / "peakgate.toml").write_text("")
    flawed = tmp_path / "kernels" / "flawed"
    flawed.mkdir(parents=True)
    (flawed / "family.py").write_text(FAMILY)
    for name, body in DEFECTS.values():
        entry = f'extern "C" __global__ void {name}(float* out, const float* in)'
        (flawed / f"{name}.cu").write_text(f"{entry} {{ int i = threadIdx.x; {body} }}\n")
    done = sanitize(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    verdict = json.loads((tmp_path / "sanitize.json").read_text())
    found = {entry["tool"]: {defect["kernel"] for defect in entry["defects"]} for entry in verdict["tools"]}
    assert found == {name: {f"flawed.{kernel}"} for name, (kernel, _) in DEFECTS.items()}
    assert [entry["unfinished"] for entry in verdict["tools"]] == [None] * 4
