"""The catalogue of slowdowns fits today's kernels: each text stands once, each mutant is code of its own and right."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from peakgate.build.cubin import cubin
from peakgate.case import Case, Scale, Tier
from peakgate.check.lane import check_case, schedules
from peakgate.common.errors import PeakgateError
from peakgate.project import catalogue
from peakgate.project.problems import problems
from peakgate.reports.planted import apply
from peakgate.verdict import ExitCode

KERNELS = Path(__file__).parents[2] / "kernels"

CATALOGUE = apply.read()
CHECKED = ("copy_float4_x4-neighbours-a-thread", "soa_one-threads-down-columns", "group_split-half-the-sums")
"""One from roof, one from access and one from sgemm whose threads, indices or tiles are others; all are checked by hand
with `peakgate check` in the mutated tree."""

ENTRY = """
[[mutant]]
name = "{name}"
file = "roof/copy_float.cu"
reason = "none"
[[mutant.edit]]
old = '''{old}'''
new = '''{new}'''
"""


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


def one(old: str, new: str = "no such text", name: str = "one") -> apply.Mutant:
    return apply.Mutant(name, "roof/copy_float.cu", "none", (apply.Edit(old, new),))


def listing(folder: Path, *entries: str) -> Path:
    path = folder / "mutants.toml"
    path.write_text("\n".join(entries))
    return path


def names(of: dict[str, tuple[Case, ...]]) -> Iterator[tuple[str, str]]:
    for name, cases in of.items():
        yield from ((name, stage) for stage in apply.stages(cases))


def test_every_mutant_fits_the_kernels_and_is_refused_a_second_time(tree: Path) -> None:
    apply.apply(tree, CATALOGUE)
    for mutant in CATALOGUE:
        text = (tree / "kernels" / mutant.file).read_text()
        assert text != (KERNELS / mutant.file).read_text()
        with pytest.raises(PeakgateError, match="is in the file already"):
            apply.mutated(text, mutant)


def test_there_are_enough_in_every_family_and_kernels_left_to_be_left_alone(gate: list[Case]) -> None:
    found = apply.described(CATALOGUE, gate)
    assert len(CATALOGUE) >= 28
    assert {mutant.file.split("/")[0] for mutant in CATALOGUE} == {case.family for case in gate}
    assert len({stage for entry in found["mutants"].values() for stage in entry["stages"]}) == len(CATALOGUE)
    untouched = {case.split("-")[0] for case in found["untouched"]}
    assert len(untouched) >= 16


def test_every_mutant_touches_one_stage_with_a_gate_case_and_no_stage_has_two(gate: list[Case]) -> None:
    of_mutant = apply.touched(CATALOGUE, gate)
    assert all(of_mutant.values())
    pairs = list(names(of_mutant))
    assert len({stage for _, stage in pairs}) == len(pairs) == len(CATALOGUE)


def test_a_mutant_of_a_header_touches_every_stage_that_includes_it(gate: list[Case]) -> None:
    header = replace(one("x"), file="common/swizzled_tile.cuh")
    cases = apply.touched([header], gate)["one"]
    assert apply.stages(cases) == ["transpose.swizzled", "transpose.ordered", "transpose.hinted"]


def test_every_mutant_is_machine_code_of_its_own(tree: Path, gate: list[Case]) -> None:
    pytest.importorskip("cuda.bindings", reason="NVRTC is not installed: dependency group nvrtc, cuda12 or cuda13")
    apply.apply(tree, CATALOGUE)
    first = {name: cases[0] for name, cases in apply.touched(CATALOGUE, gate).items()}
    builds = [*first.values(), *(within(tree, case) for case in first.values())]
    with ThreadPoolExecutor() as pool:
        prints = list(pool.map(lambda case: cubin(case.stage, case.defines, (9, 0)).fingerprint, builds))
    plain, mutated = prints[: len(first)], prints[len(first) :]
    assert [name for name, a, b in zip(first, plain, mutated, strict=True) if a == b] == []


@pytest.mark.parametrize("name", CHECKED)
def test_a_mutant_is_right(name: str, tree: Path) -> None:
    (mutant,) = apply.chosen(CATALOGUE, [name])
    apply.apply(tree, [mutant])
    small = next(iter(apply.touched([mutant], problems("")).values()))
    assert len(small) > 3
    for case in small:
        assert check_case(within(tree, case), schedules(1)) == [[]], case.id


@pytest.mark.parametrize(
    ("old", "message"), [("nowhere", "stands there 0 times"), ("size_t", r"stands there \d+ times, expected once")]
)
def test_a_text_that_does_not_stand_there_once_is_an_error_and_nothing_is_written(
    old: str, message: str, tree: Path
) -> None:
    with pytest.raises(PeakgateError, match=message):
        apply.apply(tree, [CATALOGUE[0], one(old)])
    file = CATALOGUE[0].file
    assert (tree / "kernels" / file).read_text() == (KERNELS / file).read_text()


def test_the_tree_that_the_command_runs_from_is_never_changed() -> None:
    with pytest.raises(PeakgateError, match="expected a copy of it"):
        apply.apply(KERNELS.parent, CATALOGUE)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (('[[mutants]]\nname = "a"',), "unknown key 'mutants'"),
        (('[[mutant]]\nname = "a"\nkind = "b"',), "mutant 1: unknown key 'kind'"),
        (('[[mutant]]\nname = "a"\nfile = ""',), "mutant 1: file is ''"),
        (('[[mutant]]\nname = "a"\nfile = "b"\nreason = "c"',), "mutant 1: changes nothing"),
        ((ENTRY.format(name="a", old="x", new="x"),), "mutant 1: an edit"),
        (('[mutant]\nname = "a"',), r"expected \[\[mutant\]\] entries"),
        (('[[mutant]]\nname = "a"\nfile = "b"\nreason = "c"\nedit = "d"',), "mutant 1: changes nothing"),
        (('[[mutant]]\nname = "a"\nfile = "b"\nreason = "c"\n[[mutant.edit]]\nold = 1\nnew = 2',), "expected texts"),
        (
            (ENTRY.format(name="a", old="x", new="y"), ENTRY.format(name="a", old="x", new="y")),
            "name 'a' is used twice",
        ),
        ((ENTRY.format(name="a", old="x", new="y"), ENTRY.format(name="b", old="x", new="y")), "is used twice"),
        (("name = ",), "in TOML"),
    ],
)
def test_a_mistake_in_the_list_is_named(entries: tuple[str, ...], message: str, tmp_path: Path) -> None:
    with pytest.raises(PeakgateError, match=message):
        apply.read(listing(tmp_path, *entries))


def test_the_command_writes_the_chosen_and_tells_what_they_touch(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert apply.main([str(tree), "--only", "soa_one-threads-down-columns", "--json"]) is ExitCode.OK
    found = json.loads(capsys.readouterr().out)
    assert found["mutants"]["soa_one-threads-down-columns"]["stages"] == ["access.soa_one"]
    assert found["mutants"]["soa_one-threads-down-columns"]["cases"] == ["access.soa_one-f32"]
    assert "access.soa_one-f32" not in found["untouched"]
    assert "roof.memcpy-1GiB" in found["untouched"]
    changed = [path for path in KERNELS.rglob("*.cu") if path.read_text() != within_kernels(tree, path).read_text()]
    assert changed == [KERNELS / "access" / "soa_one.cu"]


def within_kernels(tree: Path, path: Path) -> Path:
    return tree / "kernels" / path.relative_to(KERNELS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{tree}", "--only", "nobody"], "no mutant is named 'nobody'"),
        (["{tree}/kernels"], "no folder kernels in it"),
    ],
)
def test_a_mistake_at_the_command_is_one_line(
    arguments: list[str], message: str, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert apply.main([argument.format(tree=tree) for argument in arguments]) is ExitCode.BAD_INPUT
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""


def test_a_mutated_tree_is_told_from_one_that_does_not_fit(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert apply.main([str(tree)]) is ExitCode.OK
    assert f"{len(CATALOGUE)} mutants" in capsys.readouterr().out
    assert apply.main([str(tree)]) is ExitCode.BAD_INPUT
    assert "is in the file already" in capsys.readouterr().err
