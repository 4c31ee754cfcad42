"""What the fleet's rule knows of H200s is what their kept gates show."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from lab.fleet import known
from peakgate.fleet import statistics

effects = cache(known.effects)


def test_a_hosts_gpus_have_one_level() -> None:
    by_host = effects().groupby("host")["level"]
    assert (by_host.nunique() == 1).all()
    assert (by_host.size() > 1).sum() == 4


@pytest.mark.parametrize("effect", statistics.H200.spans)
def test_the_known_spread_is_that_of_the_kept_gates(effect: str) -> None:
    found = effects()
    seen = (found[effect].max() - found[effect].min()) / 100
    within = float(np.sqrt(found.groupby("level")[effect].var().mean())) / 100
    assert seen < statistics.H200.spans[effect] < 1.3 * seen
    assert 0.7 * within < statistics.H200.own_sds[effect] < 1.6 * within
