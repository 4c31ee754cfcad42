"""A mistake in the description of a case leaves its own cases undecided; every other case is reported."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from peakgate.base import config
from peakgate.base.errors import Code
from peakgate.base.verdict import Verdict
from peakgate.cli import main
from peakgate.run import base_contract as contract
from peakgate.session.outcome import verdict_of
from peakgate.spec.case import NO_SMALL_PROBLEM, Case, Launch, Scalar, Scale, Stage, Struct, Work

KERNEL = """
extern "C" __global__ void %s(float* out, const float* in, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2 * in[i];
}
"""
FAMILY = """\
from peakgate.family import In, Out, Value, family, kernel
import numpy as np

def described(n):  # line 4: where a kernel is described, of mistakes that are raised elsewhere
    return [Out(n), In(n), Value(n)]  # line 5

def doubled(xp, x):
    return 2 * x  # line 8

FAMILY = family(*(
    kernel(
        name, arguments=described if name == "mine.cu" else lambda n: [Out(n), In(n), Value(n)],
        grid=lambda n: -(-n // 64), block=64, shared_bytes=0, reference=doubled if name == "mine.cu" else
        (lambda xp, x: 2 * x), bytes=lambda n: 8 * n, sizes=[1 << 12], edges=[100],
    )
    for name in ("beside.cu", "mine.cu")
))
"""
LONG = """\
from dataclasses import replace; from pathlib import Path
from peakgate.case import Buffer, Case, Family, Launch, Role, Scalar, Stage, Tier, Work

def stage(name):
    return Stage(name, "doubles", Path(__file__).with_name(f"{name}.cu"))

def case(name, reference=lambda xp, inputs: [2 * inputs[0]], threads=64):
    arguments = (Buffer(Role.OUT, (100,)), Buffer(Role.IN, (100,)), Scalar(100))
    launch = Launch((2, 1, 1), (threads, 1, 1))
    return Case("mine", stage(name), launch, arguments, Work(800), reference, tier=Tier.GATE)

def cases(scale):
    yield case("beside")
    MISTAKE  # line 14
    yield case("mine")

FAMILY = Family("mine", "synthetic", (stage("beside"), stage("mine")), cases, lambda case: iter(()))
"""


def write(root, name, text):
    """A family of two kernels in a project."""
    folder = root / "kernels" / name
    folder.mkdir(parents=True, exist_ok=True)
    for kernel in ("beside", "mine"):
        (folder / f"{kernel}.cu").write_text(KERNEL % kernel)
    (folder / "family.py").write_bytes(text if isinstance(text, bytes) else text.encode())


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with a healthy family, entered: ``project(text, name)`` adds one."""
    (tmp_path / "peakgate.toml").write_text("")
    monkeypatch.chdir(tmp_path)

    def add(text, name="mine"):
        write(tmp_path, name, text)
        return tmp_path

    add(FAMILY, "healthy")
    return add


def bench(*arguments):
    """The exit code of ``peakgate bench``, and verdict and reason by case."""
    return main(["bench", "--device", "cpu", *arguments]), judged()


def judged():
    found = json.loads((config.current().out / "bench.json").read_text())
    return {case["case"]: (case["verdict"], case["reason"]) for case in found["cases"]}


def check(*arguments):
    """The exit code of ``peakgate check``, and why a kernel was not checked, by kernel; None where it was."""
    code = main(["check", "--jobs", "1", *arguments])
    found = json.loads((config.current().out / "check.json").read_text())
    return code, {each["kernel"]: each["not_checked"] for each in found["kernels"]}


HEALTHY = {"healthy.beside-100", "healthy.mine-100"}

SHORT_MISTAKES = {
    "a shape that is text": ("Out(n), In(n), Value(n)]  #", 'Out("x"), In(n), Value(n)]  #', "family.py:5", "shape"),
    "a type that is none": ("In(n), Value(n)]  #", 'In(n, dtype="flot32"), Value(n)]  #', "family.py:5", "flot32"),
    "a negative size": ("In(n), Value(n)]  #", "In(n - 5000), Value(n)]  #", "family.py:5", "(-4900,)"),
    "a value that its type does not hold": ("Value(n)]  #", "Value(2**40)]  #", "family.py:5", "out of bounds"),
    "a number in place of an argument": ("Value(n)]  #", "n]  #", "family.py:4", "argument 3 of 3 is 100"),
    "a name that is not known": ("Value(n)]  #", "Value(m)]  #", "family.py:5", "NameError"),
    "shared memory that is no whole number": ("shared_bytes=0", "shared_bytes=0.5 if name == 'mine.cu' else 0",
                                              "family.py:4", "shared_bytes is 0.5"),
    "a reference that fails": ("return 2 * x  #", "return 2 * y  #", "family.py:8", "NameError"),
    "a reference that fails its own way": ("return 2 * x  #", "raise RuntimeError('no')  #", "family.py:8", "no"),
    "a reference that ends the program": ("return 2 * x  #", "raise SystemExit(0)  #", "family.py:8", "SystemExit"),
    "a reference that gives nothing": ("return 2 * x  #", "return None  #", "family.py:7", "gives None"),
    "a reference of the wrong shape": ("return 2 * x  #", "return 2 * x[:-1]  #", "family.py:7", "(99,)"),
    "a reference with an output too many": ("return 2 * x  #", "return x, x  #", "family.py:7", "(100,)"),
    "a reference that is none": ("reference=doubled", "reference=7", "family.py:4", "reference is 7"),
    "input data of the wrong shape": ("In(n), Value(n)]  #", "In(n, data=lambda xp, s: xp.ones(3)), Value(n)]  #",
                                      "", "input data: the function gives float64 (3,)"),
    "input data that fails": ("In(n), Value(n)]  #", "In(n, data=lambda xp, s: 1 / 0), Value(n)]  #",
                              "family.py:5", "ZeroDivisionError"),
    "a size given a second time": ("sizes=[1 << 12]", "sizes=[1 << 12] * (1 + (name == 'mine.cu'))", "", "twice"),
    "a saved array that is not there": ("In(n), Value(n)]  #", 'In(n, data="gone.npy"), Value(n)]  #', "", "gone.npy"),
}  # fmt: skip


WHOLE_MISTAKES = {
    "no UTF-8": (b'FAMILY = "\xff"\n', "family.py:1", "can't decode byte 0xff"),
    "an import that fails": ("import json\nimport nothing_of_that_name\n", "family.py:2", "ModuleNotFoundError"),
    "a syntax error": ("FAMILY = (\n", "family.py:1", "SyntaxError"),
    "an exit": ("raise SystemExit(0)\n", "family.py:1", "SystemExit"),
    "an exit without clean-up": ("import os\nos._exit(0)\n", "family.py:2", "SystemExit"),
    "an error that is no Exception": ("raise type('Own', (BaseException,), {})('no')\n", "family.py:1", "Own: no"),
    "no family": ("FAMILIES = 3\n", "family.py", "no FAMILY"),
    "a family of the name of another": (FAMILY.replace("family(*(", "__import__('dataclasses').replace(family(*(")
                                        .rstrip() + ", name='healthy')\n", "family.py", "is defined in"),
    "cases that raise": (LONG.replace("MISTAKE", "1 / 0"), "family.py:14", "ZeroDivisionError"),
    "cases that end the program": (LONG.replace("MISTAKE", "raise SystemExit(0)"), "family.py:14", "SystemExit: 0"),
    "cases that end the process": (LONG.replace("MISTAKE", "__import__('os')._exit(0)"), "family.py:14", "SystemExit"),
    "cases that are none": (LONG.replace("MISTAKE", "yield 'mine'"), "family.py:12", "yields 'mine'"),
    "a launch that is none": (LONG.replace("MISTAKE", "yield case('mine', threads=0)"), "family.py:9", "(0, 1, 1)"),
}  # fmt: skip


BEFORE_ANY_CASE = {*list(WHOLE_MISTAKES)[:8], "an id given twice"}
"""Mistakes after which nothing of the family is known."""

LONG_MISTAKES = {
    "an id given twice": ("case('beside')", ".beside is used twice"),
    "no file": ("case('gone')", "beside.cu, mine.cu"),
    "a list in place of a tuple": ("replace(case('mine'), defines=[('A', '1')])", "unhashable"),
    "a reference that gives an array alone": ("case('mine', lambda xp, inputs: inputs[0])", "gives "),
    "a reference that gives lists": ("case('mine', lambda xp, inputs: [[1, 2]])", "gives [1, 2]"),
    "an operation that is none": ("replace(case('mine'), stage=Stage('mine', '', operation='memcopy'))",
                                  "no operation is named 'memcopy'; expected one of memcpy"),
}  # fmt: skip


MISTAKES = [*SHORT_MISTAKES, *WHOLE_MISTAKES, *LONG_MISTAKES]


def text_of(mistake):
    """The family file with a mistake, and the two parts of the message: where, and what."""
    if mistake in SHORT_MISTAKES:
        old, new, *message = SHORT_MISTAKES[mistake]
        assert old in FAMILY
        return FAMILY.replace(old, new, 1), message
    if mistake in WHOLE_MISTAKES:
        text, *message = WHOLE_MISTAKES[mistake]
        return text, message
    made, *message = LONG_MISTAKES[mistake]
    return LONG.replace('    yield case("mine")\n', "").replace("MISTAKE  # line 14", f"yield {made}"), ["", *message]


@pytest.fixture(scope="module")
def reported(tmp_path_factory):
    """What ``bench`` and ``check`` report of a project that has every mistake, a family each, and a healthy family."""
    root = tmp_path_factory.mktemp("mistakes")
    (root / "peakgate.toml").write_text("")
    write(root, "healthy", FAMILY)
    for at, mistake in enumerate(MISTAKES):
        text, _ = text_of(mistake)
        write(root, f"m{at}", text.replace('"mine",', f'"m{at}",') if isinstance(text, str) else text)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(root)
        started = [sys.executable, "-m", "peakgate", "bench", "--device", "cpu"]
        done = subprocess.run(started, capture_output=True, text=True, check=False)
        assert "Traceback" not in done.stdout + done.stderr
        return (done.returncode, judged()), check()


def test_every_other_case_is_reported_and_the_run_is_undecided(reported):
    for code, found in reported:
        assert code == 3
        assert {name for name in found if name.startswith("healthy")} in (HEALTHY, {"healthy.beside", "healthy.mine"})
    (_, measured), (_, checked) = reported
    assert {measured[case][0] for case in HEALTHY} == {"NO_FLOOR"}
    assert checked["healthy.beside"] is None
    assert checked["healthy.mine"] is None
    assert {verdict for verdict, _ in measured.values()} == {"NO_FLOOR", "INCONCLUSIVE"}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_costs_its_own_cases_and_is_named_with_its_line(reported, mistake):
    name, (_, (place, what)) = f"m{MISTAKES.index(mistake)}", text_of(mistake)
    (_, measured), (_, checked) = reported
    refused = {case: why for case, (verdict, why) in measured.items() if verdict == "INCONCLUSIVE"}
    unchecked = {kernel: why for kernel, why in checked.items() if why}
    for found in (refused,) if "operation" in mistake else (refused, unchecked):  # operations have nothing to check
        own = {case: why for case, why in found.items() if case.startswith(f"{name}.")}
        assert any(place in why and what in why for why in own.values()), own
        assert (own.keys() == {f"{name}.family.py"}) is (mistake in WHOLE_MISTAKES)
        assert all(not case.startswith(f"{name}.beside") for case in own) or "twice" in mistake
    others = {case for case, (verdict, _) in measured.items() if case.startswith(f"{name}.") and verdict == "NO_FLOOR"}
    assert bool(others & {f"{name}.beside", f"{name}.beside-100"}) is (mistake not in BEFORE_ANY_CASE)


def test_a_kernel_that_does_not_compile_is_undecided_in_bench_as_in_check(project):
    folder = project(FAMILY)
    (folder / "kernels" / "mine" / "mine.cu").write_text(KERNEL.replace("2 *", "2 +*") % "mine")
    code, found = bench()
    assert (code, found["mine.mine-100"][0]) == (3, "INCONCLUSIVE")
    assert "mine.cu:4: " in found["mine.mine-100"][1]
    assert found["mine.mine-100"][1].endswith(f"[{Code.BUILD}]")
    code, kernels = check()
    assert code == 3
    assert kernels["mine.mine"].startswith("mine.cu:4: ")


def test_the_users_own_options_of_pytest_are_none_of_ours(project, monkeypatch):
    project(FAMILY)
    monkeypatch.setenv("PYTEST_ADDOPTS", "--collect-only")
    assert bench()[0] == 0


def test_a_source_with_a_zero_byte_is_undecided_and_the_rest_is_reported(project):
    folder = project(FAMILY)
    (folder / "kernels" / "mine" / "mine.cu").write_bytes(b"x\0y")
    code, found = bench()
    assert (code, found["mine.mine-100"][0], found["mine.beside-100"][0]) == (3, "INCONCLUSIVE", "NO_FLOOR")
    assert found["mine.mine-100"][1].endswith(f"[{Code.SOURCE}]")
    code, kernels = check()
    assert (code, kernels["mine.mine"] is None, kernels["mine.beside"]) == (3, False, None)


def test_what_a_kernel_got_wrong_outranks_what_is_not_described(project):
    folder = project(FAMILY.replace("return 2 * x  #", "return 2 * y  #"))
    (folder / "kernels" / "healthy" / "mine.cu").write_text(KERNEL.replace("2 *", "3 *") % "mine")
    code, found = bench()
    assert (code, found["healthy.mine-100"][0], found["mine.mine-100"][0]) == (1, "WRONG", "INCONCLUSIVE")
    assert check()[0] == 1


def test_a_choice_of_healthy_families_only_notes_what_is_not_described(project, capfd):
    project("import nothing_of_that_name\n")
    code, found = bench("-k", "healthy")
    assert (code, found.keys()) == (0, HEALTHY)
    assert "not selected, " in (said := capfd.readouterr().out)
    assert "family.py:1: ModuleNotFoundError" in said
    assert check("-k", "healthy")[0] == 0


def test_a_kernel_without_a_small_size_is_named_and_not_run(project, capfd):
    project(FAMILY.replace("edges=[100]", "edges=[100], small_sizes=None if name == 'mine.cu' else ()"))
    code, found = bench()
    assert (code, found.keys()) == (0, {*HEALTHY, "mine.beside-100"})
    assert f"not run, {NO_SMALL_PROBLEM}: mine.mine" in capfd.readouterr().out
    bench("-k", "beside")
    assert NO_SMALL_PROBLEM not in capfd.readouterr().out


@pytest.mark.parametrize("word", ["kernels", "test_kernel", "bench_kernels"])
def test_a_choice_goes_by_case_ids_and_not_by_files(project, word):
    project(FAMILY)
    assert main(["bench", "--device", "cpu", "-k", word]) == 2
    assert bench("-k", f"{word} or healthy")[1].keys() == HEALTHY


def test_a_choice_that_names_a_family_not_described_is_undecided(project, capfd):
    project("import nothing_of_that_name\n")
    code, found = bench("-k", "healthy or mine-")
    assert (code, found.keys() - HEALTHY) == (3, {"mine.family.py"})
    assert capfd.readouterr().out.splitlines()[-1] == "undecided: 1 INCONCLUSIVE"
    assert bench("-k", "healthy and not mine")[0] == 0


def test_a_choice_that_only_a_family_that_is_not_described_may_have_is_undecided(project, capfd):
    project("import nothing_of_that_name\n")
    assert main(["bench", "--device", "cpu", "-k", "mine.naive"]) == 3
    assert "family.py:1: ModuleNotFoundError" in capfd.readouterr().err
    assert check("-k", "mine.naive")[0] == 3
    (config.current().root / "cases").write_text("mine.naive-64\nhealthy.mine-100\n")
    code, found = bench("--peakgate-cases=cases")
    assert (code, found["mine.naive-64"][0], found["healthy.mine-100"][0]) == (3, "INCONCLUSIVE", "NO_FLOOR")


def test_a_floor_of_a_family_that_is_not_described_is_no_mistake_and_no_pass(project):
    folder = project("import nothing_of_that_name\n") / "baselines" / "cpu-emulator"
    folder.mkdir(parents=True)
    (folder / "floors.toml").write_text('schema = 1\ngpu = "cpu-emulator"\n[floors]\n"mine.naive-64" = 0.5\n')
    code, found = bench()
    assert (code, found["mine.family.py"][0]) == (3, "INCONCLUSIVE")


def test_a_family_file_that_is_a_link_to_nowhere_is_undecided(project):
    links = {"mine": "../nowhere.py", "circle": "family.py"}
    for name, target in links.items():
        file = project(FAMILY, name) / "kernels" / name / "family.py"
        file.unlink()
        file.symlink_to(target)
    code, found = bench()
    assert (code, {found[f"{name}.family.py"][0] for name in links}) == (3, {"INCONCLUSIVE"})
    assert all(found[f"{name}.family.py"][1].endswith(f"[{Code.FAMILY}]") for name in links)
    code, kernels = check()
    assert (code, any(kernels[f"{name}.family.py"] is None for name in links)) == (3, False)
    assert [main(["check", f"kernels/{name}/family.py"]) for name in links] == [2, 2]


def test_a_family_whose_folder_has_no_name_in_utf_8_is_undecided(project):
    project(FAMILY, os.fsdecode(b"\xff"))
    code, found = bench()
    assert (code, found["_.family.py"][0]) == (3, "INCONCLUSIVE")
    assert {found[case][0] for case in HEALTHY} == {"NO_FLOOR"}
    code, kernels = check()
    assert (code, kernels["_.family.py"] is None, kernels["healthy.mine"]) == (3, False, None)


def in_a_repository():
    """Make the working directory a git repository with a commit."""
    subprocess.run(["git", "init", "-q"], check=True)
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *identity, "commit", "-qm", "x", "--allow-empty"], check=True)


def test_the_encoding_of_the_environment_does_not_end_a_run(project):
    root = project(FAMILY)
    in_a_repository()
    (root / "ü x.json").write_text("{}")
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "peakgate", "bench", "--device", "cpu"]
    done = subprocess.run(command, env=os.environ | ascii_only, capture_output=True, check=False)
    assert done.returncode == 0
    assert judged().keys() >= HEALTHY


def test_links_in_a_circle_beside_the_families_do_not_end_a_run(project):
    root = project(FAMILY)
    in_a_repository()
    (root / "loop").symlink_to("loop")
    assert bench()[0] == 0


def test_a_process_that_native_code_ends_leaves_no_verdict_of_an_earlier_one(project):
    project(FAMILY)
    assert check()[0] == bench()[0] == 0
    project("import ctypes\nctypes.CDLL(None)._exit(0)\n")
    for verb in ("check", "bench"):
        done = subprocess.run([sys.executable, "-m", "peakgate", verb], capture_output=True, text=True, check=False)
        assert not (config.current().out / f"{verb}.json").exists()
    assert (done.returncode, done.stderr.endswith(f"[{Code.PROCESS}]\n")) == (3, True)


def test_a_family_file_that_is_named_is_undecided_where_it_cannot_be_read_and_bad_input_where_it_is_not_there(project):
    project("1 / 0\n")
    code, kernels = check("kernels/mine/family.py")
    assert (code, kernels.keys()) == (3, {"mine.family.py"})
    assert main(["check", "kernels/gone/family.py"]) == 2


@pytest.fixture
def against_base(project, tmp_path_factory):
    """The judgements of a change by a base: of both the text of ``mine/family.py``, None where it is not there."""

    def judged(base, head):
        tree = tmp_path_factory.mktemp("base")
        for text, folder in ((base, tree), (head, None)):
            root = project(text or "")
            if text is None:
                shutil.rmtree(root / "kernels" / "mine")
            if folder is not None:
                shutil.copytree(root, folder, dirs_exist_ok=True)
        found = contract.against(tree, config.required(), Scale.SMALL, "base", lambda case: None)
        objections = {case.id: found.objection(case) for case in found.listed(None)}
        return {case: why and why.verdict.value for case, why in objections.items()}, found

    return judged


def test_against_a_base_what_either_side_does_not_describe_is_undecided_and_the_rest_is_measured(against_base):
    broken = FAMILY.replace("Value(n)]  #", "Value(m)]  #", 1)
    healthy = dict.fromkeys([*HEALTHY, "mine.beside-100"])
    undecided = {"mine.mine-100": "INCONCLUSIVE"}
    for base, head in ((FAMILY, broken), (broken, FAMILY), (broken, broken), (None, broken)):
        found, cases = against_base(base, head)
        assert found == healthy | undecided, (base == broken, head == broken)
        assert all("family.py:5: NameError" in each.reason for each in cases.refused)


def test_against_a_base_a_family_that_a_side_cannot_read_leaves_all_of_its_cases_undecided(against_base):
    whole = {"mine.family.py": "INCONCLUSIVE"}
    every = dict.fromkeys(["mine.beside-100", "mine.mine-100"], "INCONCLUSIVE")
    for base, head in ((FAMILY, "1 / 0\n"), ("1 / 0\n", FAMILY)):
        found, _ = against_base(base, head)
        assert found == dict.fromkeys(HEALTHY) | every | whole
    found, _ = against_base("1 / 0\n", "1 / 0\n")
    assert found == dict.fromkeys(HEALTHY) | whole
    found, _ = against_base(FAMILY, None)
    assert found == dict.fromkeys(HEALTHY) | dict.fromkeys(every, "MISSING")


def test_the_contracts_for_ab_have_no_term_of_what_is_not_described(project, capsys):
    pytest.importorskip("cuda.bindings.nvrtc")
    from peakgate.run import identity  # noqa: PLC0415

    project(FAMILY.replace("return 2 * x  #", "return 2 * y  #"))
    project("1 / 0\n", "other")
    assert identity.main(["--capability", "9.0"]) == 0
    found = json.loads(capsys.readouterr().out)
    unknown = {case for case, entry in found.items() if entry.keys() == {"problem"}}
    assert unknown == {"mine.mine-4096", "other.family.py"}
    assert all(found[case]["code"] for case in found.keys() - unknown)


ONE = (1, 1, 1)


@pytest.mark.parametrize(
    ("record", "given"),
    [
        (Launch, ((1, 1), ONE)),
        (Launch, ((1.0, 1, 1), ONE)),
        (Launch, (ONE, ONE, -1)),
        (Scalar, ("x",)),
        (Scalar, (1 << 40,)),
        (Struct, ((1,), (("a", "int32"), ("b", "int32")))),
        (Work, (-1,)),
        (Work, (float("nan"),)),
        (Case, ("a", Stage("b", "", operation="memcpy"), Launch(ONE, ONE), (), Work(0), "reference")),
    ],
)
def test_a_record_that_describes_nothing_that_can_run_is_refused(record, given):
    with pytest.raises(ValueError, match=r"expected|a value|a struct"):
        record(*given)


def test_only_what_ran_is_wrong():
    assert verdict_of(ValueError("anything else")) is Verdict.INCONCLUSIVE
