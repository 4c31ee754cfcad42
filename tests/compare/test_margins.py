from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peakgate.compare.floors.margins import (
    BETWEEN_DF,
    BETWEEN_SD,
    HOST_OFFSET_US,
    LEAST_MARGIN,
    LONG,
    MEDIUM_US,
    bounds,
    power,
)
from peakgate.compare.floors.proposals import propose
from peakgate.judge.floors import Floors
from peakgate.runfile.frame import to_frame
from peakgate.runfile.saved import Run, load_run

BASELINES = Path(__file__).parents[2] / "baselines" / "nvidia-h200"


def case(*gpus: list[float], name: str = "a", time_us: float = 200.0, library: bool = False) -> pd.DataFrame:
    """Sessions of a case, by GPU."""
    rows = [(name, f"GPU-{number}", time_us, library, each) for number, own in enumerate(gpus) for each in own]
    return pd.DataFrame(rows, columns=["case", "gpu", "time_us", "library", "peak_fraction"])


def bound(sessions: pd.DataFrame, name: str = "a") -> Any:
    return bounds(sessions).loc[name]


def margin(sessions: pd.DataFrame) -> float:
    found = bound(sessions)
    return float(1 - found["floor"] / found["worst"])


def test_one_gpu_leaves_at_least_five_percent_even_where_sessions_are_equal() -> None:
    assert margin(case([0.8] * 10)) >= LEAST_MARGIN


def test_shorter_kernels_and_library_calls_get_more() -> None:
    margins = [margin(case([0.8] * 5, time_us=us)) for us in (200.0, 50.0, 10.0, 6.0, 3.0)]
    assert margins == sorted(margins)
    assert margins[0] < margins[1] < margins[2] < margins[4]
    assert margin(case([0.1] * 5, time_us=10.0, library=True)) > margin(case([0.1] * 5, time_us=10.0))


def test_more_gpus_that_agree_narrow_the_margin() -> None:
    assert margin(case([0.8] * 5, [0.8] * 5, [0.8] * 5)) < margin(case([0.8] * 5))


def test_gpus_that_differ_in_a_case_widen_its_margin_and_no_others() -> None:
    calm = pd.concat([case([0.8] * 3, [0.8] * 3, name=str(number)) for number in range(5)])
    apart = pd.concat([calm, case([0.8] * 3, [0.7] * 3, name="x")])
    assert bound(apart, "0")["floor"] == bound(calm, "0")["floor"]
    own, prior = math.log(8 / 7) ** 2 / 2, BETWEEN_SD[LONG] ** 2
    moderated = (BETWEEN_DF * prior + own) / (BETWEEN_DF + 1)
    assert bound(apart, "x")["between_sd"] == pytest.approx(math.sqrt(moderated))


def test_gpus_that_differ_in_most_cases_widen_the_margin_of_their_duration_class() -> None:
    calm, apart = (
        pd.concat([case([0.8] * 3, [other] * 3, name=str(number)) for number in range(9)] + [case([0.8] * 3, name="x")])
        for other in (0.8, 0.7)
    )
    assert bound(apart, "x")["between_sd"] > bound(calm, "x")["between_sd"] == BETWEEN_SD[LONG]


def test_the_power_of_a_floor_is_the_share_of_slower_sessions_below_it() -> None:
    random = np.random.default_rng(3)
    gpus = 0.7 * np.exp(random.normal(0, 0.01, (200, 1)) + random.normal(0, 0.002, (200, 3)))
    found = bounds(case(*gpus.tolist()))
    for floor in (0.6, 0.63, 0.65):
        seen = float((gpus / 1.1 < floor).mean())
        assert power(found, pd.Series({"a": floor}), 0.1)["a"] == pytest.approx(seen, abs=0.08)
    assert power(found, found["floor"], 0.0)["a"] <= 1e-4


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
    floor = bound(known)["floor"]
    assert 0 <= floor <= known["peak_fraction"].min() * (1 - LEAST_MARGIN / math.sqrt(len(gpus))) * (1 + 1e-12)


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
    slower = known["peak_fraction"].min() * time_us / (time_us + HOST_OFFSET_US)
    noise_left = 1 - LEAST_MARGIN / math.sqrt(len(gpus))
    assert bound(known)["floor"] <= slower * noise_left * (1 + 1e-12)


def test_a_long_case_has_no_further_room_for_the_host_because_its_margin_holds_the_offset() -> None:
    known, longer = (bound(case([0.8] * 5, [0.8] * 5, time_us=factor * MEDIUM_US)) for factor in (1, 50))
    assert known["duration"] == LONG
    assert known["floor"] == longer["floor"] < 0.8 / (1 + HOST_OFFSET_US / MEDIUM_US)


def test_simulated_gpus_of_the_expected_spread_stay_above_the_floor() -> None:
    random = np.random.default_rng(7)
    sd_gpu, sd_session = BETWEEN_SD[LONG], 0.002
    failures = 0
    for _ in range(60):
        gpus = 0.7 * np.exp(random.normal(0, sd_gpu, (3, 1)) + random.normal(0, sd_session, (3, 5)))
        floor = bound(case(*gpus[:2].tolist()))["floor"]
        failures += bool((gpus[2] < floor).any())
    assert failures == 0


@pytest.fixture(scope="module")
def kept() -> list[Run]:
    return [load_run(path) for path in sorted((BASELINES / "runs").glob("*-gate.json.gz"))]


def test_a_case_slower_than_its_room_is_below_its_floor_in_every_kept_session(kept: list[Run]) -> None:
    runs = to_frame(kept)
    found = propose(runs, Floors(Path("floors.toml"))).every.set_index("case")
    best = runs.groupby("case")["peak_fraction"].max()[found.index]
    assert (best / (1 + found["room"] + 1e-9) < found["floor"]).all()
