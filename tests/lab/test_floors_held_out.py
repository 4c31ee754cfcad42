"""Floors tried on GPUs they were not set from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from lab.floors import held_out
from lab.records import load_packed_run
from peakgate.base.verdict import Verdict
from peakgate.compare.floors.margins import HOST_OFFSET_US
from peakgate.compare.floors.proposals import evidence_of, rounded_down
from peakgate.judge.floors import load_floors
from peakgate.runfile.frame import to_frame
from peakgate.runfile.saved import Run, load_run

BASELINES = held_out.BASELINES
RUNS = Path(__file__).parents[2] / "lab" / "floors" / "runs"


@pytest.fixture(scope="module")
def kept() -> list[Run]:
    return [load_run(path) for path in sorted((BASELINES / "runs").glob("*-gate.json.gz"))]


def test_no_floor_fails_unchanged_code_on_other_gpus(kept: list[Run]) -> None:
    assert len({run.uuid for run in kept}) == 3
    assert [(each.known, each.runs, each.failed) for each in held_out.held_out(kept)] == [(1, 62, 0), (2, 31, 0)]


def test_a_gate_fails_by_a_floor_or_by_a_verdict(kept: list[Run]) -> None:
    case, result = next((case, result) for case, result in kept[0].cases.items() if result.peak_fraction)
    floors = {case: rounded_down(min(run.cases[case].peak_fraction or 1.0 for run in kept)) - 0.01}
    assert held_out.gates(kept[:4], floors).failed == 0
    slow = replace(kept[0], cases={**kept[0].cases, case: structs.replace(result, peak_fraction=floors[case] / 2)})
    wrong = replace(kept[1], cases={**kept[1].cases, "a.b": structs.replace(result, verdict=Verdict.WRONG)})
    found = held_out.gates([slow, wrong, *kept[2:4]], floors)
    assert (found.runs, found.failed, found.cases) == (4, 2, ("a.b", case))


@pytest.fixture(scope="module")
def on_hosts_of_two_gpus() -> list[Run]:
    return [load_packed_run(path) for path in sorted(RUNS.glob("20261122T0[34]*.json.xz"))]


def test_code_on_hosts_with_an_offset_passes_the_floors(on_hosts_of_two_gpus: list[Run], kept: list[Run]) -> None:
    assert len({run.uuid for run in on_hosts_of_two_gpus} - {run.uuid for run in kept}) == 4
    younger = ("attention.", "hgemm.", "norm.", "quantize.", "reduce.")  # than these runs
    known = load_floors(BASELINES / "floors.toml").by_case
    floors = {case: floor for case, floor in known.items() if not case.startswith(younger)}
    assert held_out.gates(on_hosts_of_two_gpus, {}).cases == ("sgemm.split_k-256",)  # by the floors of that day
    for run in on_hosts_of_two_gpus:
        assert floors.keys() <= run.cases.keys()
        now = held_out.rejudged(run, floors)
        assert {now.cases[case].verdict for case in floors} == {Verdict.PASS}
        assert held_out.gates([now], floors).failed == 0


def test_the_host_offset_is_above_what_the_committed_runs_show(
    on_hosts_of_two_gpus: list[Run], kept: list[Run]
) -> None:
    times_us = evidence_of(to_frame(kept)).groupby("case")["time_us"].median()
    short = times_us[times_us < 60].to_dict()
    for run in on_hosts_of_two_gpus:
        offset = np.median([run.cases[str(case)].time_us - time_us for case, time_us in short.items()])
        assert 0.9 < offset < 1.3 < HOST_OFFSET_US


def test_a_run_judged_anew_fails_by_todays_floor_alone(kept: list[Run]) -> None:
    case, result = next((case, result) for case, result in kept[0].cases.items() if result.peak_fraction)
    floors = {case: 2 * (result.peak_fraction or 1.0)}
    assert held_out.rejudged(kept[0], floors).cases[case].verdict is Verdict.BELOW_FLOOR
    wrong = replace(kept[0], cases={case: structs.replace(result, verdict=Verdict.WRONG)})
    assert held_out.rejudged(wrong, floors) == wrong


def test_a_mutant_beyond_its_room_must_be_below_its_floor(kept: list[Run]) -> None:
    rooms = held_out.rooms((BASELINES / "floors.toml").read_text(encoding="utf-8"))
    assert len(rooms) > 150
    case, room = next(iter(rooms.items()))
    honest, result = kept[0], kept[0].cases[case]
    for slowdown, verdict, missed in (
        (room * 1.01, Verdict.PASS, True),
        (room * 1.01, Verdict.BELOW_FLOOR, False),
        (room * 0.99, Verdict.PASS, False),
    ):
        other = structs.replace(result, time_us=result.time_us * (1 + slowdown), verdict=verdict)
        (found,) = held_out.slowed(honest, replace(honest, cases={case: other}), rooms)
        assert found.missed is missed
        assert found.slowdown == pytest.approx(slowdown)
