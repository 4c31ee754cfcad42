"""Hold one measured case to its floor. Pure: figures in, judgement out."""

from __future__ import annotations

from peakgate.judge.metrics import Metrics
from peakgate.measure.sampling import Samples
from peakgate.verdict import Judgement, Verdict


def judge(samples: Samples, metrics: Metrics | None, floor: float | None) -> Judgement:
    """Judge a case that gave the right result.

    ``metrics`` is None when too few samples ran undisturbed to take figures from. The reason is one line without
    the case's name: the caller knows it.
    """
    if metrics is None:
        taken = len(samples.times_us) + samples.discarded
        return Judgement(
            Verdict.INCONCLUSIVE,
            f"{samples.discarded} of {taken} samples ran throttled or disturbed and were discarded",
        )
    if metrics.peak_fraction is None:
        return Judgement(Verdict.NO_FLOOR, "right; speed not judged, no peak is claimed on this device")
    clock = samples.median_sm_clock_mhz
    how = f"{len(samples.times_us)} samples" + (f", {clock:.0f} MHz" if clock is not None else "")
    if floor is None:
        return Judgement(Verdict.NO_FLOOR, f"{metrics.peak_fraction:.3g} of peak, no floor set ({how})")
    if metrics.peak_fraction < floor:
        return Judgement(Verdict.BELOW_FLOOR, f"{metrics.peak_fraction:.3g} of peak, floor {floor:.3g} ({how})")
    return Judgement(Verdict.PASS, f"{metrics.peak_fraction:.3g} of peak, floor {floor:.3g} ({how})")
