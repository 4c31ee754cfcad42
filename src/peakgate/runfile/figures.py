"""Check that the figures of a run file agree: each figure that follows from others is computed again. Pure.

A rate is work over the median, a fraction of peak is the rate over the limiting peak, a roof fraction is the rate over
that roof, and a verdict follows from fraction and floor. A file holds them all, so an edited one contradicts itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

from peakgate.base.verdict import FAULTY, OVER_PEAK, Verdict
from peakgate.spec.recorded import ARITHMETIC_ROOFS

if TYPE_CHECKING:
    from peakgate.runfile.schema import Benchmark, CaseRecord

UNTIMED = FAULTY | {Verdict.NO_FLOOR, Verdict.INCONCLUSIVE}
"""The verdicts of a case without a time."""

OF_A_RUN = UNTIMED | {Verdict.PASS, Verdict.BELOW_FLOOR}
"""The verdicts of a run; all others are verdicts of a comparison."""

PEAKS = {"memory": "peak_gbs", "link": "peak_link_gbs", "nvlink": "peak_nvlink_gbs"}
"""The GPU's peak by the ``bound`` of a case whose fraction of peak is a fraction of a data rate."""

WRITTEN = {"time_us": 5e-5, "gbs": 5e-3, "tflops": 5e-5, "peak_fraction": 5e-6, "roof_fraction": 5e-6}
"""The largest rounding error of a figure in a run file."""


def contradictions(benchmark: Benchmark, gpu: Mapping[str, Any]) -> Iterator[tuple[str, object, str]]:
    """Path within the benchmark, value and expectation of each value that contradicts others of the file.

    ``gpu`` is ``machine_info.gpu``.
    """
    info, stats = benchmark.extra_info, benchmark.stats
    least, most = (stats.median if each is None else each for each in (stats.min, stats.max))
    if not least <= stats.median <= most:
        yield "stats.median", stats.median, f"a time from stats.min, {least:.6g}, to stats.max, {most:.6g}"
    for name, wanted, why in computed(info, stats.median * 1e6, gpu):
        given = getattr(info, name)
        # Two ways to compute a figure may differ by the rounding of doubles, in addition to the file's rounding.
        if given is not None and not math.isclose(given, wanted, rel_tol=1e-6, abs_tol=1.01 * WRITTEN[name]):
            yield f"extra_info.{name}", given, f"{wanted:.6g}, {why}"

    fraction, error, floor, verdict = info.peak_fraction, info.relative_error, info.floor, info.verdict
    if verdict not in OF_A_RUN:
        yield "extra_info.verdict", verdict.value, f"one of a run: {', '.join(sorted(OF_A_RUN))}"
    if verdict in FAULTY:  # its figures may be any
        return
    if fraction is not None and fraction > OVER_PEAK:
        yield "extra_info.peak_fraction", fraction, f"at most {OVER_PEAK}: a greater one is impossible"
    if info.error_over_bound is not None:
        name, error, most = "error_over_bound", info.error_over_bound, 1.0
    else:
        # Older runs have neither the error of each element nor a tolerance. An error larger than the largest expected
        # value exceeds every tolerance.
        name, most = "relative_error", 1.0 if info.tolerance is None else info.tolerance
    if error is not None and error > most:
        yield f"extra_info.{name}", error, f"at most {most:.3g} without the verdict WRONG"
    if floor is not None and fraction is None and verdict in (Verdict.PASS, Verdict.BELOW_FLOOR):
        yield "extra_info.peak_fraction", None, f"a fraction of peak, which {verdict} at a floor is judged by"
    if floor is None or fraction is None:
        return
    rounding = 1.01 * WRITTEN["peak_fraction"]
    allowed = {Verdict.PASS} if fraction >= floor + rounding else {Verdict.BELOW_FLOOR}
    allowed |= {Verdict.PASS} if fraction >= floor - rounding else set()
    if verdict not in allowed | {Verdict.INCONCLUSIVE}:
        judged = f"{' or '.join(sorted(allowed))} at {fraction:.5g} of peak with a floor of {floor:.5g}"
        yield "extra_info.verdict", verdict.value, judged


def computed(info: CaseRecord, median_us: float, gpu: Mapping[str, Any]) -> Iterator[tuple[str, float, str]]:
    """Name, value and origin of each figure that follows from others; rates of imported runs are not recomputed."""
    yield "time_us", median_us, "the median in stats"
    gbs = None if info.bytes is None else info.bytes / median_us / 1e3
    tflops = None if info.flops is None else info.flops / median_us / 1e6
    if gbs is not None:
        yield "gbs", gbs, "its bytes over the median"
    if tflops is not None:
        yield "tflops", tflops, "its flops over the median"
    if info.bound == "compute":  # its own peak, that of the type of its operations, or that of FP32
        by_type = gpu.get("peak_tensor_tflops") or {}
        rate, peak = tflops, info.peak_tflops or by_type.get(info.math) or gpu.get("peak_tflops")
    else:
        rate, peak = gbs, gpu.get(PEAKS.get(info.bound or "", ""))
    if _is_rate(peak) and rate is not None:
        yield "peak_fraction", rate / peak, f"its rate of {rate:.6g} over the peak of {peak:.6g}"
    roof = (gpu.get("roofs") or {}).get(info.roof)
    rate = tflops if (info.roof or "").split("_")[0] in ARITHMETIC_ROOFS else gbs
    if _is_rate(roof) and rate is not None:
        yield "roof_fraction", rate / roof, f"its rate of {rate:.6g} over the roof {info.roof} of {roof:.6g}"


def _is_rate(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
