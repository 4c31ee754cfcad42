from __future__ import annotations

from pathlib import Path

import pytest

from reports.ab.code import SideCode, launch_hashes
from reports.ab.plan import plan, plan_after_proof, spread_out

CODES: dict[str, str | None] = {f"{family}.stage-{size}": f"{family}{size}" for family in "abc" for size in range(4)}
LAUNCHES = {"": "shared", "a": "1", "b": "1", "c": "1"}
BASE = SideCode(CODES, LAUNCHES)


def head(changes: dict[str, str | None] | None = None, **launches: str) -> SideCode:
    return SideCode(CODES | (changes or {}), LAUNCHES | launches)


def test_equal_code_is_not_measured_but_for_sentinels_of_every_family() -> None:
    planned = plan(BASE, head(), sentinels=3, durations_us={})
    assert planned.measured == ()
    assert {case[0] for case in planned.sentinels} == {"a", "b", "c"}
    assert planned.unchanged is not None
    assert len(planned.unchanged) == len(CODES) - 3


def test_a_changed_kernel_is_measured() -> None:
    planned = plan(BASE, head({"a.stage-0": "other"}), sentinels=2, durations_us={})
    assert planned.measured == ("a.stage-0",)
    assert "a.stage-0" not in planned.sentinels


def test_a_family_that_launches_otherwise_is_measured_whole() -> None:
    planned = plan(BASE, head(b="2"), sentinels=2, durations_us={})
    assert planned.measured == tuple(case for case in CODES if case.startswith("b."))


def test_what_all_families_share_concerns_all() -> None:
    changed = SideCode(CODES, LAUNCHES | {"": "other"})
    assert plan(BASE, changed, sentinels=2, durations_us={}).measured == tuple(CODES)


def test_unchanged_cases_are_measured_when_asked_for() -> None:
    planned = plan(BASE, head(), sentinels=5, durations_us={}, measure_unchanged=True)
    assert planned.measured == tuple(CODES)
    assert planned.sentinels == ()


def test_new_missing_broken_and_mended_cases_are_kept_apart() -> None:
    before = SideCode({"x.same": "1", "x.gone": "1", "x.broke": "1", "x.mended": None}, LAUNCHES)
    after = SideCode({"x.same": "2", "x.new": "1", "x.broke": None, "x.mended": "1"}, LAUNCHES)
    planned = plan(before, after, sentinels=0, durations_us={})
    assert (planned.measured, planned.head_only, planned.base_only) == (("x.same",), ("x.new",), ("x.gone",))
    assert (planned.broken, planned.mended) == (("x.broke",), ("x.mended",))
    assert planned.head_runs == ("x.same", "x.new", "x.broke", "x.mended")


def test_only_chosen_cases_are_planned() -> None:
    planned = plan(BASE, head(a="2"), sentinels=0, durations_us={}, chosen=["stage-3", "c."])
    assert planned.measured == ("a.stage-3",)


def test_a_side_without_fingerprints_leaves_the_plan_to_its_first_run() -> None:
    assert plan(SideCode(None, {}), head(), sentinels=3, durations_us={}).everything
    planned = plan_after_proof(["a", "b"], ["b", "c"])
    assert (planned.measured, planned.head_only, planned.base_only) == (("b",), ("c",), ("a",))


def test_sentinels_are_spread_over_durations_where_they_are_known() -> None:
    cases = [f"a.{number}" for number in range(100)]
    chosen = spread_out(cases, 4, {case: float(number) for number, case in enumerate(cases)})
    assert chosen == ["a.12", "a.37", "a.62", "a.87"]


def test_fewer_cases_than_sentinels_are_all_watched() -> None:
    assert spread_out(["a.1", "a.2"], 5, {}) == ["a.1", "a.2"]


def test_launches_are_told_by_family_and_by_what_families_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    families = tmp_path / "suite" / "families"
    families.mkdir(parents=True)
    (families / "mine.py").write_text("FAMILY = 1\n")
    (families / "paths.py").write_text("KERNELS = 1\n")
    extra = tmp_path / "extra"
    extra.mkdir()
    (extra / "ours.py").write_text("FAMILY = 2\n")
    monkeypatch.setenv("PEAKGATE_FAMILIES", "extra")
    before = launch_hashes(tmp_path)
    assert set(before) == {"", "mine", "ours"}
    (families / "paths.py").write_text("KERNELS = 2\n")
    after = launch_hashes(tmp_path)
    assert {name for name in before if before[name] != after[name]} == {""}
