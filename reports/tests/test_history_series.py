from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from peakgate.common.errors import PeakgateError
from peakgate.reports.history.series import history, marks
from peakgate.reports.runs.sessions import SavedSession
from test_history_detect import session


def timed(number: int, cases: str = "ab", **facts: object) -> SavedSession:
    return session(number, **{"times_us": {f"x.{case}": 10.0 + number for case in cases}, **facts})


def test_sessions_are_put_in_the_order_they_were_taken() -> None:
    found = history([timed(3), timed(1), timed(2)])
    assert [each.path for each in found.sessions] == ["0001.json", "0002.json", "0003.json"]
    assert np.exp(found.log_time[0]) == pytest.approx([11.0, 12.0, 13.0])


def test_a_copied_file_is_no_second_session() -> None:
    assert len(history([timed(1), timed(1, path="copy.json"), timed(2)]).sessions) == 2


def test_two_sessions_of_one_moment_with_other_times_are_two() -> None:
    other = timed(1, times_us={"x.a": 99.0})
    assert len(history([timed(1), other]).sessions) == 2


def test_a_partial_run_contributes_the_cases_it_has() -> None:
    found = history([timed(1), timed(2, "b", whole=False)])
    assert np.isnan(found.log_time).tolist() == [[False, True], [False, False]]


def test_cases_the_newest_whole_sessions_leave_out_are_retired() -> None:
    found = history([timed(0, "abc"), *(timed(number) for number in range(1, 6))])
    assert (found.cases, found.retired) == (("x.a", "x.b"), ("x.c",))


def test_cases_that_partial_runs_or_another_tier_leave_out_are_not_retired() -> None:
    partial = [timed(number, "a", whole=False) for number in range(1, 9)]
    gate = [timed(number, "a", tier="gate") for number in range(10, 18)]
    found = history([timed(0, "ab", tier="full"), *partial, *gate])
    assert found.retired == ()


def test_a_case_that_moves_to_another_tier_begins_anew_there() -> None:
    before = [timed(number, "abc", tier="gate") for number in range(3)]
    after = [timed(number, "ab", tier="gate") for number in range(10, 16)]
    moved = history([*before, *after, timed(12, "abc", tier="full")])
    assert (moved.cases, moved.retired) == (("x.a", "x.b", "x.c"), ())
    assert np.isfinite(moved.time_us).sum(axis=1).tolist() == [10, 10, 1]
    assert history([*before, timed(5, "abc", tier="full"), *after]).retired == ("x.c",)


def test_changes_of_driver_and_gpu_are_marked_where_they_happen() -> None:
    sessions = [timed(0), timed(1, driver=None), timed(2, driver="590.1"), timed(3, driver="590.1", uuid="GPU-2")]
    found = marks(sessions)
    assert [(each.index, each.what, each.before, each.after) for each in found] == [
        (2, "driver", "580.159.04", "590.1"),
        (3, "GPU", "GPU-0001", "GPU-2"),
    ]


def test_the_only_gpu_that_is_not_emulated_is_taken() -> None:
    found = history([timed(1), timed(2, slug="cpu-emulator")])
    assert (found.slug, len(found.sessions)) == ("nvidia-h200", 1)


@pytest.mark.parametrize(
    ("slugs", "wanted", "said"),
    [
        (["nvidia-h200", "nvidia-l4"], None, "runs of nvidia-h200 and nvidia-l4; choose one with --gpu"),
        (["nvidia-h200"], "nvidia-l4", "--gpu nvidia-l4: no saved run of it; there are runs of nvidia-h200"),
        (["cpu-emulator"], None, "only emulated runs"),
        (["cpu-emulator"], "cpu-emulator", "emulated times are not judged"),
        ([], None, "no saved run: measure on a GPU"),
        ([], "nvidia-l4", "there are runs of no GPU"),
    ],
)
def test_an_open_or_impossible_choice_of_gpu_says_what_there_is(
    slugs: list[str], wanted: str | None, said: str
) -> None:
    sessions = [timed(number, slug=slug) for number, slug in enumerate(slugs)]
    with pytest.raises(PeakgateError, match=said):
        history(sessions, wanted)


def test_parts_choose_cases_and_a_part_of_none_is_an_error() -> None:
    assert history([timed(1, "abc")], parts=["a", "c"]).cases == ("x.a", "x.c")
    with pytest.raises(PeakgateError, match="none of the 3 cases in 1 run has 'q' in its id"):
        history([timed(1, "abc")], parts=["q"])


def test_sessions_that_decided_nothing_are_an_error() -> None:
    with pytest.raises(PeakgateError, match="none of the 0 cases in 1 run was timed"):
        history([session(1, taken=datetime(2026, 1, 1, tzinfo=UTC))])
