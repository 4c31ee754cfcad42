"""The run of a process of an A/B: it measures when it gets the GPU token, some cases interleaved with another build."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from peakgate.base import config, git, records
from peakgate.base.files import write_whole
from peakgate.base.verdict import Judgement, Verdict
from peakgate.device.choose import opened
from peakgate.run import run_file
from peakgate.run.ab_process import LOOK_FILES, GpuToken, OtherBuilds
from peakgate.run.collection import RunCase
from peakgate.run.loop import BenchRun
from peakgate.session.outcome import Entry, Outcome
from peakgate.session.pairs import OTHER_FAILED, interleaved
from peakgate.spec.case import Case


class AbRun(BenchRun):
    """A run of an A/B, in one of its processes."""

    def __init__(self, pytest_config: pytest.Config, kernels: Sequence[Path] = ()) -> None:
        self._began = time.monotonic()
        self._token = GpuToken.of_environment()
        super().__init__(pytest_config, kernels, later=self._token.needed)
        self._others = self._asked()
        self.other_builds, self.other_folder = self._others.fingerprints, Path(self._others.folder)
        self._ahead: dict[str, Outcome] = {}
        self._beside: dict[str, Outcome] = {}

    def _asked(self) -> OtherBuilds:
        """The builds in the file of the request, which `peakgate ab` writes again for further pairs; none without."""
        file = self.request.other_builds
        return OtherBuilds() if file is None else records.read(file, OtherBuilds, "run `peakgate ab` again")

    def begin(self, selected: Sequence[RunCase], pytest_config: pytest.Config) -> None:
        """As every run; with a token also measure the cases."""
        super().begin(selected, pytest_config)
        if selected and self._token.needed and not self.tests:  # benchmark tests may use the GPU until the end
            device = self.session.device
            for case in self._run_here(selected):
                self._ahead[case.id] = self._measured(case)
            while self._others.looks and device.lost is None and any(each.metrics for each in self._beside.values()):
                folders = config.current().root, self.other_folder
                for name, folder, outcomes in zip(LOOK_FILES, folders, (self._ahead, self._beside), strict=True):
                    look = run_file.unsaved(self.session, list(outcomes.values()), git.commit_info(folder))
                    write_whole(self.out / name, json.dumps(look))
                if not self._token.further():
                    break
                asked = self._asked()
                for case in self._measurable([self.cases[case_id] for case_id in asked.fingerprints]):
                    self._ahead[case.id] = self._interleaved(case, asked)
            if device.lost is None:  # else the GPU is released when this process ends
                begun = time.monotonic()
                device.close()
                self._token.release(self.session.steps.wall_s | {"close": time.monotonic() - begun})

    def _built_before(self, selected: Sequence[RunCase]) -> bool:
        """Wait for the GPU token, then open the device.

        Returns whether the builds were loaded from the cache meanwhile, which needs no GPU if nothing is proven.
        """
        if not self._token.needed:
            return False
        device, built = self.session.device, not self.session.checks
        if built:
            device.prebuild(self._measurable(selected), checked=False)
        self._token.wait()
        self._began = time.monotonic()
        opened(device, self.request.device)
        return built

    def measure_other(self, case: RunCase) -> tuple[Entry, Sequence[float]]:
        """The entry of a case's other build, which was sampled with it, and its samples in µs."""
        outcome = self._beside.pop(case.id, None)
        spoilt = Judgement(Verdict.INCONCLUSIVE, OTHER_FAILED)
        return self.store.keep_other(outcome or self.session.unmeasured(case, spoilt))

    def _measured(self, case: Case) -> Outcome:
        if (ahead := self._ahead.pop(case.id, None)) is not None:
            return ahead
        return self._interleaved(case, self._others) if case.id in self.other_builds else super()._measured(case)

    def _interleaved(self, case: Case, asked: OtherBuilds) -> Outcome:
        """Sample a case interleaved with its other build, in addition to earlier samples; keep the other's outcome."""
        outcome, self._beside[case.id] = interleaved(
            self.session,
            case,
            asked.fingerprints[case.id],
            pairs=asked.pairs,
            cases=len(asked.fingerprints),
            before=(self._ahead[case.id], self._beside[case.id]) if case.id in self._ahead else None,
        )
        return outcome

    def wall_s(self) -> float:
        """Wall time in seconds since the GPU token's grant; without a token as of every run."""
        return time.monotonic() - self._began if self._token.needed else super().wall_s()
