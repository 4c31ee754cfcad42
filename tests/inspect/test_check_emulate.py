"""The check finds what is wrong with a kernel, in whichever order of threads it shows, and says it once."""

from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from emulating import CUDA

from peakgate.base.verdict import ExitCode
from peakgate.inspect import emulate, report
from peakgate.inspect.emulate import BuildReport, LaunchFinding, check_build, check_case, check_cases
from peakgate.inspect.problems import builds
from peakgate.judge.waivers import rule
from peakgate.measure.patterns import PATTERNS
from peakgate.spec.case import Buffer, Case, Launch, Role, Scalar, Stage, Struct, Work
from peakgate.spec.stage import SourceLine
from peakgate_emulator.defects import RaceStep

THREADS = 64
FOREIGN = CUDA.parent / "defects" / "foreign.cu"


def mirror(xp, inputs):
    return (inputs[0][::-1],)


def count(xp, inputs):
    return (xp.arange(THREADS, dtype="uint32"),)


def problem(name, reference=mirror, dtype="float32", **described):
    """A case of one block of a kernel in ``cuda``."""
    return Case(
        family="trial",
        stage=Stage(name, "", CUDA / f"{name}.cu"),
        launch=Launch((1, 1, 1), (THREADS, 1, 1)),
        arguments=(Buffer(Role.OUT, (THREADS,), dtype), Buffer(Role.IN, (THREADS,)), Scalar(THREADS)),
        work=Work(0),
        reference=reference,
        **described,
    )


RACY, SOUND = (problem("reversed", defines=(("BARRIER", barrier),)) for barrier in ("", "__syncthreads()"))


def checked(case, orders=(0, 2), **options):
    return check_cases([case], orders, lambda _: None, **options)


def test_a_kernel_that_is_right_is_launched_once_in_each_order():
    found = checked(SOUND)
    assert (found.problems, found.launches, found.sizes) == (1, 2, {"trial.reversed": ""})
    assert (found.findings, found.broken, found.skipped) == ((), None, None)


def test_a_race_is_told_with_file_line_thread_and_block():
    (finding,) = checked(RACY).findings[:1]
    assert finding.kind == "shared race"
    assert finding.where == "reversed.cu:5"
    assert "(0, 0, 0)" in finding.what
    assert "at reversed.cu:3" in finding.what


def test_nothing_more_is_launched_after_a_wrong_result():
    found = checked(problem("numbered", mirror, "uint32"), orders=(0, 2, 3))
    assert {finding.schedule for finding in found.findings} == {0}
    assert found.launches == 1


def test_a_race_of_every_order_hides_none_of_another_order():
    found = checked(problem("counted", dtype="uint32"), orders=(0, 2, 3))
    assert found.launches == 3
    assert [(each.kind, each.where, each.schedule) for each in found.findings] == [
        ("same value race", "counted.cu:5", 0),
        ("global race", "counted.cu:6", 2),
    ]


def test_a_result_that_depends_on_the_order_of_threads_is_found_by_a_shuffle():
    case = problem("numbered", count, "uint32")
    assert checked(case, orders=(0,)).findings == ()
    (finding,) = checked(case, orders=(0, 2)).findings
    assert (finding.kind, finding.schedule) == ("wrong result", 2)
    assert "expected" in finding.what


def test_a_stage_for_the_gpu_alone_is_skipped_with_its_reason():
    cooperative = replace(SOUND.stage, cooperative=True)
    found = checked(replace(SOUND, stage=cooperative, launch=Launch((1000, 1, 1), (64, 1, 1))))
    assert found.skipped is not None
    assert "64000 threads" in found.skipped
    assert found.launches == 0
    assert whole(found).exit_code == ExitCode.OK


def test_the_first_order_is_ascending_and_the_others_are_always_the_same_shuffles():
    assert emulate.schedules(1) == (0,)
    assert emulate.schedules(3) == (0, 2, 3)


def test_every_build_of_a_stage_is_checked_on_its_probes_too():
    found = builds("transpose.smem_pad")
    assert len(found) > 1
    for key, cases in found.items():
        assert key.kernel == "transpose.smem_pad"
        assert {case.defines for case in cases} == {key.defines}
        assert len({case.size for case in cases}) > 2


def test_a_build_of_the_catalogue_is_found_by_its_key_and_is_clean():
    said = []
    key = next(iter(builds("transpose.naive_row")))
    found = check_build("transpose.naive_row", None, key, (0, 2), said.append)
    assert found.findings == ()
    assert found.problems == len(said)
    patterns = [case_id for case_id in said if case_id.rpartition("-")[2] in PATTERNS]
    assert len(patterns) == 2 * len(PATTERNS)
    assert found.launches == 2 * found.problems - len(PATTERNS)  # the last problem's run in one order


def whole(*builds):
    """The report of a check of these builds, of which nothing is waived."""
    kernels = report.by_kernel(builds, lambda kernel, place: SourceLine(Path("own.cu")))
    found = [defect for kernel in kernels for defect in kernel.defects]
    return report.report(kernels, rule(found, {}, lambda key: True, date(2026, 11, 22)), (0, 2), 1.2)


RACE = partial(LaunchFinding, kind="shared race", where="k.cu:6", what="k.cu:6: shared race: ...")


def test_the_same_defect_in_many_launches_is_one_line():
    found = BuildReport("f.k", 3, 6, (RACE("f.k-1", 2), RACE("f.k-2", 0), RACE("f.k-3", 2)))
    other = BuildReport("f.k", 1, 2, (LaunchFinding("f.k-4", 0, "wrong result", None, "wrong result: ..."),))
    (kernel,) = report.by_kernel([found, other], lambda kernel, place: SourceLine(Path("own.cu")))
    assert ["3 launches" in defect.what for defect in kernel.defects] == [True, False]
    assert (kernel.problems, kernel.launches) == (4, 8)


def test_two_races_of_a_line_in_one_launch_are_one_launch_that_shows_it():
    first, second = ((RaceStep("k.cu:6", None, None), RaceStep(f"k.cu:{line}", None, None)) for line in (4, 5))
    one, again = (RACE("f.k-1", 0, order=first), RACE("f.k-1", 0, order=second)), RACE("f.k-1", 0, order=first)
    for findings, launches in ((one, 1), ((*one, again), 2), ((*one, RACE("f.k-1", 2, order=second)), 2)):
        (kernel,) = report.by_kernel([BuildReport("f.k", 1, 2, findings)], lambda *_: SourceLine(Path("own.cu")))
        assert [defect.facts["launches"] for defect in kernel.defects] == [launches]


def test_a_report_has_a_line_for_each_defect_and_each_kernel_that_was_not_checked(shown):
    found = whole(
        BuildReport("f.k", 3, 6, (RACE("f.k-1", 2), RACE("f.k-2", 0), RACE("f.k-3", 2))),
        BuildReport("f.b", 1, broken="b.cu:1: no such name"),
        BuildReport("f.s", 1, skipped="GPU only: a cooperative launch"),
        BuildReport("f.r", 2, 4, refused={"65": "ValueError: odd"}, not_reached=3),
    )
    shown("check.txt", found)


def test_a_defect_outranks_a_kernel_that_does_not_compile():
    broken = BuildReport("f.b", 1, broken="b.cu:1: no")
    assert whole(broken, BuildReport("f.k", 1, 1, (RACE("f.k", 0),))).exit_code == 1
    assert whole(broken, BuildReport("f.k", 1, 1)).exit_code == 3


def test_the_last_line_says_how_much_was_checked():
    found = whole(BuildReport("f.k", 3, 6), BuildReport("f.s", 1, skipped="GPU only: x"))
    assert [row.name for row in found.rows] == ["f.s"]
    assert len(found.sentences) == 1


def test_scratch_that_a_defect_left_behind_is_not_held_against_the_next_problem():
    case = problem("numbered", lambda xp, inputs: (np.zeros(THREADS, "uint32"),), "uint32")
    found = check_cases([case, case], (0, 2), lambda _: None)
    assert [finding.schedule for finding in found.findings] == [0, 0]


def test_problems_that_there_is_no_time_for_are_counted():
    case = problem("numbered", lambda xp, inputs: (np.zeros(THREADS, "uint32"),), "uint32")
    found = check_cases([case, case, case], (0,), lambda _: None, ends=0.0)
    assert (found.problems, found.launches, found.not_reached) == (1, 1, 2)


def foreign_case(stage, arguments, reference):
    return Case("family", stage, Launch((1, 1, 1), (8, 1, 1)), arguments, Work(0), reference, tolerance=1e-6)


def findings(case):
    return [finding.what for found in check_case(case, (0, 2)) for finding in found]


def test_a_case_gets_its_constants_and_its_reference_receives_them_last():
    constants = (("scaling::factors", Buffer(Role.IN, (4,))),)
    stage = Stage("scaled", "", FOREIGN, entry="scaling::by_constant", constants=constants)
    arguments = (Buffer(Role.OUT, (8,)), Buffer(Role.IN, (8,)))
    case = foreign_case(stage, arguments, lambda xp, inputs: [2 * inputs[0] * xp.tile(inputs[1], 2)])
    assert findings(case) == []


def test_a_case_passes_a_struct_by_value():
    line = Struct((3, 0.5), (("offset", "int32"), ("slope", "float64")))
    arguments = (Buffer(Role.OUT, (8,)), Buffer(Role.IN, (8,)), line)
    stage = Stage("along", "", FOREIGN)
    assert findings(foreign_case(stage, arguments, lambda xp, inputs: [3 + inputs[0].astype("float64") / 2])) == []


KEEPS = (
    'extern "C" __global__ void kept(float* out, const float* in, float* first, int* runs) {\n'
    "    const int i = threadIdx.x;\n    if (!runs[i]) first[i] = 2 * in[i];\n    %s out[i] = first[i];\n}\n"
)


@pytest.mark.parametrize(("line", "kinds"), [("runs[i] = 1;", ["wrong result"]), ("", [])])
@pytest.mark.parametrize("data", [None, (0, 8)])
def test_a_result_that_scratch_kept_is_wrong_for_other_inputs(tmp_path, line, kinds, data):
    (tmp_path / "kept.cu").write_text(KEEPS % line)
    arguments = (
        Buffer(Role.OUT, (8,)),
        Buffer(Role.IN, (8,), data=data),
        Buffer(Role.SCRATCH, (8,)),
        Buffer(Role.SCRATCH, (8,), "int32"),
    )
    case = foreign_case(Stage("kept", "", tmp_path / "kept.cu"), arguments, lambda xp, inputs: [2 * inputs[0]])
    assert [finding.kind for found in check_case(case, (0, 2)) for finding in found] == kinds
