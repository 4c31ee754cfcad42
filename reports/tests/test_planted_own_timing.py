"""What was planted by the clock inside the copies' own kernel, on a device that does nothing but copy."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from peakgate.case import Case, Role, Scalar
from peakgate.common.errors import PeakgateError
from peakgate.measure.sampling import Samples, SamplingPlan
from peakgate.reports.planted import own_timing
from peakgate.reports.planted.copies import steps

Captured = pytest.CaptureFixture[str]


class Copy:
    """A copy that takes 100 us at 2 GHz, and begins 50 cycles after its launch and 40 more a link.

    The first launch is late, and so are some blocks and samples of each.
    """

    def __init__(self, case: Case, mhz: float | None) -> None:
        self.mhz = mhz
        chain = case.arguments[3]
        assert isinstance(chain, Scalar)
        self.cycles = 50 + 40 * int(chain.value)
        self.outputs = [np.zeros(each.shape, each.dtype) for each in case.buffers if each.role is Role.OUT][1:]
        self.late = 1000

    def run(self) -> None:
        (told,) = self.outputs
        told[:] = self.cycles + self.late
        told[: steps.BLOCKS // 3] += 500
        self.late = 0

    def sample(self, plan: SamplingPlan) -> Samples:
        times_us = [100.0] * (plan.max_samples - 4) + [900.0] * 4
        return Samples(tuple(times_us), (self.mhz,) * plan.max_samples, 0, "made up")


class Copies:
    """A device that does nothing but copy."""

    def __init__(self, mhz: float | None = 2000.0) -> None:
        self.mhz = mhz

    def warm_up(self) -> None:
        pass

    def prepare(self, case: Case) -> Copy:
        return Copy(case, self.mhz)


def test_own_timing_tells_the_shift_of_every_cell_and_what_is_late_does_not_show(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(own_timing, "open_device", lambda _choice: (Copies(), None))
    assert own_timing.main([str(tmp_path / "own.json")]) == 0
    found = json.loads((tmp_path / "own.json").read_text())
    assert len(found) == len(steps.QUADS_BY_DURATION) * len(steps.PER_MILLE)
    assert found["150us-0pm"] == 0
    assert found["150us-20pm"] == pytest.approx(math.log1p(0.02 * steps.links(150, 20) / 100))


def test_own_timing_without_a_clock_is_one_line_and_exit_2(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Captured
) -> None:
    monkeypatch.setattr(own_timing, "open_device", lambda _choice: (Copies(mhz=None), None))
    assert own_timing.main([str(tmp_path / "own.json")]) == 2
    assert capsys.readouterr().err.startswith("5 us: no SM clock was told with the samples")
    assert not list(tmp_path.iterdir())


def test_own_timing_without_a_gpu_is_one_line_and_exit_2(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Captured
) -> None:
    def none_there(_choice: str) -> None:
        raise PeakgateError("no GPU answers")

    monkeypatch.setattr(own_timing, "open_device", none_there)
    assert own_timing.main([str(tmp_path / "own.json")]) == 2
    assert capsys.readouterr().err == "no GPU answers\n"
    assert not list(tmp_path.iterdir())
