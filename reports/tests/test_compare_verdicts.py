"""Every verdict that needs no comparison of times, and every note, word by word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import peakgate.reports
import pytest
from comparing import Saved
from msgspec import structs
from peakgate.common.errors import PeakgateError
from peakgate.reports.comparison import judge, noise
from peakgate.reports.comparison.evidence import CaseEvidence, Measured
from peakgate.reports.comparison.judge import Rules
from peakgate.reports.comparison.noise import Floats
from peakgate.reports.result import ComparedCase, Shift
from peakgate.reports.runs.find import RunSide
from peakgate.reports.runs.frame import to_frame
from peakgate.reports.runs.runfile import CaseResult, Run
from peakgate.verdict import Judgement, Verdict
from synthetic_runs import LADDER

RULES = Rules(refusal=None, other_model=False, same_gpu=True, several_gpus=False)
REFUSED = replace(RULES, refusal="no times", other_model=True)
ABSENT = Measured()


@pytest.fixture
def run(saved: Saved) -> Run:
    return saved.run({"a.b": 100.0})


@pytest.fixture
def side(run: Run) -> RunSide:
    return RunSide("side", (run,))


@pytest.fixture
def result(run: Run) -> CaseResult:
    return run.cases["a.b"]


def settled(
    base: Measured, new: Measured, sides: tuple[RunSide, RunSide], rules: Rules = RULES
) -> tuple[Verdict, str] | None:
    found = judge._settled(CaseEvidence("a.b", base, new), *sides, rules)
    return None if found is None else (found.verdict, found.reason)


def test_what_new_has_no_time_of_says_why(side: RunSide, run: Run, result: CaseResult) -> None:
    timed, both = Measured((result,)), (side, side)
    part = RunSide("part", (replace(run, whole=False),))
    assert settled(timed, timed, both) is None
    assert settled(timed, Measured(wrong="nan", wrong_as=Verdict.CRASHED), both) == (Verdict.CRASHED, "nan")
    assert settled(timed, ABSENT, both) == (Verdict.MISSING, "in base, not in new")
    assert settled(timed, ABSENT, (side, part)) == (
        Verdict.INCONCLUSIVE,
        "in base, not measured in new, which ran a selection of cases",
    )
    assert settled(timed, Measured(open="throttled"), both) == (Verdict.INCONCLUSIVE, "new: throttled")
    assert settled(timed, ABSENT, both, REFUSED) == (Verdict.INCOMPARABLE, "only in base; no times")
    assert settled(ABSENT, timed, both, REFUSED) == (Verdict.INCOMPARABLE, "only in new; no times")
    emulated = replace(RULES, refusal="emulated times are not judged")
    assert settled(timed, ABSENT, both, emulated) == (Verdict.MISSING, "in base, not in new")


def test_what_cannot_be_compared_with_base_says_why(side: RunSide, run: Run, result: CaseResult) -> None:
    timed, both = Measured((result,)), (side, side)
    part = RunSide("part", (replace(run, whole=False),))
    below = Measured((structs.replace(result, verdict=Verdict.BELOW_FLOOR, peak_fraction=0.5, floor=0.6),))
    assert settled(timed, below, both) is None
    assert settled(ABSENT, below, both) == (Verdict.BELOW_FLOOR, "0.500 of peak, floor 0.600")
    assert settled(timed, below, both, REFUSED) == (Verdict.BELOW_FLOOR, "0.500 of peak, floor 0.600")
    assert settled(Measured(open="throttled"), timed, both) == (Verdict.INCONCLUSIVE, "base: throttled")
    assert settled(Measured((result,), open="throttled"), timed, both) is None
    assert settled(ABSENT, timed, (part, side)) == (
        Verdict.INCONCLUSIVE,
        "not measured in base, which ran a selection of cases",
    )
    assert settled(ABSENT, timed, both) == (Verdict.NEW, "not in base")
    assert settled(Measured(wrong="nan"), timed, both) == (Verdict.NEW, "wrong in base (nan), timed in new")
    assert settled(timed, timed, both, REFUSED) == (Verdict.INCOMPARABLE, "no times")
    few = Measured((structs.replace(result, sampling_error=None),))
    reason = "fewer than 3 samples, their noise is unknown"
    assert settled(few, timed, both) == (Verdict.INCONCLUSIVE, f"base: {reason}")
    assert settled(timed, few, both) == (Verdict.INCONCLUSIVE, f"new: {reason}")
    assert settled(few, few, both) == (Verdict.INCONCLUSIVE, f"base and new: {reason}")


@pytest.mark.parametrize("order", [1, -1])
def test_one_whole_run_of_several_is_enough_to_miss_a_case_or_to_call_it_new(
    side: RunSide, run: Run, result: CaseResult, order: int
) -> None:
    several, timed = RunSide("several", (run, replace(run, whole=False))[::order]), Measured((result,))
    assert settled(timed, ABSENT, (side, several)) == (Verdict.MISSING, "in base, not in new")
    assert settled(ABSENT, timed, (several, side)) == (Verdict.NEW, "not in base")


def test_a_missing_case_names_the_tiers_where_they_differ(run: Run) -> None:
    both = RunSide("both", (replace(run, tier="full"), replace(run, tier="gate")))
    gate = RunSide("gate", (replace(run, tier="gate"),))
    assert judge._tiers(both, gate) == "; base ran tier full and gate, new gate: compare runs of one tier"
    assert judge._tiers(gate, gate) == ""


def test_the_rules_of_a_comparison(saved: Saved) -> None:
    def rules(base: Mapping[str, str | None], new: Mapping[str, str | None], *, across_gpus: bool = False) -> Rules:
        return judge._rules(saved.side(**base), saved.side(**new), across_gpus=across_gpus)

    other = {"slug": "nvidia-l4", "uuid": "GPU-0002"}
    reason = "nvidia-l4 against nvidia-h200: times of two GPU models are not compared unless asked"
    assert rules({}, {}) == Rules(None, other_model=False, same_gpu=True, several_gpus=False)
    assert rules({}, {"uuid": "GPU-0002"}) == Rules(None, other_model=False, same_gpu=False, several_gpus=True)
    unknown: dict[str, str | None] = {"uuid": None}
    assert rules(unknown, unknown) == Rules(None, other_model=False, same_gpu=False, several_gpus=True)
    assert rules({}, other) == Rules(reason, other_model=True, same_gpu=False, several_gpus=False)
    assert rules({}, other, across_gpus=True) == Rules(None, other_model=False, same_gpu=False, several_gpus=False)
    emulator = {"slug": "cpu-emulator"}
    assert rules(emulator, emulator).refusal == "emulated times are not judged"
    assert rules(emulator, {}, across_gpus=True).refusal == "emulated times are not judged"
    assert rules({}, emulator, across_gpus=True).refusal == "emulated times are not judged"


def test_the_worst_that_holds_is_the_verdict_of_a_timed_case(result: CaseResult) -> None:
    below = structs.replace(result, verdict=Verdict.BELOW_FLOOR, peak_fraction=0.5, floor=0.6, fingerprint="ab")
    plain = structs.replace(result, fingerprint="ab")

    def judged(log_ratio: float, new: CaseResult, *, flagged: bool = False, noisy: bool = False) -> Judgement:
        case = CaseEvidence("a.b", Measured((plain,)), Measured((new,)))
        return judge._judge(case, Shift(log_ratio, 0.0295588, flagged=flagged), noisy=noisy)

    within, code = "within the 3 % these runs can resolve", "same code: environment"
    assert judged(0.0, plain) == Judgement(Verdict.SAME, f"+0.00 %, {within}")
    assert judged(0.0, plain, noisy=True) == Judgement(
        Verdict.INCONCLUSIVE, f"+0.00 %, {within}: too noisy, measure both sides again"
    )
    beyond = "beyond the 3 % these runs can resolve"
    assert judged(0.1, plain, flagged=True) == Judgement(Verdict.SLOWER, f"1.11x slower, {beyond}; {code}")
    assert judged(-0.1, plain, flagged=True) == Judgement(Verdict.FASTER, f"1.11x faster, {beyond}; {code}")
    assert judged(0.0, below) == Judgement(
        Verdict.BELOW_FLOOR, f"0.500 of peak, floor 0.600; against base +0.00 %, {within}"
    )
    assert judged(-0.1, below, flagged=True).verdict is Verdict.BELOW_FLOOR
    assert judged(0.1, below, flagged=True).verdict is Verdict.SLOWER


def test_a_row_has_the_latest_measurement_and_the_mean_time_of_each_side(result: CaseResult) -> None:
    first, last = structs.replace(result, time_us=100.0), structs.replace(result, time_us=400.0)
    judgement, shift = Judgement(Verdict.SAME, "as it was"), Shift(0.0, 0.1, flagged=False)
    case = CaseEvidence("a.b", Measured((first, last)), Measured((last, last, first)))
    found = judge._row(case, judgement, shift)
    assert [found.base_time_us, found.new_time_us] == pytest.approx([200.0, 100.0 * 16 ** (1 / 3)])
    assert replace(found, base_time_us=None, new_time_us=None) == ComparedCase(
        "a.b", judgement, last, first, base_sessions=2, new_sessions=3, shift=shift
    )
    assert judge._row(CaseEvidence("a.b", ABSENT, ABSENT), judgement) == ComparedCase("a.b", judgement)


def notes(
    base: RunSide,
    new: RunSide,
    rules: Rules = RULES,
    residuals: np.ndarray | None = None,
    df: tuple[float, ...] = (0.0,),
) -> tuple[str, ...]:
    found = np.full((len(df), 2), np.nan) if residuals is None else residuals
    return judge._notes(base, new, rules, found, np.array(df))


def test_notes_are_told_once_each_and_only_where_they_hold(saved: Saved) -> None:
    base, new = saved.side(), saved.side()
    several = replace(RULES, same_gpu=False, several_gpus=True)
    two_models = replace(RULES, same_gpu=False)
    assert notes(base, new) == ()
    assert notes(replace(base, notes=("one", "two")), replace(new, notes=("two", "three"))) == ("one", "two", "three")
    assert notes(base, base) == ("a run is on both sides: it cannot differ from itself",)
    (apart,) = notes(base, new, several)
    assert apart.startswith("the runs are not of one and the same GPU: GPUs of one model may differ by 5 %")
    assert notes(base, new, two_models) == (
        "the sides are of two GPU models: they differ by more than the sessions of one",
    )
    for rules in (several, two_models):
        assert notes(base, new, replace(rules, refusal="no times")) == ()
    residuals = np.full((3, 6), np.nan)
    residuals[0, 1] = residuals[0, 3] = residuals[1, 3] = residuals[2, 5] = 0.01
    assert notes(base, new, residuals=residuals, df=(1.0, 1.0, 1.0)) == (
        "2 other saved sessions give the spread between sessions",
    )
    assert notes(base, new, df=(1.0, 0.0, 0.0)) == ("2 of 3 cases were never repeated: the single-run rule applies",)


def test_noise_is_sought_over_the_mean_log_time_of_both_sides(saved: Saved, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Floats] = []

    def no_noise(residuals: Floats, df: Floats, log_time: Floats) -> None:
        asked.append(log_time)

    monkeypatch.setattr(noise, "session_noise", no_noise)
    base, new = saved.side({"a.b": 100.0, "a.c": 10.0}), saved.side({"a.b": 400.0, "a.c": 10.0})
    found = judge.compare(base, new)
    assert asked[0] == pytest.approx(np.log([200.0, 10.0]))
    assert (found.base, found.new) == (base, new)


def test_frames_have_the_verdict_of_the_suite_and_compare_two_models_only_where_asked(saved: Saved) -> None:
    base = to_frame(saved.side().runs)
    slower = to_frame(saved.side({case: us * 1.02 for case, us in LADDER.items()}).runs)
    found = peakgate.reports.compare(base, slower)
    assert found.attrs == {
        "verdict": "SLOWER",
        "exit_code": 1,
        "suite_wide": "SLOWER: 1.02x slower in the median of 15 cases",
    }
    other = to_frame(saved.side(slug="nvidia-l4", uuid="GPU-0002").runs)
    refused = peakgate.reports.compare(base, other)
    assert set(refused["verdict"]) == {"INCOMPARABLE"}
    assert refused.attrs["suite_wide"] is None
    assert set(peakgate.reports.compare(base, other, across_gpus=True)["verdict"]) == {"SAME"}


def test_whether_the_machine_code_changed_is_a_note_where_both_sides_record_it(saved: Saved) -> None:
    plain, first, second = (
        saved.side({"a.b": 100.0}, extra={"a.b": {"fingerprint": print_}}) for print_ in (None, "a" * 16, "b" * 16)
    )
    assert not [note for note in judge.compare(plain, first).notes if note.startswith("machine code")]
    assert "machine code: changed in 1 of 1 case that records it, first a.b" in judge.compare(first, second).notes
    assert "machine code: the same in the case that records it" in judge.compare(first, first).notes


def test_an_empty_frame_is_named_by_its_side(saved: Saved) -> None:
    one = to_frame(saved.side().runs)
    none = one[one["case"] == "no such case"]
    for sides, label in (((none, one), "base"), ((one, none), "new")):
        with pytest.raises(PeakgateError) as raised:
            peakgate.reports.compare(*sides)
        assert str(raised.value) == (
            f"{label}: an empty frame, expected the rows of one run or more; see peakgate.reports.load"
        )
