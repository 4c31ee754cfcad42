"""The table of a fleet as a matrix: GPUs by cases."""

from __future__ import annotations

import numpy as np
import pandas as pd
from peakgate.verdict import FAULTY, Verdict

UNUSABLE = [each.value for each in (*FAULTY, Verdict.INCONCLUSIVE)]


def log_times(table: pd.DataFrame) -> pd.DataFrame:
    """The log of the times in microseconds, a row per uuid and a column per case; missing where there is no figure."""
    usable = table[table["time_us"].gt(0) & ~table["verdict"].isin(UNUSABLE)]
    uuids, cases = (usable[name].astype("category").cat.remove_unused_categories() for name in ("uuid", "case"))
    times = np.full((len(uuids.cat.categories), len(cases.cat.categories)), np.nan)
    times[uuids.cat.codes, cases.cat.codes] = np.log(usable["time_us"].to_numpy())
    return pd.DataFrame(times, index=uuids.cat.categories.astype(str), columns=cases.cat.categories.astype(str))


def groups(table: pd.DataFrame) -> pd.Series:
    """What limits each case, by case: ``memory``, ``compute`` or ``link``; missing where no peak is claimed."""
    known = table.dropna(subset=["case"]).drop_duplicates("case")
    return pd.Series(known["bound"].astype(object).to_numpy(), index=known["case"].astype(str))
