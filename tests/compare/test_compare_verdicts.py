"""Every verdict that needs no comparison of times, the rules that hold for all cases, and the notes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from comparing import Saved, compare
from synthetic_runs import LADDER

import peakgate.reports
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.verdict import ExitCode, Verdict
from peakgate.compare import evidence, judge, noise, result
from peakgate.compare.judge import Rules
from peakgate.compare.noise import Floats
from peakgate.runfile.frame import to_frame

RULES = Rules(refusal=None, other_model=False, same_gpu=True)
ABSENT: dict[str, Any] = {"case": "a.other"}
TIMED: dict[str, Any] = {}
OPEN: dict[str, Any] = {"verdict": "INCONCLUSIVE", "reason": "throttled", "time_us": np.nan}
WRONG: dict[str, Any] = {"verdict": "WRONG", "reason": "nan", "time_us": np.nan}
BELOW: dict[str, Any] = {"verdict": "BELOW_FLOOR", "peak_fraction": 0.5, "floor": 0.6}
LINK: dict[str, Any] = {"bound": "link"}
FEW_SAMPLES = {"sampling_error": np.nan}
PART = {"whole": False}
OTHER_MODEL = {"gpu_slug": "nvidia-l4", "gpu_uuid": "GPU-0002"}
EMULATED = {"gpu_slug": "cpu-emulator"}


@pytest.fixture
def run(saved: Saved) -> pd.DataFrame:
    """A run of one case, ``a.b``."""
    return to_frame([saved.run({"a.b": 100.0})])


Kind = Mapping[str, Any] | tuple[Mapping[str, Any], ...]
"""The values of columns in which a side differs from ``run``, of each of its sessions."""


def judged(run: pd.DataFrame, base: Kind, new: Kind) -> pd.DataFrame:
    """The row of the case ``a.b``."""
    sides = []
    for name, kinds in (("base", base), ("new", new)):
        several = kinds if isinstance(kinds, tuple) else (kinds,)
        sides.append(pd.concat([run.assign(**kind, run=f"{name}{session}") for session, kind in enumerate(several)]))
    return peakgate.reports.compare(*sides).query("case == 'a.b'")


@pytest.mark.parametrize(
    ("base", "new", "verdict", "said"),
    [
        (TIMED, TIMED, Verdict.SAME, ""),
        (TIMED, WRONG, Verdict.WRONG, ""),
        (TIMED, WRONG | {"verdict": "CRASHED"}, Verdict.CRASHED, ""),
        (TIMED, ABSENT, Verdict.MISSING, ""),
        (TIMED, ABSENT | PART, Verdict.INCONCLUSIVE, ""),
        (TIMED, OPEN, Verdict.INCONCLUSIVE, "new: throttled"),
        (TIMED, ABSENT | OTHER_MODEL, Verdict.INCOMPARABLE, ""),
        (ABSENT, OTHER_MODEL, Verdict.INCOMPARABLE, ""),
        (EMULATED, ABSENT | EMULATED, Verdict.MISSING, ""),
        (TIMED, BELOW, Verdict.BELOW_FLOOR, ""),
        (ABSENT, BELOW, Verdict.BELOW_FLOOR, ""),
        (OPEN, BELOW, Verdict.BELOW_FLOOR, ""),
        (TIMED, BELOW | OTHER_MODEL, Verdict.BELOW_FLOOR, ""),
        (OPEN, TIMED, Verdict.INCONCLUSIVE, "base: throttled"),
        (ABSENT | PART, TIMED, Verdict.INCONCLUSIVE, ""),
        (ABSENT, TIMED, Verdict.NEW, "not in base"),
        (WRONG, TIMED, Verdict.NEW, "wrong in base (nan)"),
        (TIMED, OTHER_MODEL, Verdict.INCOMPARABLE, ""),
        (EMULATED, EMULATED, Verdict.INCOMPARABLE, ""),
        (ABSENT | EMULATED, EMULATED, Verdict.NEW, ""),
        (FEW_SAMPLES, TIMED, Verdict.INCONCLUSIVE, "base: "),
        (TIMED, FEW_SAMPLES, Verdict.INCONCLUSIVE, "new: "),
        (FEW_SAMPLES, FEW_SAMPLES, Verdict.INCONCLUSIVE, "base and new: "),
        (TIMED, {"verdict": None, "time_us": np.nan}, Verdict.INCONCLUSIVE, ""),
        (TIMED, BELOW | {"time_us": 150.0}, Verdict.SLOWER, ""),
        (TIMED | PART, TIMED, Verdict.SAME, ""),
        (TIMED, TIMED | PART, Verdict.SAME, ""),
        ((TIMED, OPEN), TIMED, Verdict.SAME, ""),
        ((TIMED, WRONG), TIMED, Verdict.SAME, ""),
        (TIMED, (TIMED, OPEN), Verdict.SAME, ""),
        (TIMED, (TIMED, WRONG), Verdict.WRONG, ""),
        ((OPEN, WRONG), TIMED, Verdict.INCONCLUSIVE, ""),
    ],
)
def test_what_cannot_be_compared_has_its_verdict_and_names_the_side_that_could_not_be_timed(
    run: pd.DataFrame, base: Kind, new: Kind, verdict: Verdict, said: str
) -> None:
    row = judged(run, base, new)
    assert row["verdict"].item() == verdict
    assert row["reason"].item().startswith(said)


def test_the_latest_session_at_fault_gives_the_verdict_and_a_session_left_open_hides_no_time(run: pd.DataFrame) -> None:
    sessions = [
        run.assign(run=str(day), taken=run["taken"] + pd.Timedelta(days=day), **kind)
        for day, kind in enumerate((WRONG, WRONG | {"verdict": "TIMEOUT"}, WRONG, TIMED, OPEN))
    ]
    rows = peakgate.reports.compare(run, pd.concat(sessions[::-1]))
    assert rows["verdict"].item() == Verdict.WRONG
    rows = peakgate.reports.compare(run, pd.concat(sessions[3:]))
    assert (rows["verdict"].item(), rows["new_sessions"].item()) == (Verdict.SAME, 1)


@pytest.mark.parametrize("order", [1, -1])
def test_one_whole_run_of_several_is_enough_to_miss_a_case_or_to_call_it_new(run: pd.DataFrame, order: int) -> None:
    other = run.assign(**ABSENT)
    several = pd.concat([other.assign(run="whole"), other.assign(run="part", whole=False)][::order])
    assert peakgate.reports.compare(run, several).set_index("case")["verdict"]["a.b"] == Verdict.MISSING
    assert peakgate.reports.compare(several, run).set_index("case")["verdict"]["a.b"] == Verdict.NEW


def test_a_missing_case_names_the_tiers_where_they_differ(run: pd.DataFrame) -> None:
    both = pd.concat([run.assign(run_tier="full"), run.assign(run_tier="gate")])
    gate = run.assign(run_tier="gate")
    assert re.findall("full|gate", judge._tiers(both, gate)) == ["full", "gate", "gate"]
    row = judged(run, {"run_tier": "full"}, {"run_tier": "gate", "case": "a.other"})
    assert re.findall("full|gate", row["reason"].item()) == ["full", "gate"]
    assert judge._tiers(gate, gate) == ""


def test_the_rules_of_a_comparison(run: pd.DataFrame) -> None:
    def rules(base: Mapping[str, Any], new: Mapping[str, Any], *, across_gpus: bool = False) -> tuple[bool, ...]:
        found = judge._rules(run.assign(**base), run.assign(**new), across_gpus=across_gpus)
        return found.refusal is not None, found.other_model, found.same_gpu

    assert rules({}, {}) == (False, False, True)
    assert rules({}, {"gpu_uuid": "GPU-0002"}) == (False, False, False)
    assert rules({"gpu_uuid": None}, {"gpu_uuid": None}) == (False, False, False)
    assert rules({}, {"gpu_uuid": None}) == (False, False, False)
    assert rules({}, OTHER_MODEL) == (True, True, False)
    assert rules({}, OTHER_MODEL, across_gpus=True) == (False, False, False)
    for base, new in ((EMULATED, EMULATED), (EMULATED, {}), ({}, EMULATED)):
        assert rules(base, new, across_gpus=True)[0]
    refusal = judge._rules(run, run.assign(**OTHER_MODEL), across_gpus=False).refusal
    assert str(refusal).startswith("nvidia-l4 against nvidia-h200: ")


@pytest.mark.parametrize(
    ("log_ratio", "flagged", "noisy", "below", "verdict"),
    [
        (0.0, False, False, False, Verdict.SAME),
        (0.0, False, True, False, Verdict.INCONCLUSIVE),
        (0.1, True, False, False, Verdict.SLOWER),
        (-0.1, True, False, False, Verdict.FASTER),
        (0.0, False, False, True, Verdict.BELOW_FLOOR),
        (-0.1, True, False, True, Verdict.BELOW_FLOOR),
        (0.1, True, False, True, Verdict.SLOWER),
    ],
)
def test_the_worst_that_holds_is_the_verdict_of_a_timed_case(
    run: pd.DataFrame, *, log_ratio: float, flagged: bool, noisy: bool, below: bool, verdict: Verdict
) -> None:
    cases = pd.Index(["a.b"], name="case")
    before, after = (evidence.summarize(run.assign(**kind), cases) for kind in (TIMED, BELOW if below else TIMED))
    figures = {"log_ratio": log_ratio, "resolvable": 0.03, "p_value": np.nan, "flagged": flagged, "noisy": noisy}
    shifts = pd.DataFrame(figures, index=cases)
    in_percent = result.in_percent(shifts.assign(low=0.0, high=0.0))
    found = judge._first(judge._judging(before, after, shifts, in_percent), cases)
    assert found["verdict"].item() == verdict
    if verdict is Verdict.BELOW_FLOOR:
        ratio = f"{100 * np.expm1(log_ratio):+.2f}"
        assert re.findall(r"[+-]?\d+\.\d+", found["reason"].item())[:3] == ["0.500", "0.600", ratio]


@pytest.mark.parametrize(
    ("base", "new", "verdict"),
    [
        (LINK, LINK, Verdict.INCONCLUSIVE),
        (LINK, TIMED, Verdict.INCONCLUSIVE),
        (TIMED, LINK, Verdict.INCONCLUSIVE),
        (TIMED, (LINK, TIMED), Verdict.INCONCLUSIVE),
        ((LINK, TIMED), (LINK, TIMED), Verdict.SLOWER),
    ],
)
def test_a_transfer_that_moved_is_open_where_a_side_is_one_session(
    run: pd.DataFrame, base: Kind, new: Kind, verdict: Verdict
) -> None:
    after = tuple({**kind, "time_us": 200.0} for kind in (new if isinstance(new, tuple) else (new,)))
    assert judged(run, base, after)["verdict"].item() == verdict


def test_a_row_has_the_latest_measurement_and_the_mean_time_of_each_side(run: pd.DataFrame) -> None:
    def side(*times_us: float, size: str = "8") -> pd.DataFrame:
        sessions = [run.assign(run=str(n), time_us=us, gbs=us, registers=n) for n, us in enumerate(times_us)]
        return pd.concat(sessions).assign(size=size)

    base, new = side(100.0, 400.0), side(400.0, 400.0, 100.0, size="9")
    assert peakgate.reports.compare(base, new.assign(case="a.c"))["size"].to_list() == ["8", "9"]
    found = peakgate.reports.compare(base, new).iloc[0]
    assert found["size"] == "9"
    assert [found["base_time_us"], found["new_time_us"]] == pytest.approx([200.0, 100.0 * 16 ** (1 / 3)])
    assert [found["base_gbs"], found["new_gbs"]] == [400.0, 100.0]
    assert [found["base_registers"], found["new_registers"]] == [1, 2]
    assert [found["base_sessions"], found["new_sessions"]] == [2, 3]


def test_a_case_that_a_frame_has_twice_of_a_run_counts_once(run: pd.DataFrame) -> None:
    found = peakgate.reports.compare(pd.concat([run, run]), run)
    assert found["base_sessions"].item() == 1


def notes(
    run: pd.DataFrame,
    rules: Rules = RULES,
    saved: int = 0,
    df: tuple[float, ...] = (0.0,),
    *,
    other_model: bool = False,
) -> int:
    """How many notes there are besides that of the machine code."""
    found = judge._notes(
        run,
        run.assign(run="new", **(OTHER_MODEL if other_model else {})),
        rules,
        saved,
        np.array(df),
    )
    return len([note for note in found if not note.startswith("machine code")])


def test_notes_are_given_only_where_they_hold(run: pd.DataFrame) -> None:
    assert notes(run) == 0
    two_models = replace(RULES, same_gpu=False)
    assert notes(run, two_models, other_model=True) == 1
    assert notes(run, replace(two_models, refusal="no times"), other_model=True) == 0
    assert notes(run, saved=2) == 1
    assert notes(run, df=(1.0, 0.0, 0.0)) == 1
    assert notes(run, df=(1.0, 1.0)) == 0


def test_a_comparison_gives_the_notes_of_its_sides_once_each(saved: Saved) -> None:
    base, new = saved.side(), saved.side()
    found = compare(replace(base, notes=("one", "two")), replace(new, notes=("two", "three")))
    assert found.notes[:3] == ("one", "two", "three")
    assert any("on both sides" in note for note in compare(base, base).notes)


def test_noise_is_estimated_over_the_mean_log_time_of_both_sides(saved: Saved, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Floats] = []

    def no_noise(residuals: Floats, df: Floats, log_time: Floats) -> None:
        asked.append(log_time)

    monkeypatch.setattr(noise, "session_noise", no_noise)
    compare(saved.side({"a.b": 100.0, "a.c": 10.0}), saved.side({"a.b": 400.0, "a.c": 10.0}))
    assert asked[0] == pytest.approx(np.log([200.0, 10.0]))


def test_the_suite_is_judged_by_the_sessions_of_either_side(run: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    monkeypatch.setattr(judge, "_suite", lambda *given: asked.append(given[-1]))
    base, new = (pd.concat([run.assign(run=f"{side}{n}") for n in range(runs)]) for side, runs in (("b", 2), ("n", 4)))
    peakgate.reports.compare(base, new)
    assert asked == [1 / 2 + 1 / 4]


def test_frames_have_the_verdict_of_the_suite_and_compare_two_models_only_where_asked(saved: Saved) -> None:
    base = saved.side().frame
    found = peakgate.reports.compare(base, saved.side({case: us * 1.02 for case, us in LADDER.items()}).frame)
    assert (found.attrs["verdict"], found.attrs["exit_code"]) == ("SLOWER", ExitCode.REGRESSION)
    assert found.attrs["suite_wide"].startswith("SLOWER: ")
    assert (found.attrs["suite"]["verdict"], found.attrs["suite"]["cases"]) == ("SLOWER", len(LADDER))
    other = saved.side(slug="nvidia-l4", uuid="GPU-0002").frame
    refused = peakgate.reports.compare(base, other)
    assert set(refused["verdict"]) == {"INCOMPARABLE"}
    assert refused["reason"].str.startswith("nvidia-l4 against nvidia-h200: ").all()
    assert refused.attrs["suite_wide"] is None
    assert set(peakgate.reports.compare(base, other, across_gpus=True)["verdict"]) == {"SAME"}


def test_whether_the_machine_code_changed_is_a_note_where_both_sides_record_it(saved: Saved) -> None:
    plain, first, second = (
        saved.side({"a.b": 100.0}, extra={"a.b": {"fingerprint": print_}}) for print_ in (None, "a" * 16, "b" * 16)
    )
    assert not [note for note in compare(plain, first).notes if note.startswith("machine code")]
    (changed,) = [note for note in compare(first, second).notes if note.startswith("machine code")]
    (same,) = [note for note in compare(first, first).notes if note.startswith("machine code")]
    assert "first a.b" in changed
    assert "first a.b" not in same


def test_a_frame_that_is_empty_or_none_of_runs_is_named_by_its_side(run: pd.DataFrame) -> None:
    none, other = run[run["case"] == "no such case"], run.drop(columns="verdict")
    for broken, code in ((none, Code.TOO_FEW), (other, Code.NO_RUN)):
        for sides, label in (((broken, run), "base"), ((run, broken), "new"), ((run, run, other), "history")):
            with pytest.raises(PeakgateError, match=f"^{label}: ") as caught:
                peakgate.reports.compare(*sides)
            assert caught.value.code is (Code.NO_RUN if label == "history" else code)


def test_a_run_of_a_side_does_not_count_again_in_the_history(saved: Saved) -> None:
    history, base, new = saved.sessions(3, 0.01, seed=1), saved.side(), saved.side()
    alone = compare(base, new, history).frame
    pd.testing.assert_frame_equal(compare(base, new, [*history, *base.runs, *new.runs]).frame, alone)
