"""The quantize family: its references, against the package's own 8-bit numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from family_modules import quantize

from peakgate.spec import dtypes


def test_rounding_to_e4m3_is_that_of_the_type_for_every_value_and_every_half() -> None:
    every = dtypes.decoded(np, np.arange(256, dtype=np.uint8), "float8_e4m3fn")
    values = np.sort(every[np.isfinite(every)])
    halves = (values[1:] + values[:-1]) / 2
    above = np.nextafter(halves, np.float32(9e9))
    given = np.concatenate([values, halves, above, [500, -1e6, 1e-12]]).astype("float32")
    wanted = dtypes.decoded(np, dtypes.encoded(np, given, "float8_e4m3fn"), "float8_e4m3fn")
    np.testing.assert_array_equal(quantize.nearest_e4m3(np, given), wanted)


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
