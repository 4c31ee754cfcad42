"""The quantize family: its references, against the package's own numbers, and wrong kernels."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulated import small_of
from family_modules import KERNELS, quantize

from peakgate.case import Case
from peakgate.device.cpu import CpuDevice
from peakgate.device.expected import computed, expected
from peakgate.device.interface import KernelFault
from peakgate.judge.correctness import check
from peakgate.spec import dtypes


@pytest.mark.parametrize("kind", [quantize.KINDS["fp8"], quantize.FP4], ids=["e4m3", "e2m1"])
def test_rounding_is_that_of_the_type_for_every_value_and_every_half(kind: Any) -> None:
    count = 2 if kind.dtype in dtypes.PACKED else 1
    every = dtypes.decoded(np, np.arange(256, dtype=np.uint8), kind.dtype)
    values = np.unique(every[np.isfinite(every)])
    halves = (values[1:] + values[:-1]) / 2
    around = [np.nextafter(halves, np.float32(towards)) for towards in (-9e9, 9e9)]
    given = np.repeat(np.concatenate([values, halves, *around, [500, -1e6, 1e-12]]).astype("float32"), count)
    wanted = dtypes.decoded(np, dtypes.encoded(np, given, kind.dtype), kind.dtype)
    np.testing.assert_array_equal(kind.nearest(np, given), wanted)


@pytest.mark.parametrize("kind", quantize.KINDS.values(), ids=quantize.KINDS)
@pytest.mark.parametrize("group", [0, 128])
def test_the_largest_of_a_group_becomes_the_largest_number_and_comes_back(kind: Any, group: int) -> None:
    values = np.random.default_rng(1).uniform(-3, 3, (4, 300)).astype("float32")
    codes, scales = quantize.quantized(np, values, kind=kind, group=group)
    assert scales.shape == (4, 3 if group else 1)
    assert np.abs(codes).max() == kind.largest
    back = quantize.restored(np, codes.astype("float64"), scales.astype("float64"), group=group)
    steps = np.repeat(scales, group or 300, axis=1)[:, :300]
    error = np.abs(back - values)
    assert np.all(error <= np.maximum(steps / 2, np.abs(values) / 16 if kind.name == "E4m3" else 0) * 1.0001)


def test_a_group_of_zeros_has_codes_of_zero_and_a_scale_that_is_none() -> None:
    codes, scales = quantize.quantized(np, np.zeros((2, 128), "float32"), kind=quantize.KINDS["int8"], group=128)
    assert not codes.any()
    assert np.all(scales > 0)


@pytest.mark.parametrize(
    ("form", "largest", "scale"),
    [
        ("mxfp8", 448.0, 1.0),
        ("mxfp8", 255.0, 0.5),
        ("mxfp4", 7.99, 1.0),
        ("mxfp4", 8.0, 2.0),
        ("mxfp4", 0.0, 2.0**-127),
        ("mxfp4", 2.0**-126, 2.0**-127),
        ("mxfp8", 2.0**127, 2.0**119),
        ("mxfp8", np.inf, np.nan),
        ("nvfp4", 6.0, 1.0),
        ("nvfp4", 6.375, 1.0),
        ("nvfp4", 6.376, 1.125),
        ("nvfp4", 2.0**20, 448.0),
        ("nvfp4", 6 * 2.0**-10, 0.0),
    ],
)
def test_the_scale_of_a_group_is_that_of_its_format(form: str, largest: float, scale: float) -> None:
    values = np.zeros((1, 32), "float32")
    values[0, 5] = -largest
    with np.errstate(all="ignore"):
        _, scales = quantize.micro_quantized(np, values, np.ones(1, "float32"), form=quantize.FORMATS[form])
    np.testing.assert_array_equal(scales[0, 0], np.float32(scale))


MICRO, RESTORE = "micro", "micro_restore"
WRONG = {
    "scale_rounded_up": (
        *(MICRO, "mxfp8"),
        ("exponent - EXPONENT, 0", "exponent - EXPONENT + (__float_as_int(largest) << 9 != 0), 0"),
    ),
    "scale_below_the_least": (MICRO, "mxfp4", ("max(exponent - EXPONENT, 0)", "exponent - EXPONENT")),
    "scale_of_infinity": (MICRO, "mxfp4", ("exponent == 255", "exponent == 256")),
    "nan_lost": (MICRO, "mxfp8", ("__hmax2_nan", "__hmax2")),
    "one_lane_of_two": (MICRO, "mxfp4", ("distance = LANES / 2", "distance = 0")),
    "end_of_a_row": (MICRO, "mxfp8", ("byte * PER_BYTE < left", "byte * PER_BYTE + 1 < left")),
    "last_group_left_out": (MICRO, "nvfp4", ("(n + FORMAT::GROUP - 1) / FORMAT::GROUP", "n / FORMAT::GROUP")),
    "codes_beyond_the_largest": (MICRO, "nvfp4", ("sum += __saturatef(", "sum += fmaxf(0.0f, ")),
    "pairs_beyond_the_largest": (MICRO, "mxfp4", ("99.5f", "100.0f")),
    "pairs_a_code_higher": (MICRO, "mxfp4", ("98.0f", "98.5f")),
    "pairs_of_neighbours": (MICRO, "mxfp4", ("bytes<2, 6>", "bytes<0, 4>")),
    "codes_of_nan": (MICRO, "mxfp4", ("factor == factor ?", "true ?")),
    "halves_up": (MICRO, "nvfp4", ("-1.0f)), 2.0f", "-1.0f)), 2.0000002f")),
    "halves_away_from_zero": (
        *(MICRO, "nvfp4"),
        ("__saturatef(fmaf(magnitude, 0.5f, -2.0f))", "static_cast<float>(magnitude >= 5.0f)"),
    ),
    "halves_towards_zero": (MICRO + "_naive", "nvfp4", ("x >= 1.75f", "x > 1.75f")),
    "halves_of_a_byte": (MICRO + "_naive", "mxfp4", ("FORMAT::BITS * k", "FORMAT::BITS * (PER_BYTE - 1 - k)")),
    "codes_in_reverse": (MICRO, "nvfp4", ("int i = 3; i >= 0; --i", "int i = 0; i < 4; ++i")),
    "signs_of_neighbours": (MICRO, "nvfp4", ("bytes<3, 7>", "bytes<1, 5>")),
    "scale_not_rounded": (MICRO, "nvfp4", ("matrix / E4m3::value(code)", "LARGEST / largest")),
    "scale_without_subnormals": (MICRO, "nvfp4", ("E4m3::code(l", "(largest < 0.09f) ? 0 : E4m3::code(l")),
    "scale_of_the_matrix_left_out": (MICRO, "nvfp4", ("LARGEST * matrix", "LARGEST")),
    "subnormal_code_as_zero": (RESTORE, "nvfp4", ("(code & 7) << 22", "((code & 7) == 1 ? 0 : code & 7) << 22")),
}
"""Stage, format, and what stands in place of what."""


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(("stage", "form", "change"), WRONG.values(), ids=WRONG)
def test_a_wrong_microscaling_kernel_is_noticed(tmp_path: Path, stage: str, form: str, change: tuple[str, str]) -> None:
    assert noticed(tmp_path, stage, form, change)


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("form", quantize.FORMATS)
@pytest.mark.parametrize("stage", [MICRO, MICRO + "_naive", RESTORE])
def test_a_microscaling_kernel_is_right(tmp_path: Path, stage: str, form: str) -> None:
    assert not noticed(tmp_path, stage, form, ("", ""))


def noticed(folder: Path, stage: str, form: str, change: tuple[str, str]) -> bool:
    """Whether the kernel with a change fails on special numbers, or where groups and vectors end inside a row."""
    for name in ("common", "quantize"):
        shutil.copytree(KERNELS / name, folder / name)
    (given,) = (case for case in small_of(quantize.FAMILY, stage) if case.variant == form)
    assert given.stage.source is not None
    header, source = (folder / "quantize" / name for name in ("micro.cuh", given.stage.source.name))
    texts = [file.read_text() for file in (header, source)]
    assert any(change[0] in text for text in texts)
    for file, text in zip((header, source), texts, strict=True):
        file.write_text(text.replace(*change))
    probes = [probe for probe in quantize.FAMILY.probes(given) if probe.size in ("48x96", "3x126", "3x1030")]
    assert len(probes) == 3
    return any(fails(replace(probe, stage=replace(given.stage, source=source))) for probe in probes)


def fails(case: Case) -> bool:
    device = CpuDevice()
    launchable = device.prepare(case)
    try:
        launchable.run()
    except KernelFault:
        return True
    right = expected(np, launchable, device.prepare)
    return not check(np, case, computed(np, launchable), right).right
