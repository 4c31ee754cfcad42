"""This repository's slowdown mutants fit its kernels: each is new machine code and correct."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from lab.injected import mutants
from lab.injected.mutants import Edit, Mutant
from peakgate.base import config
from peakgate.base.errors import PeakgateError
from peakgate.case import Case, Scale, Tier
from peakgate.compile.cubin import cubin
from peakgate.inspect.emulate import check_case, schedules
from peakgate.spec import catalogue
from peakgate.spec.catalogue import problems

PROJECT = config.current()
KERNELS = PROJECT.kernels
LISTED = mutants.read(mutants.LIST)
CHECKED = ("copy_float4_x4-neighbours-a-thread", "soa_one-threads-down-columns", "group_split-half-the-sums")
"""One of roof, one of access and one of sgemm that change threads, indices or tiles."""

ENTRY = '[[mutant]]\nname="{name}"\nfile="{file}"\nreason="none"\nedit=[{{old="x", new="{new}"}}]\n'


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    shutil.copytree(KERNELS, tmp_path / "kernels", ignore=shutil.ignore_patterns("*.md", "*.svg"))
    return tmp_path


@pytest.fixture(scope="module")
def gate() -> list[Case]:
    return catalogue.cases(Scale.BENCH, Tier.GATE)


def within(tree: Path, case: Case) -> Case:
    """The case with its stage's source taken from the tree."""
    assert case.stage.source is not None
    return replace(case, stage=replace(case.stage, source=tree / "kernels" / case.stage.source.relative_to(KERNELS)))


def one(old: str) -> Mutant:
    return Mutant("one", "roof/01_copy_float.cu", "none", (Edit(old, "no such text"),))


def first_cases(gate: list[Case]) -> dict[str, Case]:
    """The first gate case of each mutant."""
    touched = mutants.touched(LISTED, gate, PROJECT)
    return {name: next(case for case in gate if case.id in cases) for name, cases in touched.items()}


def test_every_mutant_changes_its_file_and_no_altered_copy(tree: Path) -> None:
    mutants.apply(tree, LISTED, PROJECT)
    assert [
        each.name for each in LISTED if (tree / "kernels" / each.file).read_text() == (KERNELS / each.file).read_text()
    ] == []
    with pytest.raises(PeakgateError, match="differs from the project's"):
        mutants.apply(tree, LISTED, PROJECT)


def test_every_family_has_mutants_each_in_one_stage(gate: list[Case]) -> None:
    touched = mutants.touched(LISTED, gate, PROJECT)
    stages = {name: {case.split("-")[0] for case in cases} for name, cases in touched.items()}
    assert all(len(found) == 1 for found in stages.values())
    assert len(set().union(*stages.values())) == len(LISTED) >= 28
    younger = {"attention", "hgemm", "norm", "quantize", "reduce"}  # than the campaign, which was measured on a GPU
    assert {mutant.file.split("/")[0] for mutant in LISTED} == {case.family for case in gate} - younger
    assert len({case.id.split("-")[0] for case in gate} - set().union(*stages.values())) >= 16


def test_a_headers_mutant_touches_every_stage_that_includes_it(gate: list[Case]) -> None:
    touched = mutants.touched([structs.replace(one("x"), file="common/swizzled_tile.cuh")], gate, PROJECT)["one"]
    assert {case.split("-")[0] for case in touched} == {
        f"transpose.{name}" for name in ("swizzled", "ordered", "hinted")
    }


def test_every_mutant_is_new_machine_code(tree: Path, gate: list[Case]) -> None:
    pytest.importorskip("cuda.bindings", reason="NVRTC is not installed: extra nvrtc, cuda12 or cuda13")
    mutants.apply(tree, LISTED, PROJECT)
    first = first_cases(gate)
    builds = [*first.values(), *(within(tree, case) for case in first.values())]
    with ThreadPoolExecutor() as pool:
        prints = list(pool.map(lambda case: cubin(case.stage, case.defines, (9, 0)).fingerprint, builds))
    plain, mutated = prints[: len(first)], prints[len(first) :]
    assert [name for name, a, b in zip(first, plain, mutated, strict=True) if a == b] == []


@pytest.mark.parametrize("name", CHECKED)
def test_a_mutant_is_correct(name: str, tree: Path) -> None:
    listed = [mutant for mutant in LISTED if mutant.name == name]
    mutants.apply(tree, listed, PROJECT)
    cases = problems("")
    touched = mutants.touched(listed, cases, PROJECT)[name]
    small = [case for case in cases if case.id in touched]
    assert len(small) > 3
    for case in small:
        assert check_case(within(tree, case), schedules(1)) == [[]], case.id


def test_rows_are_grouped_by_mutant_the_most_slowed_first() -> None:
    changes = {
        "t.pad-1": ("SLOWER", 5.0),
        "t.pad-2": ("SLOWER", 9.0),
        "t.copy": ("FASTER", -1.0),
        "t.same": ("SAME", None),
    }
    rows = [{"case": case, "verdict": verdict, "change_percent": by} for case, (verdict, by) in changes.items()]
    found = mutants.judged([one("x")], {"one": {"t.pad-1", "t.pad-2", "t.gone"}}, rows)
    assert [row["case"] for row in found["mutants"][0]["cases"]] == ["t.pad-2", "t.pad-1"]
    assert (found["untouched"], [row["case"] for row in found["flagged"]]) == (2, ["t.copy"])


@pytest.mark.parametrize(("old", "count"), [("nowhere", "0"), ("size_t", r"\d+")])
def test_a_text_that_does_not_occur_once_is_an_error(old: str, count: str, tree: Path) -> None:
    with pytest.raises(PeakgateError, match=f"occurs {count} times"):
        mutants.apply(tree, [LISTED[0], one(old)], PROJECT)
    file = LISTED[0].file
    assert (tree / "kernels" / file).read_text() == (KERNELS / file).read_text()


def test_the_project_itself_and_another_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PeakgateError, match="expected a copy of it"):
        mutants.apply(PROJECT.root, LISTED, PROJECT)
    with pytest.raises(PeakgateError, match="cannot be read"):
        mutants.apply(tmp_path, LISTED, PROJECT)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read"),
        ("name = ", "not TOML"),
        ('[[mutants]]\nname = "a"', "mutants is an unknown key"),
        ('mutant = "a"', "expected array"),
        ('[[mutant]]\nname = "a"', "file .* is missing"),
        (ENTRY.format(name="a", file="", new="y"), "expected a text that is not empty"),
        (ENTRY.format(name="a", file="b", new="x"), "changes nothing"),
        (ENTRY.format(name="a", file="b", new="y") + 'more = "z"', "more .* is an unknown key"),
        (ENTRY.format(name="a", file="b", new="y") + ENTRY.format(name="a", file="c", new="y"), "used twice"),
        (ENTRY.format(name="a", file="b", new="y") + ENTRY.format(name="c", file="b", new="y"), "used twice"),
    ],
)
def test_a_mistake_in_the_list_is_named(text: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / mutants.LIST.name
    if text is not None:
        path.write_text(text)
    with pytest.raises(PeakgateError, match=message):
        mutants.read(path)
