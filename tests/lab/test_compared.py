"""Sessions of the study of one run against one, and its page."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest

from lab.compared import study
from lab.compared.study import DRAWN_CASES, GENERATORS, Pair, judged, rates, source
from peakgate.compare import gpus


@pytest.fixture(scope="module")
def record() -> Any:
    return json.loads(study.RECORD.read_text(encoding="utf-8"))


def test_profiles_are_of_17_gpus_with_one_machine_code_a_case() -> None:
    found = source("gpus")
    assert len(found.uuids) == len(set(found.uuids)) == 17
    assert found.times.notna().all(axis=None)
    assert found.rows.groupby("case")["fingerprint"].nunique().max() == 1


def test_what_is_usual_between_gpus_is_what_all_but_two_have() -> None:
    every = [study.usual(pair) for pair in itertools.combinations(range(17), 2)]
    for fitted, value in zip(zip(*every, strict=True), (gpus.CASE_SD, gpus.HOST_SD_US), strict=True):
        assert min(fitted) < value < max(fitted)


@pytest.mark.parametrize("name", GENERATORS)
def test_drawn_sessions_are_repeatable_and_of_many_durations(name: str) -> None:
    times = source(name).times.to_numpy()
    assert times.shape == (DRAWN_CASES, 200)
    again = np.exp(GENERATORS[name](np.random.default_rng(list(GENERATORS).index(name)), 200))
    assert np.array_equal(times, again)
    assert np.median(times, axis=1).min() < 20
    assert np.median(times, axis=1).max() > 1000


def test_a_judgement_counts_what_was_slowed_and_flagged() -> None:
    found = judged(Pair("steady", (3, 3), 0))
    assert [found["slower"], found["faster"], found["cases"]] == [False, False, []]
    flagged, slowed = np.sum(rates([found])["detected"], axis=(0, 1)).tolist()
    assert slowed == len(study.SLOWED) * DRAWN_CASES // study.SLOWED_EVERY
    assert 0 < flagged < slowed


def test_unchanged_code_is_flagged_in_one_percent_of_pairs(record: Any) -> None:
    parts = record["now"]["parts"]
    assert parts.keys() - record["before"]["parts"].keys() == {study.REFIT}
    for name, part in parts.items():
        assert max(part["slower"], part["faster"]) <= 0.01 * part["pairs"], name
