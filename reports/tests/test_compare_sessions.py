"""Repeated sessions, on a side or in the history."""

from __future__ import annotations

from typing import Any

import pytest
from comparing import PAD, Saved, row, shift, verdicts
from peakgate.reports.comparison.judge import compare
from peakgate.reports.runs.find import Side
from peakgate.verdict import Verdict
from synthetic_runs import LADDER, slower


def test_repeated_sessions_resolve_a_shift_that_single_runs_cannot(saved: Saved) -> None:
    base = Side("base", saved.sessions(6, 0.001, seed=1))
    new = Side("new", saved.sessions(4, 0.001, seed=2, factor={PAD: 1.02}))
    result = compare(base, new)
    assert row(result).verdict is Verdict.SLOWER
    assert "6 and 4 sessions, p " in row(result).reason
    assert result.counts[Verdict.SAME] == len(LADDER) - 1
    assert shift(result, "transpose.smem-8192-32x8").resolvable_percent < 1


def test_no_shift_under_half_a_percent_is_called_however_sure(saved: Saved) -> None:
    base = Side("base", saved.sessions(12, 0.0001, seed=1))
    new = Side("new", saved.sessions(12, 0.0001, seed=2, factor=dict.fromkeys([PAD], 1.004)))
    assert row(compare(base, new)).verdict is Verdict.SAME


def test_unchanged_code_almost_never_fails_the_gate(saved: Saved) -> None:
    """30 gates of 15 cases, with session noise of 0.5 %, and none is flagged."""
    called = 0
    for gate in range(30):
        runs = saved.sessions(6, 0.005, seed=100 + gate)
        called += Verdict.SLOWER in verdicts(compare(Side("a", runs[:3]), Side("b", runs[3:])))
    assert called <= 1


def test_few_sessions_have_to_satisfy_the_single_run_rule_too(saved: Saved) -> None:
    base = Side("base", saved.sessions(2, 0.0001, seed=1))
    new = Side("new", saved.sessions(1, 0.0001, seed=2, factor={PAD: 1.02}))
    assert row(compare(base, new)).verdict is Verdict.SAME


def test_history_of_the_same_code_lets_single_runs_see_less(saved: Saved) -> None:
    history = saved.sessions(8, 0.001, seed=3)
    base, new = saved.side(), saved.side(slower(PAD, 1.02))
    assert row(compare(base, new)).verdict is Verdict.SAME
    result = compare(base, new, history)
    assert row(result).verdict is Verdict.SLOWER
    assert any("8 other saved sessions" in note for note in result.notes)


@pytest.mark.parametrize("gpu", [{"uuid": "GPU-0002"}, {"driver": "1"}])
def test_history_is_grouped_by_gpu_and_driver(saved: Saved, gpu: dict[str, Any]) -> None:
    """Two sessions here and two there are no three repeats anywhere, with the same binary and at the same commit."""
    for fingerprint in ("ab", None):
        content: dict[str, Any] = {"extra": {PAD: {"fingerprint": fingerprint}}}
        history = [saved.run(**content, **where) for where in ({}, {}, gpu, gpu)]
        assert shift(compare(saved.side(), saved.side(), history)).p_value is None
        assert shift(compare(saved.side(), saved.side(), history[:2] * 2)).p_value is not None


def test_history_of_other_code_is_left_out(saved: Saved) -> None:
    """Without a fingerprint a commit stands for its code, and uncommitted changes for nothing."""
    history = [saved.run(slower(PAD, 1 + 0.1 * n), commit=f"{n:040x}") for n in range(5)]
    history += [saved.run(slower(PAD, 1 + 0.1 * n), dirty=True) for n in range(5)]
    assert shift(compare(saved.side(), saved.side(), history)).p_value is None


def test_a_case_without_repeats_keeps_the_single_run_rule_beside_those_with(saved: Saved) -> None:
    history = saved.sessions(6, 0.001, seed=3)
    both = {**LADDER, "sgemm.fresh-4096": 3000.0}
    result = compare(saved.side(both), saved.side(both), history)
    assert shift(result, "sgemm.fresh-4096").resolvable_percent == pytest.approx(3)
    assert shift(result).resolvable_percent < 2
    assert any("1 of 16 cases were never repeated" in note for note in result.notes)
