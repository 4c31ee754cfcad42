import pytest

from peakgate.base.verdict import Verdict, counts
from peakgate.run.display import bar, render


def make_row(verdict=Verdict.PASS, peak_fraction=0.5, name="smem-8192", floor=0.4):
    case = {"case": f"synthetic.{name}", "family": "synthetic", "verdict": verdict.value, "reason": f"reason of {name}"}
    figures = {"time_us": 12.5, "gbs": 2500.0, "tflops": 0.0, "bound": "memory"}
    return case | figures | {"peak_fraction": peak_fraction, "floor": floor}


def text_of(*rows, width=80, colour=False):
    return render(rows, ["the end"], width=width, colour=colour)


@pytest.mark.parametrize("width", [80, 100, 140])
def test_every_row_shows_its_verdict_whole_within_the_width(width):
    lines = text_of(make_row(), make_row(Verdict.BELOW_FLOOR, name="x" * 90), width=width).splitlines()
    table = [line for line in lines if "GB/s" in line]
    assert len(table) == 2
    assert all(len(line) <= width for line in table)
    assert table[0].endswith("PASS")
    assert table[1].endswith("BELOW_FLOOR")


def test_what_is_wrong_is_listed_worst_first_and_the_closing_lines_come_last(golden):
    slightly = make_row(Verdict.BELOW_FLOOR, 0.39, "slightly")
    badly = make_row(Verdict.BELOW_FLOOR, 0.1, "badly")
    text = text_of(slightly, badly, make_row(), make_row(Verdict.WRONG, None, "wrong"))
    golden("bench.txt", f"{text}\n")
    wrong = [line.split()[1] for line in text.splitlines() if line.startswith(("BELOW_FLOOR", "WRONG"))]
    assert wrong == ["synthetic.wrong:", "synthetic.badly:", "synthetic.slightly:"]


def test_a_case_without_figures_outranks_a_slow_one():
    *_, first, _, _ = text_of(make_row(Verdict.BELOW_FLOOR, 0.1), make_row(Verdict.WRONG, None)).splitlines()
    assert first.startswith("WRONG")


def test_a_device_without_peaks_has_no_empty_columns():
    text = text_of(make_row(Verdict.NO_FLOOR, None, floor=None))
    assert "peak" not in text
    assert "floor" not in text
    assert "12.50" in text


def test_a_plain_terminal_gets_no_escape_codes_and_a_coloured_one_does():
    assert "\x1b" not in text_of(make_row())
    assert "\x1b" in text_of(make_row(), colour=True)


def test_markup_in_a_name_is_shown_as_it_is():
    assert "[red]x[/red]" in text_of(make_row(name="[red]x[/red]"))


def test_a_bar_is_full_at_the_peak_and_empty_when_nothing_is_known():
    assert bar(1.0) == "█" * 8
    assert bar(1.7) == "█" * 8
    assert bar(None) == ""


def test_counts_name_the_most_frequent_verdict_first():
    assert counts([Verdict.PASS, Verdict.WRONG, Verdict.PASS]).split(", ") == ["2 PASS", "1 WRONG"]
