"""The emulator computes what the GPUs computed: bit by bit where a case asks for equal bits, else within tolerance."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import digests
import numpy as np
import pytest
from digests import Digests, ProblemDigests, SampledOutput, problem_key
from expecting import refuses

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.options import compute_capability
from peakgate.case import Buffer, Case, Launch, Role, Scalar, Stage, Work
from peakgate.device.cpu import CpuDevice
from peakgate.device.interface import Launchable
from peakgate.spec.catalogue import families, kernel_name, problems

RECORDS = sorted((Path(__file__).parents[2] / "baselines").glob("*/digests.json"))
KERNELS = [
    f"{family.name}.{stage.name}" for family in families() for stage in family.stages if stage.source is not None
]

MOST_WAITING = 4
"""Kernels of a recorded family with problems that are new or changed since; each skips its comparison and is named.
With more of them the agreement is no longer shown: record again, which takes a GPU a minute."""

EACH = 6
"""Of the problems of a build, which differ in size alone, every so many are compared: all are proven by a run, and two
results within a tolerance of one reference agree within twice that."""

recorded = cache(digests.read)


@cache
def device():
    return CpuDevice()


@cache
def problems_by_kernel():
    found = {}
    for case in problems():
        found.setdefault(kernel_name(case), []).append(case)
    return found


@cache
def compared(path, kernel):
    """The kernel's problems as they are now with what is recorded of each, and the ids of those that are not.

    Of a kernel that the recorded GPU cannot run there are none.
    """
    capability = compute_capability(recorded(path).device["compute_capability"])
    cases = [
        case
        for case in problems_by_kernel().get(kernel, ())
        if device().refusal(case) is None and case.stage.runs_on(capability)
    ]
    found = [(case, recorded_of(recorded(path), case)) for case in cases]
    return [pair for pair in found if pair[1]], [case.id for case, known in found if not known]


def recorded_of(taken: Digests, case: Case) -> ProblemDigests | None:
    """What is recorded of this very problem, if it is."""
    key = problem_key(case)
    found = (taken.problems.get(name) for name in (case.id, f"{case.id}#{key}"))
    return next((each for each in found if each is not None and each.problem == key), None)


def again(path):
    return f"on that GPU: python tests/helpers/digests.py --device gpu {path.relative_to(path.parents[2])}"


def disagreement(case: Case, recorded: ProblemDigests, launchable: Launchable) -> str | None:
    """What differs between a record and the outputs of the same problem here, in words; None when they agree.

    Two results that are each within the case's tolerance of its reference differ by little more than twice that.
    """
    for position, (there, output) in enumerate(zip(recorded.outputs, digests.output_values(launchable), strict=True)):
        here = digests.described_output(case, output)
        if isinstance(there, str) or isinstance(here, str):
            if there != here:
                return f"output {position} has the digest {here}, recorded is {there}"
            continue
        allowed = 2 * case.largest_tolerance * float(np.abs(output).max())
        elements = zip(digests.sampled_at(output), here.samples, there.samples, strict=True)
        for index, ours, theirs in elements:
            if not abs(ours - theirs) <= allowed:  # also true for NaN
                return f"output {position}, element {index} is {ours:.9g}, recorded is {theirs:.9g}"
        if not abs(here.abs_sum - there.abs_sum) <= allowed * output.size:
            return f"output {position} has magnitudes of {here.abs_sum:.9g} in all, recorded is {there.abs_sum:.9g}"
    return None


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.parent.name)
def test_the_emulator_agrees_with_the_gpu(path, kernel):
    alike, changed = compared(path, kernel)
    builds = {}
    for case, known in alike:
        builds.setdefault((case.defines, case.launch.block), []).append((case, known))
    for case, known in (problem for build in builds.values() for problem in build[::EACH]):
        assert disagreement(case, known, launched(case)) is None, case.id
    if changed:
        pytest.skip(f"new or changed since {path.parent.name} was recorded: {', '.join(changed)}; {again(path)}")


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.parent.name)
def test_few_kernels_wait_to_be_recorded_on_the_gpu_again(path):
    families = {case_id.split(".")[0] for case_id in recorded(path).problems}
    waiting = [kernel for kernel in KERNELS if compared(path, kernel)[1] and kernel.split(".")[0] in families]
    assert len(waiting) <= MOST_WAITING, f"not compared with {path.parent.name}: {', '.join(waiting)}; {again(path)}"


def test_a_gpu_has_been_recorded():
    assert RECORDS
    assert all(recorded(path).device["slug"] == path.parent.name for path in RECORDS)


COPY = 'extern "C" __global__ void copy(float* out, const float* in, int n) { out[threadIdx.x] = in[threadIdx.x]; }\n'


@pytest.fixture
def copy(tmp_path):
    """A case of 32 threads whose tolerance is given."""
    source = tmp_path / "copy.cu"
    source.write_text(COPY)

    def make(tolerance=0.0):
        return Case(
            family="trial",
            stage=Stage("copy", "", source),
            launch=Launch((1, 1, 1), (32, 1, 1)),
            arguments=(Buffer(Role.OUT, (32,)), Buffer(Role.IN, (32,)), Scalar(32)),
            work=Work(0),
            reference=lambda xp, inputs: (inputs[0],),
            tolerance=tolerance,
        )

    return make


def launched(case):
    launchable = device().prepare(case)
    launchable.run()
    return launchable


@pytest.mark.parametrize("tolerance", [0.0, 1e-5])
def test_a_saved_record_agrees_with_a_second_run(copy, tmp_path, tolerance):
    case = copy(tolerance)
    digests.write(tmp_path / "new" / "digests.json", digests.record(device(), [case]))
    saved = digests.read(tmp_path / "new" / "digests.json")
    assert saved.device["slug"] == "cpu-emulator"
    assert saved.problems[case.id].problem == problem_key(case)
    assert disagreement(case, saved.problems[case.id], launched(case)) is None


def test_problems_of_one_id_are_recorded_each(copy):
    cases = [copy(), replace(copy(), defines=(("TILE", "2"),)), replace(copy(), defines=(("TILE", "3"),))]
    taken = digests.record(device(), cases)
    assert len(taken.problems) == 3
    assert [recorded_of(taken, case).problem for case in cases] == [problem_key(case) for case in cases]
    assert recorded_of(taken, replace(copy(), defines=(("TILE", "4"),))) is None


def test_one_wrong_bit_is_a_disagreement_where_equal_bits_are_asked_for(copy):
    case = copy()
    there = digests.record(device(), [case]).problems[case.id]
    here = launched(case)
    here.outputs[0].view(np.uint32)[17] ^= 1
    assert "output 0 has" in disagreement(case, there, here)


@pytest.mark.parametrize(
    ("index", "by", "complaint"),
    [(0, 1e-5, None), (0, 1e-3, "output 0, element 0 is"), (1, 1e-2, "magnitudes"), (0, np.nan, "element 0 is nan")],
)
def test_rounding_is_allowed_within_twice_the_tolerance(copy, index, by, complaint):
    case = copy(tolerance=1e-5)
    there = digests.record(device(), [case]).problems[case.id]
    here = launched(case)
    here.outputs[0][index] += by
    said = disagreement(case, there, here)
    assert said is None if complaint is None else complaint in said


def test_a_wrong_result_is_not_recorded(copy):
    case = copy()
    object.__setattr__(case, "reference", lambda xp, inputs: (inputs[0] + 1,))
    with pytest.raises(PeakgateError, match=r"^trial\.copy on cpu-emulator: output 0: 32 of 32 elements are wrong"):
        digests.record(device(), [case])


def test_other_code_another_launch_or_macro_is_another_problem(copy):
    case = copy()
    before = problem_key(case)
    assert problem_key(copy()) == before
    object.__setattr__(case, "defines", (("N", "1"),))
    assert problem_key(case) != before
    case.stage.source.write_text(COPY.replace("in[threadIdx.x]", "in[threadIdx.y]"))
    assert problem_key(copy()) != before


def test_another_file_name_is_the_same_problem(copy, tmp_path):
    case = copy()
    before = problem_key(case)
    renamed = case.stage.source.rename(tmp_path / "01_copy.cu")
    assert problem_key(replace(case, stage=replace(case.stage, source=renamed))) == before


@pytest.mark.parametrize("text", [COPY + "// more", "/* a\nlonger one */\n" + COPY, COPY.replace("{ ", "{\n\n    ")])
def test_comments_and_blanks_make_no_other_problem(copy, text):
    case = copy()
    case.stage.source.write_text('const char* const name = "a // b";\n' + COPY.replace("{ ", "{\n"))
    before = problem_key(case)
    case.stage.source.write_text('const char* const name = "a // b"; // a name\n' + text.replace("{ out", "{\n out"))
    assert problem_key(case) == before
    case.stage.source.write_text('const char* const name = "a // c";\n' + COPY)
    assert problem_key(case) != before


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"peakgate_digests": 3, "device": {}, "problems": {"a": 1}}'])
def test_a_file_that_is_no_record_is_an_error_that_names_it(tmp_path, text):
    path = tmp_path / "digests.json"
    path.write_text(text)
    with pytest.raises(PeakgateError, match=r"digests\.json") as caught:
        digests.read(path)
    assert caught.value.code in (Code.MALFORMED, Code.RECORD)


def test_a_record_of_another_schema_is_told_apart(tmp_path):
    path = tmp_path / "digests.json"
    path.write_text('{"peakgate_digests": 99}')
    with pytest.raises(PeakgateError, match="peakgate_digests is 99"):
        digests.read(path)


def test_a_record_is_written_in_order_a_line_a_problem(tmp_path):
    path = tmp_path / "digests.json"
    digests.write(
        path,
        Digests(
            {"slug": "x"},
            {"b": ProblemDigests("2", ("s",)), "a": ProblemDigests("1", (SampledOutput(1.0, (0.5,)),))},
            3,
        ),
    )
    lines = [line.strip() for line in path.read_text().splitlines() if '"problem"' in line]
    assert [line[:3] for line in lines] == ['"a"', '"b"']
    assert digests.read(path).problems["a"] == ProblemDigests("1", (SampledOutput(1.0, (0.5,)),))


def test_a_record_of_some_kernels_keeps_those_of_the_others(tmp_path):
    path = tmp_path / "digests.json"
    digests.main([str(path), "-k", "roof.copy_float-"])
    saved = digests.read(path).problems
    assert saved
    assert all(name.startswith("roof.copy_float-") for name in saved)
    digests.main([str(path), "-k", "roof.read_float4-"])
    renewed = digests.read(path).problems
    assert {name.partition("-")[0] for name in renewed} == {"roof.copy_float", "roof.read_float4"}
    assert saved.items() < renewed.items()


def test_digests_of_another_device_are_not_mixed_with_these(tmp_path):
    path = tmp_path / "digests.json"
    digests.main([str(path), "-k", "roof.copy_float-"])
    path.write_text(path.read_text().replace('"cpu-emulator"', '"nvidia-h200"'))
    kept = path.read_bytes()
    with refuses(Code.OPTION):
        digests.main([str(path), "-k", "roof.copy_float-"])
    assert path.read_bytes() == kept
