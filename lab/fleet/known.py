"""Differences of the H200s of the committed gates, from which ``peakgate.fleet.statistics.H200`` is calibrated.

It reads every whole gate of an H200 in this repository; ``python -m lab.fill fleet`` fills the table of
docs/explanation/slow-gpus.md.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from lab.pages import table
from lab.records import whole_runs

KEPT = (
    *("baselines/nvidia-h200/runs/*.json.gz", "baselines/nvidia-h200/ladder/*.json*"),
    *("lab/floors/runs/*.json.xz", "lab/fleet/trial-*/exclusive/runs/*.json.xz", "lab/compared/*.json.xz"),
)
"""Whole runs of H200s with every case of the gate tier."""

GAP = 0.0025
"""Smallest distance of two levels, in log time."""


def effects() -> pd.DataFrame:
    """Each real GPU's time relative to the mean, in percent, fastest first, over cases of identical machine code.

    There is a column for all cases and one for the cases of each limit. ``level`` is the number of the GPU's level,
    ``host`` its host: GPUs measured at one commit were on one host.
    """
    runs = list(whole_runs(*KEPT))
    code: dict[str, set[str | None]] = {}
    for case, found in [item for run in runs for item in run.cases.items()]:
        code.setdefault(case, set()).add(found.fingerprint)
    same = [case for case in code if len(code[case]) == 1 and all(case in run.cases for run in runs)]
    times = pd.DataFrame([{case: np.log(run.cases[case].time_us) for case in same} for run in runs])
    uuids, commits = pd.Series([str(run.uuid) for run in runs]), pd.Series([str(run.commit) for run in runs])
    means = times.groupby(uuids).mean()
    beside = 100 * (means - means.mean())
    groups = pd.Series({case: str(runs[0].cases[case].bound) for case in same})
    gpus = pd.DataFrame({"all cases": beside.median(axis=1)})
    for group in sorted(set(groups)):
        gpus[group] = beside[groups.index[groups == group]].median(axis=1)
    gpus = gpus.assign(host=commits.groupby(uuids).first()).sort_values("all cases")
    return gpus.assign(level=(gpus["all cases"].diff() > 100 * GAP).cumsum())


def blocks() -> dict[str, str]:
    """The page's block: the levels of the real GPUs, fastest first."""
    groups = ["all cases", "memory", "compute", "link"]
    rows = [
        (gpus["host"].nunique(), len(gpus), *map("{:+.2f} %".format, gpus[groups].mean()), f"{sd:.2f} %")
        for gpus, sd in ((gpus, gpus["all cases"].std()) for _, gpus in effects().groupby("level"))
    ]
    return {"fleet-known": table(("hosts", "GPUs", *groups, "SD within, all cases"), rows)}
