"""Kernels of bfloat16, 8-bit floats and 4-bit integers, right and wrong, from their families through the commands."""

import json
from pathlib import Path

import digests
import ml_dtypes
import numpy as np
import pytest
from tensor_products import by_the_transpose

from peakgate.cli import main
from peakgate.device.cpu import CpuDevice, CpuLaunchable
from peakgate.device.expected import computed, expected
from peakgate.judge.correctness import check
from peakgate.measure.data import inputs_of
from peakgate.spec.case import Scale
from peakgate.spec.catalogue import problems

NARROW = Path(__file__).parents[1] / "data" / "narrow" / "kernels"
FAMILIES = {path.parent.name: path.read_text() for path in NARROW.glob("*/family.py")}
KERNELS = {path.stem: path.read_text() for path in NARROW.glob("*/*.cu")}
WRONG = {
    "the bits of another 16-bit float": ("scale", "__hfma(factor, x[i], y[i])", "(&factor)[0] * x[i]"),
    "a missing barrier": ("softmax", "        __syncthreads();\n    }\n    for", "    }\n    for"),
    "the other 8-bit float": ("dequant", "__nv_fp8_e4m3", "__nv_fp8_e5m2"),
    "no saturation": ("quant", "__NV_SATFINITE", "__NV_NOSAT"),
    "a missing sign": ("unpack", "low - (low & 8) * 2", "low"),
    "swapped halves": (
        "unpack",
        "low = weights[at] & 15, high = weights[at] >> 4",
        "low = weights[at] >> 4, high = 15",
    ),
    "an element that nothing writes": ("quant", "if (i < n)", "if (i < n - 1)"),
}


@pytest.fixture
def write(project):
    """Write a family and its kernel, as they are or changed, into a project; their folder."""

    def written(name, kernel=None, family=None):
        return project(name, family or FAMILIES[name], **{name: kernel or KERNELS[name]})

    return written


def test_right_kernels_of_every_narrow_type_are_clean_and_right(write, checked, bench, tmp_path):
    for name in KERNELS:
        write(name)
    code, verdict = checked()
    assert (code, len(verdict["kernels"])) == (0, len(KERNELS))
    done = bench(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / ".peakgate" / "out" / "bench.json").read_text())
    assert found["verdicts"] == {"NO_FLOOR": len(KERNELS)}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_wrong_kernel_is_found(write, checked, mistake):
    name, right, wrong = WRONG[mistake]
    text = KERNELS[name]
    assert right in text
    write(name, text.replace(right, wrong))
    assert checked()[0] == 1


RAW_HALVES = (
    "__half2float(__half(__nv_cvt_fp8_to_halfraw(in[i].__x, __NV_E4M3)))",
    "__half2float(__half2(__nv_cvt_fp8x2_to_halfraw2(in[i].__x, __NV_E4M3)).x)",
)


@pytest.mark.parametrize("value", RAW_HALVES)
def test_a_half_is_made_of_raw_bits(write, checked, value):
    write("dequant", KERNELS["dequant"].replace("static_cast<float>(in[i])", value))
    assert checked()[0] == 0


def test_a_reference_is_given_values_and_outputs_are_compared_as_values(write):
    write("unpack")
    case = problems()[0]
    weights, scales = inputs_of(np, case)
    assert (weights.dtype, weights.shape) == (np.int8, case.inputs[0].shape)
    launchable = CpuLaunchable(case)
    assert launchable.inputs[0].dtype == np.uint8
    assert np.allclose(expected(np, launchable, CpuLaunchable).values[0], weights * scales[:, None], rtol=1e-6)


def test_a_reference_kernel_gives_its_values(write, checked):
    by_kernel = 'reference=launch("naive", grid=1, block=1)'
    family = FAMILIES["quant"].replace("reference=lambda xp, x: xp.clip(x / 0.125, -448, 448)", by_kernel)
    family = family.replace("kernel\n", "kernel, launch\n", 1)
    write("quant", family=family)
    assert checked()[0] == 0
    write("quant", KERNELS["quant"].replace("in[i] / scale, __NV", "in[i] * scale, __NV"), family)
    assert checked()[0] == 1


@pytest.mark.parametrize("form", ["float32", "bfloat16", "uint16"])
def test_saved_arrays_of_bfloat16_are_inputs_and_expected_results(project, write, checked, form):
    values = (np.arange(100) / 16).astype("float32")
    folder = project("scale")
    for name, saved in (("x", values), ("out", 2.5 * values)):
        own = saved.astype(ml_dtypes.bfloat16)
        array = saved if form == "float32" else own if form == "bfloat16" else own.view("uint16")
        np.save(folder / f"{name}.npy", array)
    family = FAMILIES["scale"].replace("edges=[1, 1000]", "edges=[100]").replace("data=(-4, 4)", 'data="x.npy"')
    family = family.replace('In(n, dtype="bfloat16")', 'In(n, dtype="bfloat16", data="x.npy")')
    write("scale", family=family.replace("reference=lambda xp, x, y: 1.5 * x + y", 'reference="out.npy"'))
    assert checked()[0] == 0
    np.save(folder / "out.npy", 3 * values)
    assert checked()[0] == 1


@pytest.mark.parametrize("name", ["scale", "quant"])
def test_recorded_outputs_agree_with_the_same_problem_and_no_other(write, name):
    write(name)
    device = CpuDevice()
    case = problems()[-1]
    recorded = digests.record(device, [case]).problems[case.id].outputs
    launchable = device.prepare(case)
    launchable.run()

    def found():
        return tuple(digests.described_output(case, output) for output in digests.output_values(launchable))

    assert found() == recorded
    launchable.outputs[0].view(np.uint8)[...] = 0x40
    assert found() != recorded


def test_what_a_kernel_writes_is_decoded(write):
    write("quant")
    launchable = CpuLaunchable(problems()[-1])
    launchable.run()
    (values,) = computed(np, launchable)
    assert values.dtype == np.float32
    assert np.abs(values).max() == 448


@pytest.mark.parametrize(
    ("old", "new", "reported"),
    [
        ('Out(n, dtype="bfloat16")', 'Out(n, dtype="bfloat")', "did you mean 'bfloat16'"),
        ('Out(n, dtype="bfloat16")', 'Out(n, dtype="float8_e4m3")', "float8_e4m3fn"),
        ('Value(1.5, "bfloat16")', 'Value(1, "int4")', "half a byte"),
    ],
)
def test_a_type_that_is_none_is_one_line_with_the_family(write, capsys, old, new, reported):
    write("scale", family=FAMILIES["scale"].replace(old, new))
    assert main(["check", "--jobs", "1"]) == 3
    complaint = next(line for line in capsys.readouterr().out.splitlines() if reported in line)
    assert "family.py:" in complaint


def test_sizes_whose_rows_are_no_whole_bytes_are_left_out(write):
    write("unpack")
    shapes = [case.inputs[0].shape for case in problems()]
    assert shapes
    assert all(columns % 2 == 0 for _, columns in shapes)


def test_a_product_by_cublas_has_a_twin_in_the_emulator():
    for case in by_the_transpose(small_sizes=[(3, 5, 4), (33, 17, 8)]).cases(Scale.SMALL):
        launchable = CpuLaunchable(case)
        launchable.run()
        wanted = expected(np, launchable, CpuDevice().prepare)
        assert check(np, case, computed(np, launchable), wanted).mismatch is None
