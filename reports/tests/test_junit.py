from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from peakgate.reports.comparison.judge import compare
from peakgate.reports.render import words
from peakgate.reports.render.machine import junit
from peakgate.reports.result import Comparison
from peakgate.reports.runs.find import Side
from peakgate.reports.runs.runfile import load_run
from synthetic_runs import LADDER, document, save, slower

PAD = "transpose.smem_pad-8192-32x8"


def comparison(tmp_path: Path, base: dict[str, float], new: dict[str, float], **extra: dict[str, str]) -> Comparison:
    sides = [
        Side(name, (load_run(save(tmp_path, name, document(times, extra=extra))),))
        for name, times in (("base", base), ("new", new))
    ]
    return compare(sides[0], sides[1])


def test_regressions_fail_with_their_reason_and_the_rest_passes(tmp_path: Path) -> None:
    root = ElementTree.fromstring(junit(comparison(tmp_path, LADDER, slower(PAD, 1.22))))
    (suite,) = root
    assert suite.attrib | {"tests": "16", "failures": "1", "errors": "0", "skipped": "0"} == suite.attrib
    (failed,) = suite.findall("testcase[failure]")
    assert (failed.get("classname"), failed.get("name"), failed.get("time")) == (
        "peakgate.transpose",
        PAD,
        "0.000195200",
    )
    failure = failed.find("failure")
    assert failure is not None
    assert failure.get("type") == "SLOWER"
    assert (failure.get("message") or "").startswith("SLOWER: 1.22x slower")


def test_undecided_cases_are_skipped_and_missing_ones_fail(tmp_path: Path) -> None:
    noisy = {"a.noisy": 10.0, "a.gone": 5.0}
    found = comparison(tmp_path, noisy, {"a.noisy": 10.0}, **{"a.noisy": {"verdict": "INCONCLUSIVE"}})
    suite = ElementTree.fromstring(junit(found))[0]
    assert [case.get("name") for case in suite.findall("testcase[skipped]")] == ["a.noisy"]
    assert [case.get("name") for case in suite.findall("testcase[failure]")] == ["a.gone"]


def test_missing_floors_are_skipped_only_where_they_count(tmp_path: Path) -> None:
    found = comparison(tmp_path, LADDER, LADDER, **{PAD: {"verdict": "NO_FLOOR"}})
    assert 'name="floors"' not in junit(found)
    suite = ElementTree.fromstring(junit(found, strict=True))[0]
    assert [case.get("name") for case in suite.findall("testcase[skipped]")] == ["floors"]


def test_the_suite_wide_shift_is_a_case_of_its_own(tmp_path: Path) -> None:
    found = comparison(tmp_path, LADDER, {case: 1.1 * time for case, time in LADDER.items()})
    suite = ElementTree.fromstring(junit(found))[0]
    assert "suite-wide" in {case.get("name") for case in suite.findall("testcase[failure]")}


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_case_id_gives_xml_that_reads_back(tmp_path: Path, name: str) -> None:
    suite = ElementTree.fromstring(junit(comparison(tmp_path, {name: 10.0}, {name: 20.0})))[0]
    assert [case.get("name") for case in suite] == [words.one_line(name)]


def test_half_a_surrogate_pair_does_not_break_the_file(tmp_path: Path) -> None:
    text = junit(comparison(tmp_path, {"a.\ud800": 10.0}, {"a.\ud800": 10.0}))
    assert ElementTree.fromstring(text.encode())[0][0].get("name") == "a.?"
