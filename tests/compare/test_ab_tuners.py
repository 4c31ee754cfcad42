"""What tuners chose on both sides of an ``ab``: the same, another configuration, or now this and now that."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ab_experiment import CHANGED, PAD, ab, row, start_quickly
from ab_fake import FakeSide
from msgspec import structs

from peakgate.base.verdict import Verdict
from peakgate.compare.ab.asides import chosen, kernel_notes, tuner_notes
from peakgate.compare.ab.process import one_choice
from peakgate.runfile.saved import CaseResult
from peakgate.spec.recorded import TunedChoice


def result(time_us: float, *choices: TunedChoice) -> CaseResult:
    return CaseResult(
        case="a.b",
        verdict=Verdict.NO_FLOOR,
        tuned=choices or None,
        time_us=time_us,
        samples=6,
        sampling_error=None,
    )


SMALL, LARGE = TunedChoice("k", "BLOCK: 64", "aaa"), TunedChoice("k", "BLOCK: 1024", "bbb")


def test_nothing_is_said_where_nothing_is_tuned_on_a_side() -> None:
    assert tuner_notes([result(1.0)], [result(1.0, SMALL)]) == []


def test_the_same_choice_is_proven_by_the_code_and_not_by_its_name() -> None:
    (same,) = tuner_notes([result(1.0, SMALL)], [result(1.0, SMALL)])
    (other,) = tuner_notes([result(1.0, SMALL)], [result(1.0, TunedChoice("k", "BLOCK: 64", "ccc"))])
    (unseen,) = tuner_notes([result(1.0, TunedChoice("k", "1"))], [result(1.0, TunedChoice("k", "1"))])
    assert "same machine code" in same
    assert other.endswith("aaa to ccc")
    (half,) = tuner_notes([result(1.0, SMALL)], [result(1.0, TunedChoice("k", "BLOCK: 64"))])
    assert "same machine code" not in unseen
    assert half.endswith("aaa to unknown")


def test_another_configuration_is_named_with_both() -> None:
    (note,) = tuner_notes([result(1.0, SMALL)], [result(1.0, LARGE)])
    assert note.partition(": ")[2].split(" to ") == ["k BLOCK: 64", "k BLOCK: 1024"]


def ran(fingerprint: str | None = None, **kernels: str | None) -> CaseResult:
    return structs.replace(result(1.0), fingerprint=fingerprint, kernels=kernels or None)


def noted(base: list[CaseResult], head: list[CaseResult]) -> list[tuple[str, ...]]:
    """What each note says of the machine code, and of which kernels."""
    return [tuple(note.split(" machine code of ")) for note in kernel_notes(base, head)]


def test_equal_code_and_launches_are_unchanged() -> None:
    assert noted([ran("ff", add="1a")] * 2, [ran("ff", add="1a")]) == [("unchanged", "add")]


def test_a_kernel_with_other_code_is_named() -> None:
    base, head = [ran("ff", add="1a", mul="2b")], [ran("ee", add="1a", mul="9f")]
    assert noted(base, head) == [("other", "mul")]


def test_unknown_code_is_never_unchanged() -> None:
    base, head = [ran(add="1a", gemm=None)], [ran(add="1a", gemm=None)]
    assert noted(base, head) == [("unknown", "gemm")]
    assert noted([ran("ff", add="1a"), ran("ee", add="2b")], [ran("ff", add="1a")]) == [("unknown", "add")]
    assert kernel_notes([ran()], [ran("ff", add="1a")]) == []


def test_a_tuner_that_changes_its_mind_has_its_spread_reported() -> None:
    base = [result(10.0, SMALL), result(12.0, LARGE), result(11.0, SMALL)]
    assert list(chosen(base).items()) == [((SMALL,), [10.0, 11.0]), ((LARGE,), [12.0])]
    (note,) = tuner_notes(base, [result(10.0, SMALL)])
    assert re.findall(r"\d[\d.]*", note) == ["64", "2", "10.00", "11.00", "1024", "1", "12.00", "12.00"]


def test_the_choices_of_both_sides_are_beside_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start_quickly(tmp_path, monkeypatch)
    base = FakeSide(extra={PAD: {"tuned": [{"kernel": "k", "configuration": "A", "code": "1"}]}})
    head = FakeSide(fingerprints=CHANGED, extra={PAD: {"tuned": [{"kernel": "k", "configuration": "B", "code": "2"}]}})
    assert ab(tmp_path, base, head) == 0
    reason = row(tmp_path, PAD)["reason"]
    assert "k A to" in reason
    assert "to k B" in reason


def test_tuners_keep_one_choice_for_both_sides_unless_the_user_keeps_it() -> None:
    folder = Path("scratch")
    assert one_choice(folder, {})["TRITON_CACHE_DIR"] == str(folder / "triton")
    assert "TRITON_CACHE_DIR" not in one_choice(folder, {"TRITON_CACHE_DIR": "mine"})
