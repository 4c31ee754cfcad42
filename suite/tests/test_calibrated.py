"""The emulator judges kernels with known defects rightly: a few of the calibrated suite, and the record of all."""

from __future__ import annotations

import json

from calibrated.emulated import RECORD, counts, judged, passes, run
from calibrated.kernels import BOUNDS, CLEAN, DIVERGENT, RACY, kernels

EVERY = 13


def test_a_sample_of_the_suite_is_judged_rightly_and_as_recorded() -> None:
    recorded = json.loads(RECORD.read_text())["kernels"]
    outcome = run(kernels()[::EVERY])
    assert outcome == {name: recorded[name] for name in outcome}
    assert {entry["label"] for entry in outcome.values()} == {CLEAN, RACY, DIVERGENT, BOUNDS}


def test_the_record_is_of_the_whole_suite_and_passes() -> None:
    recorded = json.loads(RECORD.read_text())["kernels"]
    assert set(recorded) == {kernel.name for kernel in kernels()}
    assert passes(recorded)
    least = {CLEAN: 60, RACY: 60, DIVERGENT: 20, BOUNDS: 20}
    assert all(counts(recorded)[label][0] >= count for label, count in least.items())


def test_a_flagged_clean_kernel_fails_the_suite_whatever_is_found() -> None:
    recorded = json.loads(RECORD.read_text())["kernels"]
    clean = next(name for name, entry in recorded.items() if entry["label"] == CLEAN)
    assert not passes({**recorded, clean: {**recorded[clean], "reported": ["shared race"], "right": False}})


def test_a_defect_of_another_kind_is_not_the_one_that_was_injected() -> None:
    assert judged(RACY, ["shared race", "out of bounds"])
    assert not judged(RACY, ["out of bounds"])
    assert not judged(CLEAN, ["shared race"])
