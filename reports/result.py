"""What a comparison found: one row per case, the suite-wide shift, the frame of both, and the exit code."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING

from peakgate.common.text import encodable
from peakgate.reports.runs.facts import Difference
from peakgate.reports.runs.find import RunSide
from peakgate.reports.runs.runfile import CaseResult
from peakgate.verdict import REGRESSIONS, UNDECIDED, ExitCode, Judgement, Verdict, exit_code

if TYPE_CHECKING:
    import pandas as pd

WORST_FIRST = (
    *(Verdict.CRASHED, Verdict.TIMEOUT, Verdict.WRONG, Verdict.IMPOSSIBLE),
    *(Verdict.SLOWER, Verdict.BELOW_FLOOR, Verdict.MISSING),
    *(Verdict.INCOMPARABLE, Verdict.INCONCLUSIVE, Verdict.NO_FLOOR),
    *(Verdict.FASTER, Verdict.NEW, Verdict.SAME, Verdict.PASS),
)

LABELS = ("family", "stage", "size", "block", "variant", "dtype")
BOTH_SIDES = {
    **dict.fromkeys(("gbs", "tflops", "peak_fraction", "roof_fraction"), "float64"),
    **dict.fromkeys(("registers", "spill_bytes", "shared_bytes", "occupancy"), "float64"),
    "fingerprint": "string",
    "sm_clock_mhz": "float64",
    "samples": "float64",
    "discarded": "float64",
}
ROW_COLUMNS: Mapping[str, str] = {
    **dict.fromkeys(("case", *LABELS, "verdict", "reason"), "string"),
    **dict.fromkeys(("change_percent", "smallest_detectable_change_percent", "p_value"), "float64"),
    **dict.fromkeys(("base_time_us", "new_time_us"), "float64"),
    **dict.fromkeys(("base_sessions", "new_sessions"), "int64"),
    "floor": "float64",
    **{f"{side}_{name}": dtype for name, dtype in BOTH_SIDES.items() for side in ("base", "new")},
}
"""The columns of a comparison's frame, in order, with their dtypes; reports/README.md explains them."""

LEAST_P = 1e-6
"""Below it a p-value is given as a bound: the far tail of no distribution is known well enough for a figure."""


def probability(p_value: float) -> str:
    """``p = 0.003``; below ``LEAST_P`` it is ``p < 1e-06``."""
    return f"p < {LEAST_P:g}" if p_value < LEAST_P else f"p = {p_value:.1g}"


def percent(value: float | None, form: str = "", missing: str = "") -> str:
    """``0.58 %``, ``1.3 %``, ``240 %``: two significant digits and no exponent, or by ``form``.

    ``missing`` where there is no figure: None or NaN.
    """
    if value is None or math.isnan(value):
        return missing
    return f"{value:{form or ('.0f' if value >= 10 else '.2g')}} %"


def change_text(change_percent: float) -> str:
    """A change of the time: ``1.22x slower``; less than a hundredth as ``+0.42 %``."""
    ratio = 1 + change_percent / 100
    factor = max(ratio, 1 / ratio)
    if f"{factor:.2f}" == "1.00":
        return f"{change_percent:+.2f} %"
    return f"{factor:.2f}x {'slower' if ratio > 1 else 'faster'}"


@dataclass(frozen=True, slots=True)
class Shift:
    """The change of the times of NEW from those of BASE.

    ``log_ratio`` is ln(new / base), positive when slower; ``resolvable`` the smallest such shift, either way, that this
    comparison would have flagged: the smallest detectable change. ``p_value`` is Holm-adjusted, ``p_alone`` that of the
    case by itself; both None where no session was repeated. ``flagged`` says whether it counts as a change.
    """

    log_ratio: float
    resolvable: float
    flagged: bool
    p_value: float | None = None
    p_alone: float | None = None

    @property
    def percent(self) -> float:
        """Change of the time in percent, positive when slower."""
        return 100 * math.expm1(self.log_ratio)

    @property
    def resolvable_percent(self) -> float:
        return 100 * math.expm1(self.resolvable)

    def __str__(self) -> str:
        return change_text(self.percent)


@dataclass(frozen=True, slots=True)
class ComparedCase:
    """One case in both sides.

    ``base`` and ``new`` are the side's latest measurement of it; times are geometric means of the session medians,
    over as many sessions as measured it.
    """

    case: str
    judgement: Judgement
    base: CaseResult | None = None
    new: CaseResult | None = None
    base_time_us: float | None = None
    new_time_us: float | None = None
    base_sessions: int = 0
    new_sessions: int = 0
    shift: Shift | None = None

    @property
    def verdict(self) -> Verdict:
        return self.judgement.verdict

    @property
    def reason(self) -> str:
        return self.judgement.reason


@dataclass(frozen=True, slots=True)
class SuiteShift:
    """The median shift over all cases timed on both sides: what moved everything at once."""

    judgement: Judgement
    shift: Shift
    cases: int


@dataclass(frozen=True)
class Comparison:
    """NEW against BASE: ``rows`` worst first, ``suite`` None where too few cases were timed on both sides."""

    base: RunSide
    new: RunSide
    rows: tuple[ComparedCase, ...]
    suite: SuiteShift | None
    differences: tuple[Difference, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def records(self) -> tuple[SimpleNamespace, ...]:
        """One per case, worst first: values of ``ROW_COLUMNS``, None where unknown. All outputs are made from it."""
        return tuple(SimpleNamespace(**_cells(row)) for row in self.rows)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """``records`` as a frame of the columns and dtypes of ``ROW_COLUMNS``."""
        from peakgate.reports.runs.frame import tidy  # noqa: PLC0415  # pandas, half of the command's time

        return tidy([vars(record) for record in self.records], ROW_COLUMNS)

    @property
    def counts(self) -> Mapping[Verdict, int]:
        """Cases by verdict, worst first."""
        found = Counter(row.verdict for row in self.rows)
        return {verdict: found[verdict] for verdict in WORST_FIRST if found[verdict]}

    @property
    def without_floor(self) -> int:
        """Cases NEW measured and had no floor for."""
        return sum(row.new is not None and row.new.verdict is Verdict.NO_FLOOR for row in self.rows)

    @property
    def detectable_percent(self) -> tuple[float, float] | None:
        """The smallest detectable change in percent: of the median case and of the worst; None when none was timed."""
        each = sorted(row.shift.resolvable_percent for row in self.rows if row.shift)
        return (each[len(each) // 2], each[-1]) if each else None

    def verdicts(self) -> set[Verdict]:
        """Every verdict that counts towards the exit code."""
        suite = {self.suite.judgement.verdict} if self.suite else set()
        return {row.verdict for row in self.rows} | suite | ({Verdict.NO_FLOOR} if self.without_floor else set())

    def exit_code(self, *, strict: bool = False) -> ExitCode:
        return exit_code(self.verdicts(), strict=strict)

    def verdict(self, *, strict: bool = False) -> Verdict:
        """The comparison in one word: its worst verdict, PASS when none is a regression or undecided."""
        counted = REGRESSIONS | UNDECIDED | ({Verdict.NO_FLOOR} if strict else frozenset())
        return next((verdict for verdict in WORST_FIRST if verdict in self.verdicts() & counted), Verdict.PASS)


def shift_cells(shift: Shift | None) -> dict[str, float | None]:
    """The columns of a frame that a shift fills, missing values where there is none."""
    figures = (shift.percent, shift.resolvable_percent, shift.p_value) if shift else (None, None, None)
    return dict(zip(("change_percent", "smallest_detectable_change_percent", "p_value"), figures, strict=True))


def _cells(row: ComparedCase) -> dict[str, object]:
    known = row.new or row.base
    cells: dict[str, object] = {
        "case": row.case,
        "verdict": row.verdict.value,
        "reason": row.reason,
        **{name: getattr(known, name, None) for name in LABELS},
        **shift_cells(row.shift),
        **{name: getattr(row, name) for name in ("base_time_us", "new_time_us", "base_sessions", "new_sessions")},
        "floor": getattr(row.new, "floor", None),
    }
    for name in BOTH_SIDES:
        cells[f"base_{name}"] = getattr(row.base, name, None)
        cells[f"new_{name}"] = getattr(row.new, name, None)
    return {name: encodable(cell) if isinstance(cell, str) else cell for name, cell in cells.items()}
