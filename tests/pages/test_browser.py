"""The page in a real browser: filter, sort, themes, charts, narrow screens, and that nothing leaves it."""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from comparing import compare
from fleet_tables import fleet_table
from synthetic_runs import LADDER, document, save, slower
from test_fleet_analysis import rows as fleet_rows

from peakgate.cli import main
from peakgate.compare.report import report as compared
from peakgate.fleet import analysis
from peakgate.fleet import report as fleet_report
from peakgate.pages import show
from peakgate.render.page import page as page_text
from peakgate.runfile.find import RunSide
from peakgate.runfile.saved import load_run

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    Visit = Callable[..., Page]

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHOSEN = os.environ.get("PEAKGATE_BROWSER")
"""Another browser of that kind, `chromium-headless-shell` say."""

EXECUTABLE = next((path for name in ([CHOSEN] if CHOSEN else BROWSERS) if (path := shutil.which(name))), None)
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")

PAD = "transpose.smem_pad-8192-32x8"
BACKGROUNDS = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 26)"}
HOSTILE = ("<script>alert(1)</script>", "转置.共享内存-八千", "x" * 3000)
SGEMM = {
    f"sgemm.{stage}-{size}": {"bound": "compute", "tflops": rate, "gbs": 80.0, "peak_fraction": rate / 67}
    for stage, size, rate in (("naive", 256, 1.0), ("naive", 4096, 5.0), ("tiled", 4096, 30.0))
}

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        EXECUTABLE is None, reason=f"{CHOSEN or ', '.join(BROWSERS)}: not installed; PEAKGATE_BROWSER may name another"
    ),
]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison with a regression, hostile names, a driver that differs, and history."""
    folder = tmp_path_factory.mktemp("report")
    times = {**LADDER, **dict.fromkeys(HOSTILE, 100.0), **dict.fromkeys(SGEMM, 100.0)}
    gpu: dict[str, Any] = {"peak_tflops": 67.0, "roofs": {"copy_1GiB": 4250.0, "fma": 65.8}}
    runs = []
    for day, factor, driver in ((1, 1.0, "580"), (2, 1.01, "580"), (3, 0.99, "580"), (4, 1.22, "<b>590</b>")):
        content = document(slower(PAD, factor, times), day=day, extra=SGEMM, driver=driver, **gpu)
        runs.append(load_run(save(folder, f"run{day}", content)))
    found = compare(RunSide("base", (runs[2],)), RunSide("new", (runs[3],)))
    path = folder / "compare.html"
    path.write_text(page_text(compared(found, runs[:2])), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=EXECUTABLE, args=list(QUIET))
        yield started
        started.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    """Open a page from its file; no test may leave an error behind, or ask for anything but pages beside it."""
    pages: list[Page] = []
    asked, errors = [], []

    def opened(path: Path, width: int = 1280, **how: Any) -> Page:
        pages.append(page := browser.new_page(viewport={"width": width, "height": 800}, **how))
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("dialog", lambda dialog: errors.append(dialog.message))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]")
        return page

    yield opened
    for page in pages:
        page.close()
    assert all(url.startswith("file:") and url.endswith(".html") for url in asked)
    assert errors == []


@pytest.fixture
def opened(visit: Visit, report: Path) -> Page:
    return visit(report, color_scheme="light")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of 24 sessions in which one case got slower and the driver changed; its index."""
    folder = tmp_path_factory.mktemp("site")
    for day in range(1, 25):
        times = {**slower(PAD, 1.05 if day > 12 else 1.0), HOSTILE[0]: 100.0}
        noisy = {
            case: time_us * (1 + 0.002 * math.sin(day * (row + 7))) for row, (case, time_us) in enumerate(times.items())
        }
        save(
            folder / "runs",
            f"run{day:02d}",
            document(noisy, day=day, commit=f"{day:02x}" * 20, driver="580" if day < 6 else "590"),
        )
    with contextlib.chdir(folder):
        assert main(["show", "--all", "--runs", "runs", "--out", str(folder)]) == 0
    return folder / "site" / "index.html"


@pytest.mark.parametrize("width", [360, 1400])
def test_every_kind_of_page_of_a_site_fits_the_screen_and_is_reached_by_keyboard(
    visit: Visit, site: Path, width: int
) -> None:
    page = visit(site, width)
    for name in ("nvidia-h200", PAD, "2026-11-01 12:00", "Runs", "nvidia-h200"):
        follow(page, name)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate("getComputedStyle(document.body).color") not in {"", BACKGROUNDS[scheme]}


def follow(page: Page, name: str) -> None:
    """Press Tab until the link of this name has the focus, and Enter."""
    for _ in range(200):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent.trim()") == name:
            with page.expect_navigation():
                page.keyboard.press("Enter")
            return
    pytest.fail(f"no link {name!r} has the focus after 200 Tabs on {page.url}")


def test_a_history_is_filtered_and_sorted_by_keyboard(visit: Visit, site: Path) -> None:
    page = visit(site.parent / "nvidia-h200" / "index.html")
    assert cases(page)[0] == PAD
    assert page.locator(".pictures .series .bad").count() == 1
    assert page.locator(".series .environment").count() >= len(LADDER)
    page.locator("#text").focus()
    page.keyboard.type("smem_pad 8192")
    assert cases(page) == [PAD]
    for _ in range(3):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#shown")).to_have_text(f"{len(LADDER) + 1} rows")
    page.locator("#table thead th.case button").focus()
    page.keyboard.press("Enter")
    assert page.locator("#table thead th.case").get_attribute("aria-sort") == "ascending"
    assert cases(page)[0] == HOSTILE[0]


def cases(page: Page) -> list[str]:
    """The ids of the rows on show, in order."""
    return page.locator("#table tbody tr:not([hidden]) code").all_inner_texts()


def test_text_family_and_verdict_filter_the_rows_together(opened: Page) -> None:
    everything = len(cases(opened))
    opened.fill("#text", "8192 SMEM")
    assert cases(opened) == [PAD, "transpose.smem-8192-32x8"]
    opened.select_option("#verdict", "SLOWER")
    assert cases(opened) == [PAD]
    assert opened.inner_text("#shown") == f"1 of {everything} rows"
    opened.select_option("#group", "sgemm")
    assert cases(opened) == []
    opened.click("text=Clear")
    playwright.expect(opened.locator("#shown")).to_have_text(f"{everything} rows")


def test_a_count_in_the_header_filters_by_its_verdict_and_back(opened: Page) -> None:
    count = opened.locator(".count[data-verdict=SLOWER]")
    count.click()
    assert (cases(opened), count.get_attribute("aria-pressed")) == ([PAD], "true")
    count.click()
    assert len(cases(opened)) > 1
    assert count.get_attribute("aria-pressed") == "false"


def test_columns_sort_both_ways_by_keyboard_with_unknowns_last(opened: Page) -> None:
    header = opened.locator("#table th", has_text="TFLOP/s")
    header.locator("button").focus()
    opened.keyboard.press("Enter")
    assert header.get_attribute("aria-sort") == "ascending"
    assert cases(opened)[:3] == ["sgemm.naive-256", "sgemm.naive-4096", "sgemm.tiled-4096"]
    opened.keyboard.press("Enter")
    assert header.get_attribute("aria-sort") == "descending"
    assert cases(opened)[:3] == ["sgemm.tiled-4096", "sgemm.naive-4096", "sgemm.naive-256"]
    assert opened.locator("[aria-sort]").count() == 1


@pytest.mark.parametrize("name", ["time (µs)", "of peak", "change"])
def test_figures_sort_as_numbers_and_changes_with_their_sign(opened: Page, name: str) -> None:
    header = opened.locator("#table thead th", has_text=re.compile(f"^{re.escape(name)}$"))
    column = header.evaluate("cell => cell.cellIndex")
    header.locator("button").click()
    cells = opened.locator("#table tbody tr").evaluate_all(
        "(rows, at) => rows.map((row) => row.cells[at].dataset.value ?? row.cells[at].textContent)", column
    )
    figures = [float(cell.removesuffix(" %")) for cell in cells if cell]
    assert figures == sorted(figures)
    assert len(set(figures)) > 1


def test_pictures_have_names_as_they_are_in_the_colour_of_the_theme(opened: Page) -> None:
    drawn = opened.locator(".picture svg")
    assert any("<script>alert(1)" in text for text in drawn.all_text_contents())
    assert any("转置" in text for text in drawn.all_text_contents())
    opened.emulate_media(color_scheme="dark")
    colour = drawn.first.locator("text").first.evaluate("text => getComputedStyle(text).fill")
    assert colour == "rgb(230, 232, 234)"


@pytest.mark.parametrize("width", [400, 1280])
def test_pictures_stand_before_the_table_and_none_is_cut(visit: Visit, report: Path, width: int) -> None:
    page = visit(report, width)
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    outside = """() => [...document.querySelectorAll(".picture svg text")].filter((text) => {
      const [one, all] = [text.getBoundingClientRect(), text.closest("svg").getBoundingClientRect()];
      return one.left < all.left - 1 || one.right > all.right + 1 || one.top < all.top - 1;
    }).map((text) => text.textContent)"""
    assert page.evaluate(outside) == []
    assert "TFLOP/s" in page.locator("figure", has_text="Roofline").locator("svg text").all_text_contents()
    tops = [page.locator(each).first.bounding_box() for each in ("figure", "#table")]
    assert [box["y"] for box in tops if box] == sorted(box["y"] for box in tops if box)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_cases_without_a_floor_are_folded_until_asked_for(visit: Visit, tmp_path: Path) -> None:
    times = {f"a.s{at}-8": 10.0 for at in range(30)} | LADDER
    run = document(times, extra={case: {"verdict": "NO_FLOOR"} for case in times if case.startswith("a.")})
    path = tmp_path / "show.html"
    path.write_text(page_text(show.report(load_run(save(tmp_path, "run", run)))), encoding="utf-8")
    page = visit(path)
    folded = page.get_by_text("a.s7-8", exact=True)
    assert not folded.is_visible()
    page.click(".count[data-verdict=NO_FLOOR]")
    assert folded.is_visible()
    colours = [
        page.locator(f".counts .verdict.{name}").evaluate("each => getComputedStyle(each).color")
        for name in ("good", "open")
    ]
    assert len(set(colours)) == 2


def test_the_system_s_theme_holds_until_the_reader_chooses(opened: Page) -> None:
    def background() -> str:
        return str(opened.evaluate("getComputedStyle(document.body).backgroundColor"))

    light = background()
    opened.emulate_media(color_scheme="dark")
    dark = background()
    assert dark != light
    opened.click("#theme")
    assert (opened.inner_text("#theme"), background()) == ("Theme: light", light)
    opened.emulate_media(color_scheme="light")
    opened.click("#theme")
    assert (opened.inner_text("#theme"), background()) == ("Theme: dark", dark)
    opened.reload()
    opened.wait_for_selector("html[data-ready]")
    assert background() == dark


def test_text_stands_out_from_its_background_in_both_themes(opened: Page) -> None:
    contrast = """() => {
      const light = (text) => {
        const [r, g, b] = text.match(/[\\d.]+/g).map((value) => value / 255)
          .map((value) => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const back = (element) => {
        const colour = getComputedStyle(element).backgroundColor;
        return colour === "rgba(0, 0, 0, 0)" ? back(element.parentElement) : colour;
      };
      const texts = ["h1 .verdict", "td .verdict.bad", "td .verdict.same", "small", "p", "th", "figcaption", "#shown"];
      return texts.map((name) => document.querySelector(name)).map((element) => {
        const [one, other] = [light(getComputedStyle(element).color), light(back(element))];
        return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
      });
    }"""
    for scheme in ("light", "dark"):
        opened.emulate_media(color_scheme=scheme)
        assert min(opened.evaluate(contrast)) >= 4.5


def test_a_narrow_screen_scrolls_the_table_and_not_the_page(opened: Page) -> None:
    opened.set_viewport_size({"width": 360, "height": 740})
    assert opened.evaluate("document.documentElement.scrollWidth") <= 360
    table = opened.locator("#cases .scroll")
    assert table.evaluate("element => element.scrollWidth > element.clientWidth")
    table.evaluate("element => element.scrollTo(400, 0)")
    box = opened.locator("#row-0 .case").bounding_box()
    assert box
    assert box["x"] >= 0


def test_without_scripts_the_table_is_whole(browser: Browser, report: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    assert PAD in cases(page)
    assert not page.locator("#filters").is_visible()
    context.close()


def test_a_reader_that_hears_the_page_finds_names_for_its_parts(opened: Page) -> None:
    named: tuple[tuple[Any, str], ...] = (  # a role is a Literal of some eighty
        ("searchbox", "Text"),
        ("combobox", "Family"),
        ("combobox", "Verdict"),
        ("region", "Cases"),
        ("figure", "All changes"),
        ("columnheader", "change"),
        ("rowheader", PAD),
    )
    for role, name in named:
        assert opened.get_by_role(role, name=name).count() >= 1, (role, name)
    assert opened.get_by_text("since 2026-11-01").count() > 1


OVERLAPS = """(selector) => {
  const boxes = [...document.querySelectorAll(selector)].map((each) => each.getBoundingClientRect())
    .filter((each) => each.width);
  return boxes.flatMap((one, at) => boxes.slice(at + 1).filter((other) =>
    one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom)).length;
}"""
LABELS = ".large i, .large em"
"""Labels of the axes of a large chart."""


@pytest.mark.parametrize("width", [400, 1280])
def test_the_first_screen_has_the_verdict_and_the_worst_case(visit: Visit, site: Path, width: int) -> None:
    for name in ("index.html", "nvidia-h200/index.html"):
        page = visit(site.parent / name, width)
        for text in ("h1 .verdict", ".worst"):
            box = page.locator(text).bounding_box()
            assert box
            assert box["y"] + box["height"] < 400
        assert PAD in page.inner_text(".worst")


@pytest.mark.parametrize("width", [400, 1280])
def test_a_chart_of_a_case_is_zoomed_has_more_dates_then_and_leads_to_runs(
    visit: Visit, site: Path, width: int
) -> None:
    page = visit(site.parent / "nvidia-h200" / "cases" / f"{PAD}.html", width)
    plot, dates = page.locator(".large .plot"), page.locator(".large .plot i:visible")
    narrow, few = plot.evaluate("element => element.clientWidth"), dates.count()
    assert page.evaluate(OVERLAPS, f"{LABELS}, .large b") == 0
    for _ in range(2):
        page.get_by_role("button", name="Zoom in").click()
    assert plot.evaluate("element => element.clientWidth") == pytest.approx(4 * narrow, abs=4)
    assert dates.count() > few >= 2
    assert page.evaluate(OVERLAPS, LABELS) == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_role("button", name="Zoom out").click()
    page.get_by_role("button", name="Zoom out").click()
    assert dates.count() == few
    newest = page.locator(".large a title").last.text_content() or ""
    with page.expect_navigation():
        page.locator(".large a").last.click(force=True)
    assert page.inner_text("h1").startswith(f"Run of {newest[:16]}")


def test_an_open_regression_leads_to_its_case(visit: Visit, site: Path) -> None:
    page = visit(site.parent / "nvidia-h200" / "index.html")
    table = page.locator("details table", has_text="0d0d0d0d0d0d").first
    assert not table.is_visible()
    page.get_by_role("link", name="Commits and environments").click()  # a link to a folded table opens it
    assert table.is_visible()
    with page.expect_navigation():
        page.get_by_role("link", name=f"{PAD} +5").first.click()
    assert page.inner_text("h1").startswith(f"{PAD}: SLOWER")


def test_a_commit_has_all_cases_that_moved_with_it(visit: Visit, site: Path) -> None:
    page = visit(site.parent / "nvidia-h200" / "changes.html")
    with page.expect_navigation():
        page.get_by_role("link", name="0d0d0d0d0d0d").last.click()
    assert page.inner_text("h1").startswith("Commit 0d0d0d0d0d0d: SLOWER")
    assert cases(page) == [PAD]
    assert page.get_by_role("link", name="2026-11-13 12:00").count() == 1


def test_a_run_of_900_cases_is_one_file_below_a_megabyte_that_asks_for_nothing(visit: Visit, tmp_path: Path) -> None:
    times = {f"family{at % 9}.stage{at}_with_a_name-8192-32x8": 10.0 + at for at in range(900)}
    run = load_run(save(tmp_path, "run", document(times, peak_tflops=67.0)))
    path = tmp_path / "show.html"
    path.write_text(page_text(show.report(run)), encoding="utf-8")
    assert path.stat().st_size < 1_000_000
    page = visit(path)
    page.on("request", lambda request: pytest.fail(request.url))
    page.fill("#text", "stage899")
    assert len(cases(page)) == 1
    page.fill("#text", "")
    page.click("#table thead th:nth-child(3) button")
    page.click("#table thead th:nth-child(3) button")
    assert cases(page)[0] == "family8.stage899_with_a_name-8192-32x8"


def test_a_fleet_on_a_phone_has_its_outlier_then_its_pictures(visit: Visit, tmp_path: Path) -> None:
    slow = fleet_rows("GPU-3", 3, slow=0.06)
    again = fleet_rows("GPU-3", 30, slow=0.06, mode="again")
    others = [row for at in range(16) if at != 3 for row in fleet_rows(f"GPU-{at}", at)]
    path = tmp_path / "fleet.html"
    found = fleet_report.of_fleet(analysis.analyse(fleet_table([*slow, *others, *again])))
    path.write_text(page_text(found), encoding="utf-8")
    page = visit(path, 400, color_scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert page.inner_text("h1 .verdict") == "OUTLIER"
    assert cases(page)[0] == "GPU-3"
    tops = [page.locator(each).first.bounding_box() for each in (".worst", "figure", "#table")]
    assert [box["y"] for box in tops if box] == sorted(box["y"] for box in tops if box)
    letters = page.locator(".picture svg text").first.bounding_box()
    assert letters
    assert letters["height"] >= 8
