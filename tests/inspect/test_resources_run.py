"""The static resource gate from kernel to exit code, on one tiny kernel family."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import sarif
from expecting import refuses
from synthetic_cases import make_case

from peakgate.base.errors import Code
from peakgate.base.verdict import ExitCode
from peakgate.inspect.resources import baseline, command
from peakgate.inspect.resources.baseline import BuildTarget
from peakgate.inspect.resources.survey import builds, survey
from peakgate.spec import catalogue
from peakgate.spec.case import Launch, Stage, Tier

pytest.importorskip("cuda.bindings", reason="NVRTC is not installed: the extra nvrtc, cuda12 or cuda13")

LEAN = 'extern "C" __global__ void tiny(float* out) { out[threadIdx.x] = 1.0f; }\n'
SHARED_HUNGRY = """extern "C" __global__ void tiny(float* out) {
    __shared__ float tile[8192];
    tile[threadIdx.x] = out[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = tile[out[0] > 0 ? threadIdx.x ^ 1 : 7];
}
"""
TENSOR_MEMORY = """extern "C" __global__ void tiny(float* out) {
    __shared__ unsigned at;
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 256;"
                 ::"r"((unsigned)__cvta_generic_to_shared(&at)) : "memory");
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 256;"::"r"(at));
}
"""
BROKEN = 'extern "C" __global__ void tiny(float* out)\n{\n    out[0] = missing;\n}\n'


@pytest.fixture
def source(tmp_path, monkeypatch):
    """The kernel file of a catalogue with one case; every command runs in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "peakgate.toml").write_text('baselines = "."')
    path = tmp_path / "tiny.cu"
    path.write_text(LEAN)
    stage = Stage("tiny", "is tiny", source=path, min_capability=(9, 0))
    case = make_case(stage=stage, launch=Launch((1, 1, 1), (256, 1, 1)))
    monkeypatch.setattr(catalogue, "cases", lambda scale, tier=Tier.FULL: [case])
    return path


def found(folder):
    """Kernel, kind and architectures of each finding of the verdict."""
    verdict = json.loads((folder / "out" / "resources.json").read_text())
    return [(each["kernel"], each["kind"], list(each["architectures"])) for each in verdict["findings"]]


def run(*arguments):
    return command.main("inspect resources", ["--out", "out", "--jobs", "1", *arguments])


def test_a_survey_takes_what_the_compiler_gives_on_every_architecture_a_stage_runs_on(source):
    found = survey(builds(catalogue.cases(None)))
    assert {target.sm for target in found.usage} == {90, 100, 120}
    taken = found.usage[BuildTarget("synthetic.tiny", 90)]
    assert 0 < taken.resources.registers < 32
    assert taken.occupancy["256"].fraction == 1.0


@pytest.mark.parametrize("capability", [(9, 0), (10, 0), (10, 3), (12, 0)])
def test_a_stage_for_the_features_of_one_architecture_is_compiled_for_that_alone(source, capability):
    (case,) = catalogue.cases(None)
    specific = replace(case, stage=replace(case.stage, specific=True, min_capability=capability))
    major, minor = capability
    assert {target.sm for target in survey(builds([specific])).usage} == {10 * major + minor}
    assert survey(builds([specific]), (80,)).usage == {}


def test_blocks_that_share_tensor_memory_are_said_to(source, monkeypatch, capsys):
    (case,) = catalogue.cases(None)
    said = "of the 8 blocks that fit on an SM, one waits in tcgen05.alloc if each allocates more than 64 of its 512"
    run("--update")
    assert said not in " ".join(capsys.readouterr().out.split())
    source.write_text(TENSOR_MEMORY)
    specific = replace(case, stage=replace(case.stage, specific=True, min_capability=(10, 0)))
    monkeypatch.setattr(catalogue, "cases", lambda scale, tier=Tier.FULL: [specific])
    run("--update")
    assert said in " ".join(capsys.readouterr().out.split())


def test_an_architecture_that_is_not_compiled_for_by_default_can_be_asked_for(source, tmp_path):
    assert run("--update") is ExitCode.OK
    assert run("--architectures", "103") is ExitCode.OK
    assert found(tmp_path) == [("synthetic.tiny", "NEW", [103])]
    assert run() is ExitCode.OK
    assert found(tmp_path) == []


def test_a_baseline_is_written_and_met(source, tmp_path):
    assert run("--update") is ExitCode.OK
    assert found(tmp_path) == [("synthetic.tiny", "NEW", [90, 100, 120])]
    assert run() is ExitCode.OK
    assert found(tmp_path) == []
    assert json.loads((tmp_path / "out" / "resources.json").read_text())["exit_code"] == 0


def test_lost_occupancy_fails_the_gate_and_an_update_accepts_it(source, tmp_path):
    run("--update")
    source.write_text(SHARED_HUNGRY)
    assert run() is ExitCode.REGRESSION
    assert json.loads((tmp_path / "out" / "resources.json").read_text())["exit_code"] == 1
    assert {kind for _, kind, _ in found(tmp_path)} == {"LOST_OCCUPANCY"}
    assert {*sarif.results(tmp_path / "out" / "resources.sarif")} == {("LOST_OCCUPANCY", "error", "tiny.cu", 1)}
    assert run("--update") is ExitCode.OK
    assert run() is ExitCode.OK


def test_only_the_architectures_asked_for_are_compiled_and_compared(source, tmp_path):
    assert run("--update") is ExitCode.OK
    source.write_text(SHARED_HUNGRY)
    assert run("--architectures", "90") is ExitCode.REGRESSION
    assert found(tmp_path) == [("synthetic.tiny", "LOST_OCCUPANCY", [90])]
    assert run("--update", "--architectures", "90") is ExitCode.OK
    assert run("--architectures", "90") is ExitCode.OK
    assert run() is ExitCode.REGRESSION
    assert {sm for _, _, architectures in found(tmp_path) for sm in architectures} == {100, 120}


def test_a_new_baseline_of_some_architectures_is_all_that_is_compiled_later(source, tmp_path):
    assert run("--update", "--architectures", "90", "120") is ExitCode.OK
    assert baseline.read(Path("resources.json")).architectures == (90, 120)
    source.write_text(SHARED_HUNGRY)
    assert run() is ExitCode.REGRESSION
    assert {sm for _, _, architectures in found(tmp_path) for sm in architectures} == {90, 120}
    assert run("--update") is ExitCode.OK
    assert {target.sm for target in baseline.read(Path("resources.json")).usage} == {90, 120}


def test_builds_that_compile_are_written_beside_one_that_does_not(source, tmp_path, monkeypatch):
    (case,) = catalogue.cases(None)
    wide = replace(case, defines=(("WIDE", "1"),), variant="wide")
    monkeypatch.setattr(catalogue, "cases", lambda scale, tier=Tier.FULL: [case, wide])
    source.write_text("#ifdef WIDE\n" + BROKEN + "#else\n" + LEAN + "#endif\n")
    assert run("--update") is ExitCode.REGRESSION
    assert {target.kernel for target in baseline.read(Path("resources.json")).usage} == {"synthetic.tiny"}


def test_a_missing_baseline_is_bad_input_and_not_a_pass(source):
    with refuses(Code.UNREADABLE):
        run()


def test_no_baseline_is_written_where_nothing_compiles(source, tmp_path):
    source.write_text(BROKEN)
    assert run("--update") is ExitCode.REGRESSION
    assert not Path("resources.json").exists()


def test_a_build_outside_the_gate_is_held_to_the_baseline_by_the_full_tier_alone(source, tmp_path, monkeypatch):
    (gated,) = catalogue.cases(None)
    wide = replace(gated, defines=(("WIDE", "1"),), variant="wide")
    monkeypatch.setattr(catalogue, "cases", lambda scale, tier=Tier.FULL: [gated, wide][: 1 + (tier is Tier.FULL)])
    assert run("--update") is ExitCode.OK
    source.write_text("#ifdef WIDE\n" + SHARED_HUNGRY + "#else\n" + LEAN + "#endif\n")
    assert run() is ExitCode.OK
    assert found(tmp_path) == []
    assert run("--tier", "full") is ExitCode.REGRESSION
    assert found(tmp_path)[0] == ("synthetic.tiny+WIDE=1", "LOST_OCCUPANCY", [90, 100])


def test_k_compares_and_updates_the_chosen_builds_alone(source, tmp_path, monkeypatch):
    (case,) = catalogue.cases(None)
    wide = replace(case, defines=(("WIDE", "1"),), variant="wide")
    monkeypatch.setattr(catalogue, "cases", lambda scale, tier=Tier.FULL: [case, wide])
    path = tmp_path / "resources.json"
    assert run("--update", "-k", "wide") is ExitCode.OK
    assert {target.kernel for target in baseline.read(path).usage} == {"synthetic.tiny+WIDE=1"}
    path.write_text("{")
    with refuses(Code.MALFORMED):
        run("--update", "-k", "wide")
    assert run("--update") is ExitCode.OK
    gone = path.read_text().replace('"synthetic.tiny"', '"synthetic.gone"')
    path.write_text(gone)
    source.write_text(SHARED_HUNGRY)
    assert run("-k", "wide and tiny") is ExitCode.REGRESSION
    assert found(tmp_path)[0] == ("synthetic.tiny+WIDE=1", "LOST_OCCUPANCY", [90, 100])
    assert not {kind for _, kind, _ in found(tmp_path)} & {"REMOVED", "NEW"}
    assert run("--update", "-k", "wide") is ExitCode.OK
    assert run("-k", "wide") is ExitCode.OK
    before, after = (json.loads(text)["kernels"] for text in (gone, path.read_text()))
    assert after["synthetic.gone"] == before["synthetic.gone"]
    assert after["synthetic.tiny+WIDE=1"] != before["synthetic.tiny+WIDE=1"]
    with refuses(Code.SELECTION, "-k 'narrow'"):
        run("-k", "narrow")


def test_what_the_compiler_gives_otherwise_by_luck_is_said_and_does_not_fail(source, tmp_path, monkeypatch):
    run("--update")
    lean = baseline.read(Path("resources.json")).usage
    source.write_text(SHARED_HUNGRY)
    tries = []

    def by_luck(made, sm):
        tries.append(sm)
        return lean[BuildTarget(made.kernel, sm)] if len(tries) % 3 == 0 else None

    monkeypatch.setattr(command, "usage_anew", by_luck)
    assert run() is ExitCode.OK
    assert {kind for _, kind, _ in found(tmp_path)} == {"VARIES"}
    assert len(tries) == 9


def test_what_differs_at_every_attempt_is_the_kernels(source, tmp_path, monkeypatch):
    run("--update")
    source.write_text(SHARED_HUNGRY)
    tries = []
    monkeypatch.setattr(command, "usage_anew", lambda made, sm: tries.append(sm))
    assert run() is ExitCode.REGRESSION
    assert len(tries) == 3 * command.COMPILATIONS
    monkeypatch.setattr(command, "MOST_BY_LUCK", 2)
    assert run() is ExitCode.REGRESSION
    assert len(tries) == 3 * command.COMPILATIONS
    assert "VARIES" not in {kind for _, kind, _ in found(tmp_path)}


def test_a_kernel_that_stops_compiling_fails_and_cannot_be_written_away(source, tmp_path):
    run("--update")
    kept = (tmp_path / "resources.json").read_text()
    source.write_text(BROKEN)
    assert run() is ExitCode.REGRESSION
    assert {kind for _, kind, _ in found(tmp_path)} == {"NOT_COMPILING"}
    assert run("--update") is ExitCode.REGRESSION
    assert (tmp_path / "resources.json").read_text() == kept


def test_a_baseline_of_another_compiler_leaves_it_undecided_and_still_lists_what_moved(source, tmp_path):
    run("--update")
    path = tmp_path / "resources.json"
    path.write_text(path.read_text().replace('"nvrtc": "', '"nvrtc": "1.'))
    source.write_text(SHARED_HUNGRY)
    assert run() is ExitCode.UNDECIDED
    assert json.loads((tmp_path / "out" / "resources.json").read_text())["incomparable"]
    assert "LOST_OCCUPANCY" in {kind for _, kind, _ in found(tmp_path)}
    kept = path.read_text()
    assert run("--update", "-k", "tiny") is ExitCode.UNDECIDED
    assert path.read_text() == kept


def test_fewer_than_one_process_is_refused(source):
    with refuses(Code.OPTION):
        command.main("inspect resources", ["--jobs", "0"])
