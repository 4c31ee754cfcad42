"""What ``compare`` and ``show`` print and write."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from comparing import compare
from synthetic_runs import LADDER, document, save, slower

from peakgate.base.verdict import Verdict
from peakgate.cli import main
from peakgate.compare.report import report
from peakgate.pages import show
from peakgate.render import files
from peakgate.render.cases import side
from peakgate.runfile.find import RunSide
from peakgate.runfile.saved import load_run

PAD = "transpose.smem_pad-8192-32x8"
Golden = Callable[[str, str], None]
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def sides(base: dict[str, float], new: dict[str, float], **extra: dict[str, str]) -> list[str]:
    """The files of two runs."""
    about = (("base", base, "580", 1), ("new", new, "590", 2))
    return [
        str(save(Path(), name, document(times, driver=driver, day=day, extra=extra)))
        for name, times, driver, day in about
    ]


def test_compare_prints_and_writes_its_report(capsys: Captured, golden: Golden) -> None:
    new = {**slower(PAD, 1.22), "transpose.added-8192-32x8": 5.0}
    del new["transpose.hinted-16384-32x8"]
    assert main(["compare", *sides(LADDER, new), "--out", "out"]) == 1
    golden("compare.txt", capsys.readouterr().out)
    for name in ("md", "csv", "json", "junit.xml"):
        golden(f"compare.{name}", Path("out", f"compare.{name}").read_text(encoding="utf-8"))
    assert PAD in Path("out/compare.html").read_text(encoding="utf-8")


def test_an_unchanged_case_is_not_called_slower(capsys: Captured) -> None:
    assert main(["compare", *sides(LADDER, slower(PAD, 1.02)), "--all"]) == 0
    said = capsys.readouterr().out
    assert "+2.00 %" in said
    assert "x slower" not in said


def test_unchanged_cases_are_listed_on_request(capsys: Captured) -> None:
    assert main(["compare", *sides(LADDER, LADDER)]) == 0
    assert PAD not in capsys.readouterr().out
    assert main(["compare", *sides(LADDER, LADDER), "--all"]) == 0
    assert PAD in capsys.readouterr().out


def test_missing_floors_are_a_case_of_junit_only_where_they_count() -> None:
    base, new = (
        RunSide(path, (load_run(Path(path)),)) for path in sides(LADDER, LADDER, **{PAD: {"verdict": "NO_FLOOR"}})
    )
    found = compare(base, new)
    assert 'name="floors"' not in files.junit(report(found))
    assert 'name="floors"' in files.junit(report(found, strict=True))


def test_the_suite_wide_shift_is_a_case_of_its_own() -> None:
    base, new = (
        RunSide(path, (load_run(Path(path)),))
        for path in sides(LADDER, {case: 1.1 * us for case, us in LADDER.items()})
    )
    (overall,) = report(compare(base, new)).overall
    assert (overall.name, overall.verdict) == ("suite-wide", Verdict.SLOWER)


def test_csv_and_frame_agree_on_columns_and_cases() -> None:
    base, new = (RunSide(path, (load_run(Path(path)),)) for path in sides(LADDER, slower(PAD, 1.22)))
    found = compare(base, new)
    rows = list(csv.DictReader(io.StringIO(files.csv(report(found)), newline="")))
    assert list(rows[0]) == list(found.frame.columns)
    assert [row["case"] for row in rows] == found.frame["case"].tolist()
    assert (rows[0]["case"], rows[0]["base_time_us"], rows[0]["new_time_us"]) == (PAD, "160", "195.2")


def test_half_a_surrogate_pair_does_not_break_a_file() -> None:
    assert main(["compare", *sides({"a.\ud800": 10.0}, {"a.\ud800": 10.0}), "--out", "out"]) == 0
    assert json.loads(Path("out/compare.json").read_text(encoding="utf-8"))["rows"][0]["case"] == "a.?"
    assert main(["show", "new.json", "--out", "out"]) == 0


def test_compare_appends_to_the_job_summary_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(files.SUMMARY_VARIABLE, str(tmp_path / "summary.md"))
    assert main(["compare", *sides(LADDER, slower(PAD, 1.22)), "--out", "out"]) == 1
    assert PAD in (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert {path.name for path in Path("out").iterdir()} == {f"compare.{name}" for name in files.FORMATS}


@pytest.mark.parametrize(
    ("dirty", "reported"), [(True, "commit a1b2c3 with uncommitted changes, "), (False, "commit a1b2c3, ")]
)
def test_a_side_says_when_its_tree_had_changes_on_top_of_the_commit(dirty: bool, reported: str) -> None:
    run = load_run(save(Path(), "0001", document(LADDER, commit="a1b2c3", dirty=dirty)))
    assert reported in side(RunSide("head", (run,)))


def test_show_writes_the_page_of_one_run_and_asks_for_one(capsys: Captured) -> None:
    for day in (1, 2):
        save(Path("runs"), f"run{day}", document(day=day))
    assert main(["show", "latest", "--runs", "runs", "--out", "out"]) == 0
    assert capsys.readouterr().out.endswith("\nwritten: out/show.html\n")
    assert PAD in Path("out/show.html").read_text(encoding="utf-8")
    assert main(["show", "runs", "--runs", "runs", "--out", "out"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_run_is_shown_as_it_was_judged_with_what_it_could_not_time() -> None:
    wrong = {"case": "a.wrong", "verdict": "WRONG", "reason": "race on <shared> memory"}
    content = document(extra={PAD: {"verdict": "BELOW_FLOOR", "floor": 0.8}}, not_measured=[wrong])
    found = show.report(load_run(save(Path(), "run", content)))
    assert [(row.name, row.verdict) for row in found.rows[:2]] == [("a.wrong", "WRONG"), (PAD, "BELOW_FLOOR")]
    assert (found.verdict, dict(found.counts)) == ("WRONG", {"WRONG": 1, "BELOW_FLOOR": 1, "PASS": 14})


def test_a_run_without_floors_is_not_called_a_pass() -> None:
    unjudged = {case: {"verdict": "NO_FLOOR"} for case in list(LADDER)[:10]}
    found = show.report(load_run(save(Path(), "run", document(extra=unjudged))), pictures=False)
    assert (found.verdict, dict(found.counts)) == ("", {"NO_FLOOR": 10, "PASS": 5})
    assert show.report(load_run(save(Path(), "judged", document())), pictures=False).headline == "PASS"


def test_many_cases_without_a_floor_are_folded_below_the_others() -> None:
    times = {f"a.s{at}-8": 10.0 for at in range(30)} | LADDER
    run = document(times, extra={case: {"verdict": "NO_FLOOR"} for case in times if case.startswith("a.")})
    text = files.text(show.report(load_run(save(Path(), "run", run))), "html")
    above, _, folded = text.partition('<details class="unjudged">')
    folded = folded.partition("</details>")[0]
    assert (above.count('data-verdict="PASS"><'), folded.count('data-verdict="NO_FLOOR"><')) == (len(LADDER), 30)


def test_a_case_has_its_extremes_resources_and_predictions_and_no_empty_column() -> None:
    run = document(extra={PAD: {"predicted": {"useful_fraction": 0.25}}})
    found = show.report(load_run(save(Path(), "run", run)), pictures=False)
    row = next(row for row in found.rows if row.name == PAD)
    shown = {column.heading: column.text(row) for column in found.columns}
    assert [shown[each] for each in ("min (µs)", "median (µs)", "mean (µs)", "max (µs)")] == [
        *("158.4", "160.0", "160.0", "168.0")
    ]
    assert (shown["registers"], shown["shared (bytes)"], shown["occupancy"]) == ("32", "4224", "100.0 %")
    assert shown["useful fraction (predicted)"] == "0.2500"
    assert not {"floor", "of roof"} & shown.keys()


def test_history_is_shown_from_three_runs_on_and_of_an_ab_base_then_new() -> None:
    runs = [load_run(save(Path(), f"run{day}", document(slower(PAD, 1 + day / 100), day=day))) for day in range(1, 7)]
    few, enough = (next(row for row in show.report(runs[2], runs[:count]).rows if row.name == PAD) for count in (1, 2))
    assert not few.details
    assert enough.details[0].endswith("latest 164.8 µs")
    found = report(compare(RunSide("base", tuple(runs[1::2])), RunSide("new", tuple(runs[::2]))))
    assert next(row for row in found.rows if row.name == PAD).details[0].endswith("latest 168.0 µs")


def test_the_fullest_of_several_runs_stands_for_its_side() -> None:
    whole = load_run(save(Path(), "whole", document(day=1)))
    part = load_run(save(Path(), "part", document({PAD: 160.0}, day=2)))
    found = report(compare(RunSide("base", (whole,)), RunSide("new", (whole, part))))
    assert ("run file", "whole.json") in found.tables[-1].rows


def test_seven_hundred_cases_stay_far_below_two_megabytes() -> None:
    times = {f"transpose.stage{index % 20}-{index}-32x8": 100.0 + index for index in range(700)}
    runs = [load_run(save(Path(), f"run{day}", document(times, day=day))) for day in range(1, 6)]
    found = compare(RunSide("base", (runs[0],)), RunSide("new", (runs[-1],)))
    assert len(files.text(report(found, runs[1:-1]), "html").encode()) < 1_500_000
