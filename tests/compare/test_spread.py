"""Whether a case's spread grew while its mean holds: pure functions on arrays, and what compare and ab report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ab_records import ab_record
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_runs import document, save

from peakgate.cli import main
from peakgate.compare.ab import verdicts as ab
from peakgate.compare.ab.plan import Plan
from peakgate.compare.ab.record import Process
from peakgate.compare.ab.schedule import Phase, Side, order
from peakgate.compare.noise import Floats
from peakgate.compare.spread import BETWEEN_SESSIONS, WITHIN_SESSIONS, SideSpread, grown
from peakgate.runfile.saved import load_run

CASES = [f"a.c{number}-1-1" for number in range(20)]


def side(rng: np.random.Generator, sessions: int = 12, sd: float = 0.003, sample_sd: float = 0.005) -> SideSpread:
    """Normal sessions of cases of 150 µs; samples as steady in each."""
    shape = len(CASES), sessions
    log_time = np.log(150.0) + sd * rng.standard_normal(shape)
    return SideSpread(log_time, sample_sd * np.exp(0.1 * rng.standard_normal(shape)), np.full(shape, 60.0))


def scattered(values: Floats, factor: float, row: int = 0) -> Floats:
    """The values with one row's distances from its mean multiplied."""
    found = values.copy()
    found[row] = found[row].mean() + factor * (found[row] - found[row].mean())
    return found


def test_unchanged_sessions_have_no_finding() -> None:
    rng = np.random.default_rng(1)
    assert sum(bool(grown(CASES, side(rng), side(rng))) for _ in range(100)) <= 1


def test_sevenfold_scatter_between_sessions_is_found_though_the_mean_holds() -> None:
    rng = np.random.default_rng(2)
    found = 0
    for _ in range(40):
        before, after = side(rng), side(rng)
        wide = SideSpread(scattered(after.log_time, 7.0), after.sample_sd, after.samples)
        named = grown(CASES, before, wide)
        assert {(each.case, each.kind) for each in named} <= {(CASES[0], BETWEEN_SESSIONS)}
        found += bool(named)
    assert found >= 36


@pytest.mark.parametrize("sessions", [1, 3])
def test_sevenfold_scatter_of_the_samples_is_found_from_few_sessions(sessions: int) -> None:
    rng = np.random.default_rng(3)
    before, after = side(rng, sessions), side(rng, sessions)
    after.sample_sd[4] *= 7
    after.samples[:] = before.samples[:] = 240.0
    (named,) = grown(CASES, before, after)
    assert (named.case, named.kind) == (CASES[4], WITHIN_SESSIONS)
    assert named.growth == pytest.approx(7, rel=0.4)


def test_one_odd_session_is_no_spread_and_neither_is_one_that_shrank() -> None:
    rng = np.random.default_rng(4)
    before, after = side(rng, sd=0.001), side(rng, sd=0.001)
    after.log_time[0, 3] += 0.015
    assert not grown(CASES, before, after)
    assert not grown(CASES, SideSpread(scattered(before.log_time, 7.0), before.sample_sd, before.samples), after)


def test_spreads_too_small_to_matter_are_not_reported() -> None:
    rng = np.random.default_rng(5)
    before, after = side(rng, 30, sd=0.0001, sample_sd=0.0001), side(rng, 30, sd=0.0001, sample_sd=0.0001)
    after.sample_sd[:] *= 10
    assert not grown(CASES, before, after)


@settings(deadline=None, max_examples=30)
@given(st.floats(-3, 3), st.integers(0, 2**32 - 1))
def test_findings_do_not_depend_on_the_order_of_sessions_or_on_a_shift_of_long_cases(shift: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    before, after = side(rng), side(rng)
    wide = SideSpread(scattered(after.log_time, 9.0) + 4, after.sample_sd, after.samples)
    turned = SideSpread(wide.log_time[:, ::-1] + 1 + shift / 10, wide.sample_sd[:, ::-1], wide.samples)
    moved = SideSpread(before.log_time + 4, before.sample_sd, before.samples)
    assert [each.case for each in grown(CASES, moved, wide)] == [each.case for each in grown(CASES, moved, turned)]


def runs(folder: Path, factor: float, seed: int, **content: Any) -> None:
    rng = np.random.default_rng(seed)
    for day in range(1, 13):
        sds = [0.003 * (factor if case == CASES[0] else 1.0) for case in CASES]
        times = {case: 150.0 * float(np.exp(sd * rng.standard_normal())) for case, sd in zip(CASES, sds, strict=True)}
        save(folder, f"run{day}", document(times, day=day, **content))


def test_compare_reports_a_spread_that_grew_and_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runs(tmp_path / "base", 1.0, 1)
    runs(tmp_path / "new", 9.0, 2)
    assert main(["compare", "base", "new", "--out", "out"]) == 0
    written = json.loads((tmp_path / "out" / "compare.json").read_text())
    (found,) = written["spread"]
    assert (found["case"], found["kind"]) == (CASES[0], BETWEEN_SESSIONS)
    assert found["growth"] > 4
    for suffix in ("md", "html"):
        assert "Spread that grew" in (tmp_path / "out" / f"compare.{suffix}").read_text()


def test_sides_of_several_gpus_have_no_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runs(tmp_path / "base", 1.0, 1)
    runs(tmp_path / "new", 9.0, 2, uuid="GPU-0002")
    main(["compare", "base", "new", "--out", "out"])
    assert json.loads((tmp_path / "out" / "compare.json").read_text())["spread"] == []


def test_ab_reports_processes_of_head_that_scatter_more(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    case = CASES[0]
    made = ab_record(tmp_path, Plan(measured=(case,)), (12, 4))
    for pair in range(12):
        for which in order(pair):
            sd = 0.003 * (7.0 if which is Side.HEAD else 1.0)
            path = tmp_path / f"screen-{pair}-{which}.json"
            path.write_text(json.dumps(document({case: 150.0 * float(np.exp(sd * rng.standard_normal()))})))
            made.runs[path.name] = load_run(path)
            made.processes.append(Process(Phase.SCREEN, pair, which, path.name, 0, 1.5, {}))
    (found,) = ab.comparison(made).spread
    assert (found.case, found.kind) == (case, BETWEEN_SESSIONS)


def test_ab_reports_samples_of_head_that_scatter_more_in_one_process(tmp_path: Path) -> None:
    case = CASES[0]
    made = ab_record(tmp_path, Plan(measured=(case,)), (10, 4))
    for which, iqr in ((Side.BASE, 0.003), (Side.HEAD, 0.021)):
        measured = {"samples": 240, "iqr": iqr} | ({"pair_ratios": [1.0] * 10} if which is Side.HEAD else {})
        path = tmp_path / f"screen-0-{which}.json"
        path.write_text(json.dumps(document({case: 150.0}, extra={case: measured})))
        made.runs[path.name] = load_run(path)
        made.processes.append(Process(Phase.SCREEN, 0, which, path.name, 0, 1.5, {}, 10))
    (found,) = ab.comparison(made).spread
    assert (found.case, found.kind) == (case, WITHIN_SESSIONS)
    assert found.growth == pytest.approx(7, rel=0.1)
