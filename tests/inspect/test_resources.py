"""The static resource gate on synthetic baselines; nothing is compiled here."""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_cases import make_case

from peakgate.base.errors import PeakgateError
from peakgate.base.records import RecordError
from peakgate.base.verdict import ExitCode
from peakgate.inspect.resources.baseline import (
    RESOURCE_REGRESSIONS,
    BuildTarget,
    ResourceChange,
    Survey,
    TheoreticalOccupancy,
    Usage,
    compare,
    differing,
    exit_code,
    incomparable,
    read,
    render,
    varying,
)
from peakgate.inspect.resources.survey import ARCHITECTURES, builds, capability
from peakgate.judge.occupancy import Resources
from peakgate.spec.case import Launch, Stage

names = st.builds(
    "{}.{}{}".format, *map(st.sampled_from, (["roof", "sgemm"], ["copy", "tiled"], ["", "+PAD=1", '+TEXT="é\\']))
)
targets = st.builds(BuildTarget, names, st.sampled_from(ARCHITECTURES))
resources = st.builds(
    Resources,
    registers=st.integers(1, 255),
    stack_bytes=st.integers(0, 999),
    spill_bytes=st.integers(0, 999),
    static_shared_bytes=st.integers(0, 99999),
)
fractions = st.integers(0, 10_000).map(lambda parts: parts / 10_000)
filled = st.builds(TheoreticalOccupancy, fractions, st.sampled_from(["warps", "registers", "warps+shared"]))
usages = st.builds(Usage, resources, st.dictionaries(st.sampled_from(["64", "256", "32x8"]), filled, max_size=3))
surveys = st.builds(
    Survey,
    st.just("13.0"),
    st.just(("--std=c++17",)),
    st.dictionaries(targets, usages, max_size=6),
    st.just({}),
    st.sampled_from([None, (90,), (75, 90)]),
)


def usage(registers=32, spill_bytes=0, fraction=1.0, limiter="warps", block="256"):
    return Usage(Resources(registers, 0, spill_bytes, 0), {block: TheoreticalOccupancy(fraction, limiter)})


def survey(*at, nvrtc="13.0", options=("--std=c++17",), broken=None, **kernels):
    used = {BuildTarget(name.replace("__", "."), sm): taken for name, taken in kernels.items() for sm in at or (90,)}
    return Survey(nvrtc, options, used, broken or {})


def judged(before, after):
    return exit_code(before, after, compare(before, after))


@given(surveys, surveys)
def test_every_difference_is_told_once_and_names_its_targets(before, after):
    differing = {
        target
        for target in before.usage.keys() | after.usage.keys()
        if before.usage.get(target) != after.usage.get(target)
    }
    named = [BuildTarget(finding.kernel, sm) for finding in compare(before, after) for sm in finding.architectures]
    assert sorted(named) == sorted(differing)


@given(surveys, surveys)
def test_another_compiler_is_never_blamed_on_the_kernels(before, after):
    newer = replace(after, nvrtc="13.1")
    assert judged(before, newer) is ExitCode.UNDECIDED
    assert compare(before, newer) == compare(before, after)


def test_only_builds_of_both_sides_that_take_something_else_are_built_again():
    before = survey(a__a=usage(), b__b=usage(), gone__gone=usage())
    after = survey(a__a=usage(), b__b=usage(33), new__new=usage())
    assert differing(before, after) == [BuildTarget("b.b", 90)]


def test_what_the_compiler_gives_now_so_and_now_otherwise_is_reported_and_passes(golden):
    seen = {
        BuildTarget("a.a", 90): (usage(), usage()),
        BuildTarget("b.b", 90): (usage(), usage(33)),
        BuildTarget("c.c", 75): (usage(), usage(spill_bytes=8)),
    }
    found = varying(seen)
    golden("resources-luck.txt", "".join(f"{finding.row.name}: {finding.row.reason}\n" for finding in found))
    assert [(each.kernel, each.kind, each.architectures) for each in found] == [
        ("b.b", ResourceChange.VARIES, (90,)),
        ("c.c", ResourceChange.VARIES, (75,)),
    ]
    assert exit_code(survey(), survey(), found) is ExitCode.OK


DIFFERENCES = [
    (usage(), usage(40, 48), "NEW_SPILLS"),
    (None, usage(spill_bytes=8), "NEW_SPILLS"),
    (usage(), usage(40, fraction=0.75, limiter="registers"), "LOST_OCCUPANCY"),
    (usage(), usage(fraction=0.0, limiter="shared"), "LOST_OCCUPANCY"),
    (usage(fraction=0.5), usage(fraction=0.75), "CHANGED"),
    (usage(), usage(33), "CHANGED"),
    (usage(), usage(limiter="registers"), "CHANGED"),
    (usage(), usage(block="512"), "CHANGED"),
]


def test_a_difference_is_one_line_and_fails_where_it_is_worse(golden):
    lines = []
    for before, after, kind in DIFFERENCES:
        sides = survey(roof__copy=before) if before else survey(), survey(roof__copy=after)
        (found,) = compare(*sides)
        lines.append(f"{found.row.name}: {found.row.reason}\n")
        assert (found.kind, found.architectures) == (ResourceChange(kind), (90,))
        assert judged(*sides) is (ExitCode.REGRESSION if found.kind in RESOURCE_REGRESSIONS else ExitCode.OK)
        assert judged(sides[1], sides[1]) is ExitCode.OK
    golden("resources-changes.txt", "".join(lines))


def test_a_block_that_gains_does_not_hide_one_that_loses():
    filled = [{"128": (0.5, 0.75), "256": (0.5, 0.25)}, {"128": (0.5, 0.25), "256": (0.5, 0.75)}]
    for blocks in filled:
        before, after = (
            survey(
                roof__copy=Usage(
                    usage().resources, {block: TheoreticalOccupancy(of[at], "warps") for block, of in blocks.items()}
                )
            )
            for at in (0, 1)
        )
        assert [each.kind for each in compare(before, after)] == [ResourceChange.LOST_OCCUPANCY]
        assert judged(before, after) is ExitCode.REGRESSION


def test_new_and_removed_builds_are_said_and_pass():
    before, after = survey(75, 90, roof__copy=usage()), survey(75, 90, roof__read=usage())
    assert [(each.kernel, each.kind, each.architectures) for each in compare(before, after)] == [
        ("roof.read", ResourceChange.NEW, (75, 90)),
        ("roof.copy", ResourceChange.REMOVED, (75, 90)),
    ]
    assert judged(before, after) is ExitCode.OK


@pytest.mark.parametrize("known", [survey(), survey(roof__copy=usage())])
def test_a_build_that_does_not_compile_is_a_regression_and_not_called_removed(known):
    after = survey(broken={BuildTarget("roof.copy", 90): "roof/copy.cu:3: missing ;"})
    (finding,) = compare(known, after)
    assert (finding.kernel, finding.kind) == ("roof.copy", ResourceChange.NOT_COMPILING)
    assert "roof/copy.cu:3: missing ;" in str(finding)
    assert judged(known, after) is ExitCode.REGRESSION


def test_the_gravest_comes_first():
    before = survey(a__a=usage(), b__b=usage(), c__c=usage())
    after = survey(
        a__a=usage(33), b__b=usage(fraction=0.5), c__c=usage(spill_bytes=4), broken={BuildTarget("d.d", 90): "broken"}
    )
    kinds = [finding.kind for finding in compare(before, after)]
    assert kinds == [
        ResourceChange.NOT_COMPILING,
        ResourceChange.NEW_SPILLS,
        ResourceChange.LOST_OCCUPANCY,
        ResourceChange.CHANGED,
    ]
    assert set(kinds[:3]) == RESOURCE_REGRESSIONS


def test_other_options_leave_it_undecided_and_are_named():
    before, after = survey(options=("-a", "-b")), survey(options=("-a", "-c"))
    assert re.findall(r" (-a -\w)", incomparable(before, after)) == ["-a -b", "-a -c"]
    assert judged(before, after) is ExitCode.UNDECIDED


def test_another_compiler_is_named_beside_the_baselines():
    assert re.findall(r"NVRTC (13\.\d)", incomparable(survey(), survey(nvrtc="13.1"))) == ["13.0", "13.1"]


@given(surveys)
def test_a_baseline_reads_back_as_it_was_written(tmp_path_factory, kept):
    path = tmp_path_factory.getbasetemp() / "baseline.json"
    path.write_text(render(kept))
    assert path.read_text() == render(kept)
    assert read(path) == kept
    assert render(read(path)) == path.read_text()


def test_a_baseline_has_a_line_a_kernel_and_architecture():
    lines = render(survey(120, 75, roof__copy=usage(), roof__add=usage(40))).splitlines()
    assert [line.strip().split(":")[0] for line in lines[5:-2]] == [
        '"roof.add"',
        '"sm_75"',
        '"sm_120"',
        "},",
        '"roof.copy"',
        '"sm_75"',
        '"sm_120"',
        "}",
    ]


def test_builds_that_do_not_compile_leave_no_line():
    text = render(survey(broken={BuildTarget("roof.copy", 90): "broken"}))
    assert json.loads(text)["kernels"] == {}
    assert text.endswith('"kernels": {}\n}\n')


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ("{", ""),
        ("[]", "the file"),
        ('{"schema": 99}', "schema"),
        ('{"schema": 1, "nvrtc": "13.0", "options": []}', "kernels"),
        ('{"schema": 1, "nvrtc": "13.0", "options": [], "kernels": {"a.b": {"sm_x": {}}}}', "kernels.a.b"),
        (
            '{"schema": 1, "nvrtc": "13.0", "options": [], "kernels": {"a.b": {"sm_90": {"occupancy": {}}}}}',
            "kernels.a.b.sm_90.registers",
        ),
    ],
)
def test_a_broken_baseline_is_named_in_one_line(tmp_path, content, field):
    path = tmp_path / "resources.json"
    path.write_text(content)
    with pytest.raises(RecordError) as raised:
        read(path)
    assert raised.value.field == field
    assert "\n" not in str(raised.value)


def test_a_missing_baseline_says_how_to_write_one(tmp_path):
    with pytest.raises(PeakgateError, match="--update"):
        read(tmp_path / "resources.json")


def test_builds_are_told_apart_by_defines_and_gather_their_blocks(tmp_path):
    stage = Stage("double", "doubles", source=tmp_path / "double.cu")
    shapes = [Launch((1, 1, 1), (32, 8, 1), 4096), Launch((9, 1, 1), (32, 8, 1), 1024), Launch((1, 1, 1), (64, 1, 1))]
    cases = [make_case(stage=stage, launch=shape, size=str(at)) for at, shape in enumerate(shapes)]
    padded = make_case(stage=stage, defines=(("PAD", "1"), ("ROWS", "8")), size="padded")
    operation = make_case(size="memcpy")
    plain, with_defines = builds([*cases, padded, operation])
    assert plain.kernel == "synthetic.double"
    assert plain.launches == (shapes[1], shapes[2])  # the least dynamic shared memory stands for a block
    assert with_defines.kernel == "synthetic.double+PAD=1+ROWS=8"


def test_a_survey_without_some_kernels_and_architectures_has_all_others():
    whole = survey(
        75, 90, a__a=usage(), b__b=usage(), broken={BuildTarget("a.a", 120): "broken", BuildTarget("c.c", 90): "broken"}
    )
    assert whole.without(["a.a"]) == survey(75, 90, b__b=usage(), broken={BuildTarget("c.c", 90): "broken"})
    assert whole.without([], [90]) == survey(75, a__a=usage(), b__b=usage(), broken={BuildTarget("a.a", 120): "broken"})


def test_an_architecture_is_a_capability():
    assert [capability(sm) for sm in (75, 90, 120)] == [(7, 5), (9, 0), (12, 0)]
