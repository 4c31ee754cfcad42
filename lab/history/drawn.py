"""Histories of drawn log times, as the frame of runs that `history` judges: a day and a commit for each session."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from peakgate.compare.noise import Floats
from peakgate.runfile.frame import HISTORY_COLUMNS

START = pd.Timestamp(2026, 1, 1, tz="UTC")


def frame_of(log_time: Floats, uuids: Sequence[str] = (), drivers: Sequence[str] = ()) -> pd.DataFrame:
    """Of these log times (case, session), by default of one GPU and driver; cases are ``drawn.case000`` and so on."""
    cases, sessions = log_time.shape
    facts = pd.DataFrame(
        {
            "gpu_slug": "drawn",
            "run": [f"{number:04d}.json" for number in range(sessions)],
            "taken": START + pd.to_timedelta(range(sessions), unit="D"),
            "commit": [f"{number + 1:040x}" for number in range(sessions)],
            "dirty": False,
            "whole": True,
            "run_tier": "gate",
            "gpu_uuid": list(uuids) or "GPU-1",
            "gpu_driver": list(drivers) or "580",
        },
        index=range(sessions),
    )
    rows = facts.loc[np.repeat(facts.index, cases)].reset_index(drop=True)
    rows["case"] = [f"drawn.case{row:03d}" for row in range(cases)] * sessions
    return rows.assign(time_us=np.exp(log_time.T).ravel(), host_bound=False).reindex(columns=list(HISTORY_COLUMNS))
