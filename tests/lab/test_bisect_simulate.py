"""Histories simulated from measured pairs."""

from __future__ import annotations

import numpy as np

from lab.bisect import simulate
from lab.injected.resample import Medians


def test_simulated_histories_name_the_right_commit() -> None:
    rng = np.random.default_rng(3)
    base, head = (3 + rng.normal(0, 0.001, (4, 20)) for _ in range(2))
    measured = Medians(tuple("abcd"), base, head)
    found = simulate.simulate(measured, 4, 16, 0.02, seed=1)
    assert (found["named"] == found["slow"]).all()
    assert (found["comparisons"] <= 2 + 4).all()
