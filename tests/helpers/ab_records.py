"""The record of an experiment before any of its processes has run."""

from __future__ import annotations

from pathlib import Path

from peakgate.compare.ab.folders import SideLabel
from peakgate.compare.ab.plan import Plan
from peakgate.compare.ab.record import AbRecord, PairSettings


def ab_record(folder: Path, plan: Plan, pairs: tuple[int, int] = (4, 4)) -> AbRecord:
    """An experiment on the sides ``base`` and ``head``, of so many pairs to screen and to confirm."""
    return AbRecord(
        schema=1,
        base=SideLabel("base", "a" * 40),
        head=SideLabel("head", "b" * 40),
        settings=PairSettings("gate", "gpu:0", *pairs),
        plan=plan,
        notes=[],
        stopped=None,
        processes=[],
        folder=folder,
    )
