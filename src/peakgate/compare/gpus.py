"""Estimates how far GPUs of one model differ with the same machine code and driver; pure.

The silicon of a GPU affects all its cases, its disabled units affect some, and the time that its host adds to every
sample affects short ones. The variance of a case between the GPUs of other saved runs is moderated toward the value
usual for its duration; without such runs the usual value is used.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from peakgate.base.formatting import counted, percent
from peakgate.compare import noise
from peakgate.compare.evidence import last_of_its_run, places, repeat_group
from peakgate.compare.noise import Floats
from peakgate.compare.result import shift_percent
from peakgate.runfile.frame import is_usable

# Nominal probability that GPUs alone move any case beyond the limit, in either direction.
SHIFT_ERROR = 0.01

# SD between GPUs of a case (relative), SD of the time that their hosts add to every sample, and the degrees of freedom
# of these as a prior. Leaving out any two of 17 H200s, ten of whose hosts added about a microsecond, they are 0.80 to
# 0.91 % and 0.51 to 0.69 µs (lab/compared).
CASE_SD = 0.0085
HOST_SD_US = 0.55
USUAL_DF = 6.0

# At most so many cases share SHIFT_ERROR: in larger suites cases are similar kernels, which are
# correlated.
SHARING_CASES = 200


def between(
    base: pd.DataFrame,
    new: pd.DataFrame,
    history: pd.DataFrame | None,
    cases: pd.Index[str],
    time_us: Floats,
    *,
    of_host: bool = False,
) -> tuple[Floats, list[str]]:
    """The log shift that different GPUs alone may cause in each of ``cases``, and a note if there is any.

    It is 0 if both sides used the same GPU, and between two models, which have other rules.
    ``of_host``: the cases' times are those of the hosts, which other GPUs have.
    """
    apart = _apart(base, new, cases)
    if base["gpu_slug"].iloc[0] != new["gpu_slug"].iloc[0] or not apart.any():
        return np.zeros(len(time_us)), []
    variance, df, known = known_gpus(cases, history)
    sharing = 1 if of_host else min(len(time_us), SHARING_CASES)  # a slow host slows all calls
    shift = np.sqrt(apart) * limit(usual(time_us, of_host=of_host), variance, df, sharing)
    sure = all(rows["gpu_uuid"].notna().all() for rows in (base, new))
    typical, most = (percent(shift_percent(each)) for each in (np.median(shift), shift.max()))
    usual_of = "hosts" if of_host else "H200s"
    source = f"as {counted(known, 'other GPU')} of saved runs vary" if known > 1 else f"as {usual_of} usually vary"
    note = (
        f"the runs are not {'' if sure else 'known to be '}of the same GPU:"
        f" changes{' of times of the host' if of_host else ''} up to {typical} (median case) or {most} (worst) are not"
        f" flagged, {source}; `peakgate ab` measures both sides on one GPU (`peakgate help comparison`)"
    )
    return shift, [note]


def limit(usually: Floats, variance: Floats, df: Floats, sharing: int) -> Floats:
    """The shift that the GPU causes in none of these cases with probability 1 - SHIFT_ERROR.

    ``usually`` is the ``usual`` variance, ``variance`` that of each case between known GPUs, ``df`` its degrees of
    freedom, 0 without known GPUs. ``sharing`` cases share the error (Bonferroni).
    """
    quantile = noise.upper_quantile(SHIFT_ERROR / sharing, USUAL_DF + df)
    found: Floats = np.sqrt(moderated(usually, variance, df)) * quantile
    return found


def usual(time_us: Any, *, of_host: bool = False) -> Any:
    """The usual variance of the log time between GPUs of one model; ``of_host``: between their hosts."""
    return 0.0 * time_us + noise.HOST_SD**2 if of_host else CASE_SD**2 + (HOST_SD_US / time_us) ** 2


def moderated(usually: Any, variance: Floats | float, df: Floats | float) -> Any:
    """The variance between GPUs moderated toward the usual one, with USUAL_DF + ``df`` degrees of freedom."""
    return (USUAL_DF * usually + df * variance) / (USUAL_DF + df)


def _apart(base: pd.DataFrame, new: pd.DataFrame, cases: pd.Index[str]) -> Floats:
    """By case, the variance of the difference between the sides' means as a multiple of that of one GPU.

    Each GPU counts by its share of a side's sessions, so equal shares on both sides cancel. Unknown GPUs count as one
    more GPU, a different one on each side.
    """
    uuids = pd.Index(pd.concat([base["gpu_uuid"], new["gpu_uuid"]]).dropna().unique())
    shares = []
    for side, rows in enumerate((base, new)):
        gpu = uuids.get_indexer(pd.Index(rows["gpu_uuid"]))
        place, counts = places(rows, cases), np.zeros((len(cases), len(uuids) + 2))
        timed = (place >= 0) & is_usable(rows)
        np.add.at(counts, (place[timed], np.where(gpu < 0, len(uuids) + side, gpu)[timed]), 1)
        shares.append(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))
    found: Floats = np.sum((shares[0] - shares[1]) ** 2, axis=1)
    return found


def known_gpus(cases: pd.Index[str], history: pd.DataFrame | None) -> tuple[Floats, Floats, int]:
    """By case, the variance of the log time between GPUs of other runs and its degrees of freedom; the number of GPUs.

    Compares the means of GPUs that ran the same code with the same driver.
    """
    if history is None:
        return np.zeros(len(cases)), np.zeros(len(cases)), 0
    rows = history[last_of_its_run(history) & is_usable(history) & history["gpu_uuid"].notna().to_numpy()]
    found = pd.DataFrame(
        {
            "case": places(rows, cases),
            "code": repeat_group(rows, "driver"),
            "gpu": rows["gpu_uuid"].to_numpy(object),
            "log_time": np.log(rows["time_us"].to_numpy()),
        }
    )
    found = found[(found["case"] >= 0) & (found["code"] >= 0)]
    means = found.groupby(["case", "code", "gpu"])["log_time"].mean().groupby(["case", "code"]).agg(["var", "count"])
    means = means[means["count"] > 1]
    of_code, case = (means["count"] - 1).to_numpy(np.float64), means.index.get_level_values("case").to_numpy()
    df = np.bincount(case, of_code, len(cases)).astype(np.float64)
    variance = np.bincount(case, of_code * means["var"].to_numpy(), len(cases)) / np.maximum(df, 1)
    return variance, df, int(found["gpu"].nunique())
