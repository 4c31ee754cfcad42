"""Every writer on one record: its file, and one law for all: names are shown, and never obeyed."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_record import HOSTILE, Document, record, row
from rich.console import Console

from peakgate.base.errors import PeakgateError
from peakgate.base.formatting import cell, figure, one_line, percent, sparkline
from peakgate.base.report import CellLink, Report, Row, Table, Tone, document, tone
from peakgate.base.verdict import ExitCode, Verdict
from peakgate.render import files, terminal
from peakgate.render.page import page, prose

Golden = Callable[[str, str], None]


def shown(report: Report, *, width: int = 80, everything: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False, emoji=False, markup=False)
    terminal.show(report, console, everything=everything)
    terminal.last_line(report, console, written=[Path("out/sample.md")])
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("name", files.FORMATS)
def test_every_format_of_the_record(name: str, golden: Golden) -> None:
    text = re.sub(r"<(style|script)>.*?</\1>|'sha256-[^']*'", "", files.text(record(), name), flags=re.DOTALL)
    golden(f"sample.{name}", text)


def test_the_record_on_a_terminal(golden: Golden) -> None:
    golden("sample.txt", shown(record()))
    golden("sample-everything.txt", shown(record(), everything=True))


def test_rows_without_a_verdict_are_one_line_each() -> None:
    found = Report("check", ExitCode.REGRESSION, rows=(Row("norms.softmax-8", reason="shared race at a.cu:3"),))
    assert len(shown(found).splitlines()) == 2


def test_a_long_table_is_cut_on_a_terminal_unless_everything_is_asked_for() -> None:
    table = replace(record().tables[0], rows=[(f"fact {number}", "1", "2") for number in range(22)])
    found = replace(record(), tables=(table,))
    assert "fact 21" not in shown(found)
    assert "fact 21" in shown(found, everything=True)


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        ("", Tone.SAME),
        (Verdict.SAME, Tone.SAME),
        (Verdict.NO_FLOOR, Tone.SAME),
        (Verdict.NEW, Tone.GOOD),
        (Verdict.INCOMPARABLE, Tone.OPEN),
        (Verdict.WRONG, Tone.BAD),
        ("no such word", Tone.BAD),
    ],
)
def test_a_word_that_no_table_has_is_shown_as_a_failure(verdict: str, expected: Tone) -> None:
    assert tone(verdict) is expected


def test_a_document_has_its_verdict_only_where_there_is_one() -> None:
    found = Report("bisect", ExitCode.UNDECIDED, fields={"case": "a.b"})
    assert document(found) == {"schema": 1, "command": "bisect", "exit_code": 3, "case": "a.b"}


def test_the_terminal_keeps_names_whole_and_obeys_no_control_characters() -> None:
    text = shown(record(*HOSTILE), width=40)
    for name in HOSTILE[:5]:
        assert name in text
    assert "\x1b" not in text
    assert "line break [31mred" in text


def test_a_terminal_gets_colour_unless_it_is_told_not_to(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, coloured in (("COLUMNS", True), ("NO_COLOR", False)):
        monkeypatch.setenv(variable, "80")
        monkeypatch.setenv("TERM", "xterm-256color")
        console = Console(file=io.StringIO(), force_terminal=True, highlight=False)
        terminal.answer(record(), console)
        assert isinstance(console.file, io.StringIO)
        assert ("\x1b[1;31m" in console.file.getvalue()) is coloured


def test_no_name_breaks_out_of_its_markdown_cell() -> None:
    text = files.markdown(record(*HOSTILE))
    assert Document(text).met == {"details", "summary", "code"}
    tables = [block.splitlines() for block in text.split("\n\n") if block.startswith("| ")]
    assert len(tables) > 1
    assert all(len({line.count("|") for line in lines}) == 1 for lines in tables)
    assert HOSTILE[1] in text
    assert HOSTILE[2] in text


@given(st.text())
def test_escaped_text_has_no_markup_left_and_stays_on_its_line(text: str) -> None:
    escaped = files.escape(text)
    assert not set("<>|`*_[]\\\n\r") & set(escaped)
    assert Document(escaped).met == set()


@given(st.text())
def test_a_sentence_of_a_page_has_no_markup_but_code(text: str) -> None:
    assert Document(str(prose(text))).met <= {"code", "br"}


def test_csv_gives_every_name_back() -> None:
    rows = list(csv.DictReader(io.StringIO(files.csv(record(*HOSTILE)), newline="")))
    assert {cell(name) for name in HOSTILE} <= {each["case"] for each in rows}


@pytest.mark.parametrize("most_bytes", [0, 50, 700, 1500, 3000, 6000, 12000])
def test_no_size_is_ever_exceeded_and_failures_go_last(most_bytes: int) -> None:
    many = replace(
        record(), rows=[*(row(f"a.b-{n}", "SLOWER") for n in range(10)), *(row(f"c.d-{n}", "SAME") for n in range(50))]
    )
    text = files.markdown(many, most_bytes=most_bytes)
    assert len(text.encode()) <= most_bytes
    assert "| SAME |" not in text or text.count("| SLOWER |") == 10


def test_a_huge_summary_is_cut_at_a_row_counted_and_stays_below_what_github_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "summary.md"
    path.write_text("before\n", encoding="utf-8")
    monkeypatch.setenv(files.SUMMARY_VARIABLE, str(path))
    found = replace(record(), rows=[row(f"{'转置' * 50}{number}", "SLOWER") for number in range(5000)])
    files.summarize(found)
    text = path.read_text(encoding="utf-8")
    assert text.startswith("before\n# Peakgate")
    assert 900_000 < path.stat().st_size < 2**20
    assert f"{5000 - text.count('| SLOWER |')} of 5000 rows" in text
    files.summarize(found)
    assert path.stat().st_size < 2**20


@settings(max_examples=50, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_name_gives_xml_and_a_page_that_read_back(name: str) -> None:
    found = record(name)
    suite = ElementTree.fromstring(files.junit(found))[0]
    assert one_line(name) in [case.get("name") for case in suite]
    parsed = Document(page(found))
    assert one_line(name) in parsed.codes
    assert len(parsed.named("script")) == 1


def test_failures_fail_and_open_questions_are_skipped_in_junit() -> None:
    suite = ElementTree.fromstring(files.junit(record()))[0]
    assert [case.get("name") for case in suite.findall("testcase[failure]")] == ["norms.softmax-8", "norms.rms-8"]
    assert [case.get("name") for case in suite.findall("testcase[skipped]")] == ["norms.noisy-8"]
    assert suite.attrib | {"tests": "12", "failures": "2", "errors": "0", "skipped": "1"} == suite.attrib


def test_names_leave_the_page_as_it_is_and_ask_for_nothing_outside_it() -> None:
    plain, parsed = Document(page(record(*"abcdefgh"))), Document(page(record(*HOSTILE)))
    assert parsed.met == plain.met
    assert not parsed.met & {"link", "img", "iframe", "object", "base"}
    assert not [name for _, attributes in parsed.tags for name in attributes if name.startswith("on")]
    assert set(parsed.codes) >= {one_line(name) for name in HOSTILE}
    targets = [attributes[name] for _, attributes in parsed.tags for name in ("src", "href") if name in attributes]
    ids = {attributes["id"] for _, attributes in parsed.tags if "id" in attributes}
    assert {f"#{each}" for each in ids} >= set(targets) >= {"#content", "#row-0"}
    policy = parsed.named("meta")[1]["content"] or ""
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "script-src 'unsafe" not in policy


def test_a_few_notes_stand_open_and_many_are_folded() -> None:
    for count, opened in ((1, True), (5, True), (6, False)):
        text = page(replace(record(), notes=[f"note {number}" for number in range(count)]))
        (notes,) = (each for each in Document(text).named("details") if each.get("class") == "notes")
        assert ("open" in notes) is opened


def test_a_page_of_a_site_leads_up_and_to_the_pages_of_its_rows() -> None:
    found = replace(record(), rows=[replace(row("a.b", "SAME"), address="cases/a.b.html")])
    links = [each["href"] for each in Document(page(found, [("All GPU models", "../index.html")], "a")).named("a")]
    assert [each for each in links if each and not each.startswith("#")] == ["../index.html", "cases/a.b.html"]


def test_the_first_thing_on_a_page_is_its_verdict_and_its_worst_case() -> None:
    text, worst = page(record()), record().worst
    assert text.index("norms.softmax-8") < text.index("Rows by verdict") < text.index("What else differs")
    assert worst is not None
    assert worst.reason
    assert text.count(worst.reason) == 2
    passed = [row("a.b", "SAME", "+0.1 %")]
    assert 'class="worst"' not in page(replace(record(), verdict="PASS", rows=passed))


def test_a_cell_that_is_a_link_leads_there_on_a_page_and_is_text_elsewhere() -> None:
    leading = CellLink("a1b2c3", "../changes/a1b2c3.html")
    found = replace(
        record(),
        rows=[replace(row("a.b", "SAME"), cells={"driver": leading})],
        tables=[Table("Runs", ("run",), [(leading,)])],
    )
    links = [each["href"] for each in Document(page(found)).named("a")]
    assert links.count("../changes/a1b2c3.html") == 2
    assert "changes/" not in files.markdown(found) + files.csv(found)


def test_a_summary_that_cannot_be_written_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(files.SUMMARY_VARIABLE, str(tmp_path))
    with pytest.raises(PeakgateError, match="cannot be written"):
        files.summarize(record())


def test_the_documents_of_one_report_are_all_written(tmp_path: Path) -> None:
    written = files.write(record(), tmp_path)
    assert [path.name for path in written] == [f"sample.{name}" for name in files.FORMATS]
    assert json.loads(written[2].read_text(encoding="utf-8"))["exit_code"] == 1


@pytest.mark.parametrize(
    ("value", "digits", "expected"),
    [(219.0, 4, "219.0"), (2653.2, 4, "2653"), (29.0, 3, "29.0"), (0.23, 3, "0.230"), (51234.0, 4, "51234")],
)
def test_figures_of_a_column_have_as_many_digits(value: float, digits: int, expected: str) -> None:
    assert figure(value, digits) == expected


@pytest.mark.parametrize(("value", "expected"), [(0.58, "0.58 %"), (240.0, "240 %"), (None, ""), (float("nan"), "")])
def test_percent_has_two_digits_and_a_space(value: float | None, expected: str) -> None:
    assert percent(value) == expected


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_a_sparkline_has_a_bar_a_value(values: list[float]) -> None:
    assert len(sparkline(values)) == len(values)
