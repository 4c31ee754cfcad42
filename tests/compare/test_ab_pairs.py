"""What of two processes is compared."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ab_records import ab_record
from comparing import PAD, Saved
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from synthetic_runs import document

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.verdict import ExitCode
from peakgate.compare.ab import pairs
from peakgate.compare.ab.means import Budget, Means
from peakgate.compare.ab.plan import Plan
from peakgate.compare.ab.process import FinishedRun, SideBroken
from peakgate.compare.ab.record import Timed, compared_us, timed
from peakgate.compare.ab.schedule import Phase, Side

SHORT, LONG = "t.short", "t.long"


def process(short_us: float, control_us: float | None, long_us: float = 1000.0) -> list[Timed]:
    """A process that measured a short case, with the control after it, and a long one."""
    return [Timed(SHORT, short_us, control_us), Timed(LONG, long_us, None)]


def test_kernels_are_compared_by_trimmed_means_where_a_run_has_them(tmp_path: Path) -> None:
    run = Saved(tmp_path).run()
    long = structs.replace(run.cases[PAD], time_us=200.0, trimmed_mean_us=201.0, control_us=None)
    short = structs.replace(long, case=SHORT, time_us=5.0, trimmed_mean_us=5.1, control_us=3.0)
    older = structs.replace(short, case=LONG, trimmed_mean_us=None)
    cases = {each.case: each for each in (long, short, older)}
    assert timed(replace(run, cases=cases)) == [Timed(PAD, 201.0, None), Timed(SHORT, 5.1, 3.0), Timed(LONG, 5.0, 3.0)]


@given(offsets_us=st.lists(st.floats(-0.3, 0.3), min_size=2, max_size=6), time_us=st.floats(2, 99))
def test_what_processes_differ_by_in_launching_any_kernel_is_no_change(offsets_us: list[float], time_us: float) -> None:
    found = compared_us([process(time_us + offset, 3.0 + offset) for offset in offsets_us])
    assert [each[SHORT] for each in found] == pytest.approx([found[0][SHORT]] * len(found), rel=1e-9)


def test_a_case_without_a_control_is_compared_as_it_is() -> None:
    found = compared_us([process(5.0, 3.0), process(6.0, None), process(5.5, 3.5)])
    assert found == [{SHORT: time_us, LONG: 1000.0} for time_us in (5.25, 6.0, 5.25)]


def test_the_control_of_a_case_is_the_mean_of_those_before_and_after_it() -> None:
    controls_us = {"t.a": 3.0, "t.b": 3.4, "t.c": 3.0, "t.d": 3.0, "t.e": 3.0}
    (found,) = compared_us([[Timed(case, 5.0, control_us) for case, control_us in controls_us.items()]])
    assert [round(time_us, 9) for time_us in found.values()] == [5.0, 4.8, 4.8, 5.0, 5.0]


def test_a_time_shorter_than_what_the_processes_differ_by_is_not_compared() -> None:
    assert SHORT not in compared_us([process(1.0, 1.0), process(1.0, 5.0)])[1]


class Processes:
    """Processes of both sides that leave what they are told to, and how each was asked."""

    def __init__(self, out: Path) -> None:
        self.out, self.asked = out, list[dict[str, str]]()
        self.ends, self.leaves, self.says = 0, dict[str, Any](), list[dict[str, str]]()
        self.record = ab_record(out, Plan())
        (scratch := out / "scratch").mkdir()
        means: Any = Means(out, Budget(None))
        fakes: Any = {which: SimpleNamespace(ask=self._ask) for which in Side}
        self.them = pairs.Processes(self.record, fakes, means, scratch)

    def _ask(self, arguments: list[str], _environment: Mapping[str, str], log: Path) -> Any:
        given = dict(each.split("=", 1) for each in arguments)
        self.asked.append(given)
        return SimpleNamespace(
            begin=lambda: None, until_left=lambda: True, leave=lambda: None, finish=lambda: self._finish(given, log)
        )

    def _finish(self, given: Mapping[str, str], log: Path) -> FinishedRun:
        log.write_text("its last words")
        Path(given["--benchmark-json"]).write_text(json.dumps(self.leaves) if self.leaves else "")
        Path(given["--out"]).mkdir(exist_ok=True)
        (Path(given["--out"]) / "bench.json").write_text(json.dumps({"cases": self.says}))
        return FinishedRun(self.ends, 1.0, ((0.0, 0.5),), {})

    def measure(self) -> None:
        self.them.measure(Phase.SCREEN, 0, 2, [PAD])


@pytest.fixture
def processes(tmp_path: Path) -> Processes:
    return Processes(tmp_path)


def test_both_sides_of_a_pair_get_the_same_inputs_and_no_other_pair_does(processes: Processes) -> None:
    processes.leaves = document()
    processes.measure()
    seeds = [each["--seed"] for each in processes.asked]
    assert seeds[0] == seeds[1]
    assert seeds[2] == seeds[3]
    assert seeds[0] != seeds[2]
    assert [each.which for each in processes.record.processes] == [Side.BASE, Side.HEAD, Side.HEAD, Side.BASE]
    assert all(each.file in processes.record.runs for each in processes.record.processes)


@pytest.mark.parametrize("ends", [ExitCode.OK, ExitCode.REGRESSION, ExitCode.UNDECIDED])
def test_a_process_that_came_to_its_verdict_counts(processes: Processes, ends: int) -> None:
    processes.leaves, processes.ends = document(), ends
    processes.measure()
    assert len(processes.record.runs) == 4
    assert list(processes.out.glob("*.txt")) == []


@pytest.mark.parametrize("ends", [ExitCode.BAD_INPUT, ExitCode.DEFECT, ExitCode.INTERRUPTED, -9])
def test_what_a_process_left_that_came_to_no_verdict_does_not_count(processes: Processes, ends: int) -> None:
    processes.leaves, processes.ends = document(), ends
    processes.says = [{"case": PAD, "verdict": "WRONG", "reason": "output 0 is off"}]
    with pytest.raises(SideBroken, match="its last words"):
        processes.measure()
    assert processes.record.runs == {}


@pytest.mark.parametrize("verdict", ["WRONG", "CRASHED", "TIMEOUT", "IMPOSSIBLE", "INCONCLUSIVE"])
def test_a_case_that_no_process_times_is_kept_with_its_verdict(processes: Processes, verdict: str) -> None:
    processes.says = [{"case": PAD, "verdict": verdict, "reason": "why"}]
    processes.measure()
    assert [each.refused for each in processes.record.processes] == [{PAD: (verdict, "why")}] * 4
    assert [each.file for each in processes.record.processes] == [None] * 4


@pytest.mark.parametrize("verdict", ["PASS", "NO_FLOOR", "BELOW_FLOOR"])
def test_a_process_that_times_nothing_and_refuses_nothing_is_broken(processes: Processes, verdict: str) -> None:
    processes.says = [{"case": PAD, "verdict": verdict, "reason": "why"}]
    with pytest.raises(SideBroken):
        processes.measure()


def test_emulated_times_are_no_pair(processes: Processes) -> None:
    processes.leaves = document(slug="cpu-emulator", uuid=None)
    with pytest.raises(PeakgateError) as refused:
        processes.measure()
    assert refused.value.code in (Code.EMULATED, Code.RECORD)
    assert processes.record.runs == {}
