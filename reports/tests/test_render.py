from __future__ import annotations

import csv
import io
import json
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peakgate.common.text import cell
from peakgate.reports.comparison.judge import compare
from peakgate.reports.render import machine, markdown, terminal, words
from peakgate.reports.result import Comparison
from peakgate.reports.runs.find import Side
from peakgate.reports.runs.frame import to_frame
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


def comparison(tmp_path: Path, factor: float = 1.22, *, unchanged: bool = False) -> Comparison:
    """A comparison with a hostile name for every output format, each of them slower unless ``unchanged``."""
    base = {**LADDER, **dict.fromkeys(HOSTILE, 100.0)}
    new = base if unchanged else {**slower(PAD, factor, base), **dict.fromkeys(HOSTILE, 122.0)}
    sides = []
    for name, times, driver in (("base", base, "1"), ("new", new, "<b>2</b>")):
        runs = (load_run(save(tmp_path, name, document(times, driver=driver, name="GPU <i>|x|</i>"))),)
        sides.append(Side(name, runs))
    return compare(sides[0], sides[1])


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


def test_an_output_that_is_no_terminal_gets_no_colour(tmp_path: Path) -> None:
    assert "\x1b[" not in shown(comparison(tmp_path, unchanged=True))


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
    rows = list(csv.DictReader(io.StringIO(machine.csv(found), newline="")))
    assert [row["case"] for row in rows] == [cell(row.case) for row in found.rows]
    assert {cell(name) for name in HOSTILE} <= {row["case"] for row in rows}
    pad = next(row for row in rows if row["case"] == PAD)
    assert (pad["verdict"], pad["base_time_us"], pad["new_time_us"]) == ("SLOWER", "160", "195.2")
    assert float(pad["change_percent"]) == pytest.approx(22)


def test_json_carries_verdict_exit_code_counts_and_every_row(tmp_path: Path) -> None:
    document = json.loads(machine.verdict_json(comparison(tmp_path)))
    assert (document["verdict"], document["exit_code"]) == ("SLOWER", 1)
    assert document["counts"] == {"SLOWER": 7, "SAME": 14}
    assert document["suite_wide"]["verdict"] == "SAME"
    assert document["new"]["runs"][0]["driver"] == "<b>2</b>"
    assert set(HOSTILE) <= {row["case"] for row in document["rows"]}


def test_cases_on_one_side_only_are_in_every_face(tmp_path: Path) -> None:
    times = {"a.both": 10.0}
    base = Side("base", (load_run(save(tmp_path, "base", document({**times, "a.gone": 5.0}))),))
    new = Side("new", (load_run(save(tmp_path, "new", document({**times, "a.fresh": 5.0}))),))
    found = compare(base, new)
    for text in (shown(found), markdown.markdown(found), machine.csv(found), machine.verdict_json(found)):
        for expected in ("MISSING", "a.gone", "NEW", "a.fresh"):
            assert expected in text


def test_the_tidy_frame_has_one_row_per_case_and_run(tmp_path: Path) -> None:
    runs = [load_run(save(tmp_path, f"run{day}", document(day=day))) for day in (1, 2)]
    frame = to_frame(runs)
    assert len(frame) == 2 * len(LADDER)
    assert set(frame["run"]) == {str(run.path) for run in runs}
    assert frame.groupby("case")["time_us"].nunique().eq(1).all()
    assert frame.loc[frame["case"] == PAD, "family"].tolist() == ["transpose", "transpose"]


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
    assert (reported or "commit a1b2c3d4e5f6, ") in words.side(Side("head", (run,)))
