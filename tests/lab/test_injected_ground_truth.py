"""The clock inside the slowed copies' kernel: on a device that only copies, and on a GPU."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from lab.injected import ground_truth
from lab.injected.campaign import measure, steps
from lab.injected.record import Experiment
from peakgate.base.errors import PeakgateError
from peakgate.case import Case, Role, Scalar
from peakgate.measure.sampling import Samples, SamplingPlan

Captured = pytest.CaptureFixture[str]


class Copy:
    """A copy of 100 us at 2 GHz that begins 50 cycles after its launch and 40 more per link of its chain.

    Its first launch is late, and so are some blocks and samples of each.
    """

    def __init__(self, case: Case, mhz: float | None) -> None:
        self.mhz = mhz
        chain = case.arguments[3]
        assert isinstance(chain, Scalar)
        self.cycles = 50 + 40 * int(chain.value)
        self.outputs = [np.zeros(each.shape, each.dtype) for each in case.buffers if each.role is Role.OUT][1:]
        self.late = 1000

    def run(self) -> None:
        (cycles,) = self.outputs
        cycles[:] = self.cycles + self.late
        cycles[: steps.BLOCKS // 3] += 500
        self.late = 0

    def sample(self, plan: SamplingPlan) -> Samples:
        times_us = [100.0] * (plan.max_samples - 4) + [900.0] * 4
        return Samples(tuple(times_us), (self.mhz,) * plan.max_samples, 0, "synthetic")


class Copies:
    """A device that only copies."""

    def __init__(self, mhz: float | None = 2000.0) -> None:
        self.mhz = mhz

    def warm_up(self) -> None:
        pass

    def prepare(self, case: Case) -> Copy:
        return Copy(case, self.mhz)


def test_every_cells_shift_is_measured_whatever_blocks_are_late(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ground_truth, "open_device", lambda _choice: (Copies(), None))
    assert ground_truth.main([str(tmp_path / "truth.json")]) == 0
    found = json.loads((tmp_path / "truth.json").read_text())
    shifts = {(each["duration_us"], each["permille"]): each["log_shift"] for each in found}
    assert len(shifts) == len(steps.QUADS_BY_DURATION) * len(steps.PER_MILLE)
    assert shifts[150, 0] == 0
    assert shifts[150, 20] == pytest.approx(math.log1p(0.02 * steps.links(150, 20) / 100))


@pytest.mark.parametrize(
    ("device", "message"), [(Copies(mhz=None), "5 us: the samples have no SM clock"), (None, "no usable GPU")]
)
def test_without_a_clock_or_a_gpu_it_is_one_line_and_exit_2(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Captured, device: Copies | None, message: str
) -> None:
    def opened(_choice: str) -> tuple[Copies, None]:
        if device is None:
            raise PeakgateError("no usable GPU")
        return device, None

    monkeypatch.setattr(ground_truth, "open_device", opened)
    assert ground_truth.main([str(tmp_path / "truth.json")]) == 2
    error = capsys.readouterr().err
    assert error.startswith(message)
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.gpu(here=True)
def test_on_a_gpu_the_truth_rises_with_the_injected_slowdown() -> None:
    shifts = [each["log_shift"] for each in ground_truth.measured([150])]
    assert shifts == sorted(shifts)
    assert shifts[0] == pytest.approx(0, abs=0.001)
    assert shifts[-1] == pytest.approx(math.log1p(0.05), abs=0.01)


@pytest.mark.gpu
def test_on_a_gpu_ab_flags_the_slowed_copy_alone(tmp_path: Path) -> None:
    chosen = ("-k", "delayed_copy-150us-0pm-0", "-k", "delayed_copy-150us-50pm-0")
    assert measure(Experiment.STEPS, tmp_path / "steps-1", extra=chosen) == 1
    rows = json.loads((tmp_path / "steps-1" / "ab.json").read_text())["rows"]
    verdicts = {row["case"].split("-")[2]: row["verdict"] for row in rows}
    assert verdicts == {"0pm": "SAME", "50pm": "SLOWER"}
