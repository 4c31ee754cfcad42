"""The options of a run: which are a user's, and under which names the plug-in gets them."""

from __future__ import annotations

import pytest

from peakgate.run.request import as_arguments, parser


@pytest.mark.parametrize("option", ["--mode=pair", "--link=3", "--journal=x", "--no-prebuild"])
def test_bench_takes_no_option_of_its_own_processes(option: str) -> None:
    assert parser().parse_known_args([option])[1] == [option]


def test_only_what_was_given_is_passed_on() -> None:
    given = parser().parse_args(["--device", "cpu", "--strict-gate", "--resume"])
    assert as_arguments(given) == ["--peakgate-device=cpu", "--peakgate-strict-gate"]
