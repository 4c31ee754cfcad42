from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from peakgate.judge.floors import load_floors
from peakgate.reports import held_out
from peakgate.reports.floors import evidence_of, rounded_down
from peakgate.reports.margins import (
    BETWEEN_SD,
    HOST_OFFSET_US,
    LEAST_MARGIN,
    LONG,
    MEDIUM_US,
    Evidence,
    bounds,
    room,
    with_host_offset,
)
from peakgate.reports.runs.runfile import Run, load_run
from peakgate.verdict import Verdict

BASELINES = Path(__file__).parents[2] / "baselines" / "nvidia-h200"


def case(*gpus: list[float], time_us: float = 200.0, library: bool = False) -> Evidence:
    return Evidence(time_us, library, {f"GPU-{number}": each for number, each in enumerate(gpus)})


def margin(evidence: Evidence) -> float:
    return 1 - bounds({"a": evidence})["a"].floor / min(evidence.fractions)


def test_one_gpu_leaves_at_least_five_percent_even_where_sessions_are_equal() -> None:
    assert margin(case([0.8] * 10)) >= LEAST_MARGIN


def test_shorter_kernels_and_library_calls_get_more() -> None:
    margins = [margin(case([0.8] * 5, time_us=us)) for us in (200.0, 50.0, 10.0, 6.0, 3.0)]
    assert margins == sorted(margins)
    assert margins[0] < margins[1] < margins[2] < margins[4]
    assert margin(case([0.1] * 5, time_us=10.0, library=True)) > margin(case([0.1] * 5, time_us=10.0))


def test_more_gpus_that_agree_narrow_the_margin() -> None:
    assert margin(case([0.8] * 5, [0.8] * 5, [0.8] * 5)) < margin(case([0.8] * 5))


def test_gpus_that_differ_widen_the_margin_of_their_duration_class() -> None:
    calm = {str(number): case([0.8] * 3, [0.8] * 3) for number in range(5)}
    apart = calm | {"x": case([0.8] * 3, [0.7] * 3)}
    assert bounds(calm)["0"].between_sd == BETWEEN_SD[LONG]
    assert bounds(apart)["0"].between_sd == pytest.approx(math.log(8 / 7) / math.sqrt(2) / math.sqrt(6))


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=5), min_size=1, max_size=4),
    st.floats(1.0, 1e4),
    st.booleans(),
)
def test_a_floor_is_below_every_session_by_the_least_margin(
    gpus: list[list[float]], time_us: float, library: bool
) -> None:
    known = case(*gpus, time_us=time_us, library=library)
    floor = bounds({"a": known})["a"].floor
    assert 0 <= floor <= min(known.fractions) * (1 - LEAST_MARGIN / math.sqrt(len(gpus))) * (1 + 1e-12)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=5), min_size=1, max_size=4),
    st.floats(1.0, MEDIUM_US, exclude_max=True),
    st.booleans(),
)
def test_unchanged_code_on_hosts_with_a_constant_offset_in_time_stays_above_the_floor_of_a_short_case(
    gpus: list[list[float]], time_us: float, library: bool
) -> None:
    known = case(*gpus, time_us=time_us, library=library)
    slower = with_host_offset(min(known.fractions), time_us)
    assert slower == pytest.approx(min(known.fractions) * time_us / (time_us + HOST_OFFSET_US))
    noise_left = 1 - LEAST_MARGIN / math.sqrt(len(gpus))
    assert bounds({"a": known})["a"].floor <= slower * noise_left * (1 + 1e-12)


def test_a_long_case_has_no_further_room_for_the_host_because_its_margin_holds_the_offset() -> None:
    known = case([0.8] * 5, [0.8] * 5, time_us=MEDIUM_US)
    assert known.duration == LONG
    assert bounds({"a": known}) == bounds({"a": replace(known, time_us=50 * MEDIUM_US)})
    assert bounds({"a": known})["a"].floor < with_host_offset(0.8, MEDIUM_US)


def test_a_slowdown_beyond_the_room_is_below_the_floor_on_every_gpu() -> None:
    known = case([0.80, 0.81], [0.77, 0.78])
    floor = bounds({"a": known})["a"].floor
    slowdown = 1 + room(floor, known.fractions) + 1e-9
    assert all(fraction / slowdown < floor for fraction in known.fractions)


def test_simulated_gpus_of_the_expected_spread_stay_above_the_floor() -> None:
    random = np.random.default_rng(7)
    sd_gpu, sd_session = BETWEEN_SD[LONG], 0.002
    failures = 0
    for _ in range(300):
        gpus = 0.7 * np.exp(random.normal(0, sd_gpu, (3, 1)) + random.normal(0, sd_session, (3, 5)))
        floor = bounds({"a": case(*gpus[:2].tolist())})["a"].floor
        failures += bool((gpus[2] < floor).any())
    assert failures == 0


@pytest.fixture(scope="module")
def kept() -> list[Run]:
    return [load_run(path) for path in sorted((BASELINES / "runs").glob("*-gate.json.gz"))]


def test_no_floor_from_some_gpus_fails_unchanged_code_on_the_others_while_the_previous_rule_did(
    kept: list[Run],
) -> None:
    assert len({run.uuid for run in kept}) == 3
    assert [(each.known, each.runs, each.failed) for each in held_out.held_out(kept, held_out.present_rule)] == [
        (1, 62, 0),
        (2, 31, 0),
    ]
    assert all(each.failed for each in held_out.held_out(kept, held_out.previous_rule))


def test_the_committed_table_is_what_the_script_prints(kept: list[Run]) -> None:
    page = held_out.page(BASELINES)
    assert (BASELINES / held_out.PAGE).read_text(encoding="utf-8") == page
    assert page.startswith(held_out.table(kept))


def test_a_gate_fails_by_a_case_below_its_floor_or_by_its_verdict_and_the_limit_counts_gates(kept: list[Run]) -> None:
    case, result = next((case, result) for case, result in kept[0].cases.items() if result.peak_fraction)
    floors = {case: rounded_down(min(run.cases[case].peak_fraction or 1.0 for run in kept)) - 0.01}
    assert held_out.gates(kept[:4], floors).failed == 0
    slow = replace(kept[0], cases={**kept[0].cases, case: structs.replace(result, peak_fraction=floors[case] / 2)})
    wrong = replace(kept[1], cases={**kept[1].cases, "a.b": structs.replace(result, verdict=Verdict.WRONG)})
    found = held_out.gates([slow, wrong, *kept[2:4]], floors)
    assert (found.runs, found.failed, found.cases) == (4, 2, ("a.b", case))


@pytest.fixture(scope="module")
def on_hosts_of_two_gpus() -> list[Run]:
    return [load_run(path) for path in sorted((BASELINES / "lab" / "floors" / "runs").glob("20261122T0[34]*.json"))]


def test_unchanged_code_on_hosts_with_a_constant_offset_in_time_passes_the_committed_floors(
    on_hosts_of_two_gpus: list[Run], kept: list[Run]
) -> None:
    assert len({run.uuid for run in on_hosts_of_two_gpus} - {run.uuid for run in kept}) == 4
    floors = load_floors(BASELINES / "floors.toml").by_case
    assert held_out.gates(on_hosts_of_two_gpus, {}).cases == ("sgemm.split_k-256",)  # by the floors of that day
    for run in on_hosts_of_two_gpus:
        assert floors.keys() <= run.cases.keys()
        now = held_out.rejudged(run, floors)
        assert {now.cases[case].verdict for case in floors} == {Verdict.PASS}
        assert held_out.gates([now], floors).failed == 0


def test_the_host_offset_is_above_what_the_committed_runs_show(
    on_hosts_of_two_gpus: list[Run], kept: list[Run]
) -> None:
    short = {case: known.time_us for case, known in evidence_of(kept).items() if known.time_us < 60}
    for run in on_hosts_of_two_gpus:
        offset = np.median([run.cases[case].time_us - time_us for case, time_us in short.items()])
        assert 0.9 < offset < 1.3 < HOST_OFFSET_US


def test_a_run_judged_anew_fails_by_todays_floor_and_keeps_every_other_verdict(kept: list[Run]) -> None:
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


def test_a_case_slower_than_its_room_fails_on_every_kept_session(kept: list[Run]) -> None:
    floors = held_out.present_rule(evidence_of(kept))
    for name, known in evidence_of(kept).items():
        slowdown = 1 + room(floors[name], known.fractions) + 1e-9
        assert max(known.fractions) / slowdown < floors[name]


def test_a_folder_without_kept_gates_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert held_out.main(["--page", str(tmp_path)]) == 2
    assert "no kept gates" in capsys.readouterr().err
