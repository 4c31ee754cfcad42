from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from comparing import compare
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from peakgate.reports.render import figures, html, phrases
from peakgate.reports.render.html import matrices
from peakgate.reports.render.page import Page, number, of_comparison, of_run
from peakgate.reports.result import Comparison, Shift
from peakgate.reports.runs.find import RunSide
from peakgate.reports.runs.runfile import Run, load_run
from peakgate.verdict import Verdict
from synthetic_runs import LADDER, document, save, slower

PAD = "transpose.smem_pad-8192-32x8"
HOSTILE = (
    "<script>alert(1)</script>",
    "转置.共享内存-八千",
    "x" * 3000,
    '"><img src=x onerror=alert(1)>',
    "</script><b>'&amp;{{ 7 * 7 }}",
    "line\nbreak\x1b[31mred\r\x00",
    "%{x}<a href='http://g.example'>$\\frac$",
)
ROOFS = {"copy_1GiB": 4250.0, "read_1GiB": 4350.0, "fma": 65.8}
SGEMM = {
    f"sgemm.{stage}-{size}": {"bound": "compute", "tflops": rate, "gbs": 80.0, "peak_fraction": rate / 67}
    for stage, size, rate in (("naive", 256, 1.0), ("naive", 4096, 5.0), ("tiled", 4096, 30.0))
}


class Document(HTMLParser):
    """What a browser would make of the page: tags, attributes, the text of each case, the policy."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.cases: list[str] = []
        self._inside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside.append(tag)
        if tag == "code":
            self.cases.append("")

    def handle_endtag(self, tag: str) -> None:
        while self._inside and self._inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._inside and self._inside[-1] == "code":
            self.cases[-1] += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def run(tmp_path: Path, file: str = "run", times: dict[str, float] | None = None, **reported: Any) -> Run:
    content = document({**(times or LADDER), **dict.fromkeys(SGEMM, 100.0)}, extra=SGEMM, **reported)
    return load_run(save(tmp_path, file, content))


def comparison(tmp_path: Path, new: dict[str, float]) -> Comparison:
    sides = [
        RunSide(name, (run(tmp_path, name, times, day=day, driver=driver, peak_tflops=67.0, roofs=ROOFS),))
        for name, times, day, driver in (("base", LADDER, 3, "1"), ("new", new, 4, "<b>2</b>"))
    ]
    return compare(sides[0], sides[1])


def page_of(tmp_path: Path, *names: str, **gpu: Any) -> Page:
    return of_run(run(tmp_path, times=dict.fromkeys(names, 10.0), peak_tflops=67.0, roofs=ROOFS, **gpu))


def test_the_page_leads_with_verdict_counts_and_the_smallest_detectable_change(tmp_path: Path) -> None:
    text = html.comparison_page(comparison(tmp_path, slower(PAD, 1.22)))
    head = re.sub(r"<[^>]+>|\s+", " ", text[text.index("<header>") : text.index("</header>")])
    assert "Peakgate: SLOWER" in " ".join(head.split())
    assert " ".join(head.split()).count("SLOWER") == 2
    assert "Smallest detectable change 3 % in the median case" in head


def test_the_page_lists_every_case_worst_first_with_its_change_drawn(tmp_path: Path) -> None:
    found = comparison(tmp_path, slower(PAD, 1.22))
    parsed = Document(html.comparison_page(found))
    assert parsed.cases == [row.case for row in found.records]
    assert parsed.cases[0] == PAD
    drawn = [each for each in parsed.named("svg") if (each["class"] or "").startswith("forest")]
    assert [each["class"] for each in drawn][:2] == ["forest bad", "forest same"]
    assert len(drawn) == len(found.records)


def test_the_page_says_what_else_differs(tmp_path: Path) -> None:
    text = html.comparison_page(comparison(tmp_path, slower(PAD, 1.22)))
    assert "<td>&lt;b&gt;2&lt;/b&gt;</td>" in text


@pytest.mark.parametrize(("count", "shown"), [(1, True), (5, True), (6, False)])
def test_a_few_notes_stand_open_and_many_are_folded(tmp_path: Path, count: int, shown: bool) -> None:
    found = replace(comparison(tmp_path, LADDER), remarks=tuple(f"note {number}" for number in range(count)))
    (notes,) = (each for each in Document(html.comparison_page(found)).named("details") if each.get("class") == "notes")
    assert ("open" in notes) is shown


def test_nothing_on_the_page_asks_for_anything_outside_it(tmp_path: Path) -> None:
    parsed = Document(html.comparison_page(comparison(tmp_path, slower(PAD, 1.22))))
    assert not {"link", "img", "iframe", "object", "base"} & {tag for tag, _ in parsed.tags}
    targets = [attributes[name] for _, attributes in parsed.tags for name in ("src", "href") if name in attributes]
    assert targets == ["#cases"]
    policy = parsed.named("meta")[1]["content"] or ""
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "script-src 'unsafe" not in policy


def test_names_leave_the_page_as_it_is_and_can_be_read_back(tmp_path: Path) -> None:
    plain = Document(html.render(page_of(tmp_path, *(f"a.b-{index}" for index in range(len(HOSTILE))))))
    parsed = Document(html.render(page_of(tmp_path, *HOSTILE, name="<i>GPU</i>", vbios="</script>")))
    assert {tag for tag, _ in parsed.tags} == {tag for tag, _ in plain.tags}
    assert not [name for _, attributes in parsed.tags for name in attributes if name.startswith("on")]
    assert len(parsed.named("script")) == 3
    assert set(parsed.cases) >= {phrases.one_line(name) for name in HOSTILE}


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_case_id_is_one_row_and_no_markup(tmp_path: Path, name: str) -> None:
    parsed = Document(html.render(page_of(tmp_path, name)))
    assert phrases.one_line(name) in parsed.cases
    assert len(parsed.named("script")) == 3


def test_charts_get_names_escaped_and_cut(tmp_path: Path) -> None:
    page = page_of(tmp_path, *HOSTILE)
    drawn = [chart.figure for chart in (figures.roofline(page), *figures.ladders(page)) if chart]
    texts = [text for figure in drawn for trace in figure["data"] for text in trace.get("hovertext", [])]
    texts += [text for figure in drawn for text in figure["layout"]["yaxis"].get("ticktext", [])]
    assert any("&lt;script&gt;" in text for text in texts)
    assert not [text for text in texts if re.search(r"<(?!br>)", text)]
    assert max(map(len, texts)) < 700


def test_the_roofline_has_a_point_a_timed_case_none_above_its_roof(tmp_path: Path) -> None:
    page = page_of(tmp_path, *LADDER)
    chart = figures.roofline(page)
    assert chart
    roofs, points = chart.figure["data"][:2], chart.figure["data"][2:]
    assert [trace["name"].partition(":")[0] for trace in roofs] == ["theoretical roof", "measured roof"]
    assert sorted(index for trace in points for index in trace["customdata"]) == list(range(len(LADDER) + len(SGEMM)))
    sgemm = next(trace for trace in points if trace["name"] == "sgemm")
    assert sgemm["x"] == [12.5, 62.5, 375.0]
    assert sgemm["y"] == [1.0, 5.0, 30.0]


def test_a_gpu_without_peaks_has_no_roofline(tmp_path: Path) -> None:
    unknown = of_run(run(tmp_path, peak_gbs=None))
    assert figures.roofline(unknown) is None
    assert "roofline-title" not in html.render(unknown)


@pytest.mark.parametrize("value", [None, True, "4814", -1.0, 0, float("inf"), [1]])
def test_what_is_no_peak_is_not_drawn(value: object) -> None:
    assert number(value) is None


def test_a_ladder_shows_the_best_case_of_each_stage_in_the_order_of_the_run(tmp_path: Path) -> None:
    page = page_of(tmp_path, *LADDER)
    ladder = next(chart for chart in figures.ladders(page) if chart.title == "sgemm")
    assert ladder.figure["layout"]["yaxis"]["ticktext"] == ["naive", "tiled"]
    assert ladder.figure["data"][0]["x"] == [round(500 / 67, 2), round(3000 / 67, 2)]


def test_stages_that_compute_are_told_by_size_with_the_best_of_each(tmp_path: Path) -> None:
    (matrix,) = matrices(run(tmp_path))
    assert (matrix.family, matrix.sizes) == ("sgemm", ("256", "4096"))
    assert matrix.rows == (("naive", (1.0, 5.0)), ("tiled", (None, 30.0)))
    assert matrix.best == (1.0, 30.0)


def test_history_is_drawn_and_told_from_three_runs_on(tmp_path: Path) -> None:
    runs = [run(tmp_path, f"run{day}", slower(PAD, 1 + day / 100), day=day) for day in (1, 2, 3)]
    few, enough = (of_run(runs[-1], runs[:count]) for count in (1, 2))
    assert not any(line.history for line in few.lines)
    line = next(line for line in enough.lines if line.case == PAD)
    assert [time for _, time in line.history] == pytest.approx([161.6, 163.2, 164.8])
    assert "3 runs since 2026-11-01, 161.6 to 164.8 µs, latest 164.8 µs" in html.render(enough)


def test_the_small_history_of_an_ab_shows_base_then_new_and_does_not_alternate(tmp_path: Path) -> None:
    days = {"base": (1, 3, 5), "new": (2, 4, 6)}
    base, new = (
        RunSide(name, tuple(run(tmp_path, f"{name}{day}", slower(PAD, factor), day=day) for day in days[name]))
        for name, factor in (("base", 1.0), ("new", 1.5))
    )
    (line,) = (line for line in of_comparison(compare(base, new)).lines if line.case == PAD)
    assert [time for _, time in line.history] == pytest.approx([160.0] * 3 + [240.0] * 3)


def test_a_case_without_a_floor_is_grey(tmp_path: Path) -> None:
    page = of_run(run(tmp_path, times={PAD: 160.0}))
    shown = replace(page, lines=tuple(replace(line, verdict=Verdict.NO_FLOOR) for line in page.lines))
    assert '<span class="verdict same">NO_FLOOR</span>' in html.render(shown)


def test_a_run_is_shown_as_it_was_judged_with_what_it_could_not_time(tmp_path: Path) -> None:
    wrong = {"case": "a.wrong", "verdict": "WRONG", "reason": "race on <shared> memory"}
    content = document(extra={PAD: {"verdict": "BELOW_FLOOR", "floor": 0.8}}, not_measured=[wrong])
    page = of_run(load_run(save(tmp_path, "run", content)))
    assert [(line.case, line.verdict) for line in page.lines[:2]] == [("a.wrong", "WRONG"), (PAD, "BELOW_FLOOR")]
    assert (page.verdict, dict(page.counts)) == ("WRONG", {"WRONG": 1, "BELOW_FLOOR": 1, "PASS": 14})
    assert "race on &lt;shared&gt; memory" in html.render(page)


@given(st.floats(-3, 3), st.floats(0, 3), st.floats(0.05, 0.2))
def test_a_change_is_drawn_inside_its_cell_however_large(log_ratio: float, resolvable: float, scale: float) -> None:
    drawn = html.forest(Shift(log_ratio, resolvable, flagged=False), scale, "same")
    across = [float(value) for value in re.findall(r'(?: x| cx|"M|L)="?(-?[\d.]+)', drawn)]
    assert all(0 <= value <= html.FOREST_WIDTH for value in across)
    assert ("<path" in drawn) is (abs(log_ratio) > scale)


def test_seven_hundred_cases_stay_far_below_six_megabytes(tmp_path: Path) -> None:
    times = {f"transpose.stage{index % 20}-{index}-32x8": 100.0 + index for index in range(700)}
    runs = [run(tmp_path, f"run{day}", times, day=day) for day in range(1, 21)]
    found = compare(RunSide("base", (runs[0],)), RunSide("new", (runs[-1],)))
    assert len(html.comparison_page(found, runs[1:-1]).encode()) < 4_000_000


def test_the_fullest_of_several_runs_stands_for_its_side(tmp_path: Path) -> None:
    whole, part = run(tmp_path, "whole", day=1), run(tmp_path, "part", {PAD: 160.0}, day=2)
    found = compare(RunSide("base", (whole,)), RunSide("new", (whole, part)))
    assert of_comparison(found).run is whole


@pytest.mark.parametrize(
    ("value", "digits", "shown"),
    [
        (219.0, 4, "219.0"),
        (2653.2, 4, "2653"),
        (29.0, 3, "29.0"),
        (0.23, 3, "0.230"),
        (51234.0, 4, "51234"),
        (None, 4, ""),
    ],
)
def test_figures_of_a_column_have_as_many_digits(value: float | None, digits: int, shown: str) -> None:
    assert html.figure(value, digits) == shown
