from __future__ import annotations

import csv
import io
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from comparing import compare
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from peakgate.cli import main
from peakgate.common.text import cell
from peakgate.reports.render import markdown, outputs, phrases, terminal
from peakgate.reports.render.outputs import junit
from peakgate.reports.result import Comparison
from peakgate.reports.runs.find import RunSide
from peakgate.reports.runs.runfile import load_run
from rich.console import Console
from synthetic_runs import LADDER, document, save, slower

PAD = "transpose.smem_pad-8192-32x8"
HOSTILE = (
    "<script>alert(1)</script>",
    "转置.共享内存-八千",
    "x" * 3000,
    "a|b`c`*d*_e_[f](http://g.example)",
    '=1+1,"quoted"',
    "line\nbreak\x1b[31mred\r\x00",
)


def one(folder: Path, label: str, times: dict[str, float], **content: Any) -> RunSide:
    """A side of one synthetic run."""
    return RunSide(label, (load_run(save(folder, label, document(times, **content))),))


def comparison(tmp_path: Path, factor: float = 1.22, *, unchanged: bool = False) -> Comparison:
    """A comparison with a hostile name for every output format, each of them slower unless ``unchanged``."""
    base = {**LADDER, **dict.fromkeys(HOSTILE, 100.0)}
    new = base if unchanged else {**slower(PAD, factor, base), **dict.fromkeys(HOSTILE, 122.0)}
    about = {"name": "GPU <i>|x|</i>"}
    return compare(
        one(tmp_path, "base", base, driver="1", **about), one(tmp_path, "new", new, driver="<b>2</b>", **about)
    )


def shown(found: Comparison, *, width: int = 80, everything: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    terminal.show(found, console, everything=everything)
    terminal.last_line(found, console, written=[Path("out/compare.md")])
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


class Tags(HTMLParser):
    """The HTML tags a reader of the text would meet."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.met: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.met.add(tag)


def test_the_terminal_lists_what_changed_and_ends_with_counts_verdict_and_files(tmp_path: Path) -> None:
    text = shown(comparison(tmp_path))
    assert f"SLOWER        1.22x slower   {PAD}\n" in text
    assert "transpose.naive_row-4096-32x8" not in text
    assert text.splitlines()[-1] == "7 SLOWER, 14 SAME: SLOWER; out/compare.md"


def test_the_terminal_lists_unchanged_cases_on_request(tmp_path: Path) -> None:
    assert "transpose.naive_row-4096-32x8" in shown(comparison(tmp_path), everything=True)


def test_the_terminal_keeps_case_ids_whole_and_obeys_no_control_characters(tmp_path: Path) -> None:
    text = shown(comparison(tmp_path), width=40)
    for name in HOSTILE[:5]:
        assert name in text
    assert "\x1b" not in text
    assert "line break [31mred" in text


def test_a_terminal_gets_colour_unless_it_is_told_not_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = comparison(tmp_path)
    for variable, coloured in (("COLUMNS", True), ("NO_COLOR", False)):
        monkeypatch.setenv(variable, "80")
        monkeypatch.setenv("TERM", "xterm-256color")
        console = Console(file=io.StringIO(), force_terminal=True, highlight=False)
        terminal.last_line(found, console)
        assert isinstance(console.file, io.StringIO)
        assert ("\x1b[1;31m" in console.file.getvalue()) is coloured


def test_markdown_puts_regressions_first_and_folds_the_unchanged(tmp_path: Path) -> None:
    text = markdown.markdown(comparison(tmp_path))
    assert text.startswith("# Peakgate: SLOWER\n\n7 SLOWER, 14 SAME.\n")
    assert text.index("## Regressions (7)") < text.index(f"`{PAD}` | SLOWER | 1.22x slower") < text.index("<details>")
    assert text.index("<summary>Unchanged (14)</summary>") < text.index("`transpose.naive_row-4096-32x8`")
    assert "smallest detectable change 3 % in the median case" in text


def test_markdown_lists_what_else_differs(tmp_path: Path) -> None:
    assert "| driver | 1 | &#60;b&#62;2&#60;/b&#62; |" in markdown.markdown(comparison(tmp_path))


def test_no_name_breaks_out_of_its_markdown_cell(tmp_path: Path) -> None:
    text = markdown.markdown(comparison(tmp_path))
    assert Tags(text).met == {"details", "summary", "code"}
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert {line.count("|") for line in rows} == {4, 8}
    assert "转置.共享内存-八千" in text
    assert "x" * 3000 in text


@given(st.text())
def test_escaped_text_has_no_markup_left_and_stays_on_its_line(text: str) -> None:
    escaped = markdown.escape(text)
    assert not set("<>|`*_[]\\\n\r") & set(escaped)
    assert Tags(escaped).met == set()


def test_csv_has_a_row_a_case_and_gives_every_name_back(tmp_path: Path) -> None:
    found = comparison(tmp_path)
    rows = list(csv.DictReader(io.StringIO(outputs.csv(found), newline="")))
    assert [row["case"] for row in rows] == [cell(row.case) for row in found.records]
    assert {cell(name) for name in HOSTILE} <= {row["case"] for row in rows}
    pad = next(row for row in rows if row["case"] == PAD)
    assert (pad["verdict"], pad["base_time_us"], pad["new_time_us"]) == ("SLOWER", "160", "195.2")
    assert float(pad["change_percent"]) == pytest.approx(22)


def test_json_carries_verdict_exit_code_counts_and_every_row(tmp_path: Path) -> None:
    document = json.loads(outputs.verdict_json(comparison(tmp_path)))
    assert (document["verdict"], document["exit_code"]) == ("SLOWER", 1)
    assert document["counts"] == {"SLOWER": 7, "SAME": 14}
    assert document["suite_wide"]["verdict"] == "SAME"
    assert document["new"]["runs"][0]["driver"] == "<b>2</b>"
    assert set(HOSTILE) <= {row["case"] for row in document["rows"]}


def test_cases_on_one_side_only_are_in_every_face(tmp_path: Path) -> None:
    times = {"a.both": 10.0}
    found = between(tmp_path, {**times, "a.gone": 5.0}, {**times, "a.fresh": 5.0})
    for text in (shown(found), markdown.markdown(found), outputs.csv(found), outputs.verdict_json(found)):
        for expected in ("MISSING", "a.gone", "NEW", "a.fresh"):
            assert expected in text


def test_markdown_shows_the_command_that_measures_again_as_code(tmp_path: Path) -> None:
    lines = markdown.markdown(comparison(tmp_path)).splitlines()
    (again,) = [line for line in lines if "measure again" in line]
    assert again.startswith('- measure again: `peakgate bench --tier full -k "')
    assert again.endswith('"`')


@pytest.mark.parametrize(
    ("dirty", "reported"), [(True, "commit a1b2c3d4e5f6 with uncommitted changes, "), (False, None)]
)
def test_a_side_says_when_its_tree_had_changes_on_top_of_the_commit(
    tmp_path: Path, dirty: bool, reported: str | None
) -> None:
    run = load_run(save(tmp_path, "0001", document(LADDER, commit="a1b2c3d4e5f6a7", dirty=dirty)))
    assert (reported or "commit a1b2c3d4e5f6, ") in phrases.side(RunSide("head", (run,)))


PAD = "transpose.smem_pad-8192-32x8"


def between(tmp_path: Path, base: dict[str, float], new: dict[str, float], **extra: dict[str, str]) -> Comparison:
    return compare(one(tmp_path, "base", base, extra=extra), one(tmp_path, "new", new, extra=extra))


def test_regressions_fail_with_their_reason_and_the_rest_passes(tmp_path: Path) -> None:
    root = ElementTree.fromstring(junit(between(tmp_path, LADDER, slower(PAD, 1.22))))
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
    found = between(tmp_path, noisy, {"a.noisy": 10.0}, **{"a.noisy": {"verdict": "INCONCLUSIVE"}})
    suite = ElementTree.fromstring(junit(found))[0]
    assert [case.get("name") for case in suite.findall("testcase[skipped]")] == ["a.noisy"]
    assert [case.get("name") for case in suite.findall("testcase[failure]")] == ["a.gone"]


def test_missing_floors_are_skipped_only_where_they_count(tmp_path: Path) -> None:
    found = between(tmp_path, LADDER, LADDER, **{PAD: {"verdict": "NO_FLOOR"}})
    assert 'name="floors"' not in junit(found)
    suite = ElementTree.fromstring(junit(found, strict=True))[0]
    assert [case.get("name") for case in suite.findall("testcase[skipped]")] == ["floors"]


def test_the_suite_wide_shift_is_a_case_of_its_own(tmp_path: Path) -> None:
    found = between(tmp_path, LADDER, {case: 1.1 * time for case, time in LADDER.items()})
    suite = ElementTree.fromstring(junit(found))[0]
    assert "suite-wide" in {case.get("name") for case in suite.findall("testcase[failure]")}


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_case_id_gives_xml_that_reads_back(tmp_path: Path, name: str) -> None:
    suite = ElementTree.fromstring(junit(between(tmp_path, {name: 10.0}, {name: 20.0})))[0]
    assert [case.get("name") for case in suite] == [phrases.one_line(name)]


def test_half_a_surrogate_pair_does_not_break_the_file(tmp_path: Path) -> None:
    text = junit(between(tmp_path, {"a.\ud800": 10.0}, {"a.\ud800": 10.0}))
    assert ElementTree.fromstring(text.encode())[0][0].get("name") == "a.?"


PAD = "transpose.smem_pad-8192-32x8"


def sized(tmp_path: Path, *, more: int = 0, slow: int = 1, longer: int = 60) -> Comparison:
    base = {**LADDER, **{f"转置.共享-{index}-{'x' * longer}": 100.0 for index in range(more)}}
    new = {case: time * (1.22 if index < slow else 1) for index, (case, time) in enumerate(base.items())}
    return between(tmp_path, base, new)


def test_the_summary_is_the_whole_markdown_where_it_fits(tmp_path: Path) -> None:
    found, path = sized(tmp_path), tmp_path / "summary.md"
    outputs.append_summary(found, path)
    assert path.read_text(encoding="utf-8") == markdown.markdown(found) + "\n"


def test_the_summary_keeps_what_the_step_wrote_before(tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    path.write_text("before\n", encoding="utf-8")
    outputs.append_summary(sized(tmp_path), path)
    assert path.read_text(encoding="utf-8").startswith("before\n# Peakgate: SLOWER\n")


def test_unchanged_rows_are_cut_first_and_counted(tmp_path: Path) -> None:
    found = sized(tmp_path, more=40, slow=5)
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
    text = markdown.markdown(sized(tmp_path, more=30, slow=10), most_bytes=most_bytes)
    assert len(text.encode()) <= most_bytes
    assert "| SAME |" not in text or text.count("| SLOWER |") == 10


def test_a_huge_comparison_stays_below_what_github_takes(tmp_path: Path) -> None:
    found, path = sized(tmp_path, more=5000), tmp_path / "summary.md"
    outputs.append_summary(found, path)
    assert 900_000 < path.stat().st_size < 2**20
    outputs.append_summary(found, path)
    assert path.stat().st_size < 2**20


def test_five_thousand_regressions_with_long_ids_are_cut_at_a_row_and_counted(tmp_path: Path) -> None:
    found, path = sized(tmp_path, more=5000, slow=5015, longer=300), tmp_path / "summary.md"
    outputs.append_summary(found, path)
    text = path.read_text(encoding="utf-8")
    kept = text.count("| SLOWER |")
    assert 900_000 < path.stat().st_size < 2**20
    assert f"{5015 - kept} of 5015 cases are left out here, the whole report is in the files." in text
    assert {line.count(" | ") for line in text.splitlines() if line.startswith("| <code>")} == {6}
    table = outputs.csv(found)
    assert all(row.case in table for row in found.records[:: len(found.records) // 7])


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
    found = sized(tmp_path)
    frame = found.frame
    rows = list(csv.DictReader(io.StringIO(outputs.csv(found), newline="")))
    assert list(rows[0]) == list(frame.columns)
    assert [row["case"] for row in rows] == frame["case"].tolist()
