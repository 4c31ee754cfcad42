"""A family of one kernel in a few lines, as ``peakgate.family`` offers it."""

from dataclasses import replace

import numpy as np
import pytest
from emulating import CUDA
from expecting import refuses

from peakgate.base.errors import Code
from peakgate.cli import main
from peakgate.device.cpu import CpuLaunchable
from peakgate.device.expected import expected
from peakgate.family import In, Out, Value, kernel
from peakgate.inspect.resources.survey import builds
from peakgate.measure.patterns import PATTERNS
from peakgate.run.identity import identities
from peakgate.run.listing import Listed
from peakgate.spec import catalogue
from peakgate.spec.case import NO_SMALL_PROBLEM, Scale
from peakgate.spec.catalogue import problems
from peakgate.spec.contract import changes, stated

SOFTMAX, HISTOGRAM, SUM, RAMP = ((CUDA / f"{name}.cu").read_text() for name in ("softmax", "histogram", "sum", "ramp"))
SOFTMAX_FAMILY = """
from peakgate.family import In, Out, Value, kernel
FAMILY = kernel(
    "softmax.cu", entry="softmax<float, 128>", block=128,
    arguments=lambda rows, columns: [Out(rows, columns), In(rows, columns, data=(-4, 4)), Value(columns)],
    grid=lambda rows, columns: rows,
    bytes=lambda rows, columns: 2 * 4 * rows * columns,
    reference=lambda xp, x: xp.exp(x.astype("float64")) / xp.exp(x.astype("float64")).sum(axis=1, keepdims=True),
    sizes=[(8192, 1024)],
)
"""
HISTOGRAM_FAMILY = """
from peakgate.family import In, InOut, Value, kernel
def counted(xp, bins, index, weight):
    out = bins.copy()
    for parity in (0, 1):
        out += xp.bincount(index[parity::2], minlength=64).astype("int32") * weight[parity]
    return out
FAMILY = kernel(
    "histogram.cu", block=64, grid=lambda n: -(-n // 64),
    arguments=lambda n: [InOut(64, dtype="int32", data=0), In(n, dtype="int32", data=(0, 64)), Value(n)],
    constants={"weight": In(2, dtype="int32", data=lambda xp, shape: xp.array([1, 3], "int32"))},
    bytes=lambda n: 4 * n, reference=counted, sizes=[1 << 24],
)
"""


SCALE = {
    "source": "scale.cu",
    "arguments": lambda n: [Out(n), In(n), Value(n)],
    "grid": 1,
    "block": 32,
    "bytes": lambda n: 8 * n,
    "reference": lambda xp, x: 2 * x,
    "sizes": [64],
}


@pytest.fixture
def check(project, checked):
    """Check a family of one kernel in a project of its own; exit code and verdict."""

    def run(name, kernel, family):
        project(name, family, **{name: kernel})
        return checked()

    return run


def test_a_template_kernel_takes_a_family_of_thirteen_lines(check):
    code, verdict = check("softmax", SOFTMAX, SOFTMAX_FAMILY)
    assert (code, verdict["kernels"][0]["kernel"]) == (0, "softmax.softmax")
    assert len(SOFTMAX_FAMILY.strip().splitlines()) <= 15


def test_a_softmax_without_maximum_is_wrong_unless_in_a_range(check):
    code, verdict = check("softmax", SOFTMAX, SOFTMAX_FAMILY.replace(", data=(-4, 4)", ""))
    assert (code, verdict["kernels"][0]["defects"][0]["kind"]) == (1, "wrong result")
    naive = SOFTMAX_FAMILY.replace(", data=(-4, 4)", "").replace('.astype("float64")', "")
    code, verdict = check("softmax", SOFTMAX, naive)  # float32 overflows in the reference too
    assert (code, verdict["kernels"][0]["defects"][0]["kind"]) == (1, "wrong result")


def test_a_deleted_barrier_of_a_template_kernel_is_found(check):
    code, verdict = check("softmax", SOFTMAX.replace("        __syncthreads();\n", "", 1), SOFTMAX_FAMILY)
    assert code == 1
    assert verdict["kernels"][0]["defects"][0]["kind"] == "shared race"


def test_indices_stay_in_range_and_constants_are_filled(check, project):
    np.save(project("histogram") / "weight.npy", np.array([1, 3], "int32"))
    family = HISTOGRAM_FAMILY.replace('lambda xp, shape: xp.array([1, 3], "int32")', '"weight.npy"')
    code, verdict = check("histogram", HISTOGRAM, family)
    # Eight problems in two orders, five with a pattern, four chosen ones.
    assert (code, verdict["kernels"][0]["launches"]) == (0, 25)


def test_a_projects_options_and_includes_reach_every_kernel(check, tmp_path):
    (tmp_path / "headers").mkdir()
    (tmp_path / "headers" / "bins.h").write_text("#define BINS 64\n")
    (tmp_path / "peakgate.toml").write_text('include = ["headers"]\noptions = ["--define-macro=STEP=2"]\n')
    kernel = '#include "bins.h"\n' + HISTOGRAM.replace("% 2", "% STEP")
    assert check("histogram", kernel, HISTOGRAM_FAMILY)[0] == 0


SUM_FAMILY = """
from peakgate.family import In, Out, Temp, Value, kernel, launch
FAMILY = kernel(
    "sum.cu",
    arguments=lambda n: {"out": Out(1), "x": In(n), "n": Value(n), "sums": Temp(4), "count": Value(4)},
    launches=[
        launch("partial_sums", "sums x n", grid=4, block=32), launch("final_sum", "out sums count", grid=1, block=1),
    ],
    bytes=lambda n: 4 * n, reference=launch("naive", "out x n", grid=1, block=1), sizes=[1 << 20], edges=[1, 1000],
)
"""


def test_several_launches_are_one_case_proven_by_another_kernel(check):
    code, verdict = check("sum", SUM, SUM_FAMILY)
    assert code == 0
    assert [kernel["launches"] for kernel in verdict["kernels"]] == [4 + len(PATTERNS)]


def test_what_a_launch_left_unwritten_is_not_zero_by_luck(check):
    code, verdict = check("sum", SUM, SUM_FAMILY.replace('sums x n", grid=4', 'sums x n", grid=3'))
    assert code == 1
    assert "wrong result" in verdict["kernels"][0]["defects"][0]["what"]


def test_a_defect_of_a_reference_kernel_is_reported_as_its_own(check):
    code, verdict = check("sum", SUM.replace("i < n; ++i", "i <= n; ++i"), SUM_FAMILY)
    assert code == 1
    (defect, *_) = verdict["kernels"][0]["defects"]
    assert (defect["kind"], defect["where"]) == ("out of bounds", "sum.cu:14")


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("sums x n", "sums y n", "launch of partial_sums: no argument is named y; the arguments are out, x, n, sums"),
        ('launch("naive"', 'launch("final_sum"', "its reference is the kernel itself, final_sum; expected another"),
        ("    launches=", "    grid=1, block=1, launches=", "expected either grid and block, or launches="),
        ('reference=launch("naive", "out x n", grid=1, block=1)', 'reference="sum.npy"', "sum.npy; expected the array"),
        (
            'reference=launch("naive", "out x n", grid=1, block=1)',
            "reference=lambda xp, x: x + y",
            "fails (family.py:9): NameError: name 'y' is not defined; it is called with the array module and float64 1",
        ),
    ],
)
def test_a_mistake_in_launches_or_reference_is_undecided(check, capsys, old, new, complaint):
    code, verdict = check("sum", SUM, SUM_FAMILY.replace(old, new))
    assert code == verdict["exit_code"] == 3
    assert complaint in verdict["kernels"][0]["not_checked"]
    assert complaint in capsys.readouterr().out


def test_a_kernel_without_a_small_problem_is_no_pass(project):
    saved = SUM_FAMILY.replace('launch("naive", "out x n", grid=1, block=1)', '"sum.npy"')
    np.save(project("sum", saved.replace(", edges=[1, 1000]", ""), sum=SUM) / "sum.npy", np.ones(1, "float32"))
    small, measured = (catalogue.described(scale).cases for scale in (Scale.SMALL, Scale.BENCH))
    assert catalogue.without_problems(small, measured) == ["sum.sum"]
    with refuses(Code.FAMILY):
        problems()


LARGE_FAMILY = """
from peakgate.family import In, Out, Value, kernel

def arguments(n):
    if n < 1 << 26:
        raise ValueError("n is at least 1 << 26")
    return [Out(n), In(n), Value(n)]

FAMILY = kernel(
    "naive.cu", arguments=arguments, grid=1, block=1, bytes=lambda n: 8 * n, sizes=[1 << 26], reference=lambda xp, x: x,
)
"""


def test_a_family_that_accepts_no_small_size_is_undecided(check, bench, tmp_path):
    code, verdict = check("naive", SUM, LARGE_FAMILY)
    assert code == 3
    assert NO_SMALL_PROBLEM in verdict["kernels"][0]["not_checked"]
    assert bench(tmp_path).returncode == 3


def test_each_kernel_of_a_case_has_a_part_in_the_fingerprint(check, tmp_path):
    pytest.importorskip("cuda.bindings.nvrtc")
    folder = tmp_path / "kernels" / "sum"
    check("sum", SUM, SUM_FAMILY)
    (case,) = catalogue.cases(Scale.BENCH)
    assert [build.kernel for build in builds([case])] == ["sum.sum:final_sum", "sum.sum:partial_sums"]
    before = identities([Listed(case, ())], (9, 0))[case.id]
    (folder / "sum.cu").write_text(SUM.replace("*out = sum;", "*out = sum + 1;", 1))
    changed = identities([Listed(case, ())], (9, 0))[case.id]
    assert changed.code != before.code


def test_saved_arrays_are_inputs_and_part_of_the_contract(check, project):
    family = HISTOGRAM_FAMILY.replace("data=(0, 64)", 'data="index-{size}.npy"')
    family = family.replace("reference=counted, sizes=[1 << 24]", 'reference="bins-{size}.npy", sizes=[100]')
    family = family.replace("sizes=", "small_sizes=[100], sizes=")
    folder = project("histogram")
    index = np.arange(100, dtype="int32") % 64
    bins = np.bincount(index, weights=1 + 2 * (np.arange(100) % 2), minlength=64).astype("int32")
    np.save(folder / "index-100.npy", index)
    np.save(folder / "bins-100.npy", bins)
    code, verdict = check("histogram", HISTOGRAM, family)
    assert (code, verdict["kernels"][0]["launches"]) == (0, 2)
    (case,) = catalogue.cases(Scale.BENCH)
    before = stated(case)
    np.save(folder / "bins-100.npy", bins + 1)
    assert list(changes(before, stated(case))) == ["saved"]
    assert main(["check", "--jobs", "1"]) == 1
    np.save(folder / "bins-100.npy", bins[:9])
    with refuses(Code.DATA, r"bins-100\.npy"):
        expected(np, CpuLaunchable(case), CpuLaunchable)
    with refuses(Code.REFERENCE):
        expected(np, CpuLaunchable(replace(case, reference=None)), CpuLaunchable)


RAMP_FAMILY = """
from peakgate.family import In, Out, Scratch, Value, family, kernel
def ramp(block, floats=1, **more):
    return kernel(
        "ramp.cu", name="counted", lesson="Counts.", block=block, block_in_id=True,
        grid=lambda n: -(-n // (block * floats)), arguments=lambda n: [Out(n), Value(n)],
        bytes=lambda n: 4 * n, reference=lambda xp, *, n: xp.arange(n, dtype="float64"), entry="ramp",
        edges={"one": 1, "some": 1000}, predicted=lambda n: {"floats": n}, roof="write", **more)
FAMILY = family(
    *(ramp(block, sizes={"4KiB": 1 << 10, "16KiB": 1 << 12}, gate=lambda n: n > 1 << 10, small_sizes=None)
      for block in (32, 64)),
    ramp(32, 4, defines={"FLOATS": 4}, variant=lambda n: "f4" if n > 1 else "alone", small_sizes=[1, 999]),
    kernel(operation="memcpy", arguments=lambda n: [Out(n), In(n)], bytes=lambda n: 8 * n,
           reference=lambda xp, x: x, sizes=[64], gate=False, edges=[3]),
    headlines={"counted": "16KiB-64"},
)
"""


COPY = "__global__ void %s(float* out, const float* in, int n) { if (n > 0) out[threadIdx.x] = in[threadIdx.x]; }\n"


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("// __global__ void none()\n" + COPY % "other", "other"),
        (COPY % "other" + COPY % "mine", "mine"),
        ("template <class T> " + COPY % "other", "mine"),
        ("", "mine"),
    ],
)
def test_the_one_kernel_of_a_file_needs_no_entry(tmp_path, monkeypatch, text, entry):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.cu").write_text(text)
    assert kernel(**SCALE | {"source": "mine.cu"}).stages[0].kernel == entry
    assert kernel(**SCALE | {"source": "mine.cu", "entry": "own"}).stages[0].kernel == "own"


def test_kernels_of_one_name_are_variants_of_one_stage(check):
    code, verdict = check("ramp", RAMP, RAMP_FAMILY)
    (found,) = catalogue.families()
    assert (code, verdict["kernels"][0]["kernel"]) == (0, "ramp.counted")
    assert [stage.name for stage in found.stages] == ["counted", "memcpy"]
    assert {case.id: case.tier.value for case in found.cases(Scale.BENCH)} == {
        "ramp.counted-4KiB-32": "full",
        "ramp.counted-16KiB-32": "gate",
        "ramp.counted-4KiB-64": "full",
        "ramp.counted-16KiB-64": "gate",
        "ramp.memcpy-64": "full",
    }
    assert [case.id for case in found.cases(Scale.SMALL)] == [
        "ramp.counted-1-32-alone",
        "ramp.counted-999-32-f4",
        "ramp.memcpy-3",
    ]
    assert found.headlines == {"counted": "16KiB-64"}


def test_each_variant_is_proven_by_edges_of_its_own_build(check):
    check("ramp", RAMP, RAMP_FAMILY)
    for case in catalogue.cases(Scale.BENCH) + catalogue.cases(Scale.SMALL):
        probes = catalogue.probes(case)
        assert {probe.build for probe in probes} == {case.build}
        if case.stage.source:
            assert [(probe.size, dict(probe.predicted)) for probe in probes] == [
                ("one", {"floats": 1}),
                ("some", {"floats": 1000}),
            ]


def test_a_reference_takes_numbers_of_the_size_by_keyword(check):
    assert check("ramp", RAMP.replace("out[i] = i", "out[i] = i + 1"), RAMP_FAMILY)[0] == 1


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('variant=lambda n: "f4" if n > 1 else "alone"', 'options=["-G"]', "two kernels are named counted"),
        ("sizes=[64], gate=False", "gate=False", "memcpy: no size"),
        ('kernel(operation="memcpy"', 'kernel("ramp.cu", operation="memcpy"', "either a source or an operation"),
    ],
)
def test_a_mistake_in_variants_is_one_line_and_undecided(check, old, new, complaint):
    code, verdict = check("ramp", RAMP, RAMP_FAMILY.replace(old, new))
    assert code == 3
    assert complaint in verdict["kernels"][0]["not_checked"]


@pytest.mark.parametrize(
    ("given", "needs", "target", "newer"),
    [
        ((8, 0), "8.0", "sm_90", True),
        ("8.0", "8.0", "sm_90", True),
        ("9.0", "9.0", "sm_90", True),
        ("9.0a", "9.0a", "sm_90a", False),
        ("12.0", "12.0", "sm_90", True),
    ],
)
def test_a_stage_needs_a_capability_or_an_architecture(given, needs, target, newer):
    (stage,) = kernel(**SCALE, min_capability=given).stages
    assert (stage.needs, stage.architecture((9, 0)), stage.runs_on((12, 0))) == (needs, target, newer)
    assert stage.runs_on((9, 0)) == (needs != "12.0")


@pytest.mark.parametrize("given", ["", "9", "9.0b", "10.0f", "8.0a", "sm_90a"])
def test_a_capability_that_is_none_is_refused(given):
    with pytest.raises(ValueError, match="min_capability"):
        kernel(**SCALE, min_capability=given)


def product(tmp_path, **more):
    (tmp_path / "product.cu").write_text("")
    family = kernel(
        str(tmp_path / "product.cu"),
        arguments=lambda n: [Out(n, n), In(n, n, dtype="bfloat16"), In(n, n, dtype="bfloat16")],
        grid=1,
        block=32,
        bytes=lambda n: 8 * n * n,
        flops=lambda n: 2 * n**3,
        sizes=[64],
        **{"reference": lambda xp, a, b: a @ b} | more,
    )
    (made,) = family.cases(Scale.BENCH)
    return made


@pytest.mark.parametrize(
    ("more", "math", "given", "roof"),
    [
        ({}, "bf16", None, "copy"),
        ({"math": "bf16"}, "bf16", "bf16", "bf16"),
        ({"math": "tf32", "roof": "copy"}, "tf32", "tf32", "copy"),
        ({"math": "fp32"}, "fp32", "fp32", "copy"),
        ({"roof": "fma"}, "fp32", None, "fma"),
    ],
)
def test_operations_are_of_the_given_type_or_of_the_inputs(tmp_path, more, math, given, roof):
    case = product(tmp_path, **more)
    assert (case.math, case.work.math, case.roof) == (math, given, roof)


def test_operations_of_unknown_type_leave_a_case_undescribed(tmp_path):
    assert "fp32, tf32" in product(tmp_path, math="half").reason


def test_a_reference_need_not_be_hashable(tmp_path):
    class Product:
        def __eq__(self, other):
            return type(other) is Product

        __hash__ = None

        def __call__(self, xp, a, b):
            return a @ b

    assert len({product(tmp_path, reference=Product()).reference for _ in range(2)}) == 1
