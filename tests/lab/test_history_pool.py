"""The whole gates of one pool, as `history` judges them."""

from __future__ import annotations

import pandas as pd
import pytest

from lab.history import pool
from peakgate.reports import change_points, trend


@pytest.fixture(scope="module")
def gates() -> pd.DataFrame:
    """Every third case of all gates."""
    found = pool.gates()
    return found[found["case"].isin(sorted(found["case"].unique())[::3])]


def test_the_pool_is_of_many_gpus_and_some_days(gates: pd.DataFrame) -> None:
    assert len(pool.sessions(gates)) >= 60
    assert gates["gpu_uuid"].nunique() >= 15
    assert gates["taken"].dt.date.nunique() >= 5


def test_unchanged_code_is_slower_on_no_gpu_that_ran_last(gates: pd.DataFrame) -> None:
    gpus = gates.groupby("run")["gpu_uuid"].first()[pool.sessions(gates)]
    ends = [number for number in range(1, len(gpus)) if gpus.iloc[number] != gpus.iloc[number - 1]]
    for end in (ends[-1], len(gpus)):
        found = pool.until(gates, end)
        assert set(trend(found)["verdict"]) <= {"SAME", "NEW", "INCONCLUSIVE"}
        assert change_points(found).empty


def test_steps_of_quiet_cases_are_seen(gates: pd.DataFrame) -> None:
    for size, age in pool.STEPS:
        seen, others = pool.seen(gates, size, age)
        assert seen >= 0.9 * pool.PLANTED
        assert others == 0
