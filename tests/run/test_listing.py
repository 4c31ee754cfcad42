"""A change's Python in its own process: its cases are data here, its functions are called there."""

import os
import subprocess
import sys
import tempfile

import numpy as np
import pytest
from expecting import refuses

from peakgate.base import config
from peakgate.base.errors import Code, PeakgateError
from peakgate.measure.data import input_array, inputs_of
from peakgate.run import listing
from peakgate.spec.case import Scale, Tier

FAMILY = """
import sys
from pathlib import Path
from peakgate.case import Buffer, Case, Family, Launch, Role, Scalar, Stage, Work

print("a family may print")
if "peakgate.session.session" in sys.modules:
    sys.stderr.write("imported by the judge\\n")
SOURCE = Path(__file__).with_name("twice.cu")
STAGE = Stage("twice", "", SOURCE)
{more}

def data(xp, shape):
    return xp.arange(shape[0], dtype="float32")

def reference(xp, inputs):
    {reference}

def scale(xp, inputs):
    return [None]

def case(size):
    arrays = Buffer(Role.OUT, (size,)), Buffer(Role.IN, (size,), data=data)
    return Case("twice", STAGE, Launch((-(-size // 32), 1, 1), (32, 1, 1)), (*arrays, Scalar(size)), Work(8 * size),
                reference, size=str(size), scale=scale)

FAMILY = Family("twice", "a test", (STAGE,), lambda scale: [case(1024)], lambda of: [case(33)])
"""
KERNEL = """
extern "C" __global__ void twice(float* out, const float* in, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2.0f * in[i];
}
"""
HONEST = "return [2 * inputs[0]]"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with one family; called with the body of its reference and more lines of its module."""

    def write(reference=HONEST, more=""):
        folder = tmp_path / "project" / "kernels" / "twice"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "family.py").write_text(FAMILY.format(reference=reference, more=more))
        (folder / "twice.cu").write_text(KERNEL)
        (tmp_path / "project" / "peakgate.toml").write_text("")
        monkeypatch.chdir(tmp_path / "project")
        return tmp_path / "project"

    return write


def case_of(root):
    found, refused = listing.listed(root, Scale.SMALL)
    assert refused == []
    return found["twice.twice-1024"]


def test_only_the_cases_of_a_tier_are_listed(project):
    root = project(more="from peakgate.case import Scale, Tier; from dataclasses import replace")
    family = root / "kernels" / "twice" / "family.py"
    gated = "[case(1024), replace(case(2048), tier=Tier.GATE)]"
    family.write_text(family.read_text().replace("lambda scale: [case(1024)]", f"lambda scale: {gated}"))
    every = ["twice.twice-1024", "twice.twice-2048"]
    assert list(listing.listed(root, Scale.BENCH)[0]) == every
    assert list(listing.listed(root, Scale.BENCH, Tier.GATE)[0]) == every[1:]


def test_functions_give_the_values_that_they_give_where_they_are_defined(project):
    before = set(sys.modules)
    known = case_of(project())
    for case, size in ((known.case, 1024), (known.probes[0], 33)):
        (buffer,) = case.inputs
        assert np.array_equal(input_array(np, buffer, 0), np.arange(size, dtype="float32"))
        (output,) = case.reference(np, inputs_of(np, case))
        assert np.array_equal(output, 2 * np.arange(size, dtype="float32"))
        assert case.scale(np, inputs_of(np, case)) == [None]
    assert [name for name in {*sys.modules} - before if name.startswith("peakgate_family_")] == []


def test_functions_are_equal_where_they_are_equal_in_the_family(project):
    """A case and its edge-size problem have one reference; a lambda of each is another."""
    known = case_of(project())
    probe = known.probes[0]
    assert (known.case.reference, known.case.scale) == (probe.reference, probe.scale)
    assert known.case.inputs[0].data == probe.inputs[0].data
    assert known.case.reference != known.case.scale
    family = project() / "kernels" / "twice" / "family.py"
    family.write_text(family.read_text().replace("                reference,", "lambda *given: reference(*given),"))
    known = case_of(family.parents[2])
    assert known.case.reference != known.probes[0].reference


@pytest.mark.parametrize(
    ("reference", "reported"),
    [
        ("raise ValueError('no')", r"its reference fails \(.*family.py:.*\): ValueError: no"),
        ("return [object()]", "gives no arrays"),
        ("return [xp.zeros(1 << 28)]", "gives no arrays"),
        ("import os; os._exit(3)", "no value of its reference: .*exit 3"),
        ("while True: pass", "no value of its reference: it exceeded its time limit"),
    ],
)
def test_a_function_that_gives_no_value_is_one_line(project, monkeypatch, reference, reported):
    monkeypatch.setattr(listing, "ANSWER_LIMIT_S", 0.5 if "while" in reference else 60.0)
    case = case_of(project(reference)).case
    with pytest.raises(PeakgateError, match=reported) as refused:
        case.reference(np, inputs_of(np, case))
    assert len(str(refused.value).splitlines()) == 1


def test_an_endless_family_is_ended(project, monkeypatch):
    monkeypatch.setattr(listing, "SUPPLIER_LIMIT_S", 1.0)
    with refuses(Code.FAMILY, "time limit"):
        listing.listed(project(more="while True: pass"), Scale.SMALL)


def test_a_file_outside_the_repository_is_no_part_of_a_case(project, tmp_path):
    (tmp_path / "secret.cu").write_text(KERNEL)
    root = project()
    (root / "kernels" / "twice" / "twice.cu").unlink()
    (root / "kernels" / "twice" / "twice.cu").symlink_to(tmp_path / "secret.cu")
    found, refused = listing.listed(root, Scale.SMALL)
    assert found == {}
    assert refused[0].id.startswith("twice.")


@pytest.mark.parametrize("mode", ["proof", "pair"])
def test_a_process_of_a_judged_side_imports_none_of_its_families(project, tmp_path, mode):
    root = project()
    (tmp_path / "base").mkdir()
    subprocess.run(["cp", "-r", f"{root}/.", str(tmp_path / "base")], check=True)
    family = root / "kernels" / "twice" / "family.py"
    family.write_text(family.read_text().replace("2 * inputs", "3 * inputs"))
    environment = os.environ | {"PEAKGATE_AB": mode, config.BASE_VARIABLE: str(tmp_path / "base")}
    command = [sys.executable, "-P", "-m", "peakgate", "bench", "--device", "cpu", "--out", str(tmp_path / "out")]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr  # right by the base's reference
    assert (done.stdout + done.stderr).count("by the judge") == 1  # the base's own


def test_nothing_is_left_of_the_process(project):
    known = case_of(project())
    process = known.case.reference.supplier._process
    assert process.poll() is None
    del known
    assert process.poll() is not None


def test_an_interrupt_while_the_process_is_started_leaves_no_folder(project, tmp_path, monkeypatch):
    def interrupted(*_arguments, **_options):
        raise KeyboardInterrupt

    root = project()
    scratch = tmp_path / "temporary"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    monkeypatch.setattr(listing.sandbox, "start", interrupted)
    with pytest.raises(KeyboardInterrupt) as interrupt:  # keeps the frames, as a command's traceback does
        listing.listed(root, Scale.BENCH)
    assert interrupt.traceback
    assert list(scratch.iterdir()) == []
