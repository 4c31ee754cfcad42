"""A driver upgrade, from saved runs to the exit code.

The runs are real gate runs of one H200, five before and five after; what a test edits in them, the driver first, makes
them synthetic, and their GPU's name says so.
"""

from __future__ import annotations

import copy
import gzip
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from refusals import refusal
from synthetic_runs import save

from peakgate.base.errors import Code
from peakgate.cli import main

REAL = sorted((Path(__file__).parents[2] / "baselines" / "nvidia-h200" / "runs").glob("*-gate.json.gz"))
SESSIONS = 5
OLD, NEW = "580.159.04", "590.44.01"
CASE = "transpose.smem_pad-8192-32x8"
FAMILIES = ("transpose", "access")
IN_SECONDS = ("min", "max", "mean", "stddev", "median", "iqr", "q1", "q3", "ld15iqr", "hd15iqr", "total")
Captured = pytest.CaptureFixture[str]


@cache
def real(session: int) -> Mapping[str, Any]:
    """One of the runs, two families of it."""
    document: dict[str, Any] = json.loads(gzip.decompress(REAL[session].read_bytes()))
    kept = [each for each in document["benchmarks"] if each["extra_info"]["family"] in FAMILIES]
    return document | {"benchmarks": kept}


def session(number: int, driver: str, factor: float = 1.0, **gpu: Any) -> dict[str, Any]:
    """A real session under another driver, CASE slower by a factor; facts of the GPU are replaced."""
    document = copy.deepcopy(dict(real(number)))
    document["machine_info"]["gpu"] |= {"name": "NVIDIA H200 (synthetic)", "driver": driver, **gpu}
    for benchmark in document["benchmarks"]:
        extra = benchmark["extra_info"]
        own = factor if extra["case"] == CASE else 1.0
        for name in IN_SECONDS:
            benchmark["stats"][name] *= own
        rates = ("gbs", "tflops", "peak_fraction", "roof_fraction")
        extra |= {name: extra[name] / own for name in rates if extra[name] is not None}
        extra |= {"time_us": extra["time_us"] * own, "verdict": "PASS", "reason": "", "floor": 0.01}
    return document


class Runner:
    """The folder of a runner that was upgraded, and what comparing its drivers led to."""

    def __init__(self, folder: Path, factor: float = 1.0, **gpu: Any) -> None:
        self.folder = folder
        for number in range(SESSIONS):
            save(folder / "runs", f"synthetic-before-{number}", session(number, OLD))
            save(folder / "runs", f"synthetic-after-{number}", session(SESSIONS + number, NEW, factor, **gpu))

    def compare(self, new: str = NEW) -> int:
        where = ("--runs", str(self.folder / "runs"), "--out", str(self.folder / "out"))
        return main(["compare", f"driver:{OLD}", f"driver:{new}", *where])

    @property
    def reported(self) -> dict[str, Any]:
        verdict: dict[str, Any] = json.loads((self.folder / "out" / "compare.json").read_text(encoding="utf-8"))
        return verdict


def test_an_upgrade_that_changed_nothing_passes(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    assert runner.compare() == 0
    assert runner.reported["counts"] == {"SAME": len(real(0)["benchmarks"])}
    assert runner.reported["suite_wide"]["verdict"] == "SAME"


def test_a_case_that_an_upgrade_slowed_by_2_percent_with_the_same_code_is_the_environments(tmp_path: Path) -> None:
    runner = Runner(tmp_path, 1.02)
    assert runner.compare() == 1
    assert runner.reported["counts"] == {"SLOWER": 1, "SAME": len(real(0)["benchmarks"]) - 1}
    worst = runner.reported["rows"][0]
    assert (worst["case"], worst["base_sessions"], worst["new_sessions"]) == (CASE, SESSIONS, SESSIONS)
    assert worst["reason"].endswith("same code: environment")


ELSE: Mapping[str, tuple[str, Any, str, str]] = {
    "VBIOS": ("vbios", "96.00.A5.00.99", "96.00.A5.00.1A", "96.00.A5.00.99"),
    "SM clock, most (MHz)": ("sm_clock_max_mhz", 1755, "1980", "1755"),
    "SM clock, applied (MHz)": ("sm_clock_mhz", 1755, "1980", "1755"),
    "memory clock, most (MHz)": ("memory_clock_max_mhz", 2619.0, "3201.0", "2619.0"),
    "power limit (W)": ("power_limit_w", 600.0, "700.0", "600.0"),
    "NVRTC": ("nvrtc", "13.1", "13.0", "13.1"),
    "CuPy": ("cupy", "14.3.0", "14.2.0", "14.3.0"),
    "CUDA driver": ("cuda_driver", "13.1", "13.0", "13.1"),
    "ECC": ("ecc", False, "on", "off"),
}
"""What the report calls it: its name in a run, what the test makes of it, and what the report says of both sides."""


def test_what_else_the_upgrade_changed_stands_in_every_format(tmp_path: Path, capsys: Captured) -> None:
    runner = Runner(tmp_path, **{name: value for name, value, _, _ in ELSE.values()})
    assert runner.compare() == 0
    shown = capsys.readouterr().out
    page = (tmp_path / "out" / "compare.md").read_text(encoding="utf-8")
    listed = {fact["name"]: (fact["base"], fact["new"]) for fact in runner.reported["differences"]}
    assert listed == {"driver": (OLD, NEW)} | {name: (old, new) for name, (_, _, old, new) in ELSE.items()}
    for name, (old, new) in listed.items():
        assert re.search(f"^  {re.escape(name)} +{re.escape(old)} +{re.escape(new)}$", shown, re.MULTILINE)
        assert f"| {name} | {old} | {new} |" in page


def test_a_driver_that_no_run_has_exits_2_and_names_those_there_are(tmp_path: Path, capsys: Captured) -> None:
    assert Runner(tmp_path).compare("999.1") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert OLD in error
    assert NEW in error


def test_runs_of_two_gpu_models_under_one_driver_are_no_side(tmp_path: Path, capsys: Captured) -> None:
    runner = Runner(tmp_path)
    save(tmp_path / "runs", "synthetic-other-gpu", session(0, NEW, slug="nvidia-l40s"))
    assert runner.compare() == 2
    assert refusal(capsys) is Code.GPU_MODELS
