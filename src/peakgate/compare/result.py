"""The result of a comparison: one row per case, the suite-wide shift, and the exit code."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from types import SimpleNamespace

import numpy as np
import pandas as pd

from peakgate.base.verdict import FAILING, ExitCode, Verdict, exit_code
from peakgate.runfile.find import RunSide
from peakgate.runfile.frame import records

WORST_FIRST = (
    *(Verdict.CRASHED, Verdict.TIMEOUT, Verdict.WRONG, Verdict.IMPOSSIBLE),
    *(Verdict.SLOWER, Verdict.BELOW_FLOOR, Verdict.MISSING),
    *(Verdict.INCOMPARABLE, Verdict.UNCONFIRMED, Verdict.INCONCLUSIVE, Verdict.NO_FLOOR),
    *(Verdict.FASTER, Verdict.NEW, Verdict.SAME, Verdict.PASS),
)

# The columns of a comparison's frame, in order, with their dtypes; docs/reference/reports.md explains them.
CASE_LABELS = ("family", "stage", "size", "block", "variant", "dtype", "metric")
BOTH_SIDES = {
    **dict.fromkeys(("gbs", "tflops", "peak_fraction", "roof_fraction"), "float64"),
    **dict.fromkeys(("registers", "spill_bytes", "shared_bytes", "occupancy"), "float64"),
    "fingerprint": "string",
    "kernels": "string",
    "sm_clock_mhz": "float64",
    "samples": "float64",
    "discarded": "float64",
}
MEASURED: Mapping[str, str] = {
    **dict.fromkeys(CASE_LABELS, "string"),
    "verdict": "string",
    "floor": "float64",
    "time_us": "float64",
    "sessions": "int64",
    **BOTH_SIDES,
}
"""The columns of a side's measurements, one row per case; missing if the side has none."""

ROW_COLUMNS: Mapping[str, str] = {
    **dict.fromkeys(("case", *CASE_LABELS, "verdict", "reason"), "string"),
    **dict.fromkeys(("change_percent", "low_percent", "high_percent"), "float64"),
    **dict.fromkeys(("smallest_detectable_change_percent", "p_value"), "float64"),
    **dict.fromkeys(("base_time_us", "new_time_us"), "float64"),
    **dict.fromkeys(("base_sessions", "new_sessions"), "int64"),
    "floor": "float64",
    **{f"{side}_{name}": dtype for name, dtype in BOTH_SIDES.items() for side in ("base", "new")},
}

# Smaller p-values are given as a bound: the far tail of the distribution is not known well enough.
LEAST_P = 1e-6


def probability(p_value: float) -> str:
    """``p = 0.003``, or ``p < 1e-06`` below ``LEAST_P``."""
    return f"p < {LEAST_P:g}" if p_value < LEAST_P else f"p = {p_value:.1g}"


def change_text(change_percent: float) -> str:
    """A change of the time: ``1.22x slower``, or ``+0.42 %`` if it rounds to 1.00x."""
    ratio = 1 + change_percent / 100
    factor = max(ratio, 1 / ratio)
    if f"{factor:.2f}" == "1.00":
        return f"{change_percent:+.2f} %"
    return f"{factor:.2f}x {'slower' if ratio > 1 else 'faster'}"


@dataclass(frozen=True, slots=True)
class Difference:
    """A fact that differs between sessions; several values on a side are joined by commas."""

    name: str
    base: str
    new: str


@dataclass(frozen=True, slots=True)
class SuiteShift:
    """The median shift over all cases timed on both sides."""

    verdict: Verdict
    reason: str
    cases: int
    change_percent: float
    smallest_detectable_change_percent: float


@dataclass(frozen=True, slots=True)
class SpreadFinding:
    """A spread that grew: relative SDs in percent, ``kind`` (between or within sessions), Holm-adjusted ``p_value``."""

    case: str
    kind: str
    base_percent: float
    new_percent: float
    p_value: float

    @property
    def growth(self) -> float:
        """The ratio of the SDs, new over base."""
        return self.new_percent / self.base_percent

    @property
    def text(self) -> str:
        """``0.31 to 2.15 % between sessions, 7.0 times as wide, p = 2e-05``."""
        sds = f"{self.base_percent:.2f} to {self.new_percent:.2f} % {self.kind}"
        return f"{sds}, {self.growth:.1f} times as wide, {probability(self.p_value)}"


def shift_percent(log_ratio: float) -> float:
    """A log shift as a change of the time in percent."""
    return 100 * math.expm1(log_ratio)


def direction(log_ratio: float) -> Verdict:
    """The verdict of a flagged shift: SLOWER if positive, else FASTER."""
    return Verdict.SLOWER if log_ratio > 0 else Verdict.FASTER


def in_percent(shifts: pd.DataFrame) -> pd.DataFrame:
    """The columns of a comparison in percent, from ``log_ratio``, ``low``, ``high``, ``resolvable`` and ``p_value``."""
    columns = {"change": "log_ratio", "low": "low", "high": "high", "smallest_detectable_change": "resolvable"}
    figures = {f"{name}_percent": 100 * np.expm1(shifts[logs]) for name, logs in columns.items()}
    return pd.DataFrame(figures | {"p_value": shifts["p_value"]})


def side_by_side(
    base: pd.DataFrame,
    new: pd.DataFrame,
    judged: pd.DataFrame,
    *,
    suite: SuiteShift | None,
    differences: Sequence[Difference],
    notes: Sequence[str],
    spread: Sequence[SpreadFinding] = (),
) -> pd.DataFrame:
    """The frame of a comparison with ``ROW_COLUMNS``, the worst case first.

    ``base`` and ``new`` have the columns ``MEASURED``; ``judged`` has ``verdict``, ``reason`` and the columns of
    ``in_percent`` for the same cases. The frame's ``attrs`` describe the whole comparison: ``verdict`` (the worst),
    ``exit_code``, ``suite_wide`` (verdict and reason of the suite), ``suite`` (a SuiteShift), ``without_floor`` (number
    of cases that NEW measured without a floor), ``differences``, ``notes``, and ``spread``, the cases whose spread
    grew, which does not affect the verdict.
    """
    labels, columns = list(CASE_LABELS), ["time_us", "sessions", *BOTH_SIDES]
    sides = [
        side[columns].set_axis([f"{name}_{column}" for column in columns], axis=1)
        for name, side in (("base", base), ("new", new))
    ]
    rows = pd.concat([new[labels].fillna(base[labels]), new["floor"], *sides, judged], axis=1)
    found = rows.rename_axis("case").reset_index()[list(ROW_COLUMNS)].astype(dict(ROW_COLUMNS))
    changes = [found[name].to_numpy() / 100 for name in ("change_percent", "smallest_detectable_change_percent")]
    sure = np.nan_to_num(np.log1p(changes[0]) - np.log1p(changes[1]))
    rank = [WORST_FIRST.index(verdict) for verdict in found["verdict"]]
    order = np.lexsort([found["case"].to_numpy(object), -sure, np.array(rank)])
    found = found.take(order).reset_index(drop=True)
    without_floor = int(new["verdict"].isin([Verdict.NO_FLOOR]).sum())
    verdicts = _counting(found, suite, without_floor)
    found.attrs = {
        "verdict": str(_worst(verdicts)),
        "exit_code": int(exit_code(verdicts)),
        "suite_wide": f"{suite.verdict}: {suite.reason}" if suite else None,
        "suite": asdict(suite) if suite else None,
        "without_floor": without_floor,
        "differences": [asdict(each) for each in differences],
        "notes": list(dict.fromkeys(notes)),
        "spread": [asdict(each) for each in spread],
    }
    return found


def _counting(rows: pd.DataFrame, suite: SuiteShift | None, without_floor: int) -> set[Verdict]:
    """All verdicts that count towards the exit code."""
    found = {Verdict(each) for each in rows["verdict"].unique()}
    return found | ({suite.verdict} if suite else set()) | ({Verdict.NO_FLOOR} if without_floor else set())


def _worst(verdicts: Collection[Verdict], *, strict: bool = False) -> Verdict:
    """The worst verdict; PASS if none is a regression or undecided."""
    counted = FAILING | ({Verdict.NO_FLOOR} if strict else frozenset())
    return next((verdict for verdict in WORST_FIRST if verdict in counted and verdict in verdicts), Verdict.PASS)


@dataclass(frozen=True)
class Comparison:
    """NEW against BASE; ``frame`` is the result of ``compare.judge.compare``."""

    base: RunSide
    new: RunSide
    frame: pd.DataFrame
    remarks: tuple[str, ...] = ()

    @cached_property
    def records(self) -> tuple[SimpleNamespace, ...]:
        """The rows of the frame, with None for missing values."""
        return tuple(records(self.frame))

    @property
    def suite(self) -> SuiteShift | None:
        """The suite-wide shift; None with too few cases timed on both sides."""
        found = self.frame.attrs["suite"]
        return SuiteShift(**found) if found else None

    @property
    def differences(self) -> tuple[Difference, ...]:
        return tuple(Difference(**each) for each in self.frame.attrs["differences"])

    @property
    def spread(self) -> tuple[SpreadFinding, ...]:
        """The cases whose spread grew, the smallest p-value first."""
        return tuple(SpreadFinding(**each) for each in self.frame.attrs["spread"])

    @property
    def notes(self) -> tuple[str, ...]:
        """All notes, without duplicates."""
        notes = (*self.base.notes, *self.new.notes, *self.frame.attrs["notes"], *self.remarks)
        return tuple(dict.fromkeys(notes))

    @property
    def counts(self) -> Mapping[Verdict, int]:
        """Cases by verdict, worst first."""
        found = Counter(self.frame["verdict"])
        return {verdict: found[verdict] for verdict in WORST_FIRST if found[verdict]}

    @property
    def without_floor(self) -> int:
        """Number of cases that NEW measured without a floor."""
        return int(self.frame.attrs["without_floor"])

    @property
    def detectable_percent(self) -> tuple[float, float] | None:
        """The smallest detectable change in percent, of the median and of the worst case; None if none was timed."""
        each = sorted(self.frame["smallest_detectable_change_percent"].dropna())
        return (each[len(each) // 2], each[-1]) if each else None

    def exit_code(self, *, strict: bool = False) -> ExitCode:
        return exit_code(_counting(self.frame, self.suite, self.without_floor), strict=strict)

    def verdict(self, *, strict: bool = False) -> Verdict:
        """The worst verdict; PASS if none is a regression or undecided."""
        return _worst(_counting(self.frame, self.suite, self.without_floor), strict=strict)
