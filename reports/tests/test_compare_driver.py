"""A driver upgrade, from saved runs to the exit code.

The runs are real gate runs of one H200, five before and five after; what a test edits in them, the driver first, makes
them synthetic, and their GPU's name says so.
"""

from __future__ import annotations

import copy
import gzip
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from peakgate.cli import main
from peakgate.core.errors import Code
from refusals import refusal
from synthetic_runs import save

REAL = sorted((Path(__file__).parents[2] / "baselines" / "nvidia-h200" / "runs").glob("*-gate.json.gz"))
SESSIONS = 5
OLD, NEW = "580.159.04", "590.44.01"
CASE = "transpose.smem_pad-8192-32x8"
FAMILIES = ("transpose", "access")
LEFT_OPEN = {"verdict": "INCONCLUSIVE", "reason": "30 of 42 samples ran throttled"}
BELOW = {"verdict": "BELOW_FLOOR", "peak_fraction": 0.61, "floor": 0.705}
IN_SECONDS = ("min", "max", "mean", "stddev", "median", "iqr", "q1", "q3", "ld15iqr", "hd15iqr", "total")
Captured = pytest.CaptureFixture[str]


@cache
def real(session: int) -> Mapping[str, Any]:
    """One of the runs, two families of it."""
    document: dict[str, Any] = json.loads(gzip.decompress(REAL[session].read_bytes()))
    kept = [each for each in document["benchmarks"] if each["extra_info"]["family"] in FAMILIES]
    return document | {"benchmarks": kept}


@dataclass(frozen=True)
class Edit:
    """What a test makes of the sessions after the upgrade: times by a factor, cases gone, refused, or changed.

    ``factor`` is for all cases, ``factors`` for some; ``reported`` is CASE's extra_info, ``refused`` takes its time
    away; ``gpu`` replaces facts of the GPU.
    """

    factor: float = 1.0
    factors: Mapping[str, float] = field(default_factory=dict)
    without: Sequence[str] = ()
    reported: Mapping[str, Any] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    gpu: Mapping[str, Any] = field(default_factory=dict)


UNTOUCHED = Edit()


def session(number: int, driver: str, edit: Edit) -> dict[str, Any]:
    """A real session under another driver, edited."""
    document = copy.deepcopy(dict(real(number)))
    document["machine_info"]["gpu"] |= {"name": "NVIDIA H200 (synthetic)", "driver": driver} | dict(edit.gpu)
    kept = []
    for benchmark in document["benchmarks"]:
        extra = benchmark["extra_info"]
        case = extra["case"]
        if case in edit.without or (edit.refused and case == CASE):
            continue
        factor = edit.factor * edit.factors.get(case, 1.0)
        for name in IN_SECONDS:
            benchmark["stats"][name] *= factor
        extra |= {"time_us": extra["time_us"] * factor, "verdict": "PASS", "reason": "", "floor": 0.01}
        extra |= dict(edit.reported) if case == CASE else {}
        kept.append(benchmark)
    document["benchmarks"] = kept
    document["peakgate"]["not_measured"] = [{"case": CASE, **edit.refused}] if edit.refused else []
    return document


class Runner:
    """The folder of a runner that was upgraded, and what comparing its drivers led to."""

    def __init__(self, folder: Path, before: Edit, after: Edit) -> None:
        self.folder = folder
        for number in range(SESSIONS):
            save(folder / "runs", f"synthetic-before-{number}", session(number, OLD, before))
            save(folder / "runs", f"synthetic-after-{number}", session(SESSIONS + number, NEW, after))

    def compare(self, *options: str) -> int:
        where = ("--runs", str(self.folder / "runs"), "--out", str(self.folder / "out"), "--no-html")
        return main(["compare", f"driver:{OLD}", f"driver:{NEW}", *where, *options])

    @property
    def reported(self) -> dict[str, Any]:
        verdict: dict[str, Any] = json.loads((self.folder / "out" / "compare.json").read_text(encoding="utf-8"))
        return verdict

    def row(self, case: str = CASE) -> dict[str, Any]:
        return next(row for row in self.reported["rows"] if row["case"] == case)


def upgraded(folder: Path, after: Edit = UNTOUCHED) -> Runner:
    return Runner(folder, UNTOUCHED, after)


def test_an_upgrade_that_changed_nothing_passes(tmp_path: Path, capsys: Captured) -> None:
    runner = upgraded(tmp_path)
    assert runner.compare() == 0
    assert runner.reported["counts"] == {"SAME": len(real(0)["benchmarks"])}
    assert runner.reported["suite_wide"]["verdict"] == "SAME"
    assert [fact["name"] for fact in runner.reported["differences"]] == ["driver"]
    shown = capsys.readouterr().out
    assert re.search(f"^  driver +{OLD} +{NEW}$", shown, re.MULTILINE)


@pytest.mark.parametrize(
    ("edits", "verdict", "reason", "code"),
    [
        ((UNTOUCHED, Edit(factors={CASE: 1.02})), "SLOWER", "1.02x slower over 5 and 5 sessions, p ", 1),
        ((UNTOUCHED, Edit(reported=LEFT_OPEN)), "INCONCLUSIVE", "new: 30 of 42 samples ran throttled", 3),
        ((UNTOUCHED, Edit(without=[CASE])), "MISSING", "in base, not in new", 1),
        ((UNTOUCHED, Edit(reported=BELOW)), "BELOW_FLOOR", "0.610 of peak, floor 0.705; against base", 1),
        ((UNTOUCHED, Edit(reported=BELOW, factors={CASE: 1.1})), "SLOWER", "below its floor too: 0.610 of peak", 1),
        ((UNTOUCHED, Edit(refused={"verdict": "WRONG", "reason": "max error 0.3"})), "WRONG", "max error 0.3", 1),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isupper() else "",
)
def test_a_verdict_of_a_case_and_the_exit_code_it_leads_to(
    tmp_path: Path, edits: tuple[Edit, Edit], verdict: str, reason: str, code: int
) -> None:
    runner = Runner(tmp_path, *edits)
    assert runner.compare() == code
    assert runner.reported["exit_code"] == code
    assert runner.row()["verdict"] == verdict
    assert reason in runner.row()["reason"]
    assert runner.reported["counts"]["SAME"] == len(real(0)["benchmarks"]) - 1


def test_a_missing_floor_leaves_a_strict_gate_open_and_no_other(tmp_path: Path) -> None:
    runner = upgraded(tmp_path, Edit(reported={"verdict": "NO_FLOOR", "floor": None}))
    assert runner.compare() == 0
    assert runner.reported["without_floor"] == 1
    assert runner.compare("--strict-gate") == 3
    assert runner.reported["verdict"] == "NO_FLOOR"


@pytest.mark.parametrize(("factor", "verdict", "code"), [(1.045, "INCONCLUSIVE", 3), (1.3, "SLOWER", 1)])
def test_another_gpu_of_the_model_is_said_and_held_to_the_wider_rule(
    tmp_path: Path, capsys: Captured, factor: float, verdict: str, code: int
) -> None:
    runner = upgraded(tmp_path, Edit(gpu={"uuid": "GPU-0002"}, factors={CASE: factor}))
    assert runner.compare() == code
    assert {runner.row()["verdict"], runner.reported["verdict"]} <= {verdict, "SAME"}
    assert runner.row()["smallest_detectable_change_percent"] == pytest.approx(11, abs=1)
    said = "the runs are not of one and the same GPU: GPUs of one model may differ by 10 % in the median case"
    assert f"note: {said}" in capsys.readouterr().out
    assert f"note: {said}" in (tmp_path / "out" / "compare.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("factor", "verdict", "code"), [(1.01, "SLOWER", 1), (0.99, "FASTER", 0), (1.001, "SAME", 0)])
def test_what_moved_everything_is_told_in_the_suites_own_line(
    tmp_path: Path, capsys: Captured, factor: float, verdict: str, code: int
) -> None:
    runner = upgraded(tmp_path, Edit(factor=factor))
    assert runner.compare() == code
    assert runner.reported["suite_wide"]["verdict"] == verdict
    assert runner.reported["suite_wide"]["change_percent"] == pytest.approx(100 * (factor - 1), abs=0.1)
    assert f"suite-wide: {verdict}, " in capsys.readouterr().out
    assert f"- suite-wide: {verdict}, " in (tmp_path / "out" / "compare.md").read_text(encoding="utf-8")


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


def test_what_else_the_upgrade_changed_stands_in_every_face(tmp_path: Path, capsys: Captured) -> None:
    runner = upgraded(tmp_path, Edit(gpu={name: value for name, value, _, _ in ELSE.values()}))
    assert runner.compare() == 0
    shown = capsys.readouterr().out
    page = (tmp_path / "out" / "compare.md").read_text(encoding="utf-8")
    listed = {fact["name"]: (fact["base"], fact["new"]) for fact in runner.reported["differences"]}
    assert listed == {"driver": (OLD, NEW)} | {name: (old, new) for name, (_, _, old, new) in ELSE.items()}
    for name, (old, new) in listed.items():
        assert re.search(f"^  {re.escape(name)} +{re.escape(old)} +{re.escape(new)}$", shown, re.MULTILINE)
        assert f"| {name} | {old} | {new} |" in page


def test_machine_code_that_stayed_points_at_the_environment(tmp_path: Path) -> None:
    runner = upgraded(tmp_path, Edit(factors={CASE: 1.1}))
    assert runner.compare() == 1
    assert runner.row()["reason"].endswith("same code: environment")


def test_a_driver_that_no_run_has_exits_2_and_names_those_there_are(tmp_path: Path, capsys: Captured) -> None:
    upgraded(tmp_path)
    options = ["--runs", str(tmp_path / "runs"), "--no-files"]
    assert main(["compare", f"driver:{OLD}", "driver:999.1", *options]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert OLD in error
    assert NEW in error


def test_runs_of_two_gpu_models_under_one_driver_are_no_side(tmp_path: Path, capsys: Captured) -> None:
    upgraded(tmp_path)
    save(tmp_path / "runs", "synthetic-other-gpu", session(0, NEW, Edit(gpu={"slug": "nvidia-l40s"})))
    assert main(["compare", f"driver:{OLD}", f"driver:{NEW}", "--runs", str(tmp_path / "runs"), "--no-files"]) == 2
    assert refusal(capsys) is Code.GPU_MODELS
