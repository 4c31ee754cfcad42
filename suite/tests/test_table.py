import pytest

from suite.baseline import Floors
from suite.case import Tier
from suite.metrics import Metrics
from suite.session import Outcome, Session
from suite.table import bar, render
from suite.tests.synthetic import make_case, make_samples
from suite.verdict import Judgement, Verdict


class SyntheticDevice:
    slug = "synthetic-gpu"


def session_with(*outcomes, tmp_path):
    session = Session(SyntheticDevice(), Floors(tmp_path / "floors.toml"), Tier.GATE, outcomes=list(outcomes))
    session.wall_s["total"] = 1.0
    return session


def outcome(verdict, peak_fraction=0.5, floor=0.4, **changes):
    figures = Metrics(12.5, 2500.0, 0.0, peak_fraction, "memory", 0.6, "copy_1GiB")
    judgement = Judgement(verdict, f"reason of {verdict}")
    return Outcome(make_case(**changes), judgement, samples=make_samples(12.5), metrics=figures, floor=floor)


@pytest.mark.parametrize("width", [80, 100, 140])
def test_every_row_shows_its_verdict_whole_within_the_width(tmp_path, width):
    long_name = outcome(Verdict.BELOW_FLOOR, size="x" * 90)
    text = render(session_with(outcome(Verdict.PASS), long_name, tmp_path=tmp_path), width=width, colour=False)
    table = [line for line in text.splitlines() if "GB/s" in line]
    assert len(table) == 2
    assert all(len(line) <= width for line in table)
    assert table[0].rstrip().endswith("PASS")
    assert table[1].rstrip().endswith("BELOW_FLOOR")


def test_what_is_wrong_is_listed_worst_first_and_counts_come_last(tmp_path):
    slightly = outcome(Verdict.BELOW_FLOOR, 0.39, size="slightly")
    badly = outcome(Verdict.BELOW_FLOOR, 0.1, size="badly")
    lines = render(session_with(slightly, badly, tmp_path=tmp_path), width=80, colour=False).splitlines()
    listed = [line for line in lines if line.startswith("BELOW_FLOOR")]
    assert ["badly" in line for line in listed] == [True, False]
    assert lines[-1] == "2 cases on synthetic-gpu: 2 BELOW_FLOOR"


def test_a_device_without_peaks_has_no_empty_columns(tmp_path):
    text = render(session_with(outcome(Verdict.NO_FLOOR, None), tmp_path=tmp_path), width=80, colour=False)
    assert "peak" not in text
    assert "12.50" in text


def test_a_plain_terminal_gets_no_escape_codes(tmp_path):
    assert "\x1b" not in render(session_with(outcome(Verdict.PASS), tmp_path=tmp_path), width=80, colour=False)


def test_a_bar_is_full_at_the_peak_and_empty_when_nothing_is_known():
    assert bar(1.0) == "█" * 8
    assert bar(1.7) == "█" * 8
    assert bar(None) == ""
