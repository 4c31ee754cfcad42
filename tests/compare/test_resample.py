"""How unchanged sessions are laid out, what of them counts as a false positive, and which limits they would break."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from comparing import Saved
from hypothesis import given
from hypothesis import strategies as st
from synthetic_runs import LADDER

from peakgate.base.verdict import Verdict
from peakgate.compare import noise, resample
from peakgate.compare.resample import SessionLayout, measure, rate_at_most
from peakgate.judge.floors import Floors
from peakgate.runfile.frame import records
from peakgate.runfile.saved import Run


@pytest.mark.parametrize(("sessions", "pairs"), [(5, 10), (10, 45), (12, 45)])
def test_single_sessions_are_drawn_in_pairs_each_once_and_no_more_than_ten_have(sessions: int, pairs: int) -> None:
    drawn = list(resample._sides(SessionLayout.SINGLE, sessions, np.random.default_rng(0)))
    assert len(set(drawn)) == len(drawn) == pairs
    assert drawn == sorted(drawn)
    assert all(base < new < sessions for (base,), (new,) in drawn)


@pytest.mark.parametrize(("sessions", "divisions"), [(5, 15), (6, 10)])
def test_halves_share_no_session_and_each_division_is_drawn_once_whichever_is_called_base(
    sessions: int, divisions: int
) -> None:
    drawn = list(resample._sides(SessionLayout.HALVES, sessions, np.random.default_rng(0)))
    assert drawn == sorted({(min(sides), max(sides)) for sides in drawn})
    assert all(len(base) == len(new) == sessions // 2 == len({*base, *new}) / 2 for base, new in drawn)
    assert divisions - 2 <= len(drawn) <= divisions
    assert drawn == list(resample._sides(SessionLayout.HALVES, sessions, np.random.default_rng(0)))


@pytest.mark.parametrize("suite", [None, Verdict.SLOWER, Verdict.FASTER, Verdict.SAME])
def test_with_the_sides_exchanged_what_is_faster_is_a_false_positive_below_a_floor_too(suite: Verdict | None) -> None:
    rows = [
        ("a", Verdict.SLOWER, 5.0),
        ("b", Verdict.FASTER, -5.0),
        ("c", Verdict.BELOW_FLOOR, -5.0),
        ("d", Verdict.BELOW_FLOOR, -3.0),
        ("e", Verdict.BELOW_FLOOR, 5.0),
        ("f", Verdict.SAME, -5.0),
    ]
    found = pd.DataFrame(rows, columns=["case", "verdict", "change_percent"])
    found = found.assign(smallest_detectable_change_percent=3.0)
    found.attrs["suite"] = suite and {"verdict": suite}
    assert resample._called(found, Verdict.SLOWER) == (("a",), suite is Verdict.SLOWER)
    assert resample._called(found, Verdict.FASTER) == (("b", "c"), suite is Verdict.FASTER)


def test_a_session_in_which_all_cases_moved_is_a_false_positive_of_the_suite(saved: Saved) -> None:
    runs = [
        saved.run({case: us * (1.03 if session == 3 else 1.0) for case, us in LADDER.items()}) for session in range(5)
    ]
    found = measure(SessionLayout.SINGLE, runs)
    assert (found.gates, found.flagged, found.flagged_cases) == (20, 4, {})
    assert next(iter(found.flagged_sessions.items())) == (3, 4)
    assert found.at_most == rate_at_most(found.rate, 2)
    assert measure(SessionLayout.HALVES, runs).at_most is None


def test_other_sessions_count_in_the_design_that_has_them_alone(saved: Saved, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resample, "MOST_RESAMPLES", 1)
    runs = saved.sessions(10, 0.0005, 0)
    single, with_history = (measure(design, runs) for design in (SessionLayout.SINGLE, SessionLayout.WITH_HISTORY))
    assert max(with_history.detectable_percent.values()) < min(single.detectable_percent.values())
    assert single.at_most == rate_at_most(single.rate, 5)


@given(st.floats(0, 1), st.integers(2, 50))
def test_the_bound_lies_above_the_rate_and_tightens_with_trials(rate: float, trials: int) -> None:
    assert rate <= rate_at_most(rate, trials) <= 1
    assert rate_at_most(rate, 2 * trials) <= rate_at_most(rate, trials) + 1e-12


def test_nothing_in_five_trials_rules_out_a_rate_of_45_percent_and_all_of_them_nothing() -> None:
    assert rate_at_most(0, 5) == pytest.approx(1 - 0.05 ** (1 / 5))
    assert rate_at_most(1, 5) == 1.0


TIMES = {"a.x": (300.0, 301.0, 303.0, 300.5), "a.y": (600.0, 618.0), "a.z": (150.0, 150.1, 150.4), "a.once": (7.0,)}


def sessions(saved: Saved) -> list[Run]:
    """Runs of which each case has these times, in the first ones."""
    return [
        saved.run({case: times[number] for case, times in TIMES.items() if number < len(times)}) for number in range(4)
    ]


def test_the_sd_between_sessions_is_a_cases_own_or_the_moderated_one(saved: Saved) -> None:
    logs = {case: np.log(times) for case, times in TIMES.items() if len(times) > 1}
    own = np.array([statistics.variance(each.tolist()) for each in logs.values()])
    df = np.array([len(each) - 1.0 for each in logs.values()])
    moderated, _ = noise.squeeze(own, df, np.array([each.mean() for each in logs.values()]))
    found = resample.session_sds(sessions(saved))
    assert found == pytest.approx(dict(zip(logs, np.sqrt(np.maximum(own, moderated)), strict=True)))
    assert {own_one > other for own_one, other in zip(own, moderated, strict=True)} == {True, False}


def tight(saved: Saved, floors: Mapping[str, float], sds: Mapping[str, float]) -> list[tuple[str, int]]:
    """Case, and how many sessions were below, of each floor that is too tight."""
    found = records(resample.tight_floors(sessions(saved), sds, Floors(Path("f"), None, True, dict(floors))))
    assert all(each.carried == pytest.approx(each.median * (1 - 3 * sds[each.case])) for each in found)
    return [(each.case, each.sessions_below) for each in found]


def test_a_floor_within_three_sds_of_the_median_is_too_tight_and_the_tightest_comes_first(saved: Saved) -> None:
    runs = sessions(saved)
    fractions = {
        case: sorted(run.cases[case].peak_fraction or 0 for run in runs if case in run.cases) for case in TIMES
    }
    median = {case: statistics.median(each) for case, each in fractions.items()}
    assert tight(saved, {"a.x": median["a.x"]}, {"a.x": 0.0, "a.y": 0.0, "a.z": 0.0}) == []
    sds = {"a.x": 0.01, "a.y": 0.01, "a.z": 0.01}
    assert tight(saved, {"a.x": 0.969 * median["a.x"]}, sds) == []
    assert tight(saved, {"a.x": 0.971 * median["a.x"], "a.z": fractions["a.z"][2], "a.once": 1.0}, sds) == [
        ("a.z", 2),
        ("a.x", 0),
    ]
    unknown = [saved.run({"a.x": 100.0}, extra={"a.x": {"peak_fraction": None}}) for _ in range(2)]
    assert resample.tight_floors(unknown, sds, Floors(Path("f"), None, True, {"a.x": 0.9})).empty


def test_cases_that_repeat_worse_than_two_single_runs_resolve_are_listed_worst_first(
    saved: Saved, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [
        saved.run({"a.x": 100.0, "a.y": 200.0, "a.z": 90.0}, extra={"a.x": {"samples": 2}, "a.z": {"iqr": 0.1}})
    ] * 2
    error = runs[0].cases["a.z"].sampling_error or 0.0
    assert runs[0].cases["a.x"].sampling_error is None
    sds = {"a.x": 0.02, "a.y": 0.03, "a.z": 0.5}
    found = records(resample.tight_thresholds(runs, sds))
    assert [each.case for each in found] == ["a.z", "a.y", "a.x"]
    assert [each.carried_percent for each in found] == pytest.approx(
        [100 * math.expm1(3 * math.sqrt(2) * sds[each.case]) for each in found]
    )
    assert [each.threshold_percent for each in found] == pytest.approx(
        [100 * math.expm1(4 * math.sqrt(2) * error), 3.5, 3.5]
    )
    assert 100 * math.expm1(4 * math.sqrt(2) * error) > 3.6
    monkeypatch.setattr(noise, "fixed_resolvable", lambda *_, **__: 3 * math.sqrt(2) * np.array([0.02, 0.03, 0.5]))
    assert resample.tight_thresholds(runs, sds).empty
