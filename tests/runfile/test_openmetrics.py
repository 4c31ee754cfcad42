"""The figures of cases as OpenMetrics text, read by the grammar of its specification."""

from __future__ import annotations

import math

import pytest
from lark.exceptions import LarkError
from metrics_text import exposition

from peakgate.runfile.openmetrics import CaseMetrics, openmetrics

CASE = CaseMetrics("own.mine-256", "nvidia-h200", "c" * 40, "PASS", 12.5, 3200.0, 0.667)
LABELS = (("case", "own.mine-256"), ("gpu", "nvidia-h200"), ("commit", "c" * 40))


def test_a_case_has_its_time_rate_fraction_and_verdict() -> None:
    assert exposition(openmetrics([CASE])) == {
        "peakgate_time_seconds": {LABELS: pytest.approx(12.5e-6)},
        "peakgate_rate_bytes_per_second": {LABELS: 3.2e12},
        "peakgate_peak_ratio": {LABELS: 0.667},
        "peakgate_verdict": {(*LABELS, ("verdict", "PASS")): 1},
    }


@pytest.mark.parametrize("unknown", [None, math.nan])
def test_an_unknown_figure_has_no_sample(unknown: float | None) -> None:
    found = exposition(openmetrics([CASE._replace(time_us=unknown, gbs=unknown, peak_fraction=unknown)]))
    assert {name: len(samples) for name, samples in found.items() if samples} == {"peakgate_verdict": 1}


def test_without_cases_it_is_complete_too() -> None:
    assert not any(exposition(openmetrics([])).values())
    assert openmetrics([]).endswith("\n# EOF\n")


def test_the_emulators_times_are_no_figures_of_a_gpu() -> None:
    found = exposition(openmetrics([CASE._replace(gpu="cpu-emulator")]))
    assert {name: len(samples) for name, samples in found.items() if samples} == {"peakgate_verdict": 1}


@pytest.mark.parametrize("text", ['a"b', "a\\", "\\n", '"} 1', "é", "{,="])
def test_a_label_is_read_back_whatever_it_holds(text: str) -> None:
    ((labels, _),) = exposition(openmetrics([CASE._replace(case=text)]))["peakgate_time_seconds"].items()
    assert dict(labels)["case"] == text


def test_a_label_has_nothing_that_a_terminal_obeys() -> None:
    text = openmetrics([CASE._replace(case="a\nb 1\n# EOF\r\x1b[2J\u2028")])
    assert len(text.splitlines()) == len(openmetrics([CASE]).splitlines())
    assert "\x1b" not in text
    exposition(text)


def test_the_reader_refuses_text_that_is_cut_off() -> None:
    with pytest.raises(LarkError):
        exposition(openmetrics([CASE])[:-7])
