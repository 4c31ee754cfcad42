from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from peakgate.cli import main
from peakgate.reports.comparison.judge import compare
from peakgate.reports.render import machine, markdown, outputs
from peakgate.reports.result import Comparison
from peakgate.reports.runs.find import Side
from peakgate.reports.runs.runfile import load_run
from synthetic_runs import LADDER, document, save, slower

PAD = "transpose.smem_pad-8192-32x8"


def comparison(tmp_path: Path, *, more: int = 0, slow: int = 1, longer: int = 60) -> Comparison:
    base = {**LADDER, **{f"转置.共享-{index}-{'x' * longer}": 100.0 for index in range(more)}}
    new = {case: time * (1.22 if index < slow else 1) for index, (case, time) in enumerate(base.items())}
    sides = [Side(name, (load_run(save(tmp_path, name, document(t))),)) for name, t in (("base", base), ("new", new))]
    return compare(sides[0], sides[1])


def test_the_summary_is_the_whole_markdown_where_it_fits(tmp_path: Path) -> None:
    found, path = comparison(tmp_path), tmp_path / "summary.md"
    outputs.append_summary(found, path)
    assert path.read_text(encoding="utf-8") == markdown.markdown(found) + "\n"


def test_the_summary_keeps_what_the_step_wrote_before(tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    path.write_text("before\n", encoding="utf-8")
    outputs.append_summary(comparison(tmp_path), path)
    assert path.read_text(encoding="utf-8").startswith("before\n# Peakgate: SLOWER\n")


def test_unchanged_rows_are_cut_first_and_counted(tmp_path: Path) -> None:
    found = comparison(tmp_path, more=40, slow=5)
    whole = markdown.markdown(found)
    text = markdown.markdown(found, most_bytes=len(whole.encode()) - 2000)
    assert len(text.encode()) <= len(whole.encode()) - 2000
    assert text.count("| SLOWER |") == 5
    cut = 50 - text.count("| SAME |")
    assert 0 < cut < 50
    assert f"{cut} of 50 cases are left out here" in text
    assert text.count("are left out here") == 1


@pytest.mark.parametrize("most_bytes", [0, 50, 700, 1500, 3000, 6000, 12000])
def test_no_size_is_ever_exceeded_and_regressions_go_last(tmp_path: Path, most_bytes: int) -> None:
    text = markdown.markdown(comparison(tmp_path, more=30, slow=10), most_bytes=most_bytes)
    assert len(text.encode()) <= most_bytes
    assert "| SAME |" not in text or text.count("| SLOWER |") == 10


def test_a_huge_comparison_stays_below_what_github_takes(tmp_path: Path) -> None:
    found, path = comparison(tmp_path, more=5000), tmp_path / "summary.md"
    outputs.append_summary(found, path)
    assert 900_000 < path.stat().st_size < 2**20
    outputs.append_summary(found, path)
    assert path.stat().st_size < 2**20


def test_five_thousand_regressions_with_long_ids_are_cut_at_a_row_and_counted(tmp_path: Path) -> None:
    found, path = comparison(tmp_path, more=5000, slow=5015, longer=300), tmp_path / "summary.md"
    outputs.append_summary(found, path)
    text = path.read_text(encoding="utf-8")
    kept = text.count("| SLOWER |")
    assert 900_000 < path.stat().st_size < 2**20
    assert f"{5015 - kept} of 5015 cases are left out here, the whole report is in the files." in text
    assert {line.count(" | ") for line in text.splitlines() if line.startswith("| <code>")} == {6}
    table = machine.csv(found)
    assert all(row.case in table for row in found.rows[:: len(found.rows) // 7])


def test_a_summary_that_cannot_be_written_exits_2_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(save(tmp_path, "run", document()))
    monkeypatch.setenv(outputs.SUMMARY_VARIABLE, str(tmp_path))
    assert main(["compare", run, run, "--no-files"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_compare_appends_to_the_job_summary_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base, new = save(tmp_path, "base", document()), save(tmp_path, "new", document(slower(PAD, 1.22)))
    monkeypatch.setenv(outputs.SUMMARY_VARIABLE, str(tmp_path / "summary.md"))
    assert main(["compare", str(base), str(new), "--out", str(tmp_path / "out")]) == 1
    assert PAD in (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        f"compare.{ending}" for ending in ("md", "csv", "json", "junit.xml", "html")
    }


def test_no_html_leaves_the_page_out(tmp_path: Path) -> None:
    run = str(save(tmp_path, "run", document()))
    assert main(["compare", run, run, "--no-html", "--out", str(tmp_path / "out")]) == 0
    assert not (tmp_path / "out" / "compare.html").exists()
    assert (tmp_path / "out" / "compare.junit.xml").exists()


def test_show_writes_the_page_of_one_run_and_asks_for_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for day in (1, 2):
        save(tmp_path / "runs", f"run{day}", document(day=day))
    arguments = ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    assert main(["show", "latest", *arguments]) == 0
    assert capsys.readouterr().out == f"15 PASS: PASS; {tmp_path / 'out' / 'show.html'}\n"
    assert PAD in (tmp_path / "out" / "show.html").read_text(encoding="utf-8")
    assert main(["show", str(tmp_path / "runs"), *arguments]) == 2
    assert "2 sessions, expected one" in capsys.readouterr().err


def test_csv_and_frame_agree_on_columns_and_cases(tmp_path: Path) -> None:
    found = comparison(tmp_path)
    frame = found.frame
    rows = list(csv.DictReader(io.StringIO(machine.csv(found), newline="")))
    assert list(rows[0]) == list(frame.columns)
    assert [row["case"] for row in rows] == frame["case"].tolist()
