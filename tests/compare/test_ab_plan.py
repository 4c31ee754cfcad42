from __future__ import annotations

from msgspec import structs

from peakgate.compare.ab.plan import other_builds, plan, reasons, spread_out
from peakgate.spec.contract import Contract

BASE = {f"{family}.stage-{size}": Contract(code=f"{family}{size}", launch="1") for family in "abc" for size in range(4)}


def head(codes: dict[str, str | None] | None = None, **launches: str) -> dict[str, Contract]:
    """BASE with other machine code by case, and other launches by family."""
    changed = {case: structs.replace(BASE[case], code=code) for case, code in (codes or {}).items()}
    return {
        case: structs.replace(contract, launch=launches.get(case[0], contract.launch))
        for case, contract in (BASE | changed).items()
    }


def coded(codes: dict[str, str | None]) -> dict[str, Contract]:
    return {case: Contract(code=code, launch="1") for case, code in codes.items()}


def test_equal_code_is_not_measured_but_for_sentinels_of_every_family() -> None:
    planned = plan(BASE, head(), sentinels=3, durations_us={})
    assert planned.measured == ()
    assert {case[0] for case in planned.sentinels} == {"a", "b", "c"}
    assert planned.unchanged is not None
    assert len(planned.unchanged) == len(BASE) - 3


def test_a_changed_kernel_is_measured() -> None:
    planned = plan(BASE, head({"a.stage-0": "other"}), sentinels=2, durations_us={})
    assert planned.measured == ("a.stage-0",)
    assert "a.stage-0" not in planned.sentinels


def test_a_family_that_launches_otherwise_is_measured_whole() -> None:
    planned = plan(BASE, head(b="2"), sentinels=2, durations_us={})
    assert planned.measured == tuple(case for case in BASE if case.startswith("b."))


def test_what_has_neither_machine_code_nor_a_version_is_always_measured() -> None:
    called = {"x.called-8": Contract(operation="callable")}
    planned = plan(called, called, sentinels=0, durations_us={})
    assert planned.measured == ("x.called-8",)
    assert reasons(planned, called, called).keys() == {"x.called-8"}


def test_a_library_is_measured_only_where_its_version_or_its_call_differs() -> None:
    before, newer, otherwise = (
        {"x.cublas-8": Contract(operation="cublas_sgemm", library=version, bytes=size)}
        for size, version in ((1, "cuBLAS 13.1"), (1, "cuBLAS 13.2"), (2, "cuBLAS 13.1"))
    )
    assert plan(before, before, sentinels=5, durations_us={}).unchanged == {"x.cublas-8": "cuBLAS 13.1"}
    for after, why in ((newer, "library changed"), (otherwise, "bytes changed")):
        planned = plan(before, after, sentinels=0, durations_us={})
        assert reasons(planned, before, after) == {"x.cublas-8": why}
    asked = plan(before, before, sentinels=0, durations_us={}, measure_unchanged=True)
    assert reasons(asked, before, before).keys() == {"x.cublas-8"}


def test_a_plan_says_why_each_case_is_measured() -> None:
    after = head({"a.stage-0": "other"}, b="2")
    reported = reasons(plan(BASE, after, sentinels=0, durations_us={}), BASE, after)
    assert reported["a.stage-0"] == "machine code changed"
    assert reported["b.stage-1"] == "launch changed"
    assert "c.stage-0" not in reported


def test_unchanged_cases_are_measured_when_asked_for() -> None:
    planned = plan(BASE, head(), sentinels=5, durations_us={}, measure_unchanged=True)
    assert planned.measured == tuple(BASE)
    assert planned.sentinels == ()


def test_new_missing_broken_and_mended_cases_are_kept_apart() -> None:
    before = coded({"x.same": "1", "x.gone": "1", "x.broke": "1", "x.mended": None, "x.never": None})
    after = coded({"x.same": "2", "x.new": "1", "x.broke": None, "x.mended": "1", "x.never": None})
    planned = plan(before, after, sentinels=0, durations_us={})
    assert (planned.measured, planned.head_only, planned.base_only) == (("x.same",), ("x.new",), ("x.gone",))
    assert (planned.lost, planned.broken, planned.mended) == (("x.broke",), ("x.never",), ("x.mended",))
    assert planned.head_runs == ("x.same", "x.new", "x.never", "x.broke", "x.mended")


def test_a_plan_names_why_a_case_does_not_build_or_is_not_described() -> None:
    why = Contract(launch="1", problem="x/a.cu:3: expected a ;")
    before = coded({"x.broke": "1"}) | {"x.never": why, "x.mended": why}
    after = coded({"x.mended": "1"}) | {"x.never": why, "x.broke": why, "x.new": Contract(problem="no such file")}
    reported = reasons(plan(before, after, sentinels=0, durations_us={}), before, after)
    assert all("x/a.cu:3" in reported[case] for case in ("x.broke", "x.never", "x.mended"))
    assert reported["x.new"].endswith("no such file")


def test_only_chosen_cases_are_planned() -> None:
    planned = plan(BASE, head(a="2"), sentinels=0, durations_us={}, chosen=["stage-3", "c. and not d."])
    assert planned.measured == ("a.stage-3",)


def test_sentinels_are_spread_over_durations_where_they_are_known() -> None:
    cases = [f"a.{number}" for number in range(100)]
    chosen = spread_out(cases, 4, {case: float(number) for number, case in enumerate(cases)})
    assert chosen == ["a.12", "a.37", "a.62", "a.87"]


def test_fewer_cases_than_sentinels_are_all_watched() -> None:
    assert spread_out(["a.1", "a.2"], 5, {}) == ["a.1", "a.2"]


def test_builds_are_measured_by_one_process_only_where_nothing_else_of_any_case_differs() -> None:
    changed = head({"a.stage-0": "other"})
    planned = plan(BASE, changed, sentinels=1, durations_us={})
    (sentinel,) = planned.sentinels
    assert other_builds(planned, BASE, changed) == {"a.stage-0": "other", sentinel: BASE[sentinel].code}
    otherwise = head({"a.stage-0": "other"}, b="2")
    assert other_builds(plan(BASE, otherwise, sentinels=1, durations_us={}), BASE, otherwise) == {}


def test_a_repeated_launch_is_measured_in_processes_of_its_own_side() -> None:
    before = {"a.b-8-warm": Contract(code="1", state="warm")}
    after = {"a.b-8-warm": Contract(code="2", state="warm")}
    assert other_builds(plan(before, after, sentinels=0, durations_us={}), before, after) == {}


def test_a_library_call_is_its_own_other_build_and_a_benchmark_test_has_none() -> None:
    library = {"x.cublas-8": Contract(operation="cublas_sgemm", library="cuBLAS 13.1")}
    asked = plan(library, library, sentinels=0, durations_us={}, measure_unchanged=True)
    assert other_builds(asked, library, library) == {"x.cublas-8": ""}
    called = {"x.called-8": Contract(operation="callable")}
    assert other_builds(plan(called, called, sentinels=0, durations_us={}), called, called) == {}
