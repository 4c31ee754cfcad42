"""The emulator judges kernels with known defects rightly: a few of both calibrated suites, and the records of all."""

from __future__ import annotations

import json

from lab.calibrated import order
from lab.calibrated.emulated import LEAST_FOUND_OF_ORDER, ORDER_RECORD, RECORD, counts, judged, passes, run
from lab.calibrated.pattern import BOUNDS, CLEAN, DIVERGENT, RACY, STUCK, kernels
from peakgate.inspect.emulate import schedules

EVERY, EVERY_OF_ORDER = 19, 23


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


def test_a_flagged_clean_kernel_fails_the_suite() -> None:
    recorded = json.loads(RECORD.read_text())["kernels"]
    clean = next(name for name, entry in recorded.items() if entry["label"] == CLEAN)
    assert not passes({**recorded, clean: {**recorded[clean], "reported": ["shared race"], "right": False}})


def test_a_defect_of_another_kind_is_not_the_injected_one() -> None:
    assert judged(RACY, ["shared race", "out of bounds"])
    assert not judged(RACY, ["out of bounds"])
    assert not judged(CLEAN, ["shared race"])


def test_kernels_that_order_memory_are_judged_as_recorded() -> None:
    recorded = json.loads(ORDER_RECORD.read_text())["kernels"]
    outcome = run(order.kernels()[::EVERY_OF_ORDER], schedules(2))
    assert {name: entry["right"] for name, entry in outcome.items()} == {
        name: recorded[name]["right"] for name in outcome
    }


def test_the_record_is_of_all_of_them_and_passes() -> None:
    recorded = json.loads(ORDER_RECORD.read_text())
    assert set(recorded["kernels"]) == {kernel.name for kernel in order.kernels()}
    assert passes(recorded["kernels"], LEAST_FOUND_OF_ORDER)
    found = counts(recorded["kernels"])
    assert found[CLEAN][0] >= 100 <= found[RACY][0]
    assert found[STUCK][0] > 0
    assert set(recorded["first_run"]["missed"]) <= set(recorded["kernels"])


def test_each_kernel_names_the_rule_that_its_label_rests_on() -> None:
    assert all(kernel.why for kernel in order.kernels())
    assert len({kernel.name for kernel in order.kernels()}) == len(order.kernels())
