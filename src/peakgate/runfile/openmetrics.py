"""The figures of cases as OpenMetrics 1.0 text, which Prometheus and its collector of text files read.

https://prometheus.io/docs/specs/om/open_metrics_spec/. Every family is a gauge, since a collector of the older text
format knows no state sets.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from peakgate.base.formatting import encodable, one_line
from peakgate.spec.recorded import EMULATOR_SLUG

PROM = ".prom"
"""Suffix of the file beside a command's JSON document, which the collector of text files looks for."""


class CaseMetrics(NamedTuple):
    """A case in one run: ``gpu`` is the model, ``commit`` the one measured; unknown figures are None or NaN.

    A time of the host has the label ``metric="launch"``.
    """

    case: str
    gpu: str
    commit: str
    verdict: str
    time_us: float | None = None
    gbs: float | None = None
    peak_fraction: float | None = None
    metric: str | None = None


FAMILIES = (
    ("time_us", 1e-6, "seconds", "peakgate_time_seconds", "Median time of a launch, or of a call on the host."),
    ("gbs", 1e9, "bytes_per_second", "peakgate_rate_bytes_per_second", "Bytes that a launch must move, over its time."),
    ("peak_fraction", 1, "ratio", "peakgate_peak_ratio", "Fraction of the peak that limits the case."),
)
"""Figure, its factor, and the unit, name and help of the family."""
VERDICT = "peakgate_verdict", "1 for the verdict of the case."


def openmetrics(cases: Iterable[CaseMetrics]) -> str:
    """The text of a metric set, up to its ``# EOF``; figures that are unknown, or the emulator's, have no sample."""
    cases = list(cases)
    lines = []
    for figure, factor, unit, name, about in FAMILIES:
        lines += [f"# TYPE {name} gauge", f"# UNIT {name} {unit}", f"# HELP {name} {about}"]
        for case in cases:
            value = getattr(case, figure)
            if case.gpu != EMULATOR_SLUG and value is not None and value == value:  # noqa: PLR0124  (NaN)
                lines.append(f"{name}{_labels(case)} {value * factor:.8g}")
    name, about = VERDICT
    lines += [f"# TYPE {name} gauge", f"# HELP {name} {about}"]
    lines += [f"{name}{_labels(case, verdict=case.verdict)} 1" for case in cases]
    return "\n".join([*lines, "# EOF", ""])


def _labels(case: CaseMetrics, **more: str) -> str:
    """The labels of a sample, their values in one line, without what a terminal obeys."""
    of_host = {"metric": case.metric} if case.metric == "launch" else {}
    labels = {"case": case.case, "gpu": case.gpu, "commit": case.commit, **of_host, **more}
    escaped = {
        name: one_line(encodable(value)).replace("\\", r"\\").replace('"', r"\"") for name, value in labels.items()
    }
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped.items()) + "}"
