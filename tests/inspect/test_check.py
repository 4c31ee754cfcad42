"""The command as a user starts it: what it prints, what it exits with, what it leaves."""

import json
import re

import pytest
import sarif
from expecting import refuses

from peakgate.base.errors import Code, PeakgateError
from peakgate.inspect import check as check_verb
from peakgate.inspect import mutants, workers
from peakgate.judge import waivers

KERNEL = """
extern "C" __global__ void mine(float* out, const float* in, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = %s;
}
"""
FAMILY = """
from pathlib import Path
from peakgate.case import Buffer, Case, Family, Launch, Role, Scalar, Stage, Work
STAGE = Stage("mine", "a copy", Path(__file__).with_name("mine.cu"))
def cases(scale):
    arguments = (Buffer(Role.OUT, (100,)), Buffer(Role.IN, (100,)), Scalar(100, "int32"))
    yield Case("own", STAGE, Launch((2, 1, 1), (64, 1, 1)), arguments, Work(800), lambda xp, inputs: inputs)
FAMILY = Family("own", "a kernel of one's own", (STAGE,), cases, lambda case: ())
"""


@pytest.fixture
def check(tmp_path, capsys):
    """Run the command on a kernel; its exit code, what it printed, the verdict it left."""

    def run(*arguments, verb="check"):
        main = {"check": check_verb.main, "inspect mutants": mutants.main}[verb]
        code = main(verb, [*arguments, f"--out={tmp_path}", "--jobs=1"])
        return code, capsys.readouterr().out, json.loads((tmp_path / f"{verb.split()[-1]}.json").read_text())

    return run


@pytest.fixture
def mine(tmp_path):
    def write(expression, family=FAMILY):
        (tmp_path / "mine.cu").write_text(KERNEL % expression)
        (tmp_path / "family.py").write_text(family)
        return str(tmp_path / "family.py")

    return write


def test_a_kernel_of_ones_own_that_is_right_exits_0(check, mine):
    code, _, verdict = check(mine("in[i]"))
    assert code == verdict["exit_code"] == 0
    kernel = verdict["kernels"][0]
    assert (kernel["problems"], kernel["launches"], kernel["defects"]) == (8, 9, [])
    assert verdict["schedules"] == [0, 2]


def test_an_infinite_wrong_result_is_text_in_the_verdict(check, mine):
    code, _, verdict = check(mine("1.0f / 0.0f"))
    assert code == 1
    (defect,) = verdict["kernels"][0]["defects"]
    assert defect["values"]["found"] == defect["values"]["largest_difference"] == "inf"


def test_a_reference_of_one_number_leaves_a_kernel_unchecked(check, mine):
    constant = FAMILY.replace("lambda xp, inputs: inputs)", "lambda xp, inputs: [xp.full(100, 7.0)])")
    code, _, verdict = check(mine("7.0f", constant))
    assert code == 3
    assert verdict["kernels"][0]["defects"] == []


WITHOUT_REFERENCE = FAMILY.replace("lambda xp, inputs: inputs)", "None)")


@pytest.mark.parametrize("expression", ["in[i]", "7.0f"])
def test_without_a_reference_a_kernel_is_never_called_right(check, mine, expression):
    code, said, verdict = check(mine(expression, WITHOUT_REFERENCE))
    assert code == 0
    assert verdict["kernels"][0]["unchecked"]
    assert re.search(r"^RAN +own\.mine$", said, re.MULTILINE)
    assert "1 RAN" in said.splitlines()[-2]


def test_a_kernel_that_accesses_nothing_is_not_checked(check, mine, tmp_path):
    family = mine("in[i]", WITHOUT_REFERENCE.replace("Role.OUT", "Role.INOUT"))
    (tmp_path / "mine.cu").write_text((KERNEL % "in[i]").replace("i < n", "blockDim.y > 1"))
    code, said, verdict = check(family)
    assert code == 3, said
    assert "accesses no memory" in verdict["kernels"][0]["not_checked"]
    assert not verdict["kernels"][0]["unchecked"]


@pytest.mark.parametrize(("expression", "kind"), [("in[i + 1]", "out of bounds"), ("in[0]; out[0] = i", "global race")])
def test_without_a_reference_its_defects_are_found(check, mine, expression, kind):
    code, said, verdict = check(mine(expression, WITHOUT_REFERENCE))
    assert code == 1
    assert kind in [each["kind"] for each in verdict["kernels"][0]["defects"]]
    assert "1 RAN" in said


def test_a_folder_is_checked_by_its_family(check, mine, tmp_path):
    mine("in[i]")
    code, _, verdict = check(str(tmp_path))
    assert (code, [kernel["kernel"] for kernel in verdict["kernels"]]) == (0, ["own.mine"])


def test_a_file_that_no_family_names_is_reported(check, tmp_path, monkeypatch):
    folder = tmp_path / "kernels" / "own"
    folder.mkdir(parents=True)
    (tmp_path / "peakgate.toml").touch()
    (folder / "mine.cu").write_text(KERNEL % "in[i]")
    (folder / ".cache").mkdir()
    for other in ("other.cu", ".cache/kept.cu"):
        (folder / other).write_text(KERNEL % "in[i]")
    (folder / "family.py").write_text(FAMILY)
    monkeypatch.chdir(tmp_path)
    code, _, verdict = check("kernels")
    assert code == 0
    assert [note.partition(":")[0] for note in verdict["notes"] if ".cu" in note] == ["kernels/own/other.cu"]


def test_an_access_out_of_bounds_exits_1_and_names_line_thread_and_block(check, mine, golden, tmp_path):
    code, said, verdict = check(mine("in[i + 1]"))
    assert code == 1
    golden("check-run.txt", re.sub(r"\(\d+ s\)|(?<= )/\S+/", "", said))
    (defect,) = verdict["kernels"][0]["defects"]
    assert (defect["kind"], defect["where"], defect["launches"]) == ("out of bounds", "mine.cu:4", 1)
    kernel = (tmp_path / "mine.cu").as_uri()  # outside of the project
    assert sarif.results(tmp_path / "check.sarif") == [("out-of-bounds", "error", kernel, 4)]
    assert (tmp_path / "check.toml").read_text().count("[[defect]]") == 1  # the entry to accept it


def test_a_kernel_that_the_emulator_cannot_compile_exits_3_and_names_the_line(check, mine, tmp_path):
    code, _, verdict = check(mine("no_such_thing"))
    assert code == 3
    assert verdict["kernels"][0]["not_checked"].startswith("mine.cu:4: ")
    kernel = (tmp_path / "mine.cu").as_uri()
    assert sarif.results(tmp_path / "check.sarif") == [("not-checked", "warning", kernel, 2)]


def test_arguments_that_do_not_fit_the_kernel_leave_it_undecided(check, mine):
    code, _, verdict = check(mine("in[i]", FAMILY.replace("int32", "float64")))
    assert code == 3
    assert 'Value(..., "int32")' in verdict["kernels"][0]["not_checked"]
    assert verdict["kernels"][0]["not_checked"].endswith(f"[{Code.ARGUMENTS}]")


def test_without_a_compiler_the_check_exits_3_and_says_what_to_install(check, mine, tmp_path, monkeypatch):
    def none():
        raise PeakgateError("no compiler", Code.INSTALLATION)

    monkeypatch.setattr(check_verb, "find_compiler", none)
    code, said, verdict = check(mine("in[i]"))
    assert code == verdict["exit_code"] == 3
    assert verdict["reason"] == f"no compiler [{Code.INSTALLATION}]"
    assert verdict["reason"] in said
    assert [result[:2] for result in sarif.results(tmp_path / "check.sarif")] == [("not-checked", "warning")]


def test_a_kernel_that_has_not_ended_at_its_limit_names_the_line(check, mine, tmp_path, monkeypatch):
    (tmp_path / "peakgate.toml").write_text("emulation_timeout_s = 0.4")  # 0.05 s may pass before its start
    monkeypatch.chdir(tmp_path)
    endless = mine("0; for (long long k = 0; k < 1ll << 40; ++k) out[i] += in[i]")
    code, _, verdict = check(endless)
    assert code == verdict["exit_code"] == 3
    (kernel,) = verdict["kernels"]
    assert (kernel["defects"], kernel["launches"]) == ([], 0)
    assert "mine.cu:4: " in kernel["not_checked"]
    assert kernel["not_checked"].endswith(f"[{Code.UNENDED}]")


def test_a_reference_without_an_end_exits_3_and_is_no_death(check, mine, monkeypatch):
    monkeypatch.setattr(check_verb, "BUILD_LIMIT_S", 0.3)
    monkeypatch.setattr(check_verb, "processor_limit_s", lambda launch, timeout_s: 0.0)
    endless = FAMILY.replace("lambda xp, inputs: inputs", "lambda xp, inputs: any(iter(int, 1))")
    code, _, verdict = check(mine("in[i]", endless))
    assert code == verdict["exit_code"] == 3
    assert "of processor time" in verdict["kernels"][0]["not_checked"]


@pytest.mark.parametrize(("ended", "expected"), [(False, 0), (True, 3)])
def test_a_mutant_whose_process_was_ended_is_not_decided(check, tmp_path, monkeypatch, ended, expected):
    def ends(tasks, jobs):
        for number, _ in enumerate(tasks):
            yield number, workers.Died("a problem", "its process ended", ended=ended)

    monkeypatch.setattr(mutants.workers, "run", ends)
    monkeypatch.setattr(mutants.waivers, "read", lambda path: waivers.Waivers())
    code, _, verdict = check("-k", "access.shared_tile_row_row", verb="inspect mutants")
    assert code == verdict["exit_code"] == expected
    assert len(verdict["not_decided"]) == (3 if ended else 0)
    found = {result[:3] for result in sarif.results(tmp_path / "mutants.sarif")}
    assert found == ({("not-checked", "warning", "kernels/access/07_shared_tile_row_row.cu")} if ended else set())


def test_a_stage_of_the_catalogue_is_checked_by_its_name(check):
    code, said, verdict = check("-k", "transpose.COPY_row and not 8192")
    assert code == 0
    assert [kernel["kernel"] for kernel in verdict["kernels"]] == ["transpose.copy_row"]
    assert "1 kernel, " in said


def test_the_mutants_of_a_stage_are_run_and_its_known_survivor_is_no_complaint(check):
    code, _, verdict = check("-k", "access.shared_tile_row_row", verb="inspect mutants")
    assert code == verdict["exit_code"] == 0
    assert [mutant["caught_by"] is None for mutant in verdict["mutants"]] == [False, True, False]


def test_mutants_listed_as_survivors_are_skipped_where_asked_and_counted(check):
    code, said, verdict = check("-k", "access.shared_tile_row_row", "--skip-listed", verb="inspect mutants")
    assert code == verdict["exit_code"] == 0
    assert "skipped: 1 mutant" in said
    assert [mutant["caught_by"] is None for mutant in verdict["mutants"]] == [False, False]


def test_a_survivor_without_a_reason_exits_1_with_an_entry_to_copy(check, monkeypatch, golden):
    monkeypatch.setattr(mutants.waivers, "read", lambda path: waivers.Waivers())
    code, said, verdict = check("-k", "access.shared_tile_row_row", verb="inspect mutants")
    assert code == 1
    golden("mutants.txt", re.sub(r"\(\d+ s\)|(?<= )/\S+/", "", said))
    assert len(verdict["complaints"]) == 1


@pytest.mark.parametrize("arguments", [["--schedules", "0"], ["--jobs", "0"], ["--search", "-1"]])
def test_arguments_that_make_no_sense_exit_2(arguments):
    with refuses(Code.OPTION):
        check_verb.main("check", arguments)


@pytest.mark.parametrize("option", ["family.py", "--isolate", "--html=x", "--search=1", "--schedules=3", "--json"])
def test_mutants_takes_and_lists_no_option_of_check_alone(option, capsys):
    with refuses(Code.OPTION):
        mutants.main("inspect mutants", [option])
    with pytest.raises(SystemExit):
        mutants.main("inspect mutants", ["--help"])
    assert option.partition("=")[0] not in capsys.readouterr().out


def test_kernels_without_a_barrier_or_a_guard_are_bad_input_of_mutants(project):
    project("own", FAMILY, mine="__global__ void mine(float* out, const float* in, int n) { out[0] = in[0]; }")
    with refuses(Code.SOURCE):
        mutants.main("inspect mutants", ["--jobs", "1"])
