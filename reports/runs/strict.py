"""What no honest run file holds: dates to come, unsafe names, figures that contradict each other or are impossible.

Pure checks; each returns what is wrong in a few words, None where nothing is. The readers of run files refuse the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from peakgate.case import Tier
from peakgate.verdict import FAULTY, Verdict

CLOCK_SKEW = timedelta(hours=1)
"""How far the clocks of the machine that measured and of this one may differ."""

SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*")
"""A GPU's slug names a folder: no separators, no leading dot, no two dots in a row."""

LONGEST_SLUG = 100
LONGEST_TEXT = 20_000
TABLES = frozenset({"preflight", "roofs"})
"""The entries of ``machine_info.gpu`` that are tables; every other one is a single value."""

SHORTEST_S = 1e-9
LONGEST_S = 1e6
"""Medians outside these are no kernel's: a nanosecond is below any timer's step, a million seconds are eleven days."""

OVER_PEAK = 1.02
MOST_RELATIVE_ERROR = 1.0
"""A larger error than the largest expected value is wrong under any tolerance."""

ROUNDING = 1e-4
"""Run files round fractions of peak to 5 decimals."""


def wrong_date(taken: datetime, now: datetime) -> str | None:
    """A date in the future, beyond the clock skew."""
    if taken <= now + CLOCK_SKEW:
        return None
    return f"taken at {taken:%Y-%m-%d %H:%M}, which is in the future"


def wrong_gpu(gpu: Mapping[str, Any]) -> str | None:
    """A slug that is no safe folder name, or a fact that is not a single value of sensible length."""
    slug = gpu.get("slug")
    if not isinstance(slug, str) or len(slug) > LONGEST_SLUG or not SLUG.fullmatch(slug):
        return f"machine_info.gpu.slug is {short(slug)}, not a plain folder name"
    for name, value in gpu.items():
        if name in TABLES:
            if not isinstance(value, (dict, type(None))):
                return f"machine_info.gpu.{short(name)} is {short(value)}, not a table"
        elif not isinstance(value, (str, int, float, bool, type(None))) or too_long(value):
            return f"machine_info.gpu.{short(name)} is {short(value)}, not a single value"
    return None


def wrong_folder(path: Path, slug: str) -> str | None:
    """A run kept under baselines/<gpu>/runs of another GPU."""
    folder = path.absolute().parent
    if folder.name != "runs" or folder.parent.parent.name != "baselines" or folder.parent.name == slug:
        return None
    return f"a run of {slug} among those of {folder.parent.name}"


def wrong_tier(tier: object) -> str | None:
    """A tier this version does not know; None stands for a run that does not say."""
    known = [each.value for each in Tier]
    return None if tier is None or tier in known else f"tier is {short(tier)}, none of {', '.join(known)}"


def wrong_time(median_s: float) -> str | None:
    """A median that no kernel can have."""
    return None if SHORTEST_S <= median_s <= LONGEST_S else f"a median of {median_s:g} s, which no kernel has"


def wrong_figures(
    verdict: Verdict | None,
    *,
    peak_fraction: float | None,
    floor: float | None,
    relative_error: float | None,
    tolerance: float | None,
) -> str | None:
    """A verdict that its own figures contradict; one found at fault may hold any figures."""
    if verdict in FAULTY:
        return None
    if peak_fraction is not None and peak_fraction > OVER_PEAK:
        return f"{peak_fraction:.3g} of peak, which is impossible"
    most = MOST_RELATIVE_ERROR if tolerance is None else tolerance
    if relative_error is not None and relative_error > most:
        return f"a relative error of {relative_error:.3g} (at most {most:.3g}) without the verdict WRONG"
    if verdict is Verdict.PASS and floor is not None and peak_fraction is not None and peak_fraction < floor - ROUNDING:
        return f"PASS at {peak_fraction:.3g} of peak, below its floor of {floor:.3g}"
    return None


def too_long(value: object) -> bool:
    """Whether a text is longer than any name or fact."""
    return isinstance(value, str) and len(value) > LONGEST_TEXT


def short(value: object) -> str:
    """A value as an error message quotes it, cut to 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
