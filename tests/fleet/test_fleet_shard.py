"""A tier spread over GPUs: who measures what, and what is said about the whole."""

import pandas as pd
import pytest
from fleet_tables import fleet_table
from hypothesis import given, settings
from hypothesis import strategies as st

from peakgate.base.verdict import ExitCode, Verdict
from peakgate.fleet import report, shard
from peakgate.fleet.shard import judge
from peakgate.render import files
from peakgate.spec.recorded import TENSOR_MATH


def expected(family, bound, seconds):
    """Cases of a family, one per expected time."""
    cases = [f"{family}.case{at}" for at in range(len(seconds))]
    return pd.DataFrame({"case": cases, "bound": bound, "seconds": seconds})


CASES = pd.concat([expected("copy", "memory", [0.1] * 60), expected("sgemm", "compute", [0.1] * 40)], ignore_index=True)
BOUND = dict(zip(CASES["case"], CASES["bound"], strict=True))
GPUS = ("GPU-a", "GPU-b", "GPU-c")


def of_gpu(uuid, cases, *, slow=1.0, verdicts=(), driver="580"):
    """Rows of one GPU that measured its share."""
    about = {"uuid": uuid, "mode": "shard", "fleet": "f", "slug": "nvidia-h200", "driver": driver, "emulated": False}
    about |= {"node": "n", "outcome": "measured", "exit_code": 0, "wall_s": 9.0}
    return [
        about
        | {"case": case, "bound": BOUND[case], "verdict": dict(verdicts).get(case, "PASS")}
        | {"time_us": 100.0 * (slow if BOUND[case] == "memory" else 1.0)}
        for case in cases
    ]


def judged(*, slow=1.0, verdicts=(), without=(), lost=None, driver="580"):
    """Three GPUs, the last of them slower in the memory-bound cases, without some cases, or lost."""
    shares = shard.split(CASES, GPUS)
    rows = []
    for uuid in GPUS:
        odd = uuid == GPUS[-1]
        if lost == uuid:
            rows.append({"uuid": uuid, "mode": "shard", "node": "n", "outcome": "lost", "reason": "no worker"})
            continue
        cases = [case for case in shares.of(uuid) if case not in without]
        rows += of_gpu(uuid, cases, slow=slow if odd else 1.0, verdicts=verdicts, driver=driver if odd else "580")
    return judge(fleet_table(rows), shares)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0.01, 5.0), min_size=1, max_size=60), st.integers(1, 8))
def test_every_case_is_measured_once_or_by_all(seconds, count):
    cases = expected("copy", "memory", seconds)
    shares = shard.split(cases, [f"GPU-{at}" for at in range(count)])
    assert sorted(shares.cases) == sorted(cases["case"])
    known = dict(zip(cases["case"], cases["seconds"], strict=True))
    loads = [sum(known[case] for case in own) for own in shares.own.values()]
    assert (
        max(loads) - min(loads) <= max([known[case] for own in shares.own.values() for case in own], default=0) + 1e-9
    )


def test_every_group_has_common_cases_none_of_them_long():
    common = shard.split(pd.concat([CASES, expected("naive", "compute", [9.0] * 40)]), GPUS).common
    assert sum(case.startswith("copy") for case in common) >= shard.FEWEST_COMMON
    assert sum(case.startswith("sgemm") for case in common) >= shard.FEWEST_COMMON
    assert not any(case.startswith("naive") for case in common)


def test_equal_gpus_that_measured_everything_pass_as_one_run():
    found = judged()
    assert (found.problems, found.exit_code) == ((), ExitCode.OK)
    assert found.apart == {"compute": 0.0, "memory": 0.0}
    assert set(found.cases.loc[~found.cases["common"], "uuids"]) == set(GPUS)


def test_gpus_that_are_not_equal_leave_the_tier_inconclusive():
    found = judged(slow=1.04)
    assert found.exit_code is ExitCode.UNDECIDED
    assert (len(found.problems), found.apart) == (1, {"compute": 0.0, "memory": pytest.approx(4.0)})
    assert report.of_tier(found).verdict == Verdict.INCONCLUSIVE
    assert judged(slow=1.02).exit_code is ExitCode.OK


@pytest.mark.parametrize(
    ("changed", "missing"),
    [
        ({"without": ["copy.case0"]}, 1),
        ({"lost": "GPU-b"}, None),
        ({"driver": "590"}, 0),
        ({"without": [f"sgemm.case{at}" for at in range(40)]}, 40),
    ],
)
def test_what_is_not_whole_never_passes(changed, missing):
    found = judged(**changed)
    assert found.problems
    assert missing in (None, found.cases["verdict"].isna().sum())
    assert found.exit_code is ExitCode.UNDECIDED


def test_a_gpu_without_a_gate_is_reported_as_not_measured():
    shares = shard.split(CASES, GPUS)
    rows = [row for uuid in GPUS[:2] for row in of_gpu(uuid, shares.of(uuid))]
    found = judge(fleet_table(rows), shares)
    assert found.gpus.loc["GPU-c", "outcome"] == "lost"
    assert found.exit_code is ExitCode.UNDECIDED
    assert "nan" not in files.text(report.of_tier(found), "md")


def test_one_failed_case_fails_the_tier_and_names_its_gpu():
    case = "copy.case0"
    found = judged(verdicts={case: "BELOW_FLOOR"})
    assert found.exit_code is ExitCode.REGRESSION
    assert list(found.failing.index) == [case]
    document = report.of_tier(found).fields
    row = next(each for each in document["cases"] if each["case"] == case)
    assert row["verdict"] == Verdict.BELOW_FLOOR
    assert row["uuids"] in GPUS
    assert len(files.text(report.of_tier(found), "csv").splitlines()) == 101


def test_a_case_of_every_type_is_expected_to_take_some_time() -> None:
    assert set(shard.TENSOR_TFLOPS) == set(TENSOR_MATH)
