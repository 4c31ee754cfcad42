from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from drawn_sessions import DrawnSession, of_sessions
from test_history_trend import session

from peakgate.base.errors import Code, PeakgateError
from peakgate.compare.history import series
from peakgate.compare.history.causes import Place, locate
from peakgate.compare.history.series import History


def timed(number: int, cases: str = "ab", **facts: object) -> DrawnSession:
    return session(number, **{"times_us": {f"x.{case}": 10.0 + number for case in cases}, **facts})


def history(sessions: Sequence[DrawnSession], slug: str | None = None, expression: str = "") -> History:
    return series.history(of_sessions(sessions), slug, expression)


def test_sessions_are_put_in_the_order_they_were_taken() -> None:
    found = history([timed(3), timed(1), timed(2)])
    assert [each.path for each in found.sessions] == ["0001.json", "0002.json", "0003.json"]
    assert np.exp(found.log_time[0]) == pytest.approx([11.0, 12.0, 13.0])


def test_a_copied_file_is_no_second_session() -> None:
    assert len(history([timed(1), timed(1, path="copy.json"), timed(2)]).sessions) == 2


def test_two_sessions_of_one_moment_with_other_times_are_two() -> None:
    other = timed(1, times_us={"x.a": 99.0}, path="other.json")
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
    moved = history([*before, *after, timed(12, "abc", tier="full", path="full.json")])
    assert (moved.cases, moved.retired) == (("x.a", "x.b", "x.c"), ())
    assert moved.times.notna().sum(axis=1).tolist() == [10, 10, 1]
    assert history([*before, timed(5, "abc", tier="full"), *after]).retired == ("x.c",)


def test_changes_of_driver_and_gpu_are_marked_where_they_happen() -> None:
    sessions = [timed(0), timed(1, driver=None), timed(2, driver="590.1"), timed(3, driver="590.1", uuid="GPU-2")]
    found = history(sessions).marks
    assert [(each.index, each.what, each.before, each.after) for each in found] == [
        (2, "driver", "580.159.04", "590.1"),
        (3, "GPU", "GPU-0001", "GPU-2"),
    ]


def test_gpus_in_turns_are_marked_once_each_and_an_upgrade_of_all_of_them_once() -> None:
    turns = [
        timed(number, uuid=f"GPU-{number % 3}", driver="590.1" if number >= 30 else "580.159.04")
        for number in range(60)
    ]
    marks = history(turns).marks
    assert [(each.index, each.what) for each in marks] == [(1, "GPU"), (2, "GPU"), (30, "driver")]


def test_a_driver_that_is_put_back_and_upgraded_again_is_marked_each_time() -> None:
    drivers = ["580.1"] * 3 + ["590.1"] * 3 + ["580.1"] * 3 + ["590.1"] * 3
    marks = history([timed(number, driver=driver) for number, driver in enumerate(drivers)]).marks
    assert [(each.index, each.after) for each in marks] == [(3, "590.1"), (6, "580.1"), (9, "590.1")]


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


def test_an_expression_selects_cases_and_one_of_none_is_an_error() -> None:
    assert history([timed(1, "abc")], expression="x.a or x.c").cases == ("x.a", "x.c")
    with pytest.raises(PeakgateError) as refused:
        history([timed(1, "abc")], expression="q")
    assert refused.value.code is Code.SELECTION


def test_sessions_that_decided_nothing_are_an_error() -> None:
    with pytest.raises(PeakgateError, match="none of the 0 cases in 1 run was timed"):
        series.history(of_sessions([timed(1)]).assign(verdict="INCONCLUSIVE"))


def located(**facts: Callable[[int], object]) -> Place:
    """A case of 28 sessions with a step after twenty; each fact is a function of the session's number."""
    kept = [
        session(
            number,
            times_us={"a": 100.0 if number < 20 else 105.0},
            **{name: fact(number) for name, fact in facts.items()},
        )
        for number in range(28)
    ]
    return locate(history(kept), 0, np.arange(28), 19, 20)


def test_a_plain_step_is_between_two_neighbours_and_names_the_command() -> None:
    place = located()
    assert (place.good, place.bad, place.between) == (19, 20, 0)
    assert place.command == f"peakgate ab {'13' * 6} {'14' * 6}"


def test_sessions_of_uncommitted_changes_are_walked_past_to_a_commit() -> None:
    place = located(dirty=lambda number: number in {19, 20, 21})
    assert (place.good, place.bad, place.between) == (18, 22, 3)
    assert place.command == f"peakgate ab {'12' * 6} {'16' * 6}"


@pytest.mark.parametrize(("fact", "value"), [("dirty", True), ("commit", "unknown")])
def test_without_a_clean_commit_on_both_sides_there_is_no_command(fact: str, value: object) -> None:
    place = located(**{fact: lambda _: value})
    assert place.command is None


def test_a_step_within_one_commit_is_the_environments() -> None:
    place = located(commit=lambda _: "c" * 40, driver=lambda number: "590.1" if number > 19 else "580.1")
    assert place.command is None
    assert [fact.split()[0] for fact in place.facts] == ["driver", "within"]


@pytest.mark.parametrize(("after", "fact"), [("f1", "same code: environment"), ("f2", "its code changed")])
def test_the_fingerprints_say_whether_the_code_changed(after: str, fact: str) -> None:
    place = located(fingerprints=lambda number: {"a": after if number > 19 else "f1"})
    assert place.facts == (fact,)


@pytest.mark.parametrize(("after", "facts"), [("f1", ()), ("f2", ("its code changed",))])
def test_equal_code_of_a_callable_is_no_proof_that_a_commit_is_innocent(after: str, facts: tuple[str, ...]) -> None:
    place = located(
        fingerprints=lambda number: {"a": after if number > 19 else "f1"},
        kernels=lambda _: {"a": {"add": "1a"}},
    )
    assert place.facts == facts
    assert place.command is not None
