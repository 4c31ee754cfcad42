"""Which mutants an A/B caught, and the record of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from peakgate.common.errors import PeakgateError
from peakgate.reports.planted.found import NAME, Found, Judged, Mutant, found, read_found, table, write_found

PLANTED = {
    "mutants": {
        "no-padding": {"reason": "Padding dropped.", "cases": ["t.pad-1", "t.pad-2"]},
        "dud": {"reason": "Changes nothing.", "cases": ["t.naive-1", "t.gone-1"]},
    },
    "untouched": ["t.copy-1", "t.copy-2", "t.left_out-1"],
}
ROWS = [
    {"case": "t.pad-1", "verdict": "SLOWER", "change_percent": 5.0},
    {"case": "t.pad-2", "verdict": "SLOWER", "change_percent": 100.0},
    {"case": "t.naive-1", "verdict": "SAME", "change_percent": 0.01},
    {"case": "t.copy-1", "verdict": "SAME", "change_percent": 0.0},
    {"case": "t.copy-2", "verdict": "FASTER", "change_percent": -1.0},
]
FOUND = found(PLANTED, {"rows": ROWS})


def test_a_mutant_is_caught_by_any_of_its_cases_and_shown_by_the_most_slowed() -> None:
    padding, dud = FOUND.mutants
    assert (padding.caught, dud.caught) == (2, 0)
    assert padding.cases[0] == Judged("t.pad-2", "SLOWER", 100.0)
    assert [case.case for case in dud.cases] == ["t.naive-1"]


def test_an_untouched_case_that_is_not_same_is_flagged_whatever_its_direction() -> None:
    assert FOUND.untouched == 2
    assert FOUND.flagged == (Judged("t.copy-2", "FASTER", -1.0),)


def test_the_table_names_what_was_missed_and_what_was_flagged() -> None:
    lines = table(FOUND).splitlines()
    assert lines[2].startswith("| no-padding | Padding dropped. | t.pad-2 | 100.0 % | 2 of 2 |")
    assert lines[3].endswith("| 0.0 % | 0 of 1 |")
    assert lines[-1] == "1 of 2 mutants caught; of 2 untouched cases, t.copy-2 FASTER."


def test_a_mutant_none_of_whose_cases_was_measured_is_not_caught() -> None:
    absent = Found((Mutant("absent", "Not run.", ()),), 0, ())
    assert "| absent | Not run. | not measured | | 0 of 0 |" in table(absent)
    assert table(absent).endswith("0 of 1 mutants caught; of 0 untouched cases, none flagged.")


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    write_found(tmp_path, FOUND)
    assert read_found(tmp_path) == FOUND


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "name the folder of a campaign"),
        ("{", "not a campaign's record"),
        ('{"schema": 1}', "not a campaign's record"),
        ('{"schema": 1, "mutants": {"a": 1}}', "not a campaign's record"),
        ('{"schema": 9}', "schema 9, this version reads 1"),
    ],
)
def test_a_record_that_is_none_is_named(tmp_path: Path, content: str | None, told: str) -> None:
    if content is not None:
        (tmp_path / NAME).write_text(content)
    with pytest.raises(PeakgateError, match=told):
        read_found(tmp_path)
