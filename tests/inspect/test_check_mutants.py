"""Mutants take away one thing each, only where it is code, and survivors are held to their list."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from emulating import rows
from expecting import refuses
from hypothesis import given
from hypothesis import strategies as st

from peakgate.base.errors import Code
from peakgate.inspect import mutants, mutations
from peakgate.judge import waivers

KERNELS = Path(__file__).parents[2] / "kernels"


def changes(text):
    return [(mutant.change, mutant.applied(text)) for mutant in mutations.mutants("k.cu", text)]


def listed() -> list[list[str]]:
    """Sources, each with its mutants."""
    found: list[list[str]] = []
    for row in rows("mutants.txt"):
        text = re.sub(r"\\(.)", lambda escaped: "\n" if escaped[1] == "n" else escaped[1], row)
        if text.startswith("  => "):
            found[-1].append(text.removeprefix("  => "))
        else:
            found.append([text])
    return found


@pytest.mark.parametrize("listed", listed(), ids=lambda listed: listed[0])
def test_a_barrier_a_guard_or_a_clamp_is_taken_away_and_nothing_else(listed):
    text, *mutated = listed
    assert [applied for _, applied in changes(text)] == mutated


def test_code_behind_the_emulators_part_is_mutated_again():
    text = "#ifdef PEAKGATE_EMULATED\n__syncthreads();\n#endif\n#ifdef OTHER\n__syncwarp();\n#endif\n"
    assert [change for change, _ in changes(text)] == ["without __syncwarp()"]


def test_changes_that_read_the_same_are_counted():
    found = mutations.mutants("k.cu", "  __syncthreads();\n f();\n  __syncthreads();\n")
    assert [mutant.key for mutant in found] == [
        ("k.cu", "__syncthreads();", "without __syncthreads()", 1),
        ("k.cu", "__syncthreads();", "without __syncthreads()", 2),
    ]
    assert [str(mutant) for mutant in found] == ["k.cu:1: without __syncthreads()", "k.cu:3: without __syncthreads()"]


PIECES = st.sampled_from(
    [
        "if (i < n) {",
        "}",
        "__syncthreads();",
        "// i < n\n",
        '"a < b"',
        "x = a < b ? min(a, b) : c;",
        "return;",
        "((",
        ")",
    ]
)


@given(st.lists(PIECES, max_size=12).map(" ".join))
def test_a_mutant_changes_one_stretch_and_no_other_has_its_key(text):
    found = mutations.mutants("k.cu", text)
    assert len({mutant.key for mutant in found}) == len(found)
    for mutant in found:
        applied = mutant.applied(text)
        assert applied != text
        assert applied.startswith(text[: mutant.start])
        assert applied.endswith(text[mutant.stop :])


def test_every_barrier_in_the_kernels_has_a_mutant():
    for path in KERNELS.rglob("*.cu"):
        code = re.sub(r"//[^\n]*", "", path.read_text())
        barriers = len(re.findall(r"__sync(?:threads|warp)\(\)", code))
        named = [
            mutant for mutant in mutations.mutants(path.name, path.read_text()) if "without __sync" in mutant.change
        ]
        assert len(named) == barriers, path


def report(_):
    return None


def test_a_missing_barrier_is_caught_as_a_race_that_names_the_line():
    found, _ = mutants.targets("transpose.smem-128-")
    (barrier,) = [mutant for mutant in found if mutant.file == "transpose/09_smem.cu"]
    caught = mutants.run_mutant(barrier, (0,), report).caught_by
    assert caught is not None
    assert "race" in caught.kind
    assert caught.where is not None


def test_a_header_is_mutated_for_the_stages_that_include_it():
    found, without = mutants.targets("transpose.smem_pad")
    assert {mutant.file for mutant in found} == {"transpose/10_smem_pad.cu", "common/tile.cuh"}
    assert without == {}


def test_a_mutant_of_a_header_is_tried_on_every_stage_that_includes_it_whichever_was_asked_for(monkeypatch):
    found, _ = mutants.targets("sgemm.tiled")
    mutant = next(mutant for mutant in found if mutant.file == "sgemm/tile_access.cuh")
    tried = []
    monkeypatch.setattr(mutants, "check_case", lambda case, orders, access_budget: tried.append(case.stage.name) or [])
    assert mutants.run_mutant(mutant, (0,), report).survived
    assert {"tiled", "vectorized"} <= set(tried)


def test_a_mutant_that_does_not_compile_is_told_apart_from_one_that_is_caught(monkeypatch):
    (guard, *_), _ = mutants.targets("access.shared_tile_row_row")
    stillborn = replace(guard, replacement="no such name")
    monkeypatch.setattr(mutations, "mutants", lambda file, text: [stillborn])
    result = mutants.run_mutant(stillborn, (0,), report)
    assert result.invalid is not None
    assert not result.survived


def test_host_code_and_kernels_of_no_family_have_no_mutants(project):
    kernels = (
        "__global__ void one(float* out, int n) { if (threadIdx.x < n) out[threadIdx.x] = 1; }\n"
        "__global__ void other(float* out, int n) { if (threadIdx.x < n) out[threadIdx.x] = 2; }\n"
        "void host(float* out, int n) { if (n > 3) one<<<1, 32>>>(out, n); }\n"
    )
    family = (
        "from peakgate.family import Out, Scalar, kernel\n"
        "FAMILY = kernel('one.cu', sizes=[40], arguments=lambda n: [Out(n), Scalar(n)], block=64, grid=lambda n: 1,\n"
        "                bytes=lambda n: 4 * n, reference=lambda xp, n: xp.ones(40), small_sizes=[40])\n"
    )
    project("one", family, one=kernels)
    found, _ = mutants.targets()
    assert [(mutant.line, mutant.change) for mutant in found] == [(1, "threadIdx.x < n -> true")]


def at(place):
    """A family of one kernel, without its guard."""
    return (
        "from peakgate.family import Out, kernel\n"
        f"FAMILY = kernel({place!r}, sizes=[32], arguments=lambda n: [Out(n)], block=32, grid=lambda n: 1,\n"
        "                bytes=lambda n: 4 * n, reference=lambda xp: xp.ones(32), edges=[32])\n"
    )


def test_mutants_of_a_source_beside_the_kernels_run(project):
    own = project("one", at("../../source/one.cu")).parents[1] / "source"
    own.mkdir()
    kernel = "__global__ void one(float* out) { if (threadIdx.x < 32) put(out); if (threadIdx.x > 31) out[99] = 1; }"
    (own / "one.cu").write_text(f'#include "part.cuh"\n{kernel}\n')
    (own / "part.cuh").write_text("__device__ void put(float* out) { out[threadIdx.x] = 1; }\n")
    found, without = mutants.targets()
    assert {mutant.file for mutant in found} == {"source/one.cu"}
    assert not without
    results = {each.change: mutants.run_mutant(each, (0,), report) for each in found}
    assert results["threadIdx.x < 32 -> true"].survived
    assert results["threadIdx.x > 31 -> true"].caught_by


def test_a_source_outside_the_project_is_named_as_not_mutated(project, tmp_path_factory):
    source = tmp_path_factory.mktemp("elsewhere") / "one.cu"
    source.write_text("__global__ void one(float* out) { __syncthreads(); out[threadIdx.x] = 1; }")
    project("one", at(str(source)))
    found, without = mutants.targets()
    assert not found
    assert [Path(each).name for each in without] == ["one.cu"]


def test_a_file_that_changes_while_its_mutants_run_is_named():
    (guard, *_), _ = mutants.targets("access.shared_tile_row_row")
    with refuses(Code.CHANGED, r"kernels/access/07_shared_tile_row_row\.cu"):
        mutants.run_mutant(replace(guard, start=guard.start + 1), (0,), report)


BARRIER, OTHER = mutations.mutants("k.cu", "__syncthreads();\n__syncthreads();\n")
LISTED = {BARRIER.key: "nobody shares anything"}


def test_a_survivor_with_a_reason_is_no_complaint():
    assert mutants.complaints([BARRIER], [OTHER], LISTED) == []


@pytest.mark.parametrize(
    ("survived", "caught", "listed", "complaint"),
    [
        ([BARRIER], [], {}, "k.cu:1: without __syncthreads(): survives without a listed reason"),
        ([], [BARRIER], LISTED, "k.cu:1: without __syncthreads(): listed as a survivor, but it is caught"),
        (
            [],
            [OTHER],
            LISTED,
            "k.cu: without __syncthreads() in `__syncthreads();`: listed as a survivor, but there is",
        ),
    ],
)
def test_list_and_survivors_must_be_the_same(survived, caught, listed, complaint):
    (said,) = mutants.complaints(survived, caught, listed)
    assert said.message.startswith(complaint)


def test_an_entry_to_copy_is_read_back_once_it_has_a_reason(tmp_path):
    quoted = replace(OTHER, source=r'f("\n", __syncthreads());')
    path = tmp_path / "waivers.toml"
    path.write_text("\n\n".join(mutants.entry(mutant).replace('""', '"why"') for mutant in (BARRIER, quoted)))
    assert waivers.read(path).survivors == {BARRIER.key: "why", quoted.key: "why"}


def test_every_listed_survivor_is_a_mutant_of_a_kernel():
    known = {
        mutant.key
        for path in KERNELS.rglob("*.cu*")
        for mutant in mutations.mutants(path.relative_to(KERNELS).as_posix(), path.read_text())
    }
    assert waivers.read(KERNELS.parent / "baselines" / waivers.WAIVERS_FILE).survivors.keys() - known == set()
