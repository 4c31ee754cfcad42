"""Hold one measured case to its floor. Pure: figures in, judgement out."""

from __future__ import annotations

from peakgate.judge.metrics import Metrics
from peakgate.measure.sampling import Samples
from peakgate.verdict import Judgement, Verdict

PEAK_TOLERANCE = 0.02
"""A reading may lie this far above the peak. Peaks are derived from the highest clocks that the driver reports, and
CUDA's events resolve half a microsecond; the best reading of an H200 in this project's saved runs is 0.984."""


def judge(samples: Samples, metrics: Metrics | None, floor: float | None, disturbance: str | None = None) -> Judgement:
    """Judge a case that gave the right result.

    ``disturbance`` is what made the samples doubtful, None where nothing did.
    ``metrics`` is None when too few samples ran undisturbed to take figures from. The reason is one line without
    the case's name: the caller knows it.
    """
    if metrics is None:
        taken = len(samples.times_us) + samples.discarded
        return Judgement(
            Verdict.INCONCLUSIVE,
            f"{samples.discarded} of {taken} samples ran throttled or disturbed and were discarded",
        )
    fraction = metrics.peak_fraction
    if fraction is not None and fraction > 1 + PEAK_TOLERANCE:
        return Judgement(
            Verdict.IMPOSSIBLE,
            f"{fraction:.3g} of peak, and nothing exceeds the peak: the case claims more bytes or floating-point "
            "operations than its launch needs; see its work in family.py",
        )
    if disturbance is not None:
        return Judgement(Verdict.INCONCLUSIVE, disturbance)
    if fraction is None:
        return Judgement(Verdict.NO_FLOOR, "right; speed not judged, no peak is claimed on this device")
    return _against_floor(fraction, floor, samples)


def _against_floor(fraction: float, floor: float | None, samples: Samples) -> Judgement:
    clock = samples.median_sm_clock_mhz
    how = f"{len(samples.times_us)} samples" + (f", {clock:.0f} MHz" if clock is not None else "")
    if floor is None:
        return Judgement(Verdict.NO_FLOOR, f"{fraction:.3g} of peak, no floor set ({how})")
    verdict = Verdict.BELOW_FLOOR if fraction < floor else Verdict.PASS
    return Judgement(verdict, f"{fraction:.3g} of peak, floor {floor:.3g} ({how})")
