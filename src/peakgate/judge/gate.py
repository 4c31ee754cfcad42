"""Judges one measured case against its floor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peakgate.base.verdict import FAILING, OVER_PEAK, Judgement, Verdict

if TYPE_CHECKING:  # a supervisor does not import NumPy
    from peakgate.judge.metrics import Metrics
    from peakgate.measure.sampling import Samples

NO_REFERENCE = "not checked, no reference is given"
UNCHECKED = f"; result {NO_REFERENCE}"
"""The end of the reason for a callable or a kernel without a reference."""


def judge(samples: Samples, metrics: Metrics | None, floor: float | None, disturbance: str | None = None) -> Judgement:
    """Judge a case with a right result.

    ``disturbance`` is why the samples are doubtful, None if they are not. ``metrics`` is None if too few samples were
    undisturbed. The reason is one line without the case id. A transfer between host and device, which depends on the
    host, passes without a floor. A fraction of peak over 1.02 is IMPOSSIBLE: the case declares work that it does not
    do.
    """
    if metrics is None:
        taken = len(samples.times_us) + samples.discarded
        return Judgement(
            Verdict.INCONCLUSIVE,
            f"{samples.discarded} of {taken} samples ran throttled or disturbed and were discarded",
        )
    fraction = metrics.peak_fraction
    disturbance = samples.doubt or disturbance
    if disturbance is not None and (fraction is None or fraction <= OVER_PEAK):
        return Judgement(Verdict.INCONCLUSIVE, disturbance)
    if fraction is None and samples.first_us is not None:
        peak = "bytes may come from the L2, and no flops are given: no peak is claimed"
        if floor is not None:
            return Judgement(Verdict.INCONCLUSIVE, f"has a floor of {floor:.3g}, but {peak}")
        return Judgement(Verdict.NO_FLOOR, f"{peak}, only `peakgate ab` judges it")
    if fraction is None:
        clock = f" ({samples.clock})" if samples.power_bound else ""
        return Judgement(Verdict.NO_FLOOR, f"right; speed not judged, no peak is claimed on this device{clock}")
    how = f"{len(samples.times_us)} samples" + (f", {samples.clock}" if samples.clock else "")
    return by_floor(fraction, floor, how, transfer=metrics.bound == "link")


def unchecked(judgement: Judgement, *, on_gpu: bool) -> Judgement:
    """The judgement of a kernel whose result was compared with nothing, in place of that of a right one.

    On a GPU it is INCONCLUSIVE, whatever its floor; in the emulator it stays NO_FLOOR, which is shown as RAN.
    """
    if judgement.verdict in FAILING:
        return judgement
    verdict = Verdict.INCONCLUSIVE if on_gpu else Verdict.NO_FLOOR
    return Judgement(verdict, judgement.reason.removeprefix("right; ") + UNCHECKED)


def by_floor(peak_fraction: float, floor: float | None, how: str, *, transfer: bool = False) -> Judgement:
    """Judge a fraction of peak; the reason ends with ``how`` it was measured. Without a floor a ``transfer`` passes."""
    if peak_fraction > OVER_PEAK:
        return Judgement(
            Verdict.IMPOSSIBLE,
            f"{peak_fraction:.3g} of peak, and nothing exceeds the peak: the case claims more bytes or floating-point "
            "operations than its launch needs, or does not say their type; correct its work, or give its math",
        )
    if floor is not None:
        return held_to(peak_fraction, floor, how)
    if transfer:
        return Judgement(Verdict.PASS, f"{peak_fraction:.3g} of peak, a transfer has no floor ({how})")
    return Judgement(Verdict.NO_FLOOR, f"{peak_fraction:.3g} of peak, no floor set ({how})")


def held_to(peak_fraction: float, floor: float, how: str) -> Judgement:
    """Compare a fraction of peak with a floor; the reason ends with ``how`` it was measured."""
    verdict = Verdict.BELOW_FLOOR if peak_fraction < floor else Verdict.PASS
    return Judgement(verdict, f"{peak_fraction:.3g} of peak, floor {floor:.3g} ({how})")
