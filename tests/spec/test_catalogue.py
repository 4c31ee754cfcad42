"""Which families a project has, and the cases they define."""

import importlib
import json
import sys
from pathlib import Path

import pytest
from expecting import refuses

from peakgate.base import config
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.options import selector
from peakgate.cli import main
from peakgate.spec import catalogue
from peakgate.spec.case import Scale, Tier

FAMILY_FILE = """
from peakgate.case import Family
FAMILY = Family({name!r}, "synthetic", (), lambda scale: iter(()), lambda case: iter(()))
"""


def test_every_folder_with_a_family_file_is_a_family(project):
    project("one", FAMILY_FILE.format(name="one"))
    project("two", FAMILY_FILE.format(name="two"))
    (project("common") / "header.cuh").write_text("")
    assert [family.name for family in catalogue.families()] == ["one", "two"]


def test_a_family_imports_its_siblings(project):
    (project("one") / "names.py").write_text("NAME = 'with_sibling'\n")
    project("one", "from .names import NAME\n" + FAMILY_FILE.replace("{name!r}", "NAME"))
    assert catalogue.families()[0].name == "with_sibling"


def test_of_two_folders_the_first_provides_a_module_of_both(tmp_path, project, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "peakgate.toml").write_text('pythonpath = ["here", "there"]')
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "name_of_family.py").write_text(f"NAME = {folder!r}\n")
    project("one", "from name_of_family import NAME\n" + FAMILY_FILE.replace("{name!r}", "NAME"))
    assert catalogue.families()[0].name == "here"


@pytest.mark.parametrize("verb", ["check", "inspect mutants", "inspect resources", "inspect sanitize"])
def test_a_project_without_a_kernel_is_bad_input_of_checks(project, capsys, verb):
    assert main(verb.split()) == 2
    assert capsys.readouterr().err.startswith("kernels: no family ")


@pytest.mark.parametrize(
    ("settings", "named"),
    [('kernels = "kernel"', "kernels names kernel"), ('benchmarks = ["bench"]', "benchmarks names bench")],
)
def test_a_folder_that_only_the_settings_know_is_named(tmp_path, project, settings, named):
    (tmp_path / "peakgate.toml").write_text(settings)
    with refuses(Code.SETTING):
        config.required()


def test_families_of_one_folder_name_in_two_projects_are_two(tmp_path, monkeypatch):
    for root in ("first", "second"):
        (tmp_path / root / "kernels" / "one").mkdir(parents=True)
        (tmp_path / root / "peakgate.toml").write_text("")
        (tmp_path / root / "kernels" / "one" / "family.py").write_text(FAMILY_FILE.format(name=root))
    for root in ("first", "second", "first"):
        monkeypatch.chdir(tmp_path / root)
        assert [family.name for family in catalogue.families()] == [root]


def test_two_families_of_one_name_are_refused_with_both_files(project):
    project("one", FAMILY_FILE.format(name="twin"))
    project("other", FAMILY_FILE.format(name="twin"))
    with refuses(Code.FAMILY, r"one.family\.py .* .*other.family\.py"):
        catalogue.families()


def test_a_family_that_is_none_is_refused(project):
    project("one", "FAMILY = 'transpose'\n")
    with refuses(Code.FAMILY):
        catalogue.families()


def test_a_mistake_in_a_sibling_is_named_with_its_line(project):
    (project("one") / "names.py").write_text("\n1 / 0\n")
    project("one", "from .names import NAME\n")
    with pytest.raises(PeakgateError, match=r"names\.py:2: ZeroDivisionError"):
        catalogue.families()


KERNEL_FILE = """
from peakgate.family import In, Out, Value, kernel
FAMILY = kernel("scale.cu", arguments=lambda n: [Out(n), In(n), Value(n)], grid=lambda n: n, block=32,
                bytes=lambda n: 8 * n, reference=lambda xp, x: x, sizes={sizes}, small_sizes={small}, edges=[1])
"""


@pytest.mark.parametrize(
    ("sizes", "small"), [("range(1, 10**9)", "range(1, 10**9)"), ("[1]", "[1]")], ids=["endless", "one"]
)
def test_sizes_without_end_are_refused_and_not_waited_for(project, monkeypatch, sizes, small):
    monkeypatch.setattr("peakgate.spec.sweep.MOST_FAMILY_CASES", 10)
    monkeypatch.setattr(catalogue, "MOST_FAMILY_CASES", 10)
    project("scale", KERNEL_FILE.format(sizes=sizes, small=small), scale="")
    for scale in Scale:
        refused = catalogue.described(scale).refused
        assert len(refused) == (sizes != "[1]")


def test_a_source_whose_name_no_file_can_have_is_refused(project):
    project("scale", KERNEL_FILE.format(sizes="[1]", small="[1]").replace("scale.cu", "x" * 300))
    assert len(catalogue.described(Scale.BENCH).refused) == 1


UNTIMED = {"hgemm.tcgen05", "hgemm.tcgen05_overlapped", "hgemm.tcgen05_pairs"}
NOT_IN_THE_GATE = {"transpose.smem_rectangular", *UNTIMED}
"""A table of paddings, for the record: its work is that of smem_pad, which the gate has. Those for Blackwell were on no
GPU."""


def test_the_gate_covers_every_stage_but_roofs_of_tensor_cores():
    whole, gate = catalogue.cases(Scale.BENCH), catalogue.cases(Scale.BENCH, Tier.GATE)
    assert {case.id for case in gate} < {case.id for case in whole}
    left_out = {case.stage for case in whole if case.stage.host_bound or (case.family == "roof" and case.work.math)}
    left_out |= {case.stage for case in whole if f"{case.family}.{case.stage.name}" in NOT_IN_THE_GATE}
    assert {case.stage for case in gate} == {case.stage for case in whole} - left_out


def test_the_gate_stays_small_enough_for_every_merge():
    assert len(catalogue.cases(Scale.BENCH, Tier.GATE)) <= 250


def test_every_case_has_probes_of_its_own_build():
    for case in catalogue.cases(Scale.SMALL):
        for probe in catalogue.probes(case):
            assert (probe.stage, probe.defines) == (case.stage, case.defines)


@pytest.mark.parametrize(
    ("expression", "chosen"),
    [
        ("", {"t.smem-64", "t.smem_pad-64", "s.naive-8"}),
        ("SMEM", {"t.smem-64", "t.smem_pad-64"}),
        ("smem and not pad", {"t.smem-64"}),
        ("not smem or pad", {"t.smem_pad-64", "s.naive-8"}),
        ("not (smem or naive)", set()),
        ("naive-8 or smem and pad", {"t.smem_pad-64", "s.naive-8"}),
    ],
)
def test_what_k_selects_is_what_pytest_would(expression, chosen):
    assert {name for name in ("t.smem-64", "t.smem_pad-64", "s.naive-8") if selector(expression)(name)} == chosen


@pytest.mark.parametrize(
    ("expression", "place"),
    [("smem or", "at its end"), ("(smem", "at its end"), ("smem pad", "before pad"), ("and pad", "before and pad")],
)
def test_an_expression_that_is_none_is_bad_input_everywhere(expression, place, capsys):
    for verb in ("check", "inspect mutants", "inspect sanitize", "inspect resources"):
        assert main([*verb.split(), "-k", expression]) == 2
        reported = capsys.readouterr().err
        assert f"[{Code.OPTION}]" in reported
        assert place in reported


@pytest.mark.parametrize("name", ["skewed", "scale.skewed", "other.skewed", "scale.cu"])
def test_an_unlisted_kernel_file_is_named_where_it_is_selected(project, name):
    project("scale", KERNEL_FILE.format(sizes="[1]", small="[1]"), **{"scale": "", "17_skewed": ""})
    with refuses(Code.SELECTION) as unknown:
        catalogue.described_problems(name)
    assert ("kernels/scale/17_skewed.cu" in str(unknown.value)) is (name in ("skewed", "scale.skewed"))


def test_a_stage_without_its_file_is_an_entry_for_each_case(project, capsys, tmp_path):
    project("scale", KERNEL_FILE.format(sizes="[1]", small="[1, 2, 3]"))
    assert main(["check", "--jobs", "1", "--out", str(tmp_path)]) == 3
    said = [line for line in capsys.readouterr().out.splitlines() if f"[{Code.FAMILY}]" in line]
    kernels = json.loads((tmp_path / "check.json").read_text())["kernels"]
    assert (len(said), sum(bool(each["not_checked"]) for each in kernels)) == (1, 3)


WITH_A_LAMBDA = """
from pathlib import Path
from peakgate.case import Buffer, Case, Family, Launch, Role, Stage, Work

STAGE = Stage("twice", "", Path(__file__).with_name("twice.cu"))

def cases(scale):
    for size in (8, 16):
        yield case_of(size, size // 8)

def edges(case):
    yield case_of(8, 1, "edge")
    yield case_of(8, 2, "other")

def case_of(size, value, variant=""):
    filled = Buffer(Role.IN, (size,), data=lambda xp, shape: xp.full(shape, value))
    launch = Launch((1, 1, 1), (size, 1, 1))
    return Case("one", STAGE, launch, (filled, Buffer(Role.OUT, (size,))), Work(0), lambda xp, inputs: [inputs[0]],
                size=str(size), variant=variant)

FAMILY = Family("one", "synthetic", (STAGE,), cases, edges)
"""


@pytest.mark.parametrize(
    ("before", "after"), [("In(n)", 'In(n, data="gone.npy")'), ("lambda xp, x: 2 * x", '"gone.npy"')]
)
def test_a_missing_saved_array_that_leaves_no_problem_is_named(project, before, after):
    text = (Path(catalogue.__file__).parents[1] / "templates" / "family.py").read_text()
    project("scale", text.replace(before, after), scale="")
    found = catalogue.described_problems()
    assert found.cases == []
    assert ["gone.npy" in each.reason for each in found.refused] == [True]


def test_inputs_from_a_lambda_make_one_problem(project):
    project("one", WITH_A_LAMBDA, twice="__global__ void twice(float* in, float* out) {}")
    problems = catalogue.problems()
    assert sorted((problem.size, problem.variant) for problem in problems) == [("16", ""), ("8", ""), ("8", "other")]


@pytest.mark.parametrize(
    ("module", "name"), [("peakgate.judge.occupancy", "KIB"), ("peakgate.judge.occupancy", "max_potential_block_size")]
)
def test_what_families_of_earlier_commits_import_stays(module, name):
    """Besides peakgate.family: without it ``ab``, ``history`` and ``bisect`` find no case of these commits."""
    assert hasattr(importlib.import_module(module), name)
