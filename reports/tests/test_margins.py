from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
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


def test_a_case_slower_than_its_room_fails_on_every_kept_session(kept: list[Run]) -> None:
    evidence = evidence_of(kept)
    for name, bound in bounds(evidence).items():
        fractions, floor = evidence[name].fractions, rounded_down(bound.floor)
        assert max(fractions) / (1 + room(floor, fractions) + 1e-9) < floor
