"""fp8 and fp4 in the emulator, alone and several in a word: values are those of ml_dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from emulating import finds, loaded

from peakgate_emulator import DefectKind

TYPES = {
    "float8_e4m3fn": ("__nv_fp8", "e4m3", ("unsigned", "unsigned short", "unsigned char"), 448),
    "float8_e5m2": ("__nv_fp8", "e5m2", ("unsigned", "unsigned short", "unsigned char"), 57344),
    "float4_e2m1fn": ("__nv_fp4", "e2m1", ("unsigned short", "unsigned char", "unsigned char"), 6),
}


def run(name: str, given: np.ndarray, order: str = "__syncthreads()") -> list[np.ndarray]:
    prefix, kind, words, _ = TYPES[name]
    macros = dict(zip(("WORD", "PAIR", "ONE"), words, strict=True))
    macros |= {"QUAD": f"{prefix}x4_{kind}", "TWO": f"{prefix}x2_{kind}", "NUMBER": f"{prefix}_{kind}", "ORDER": order}
    sizes = {"unsigned": np.uint32, "unsigned short": np.uint16, "unsigned char": np.uint8}
    outputs = [np.zeros(len(given), sizes[word]) for word in words]
    outputs.append(np.zeros_like(given))
    loaded("packed", macros).launch((-(-len(given) // 64), 1, 1), (64, 1, 1), (*outputs, given, np.int32(len(given))))
    return outputs


@pytest.mark.parametrize("name", TYPES)
def test_numbers_are_rounded_and_packed_as_their_type_has_them(name: str) -> None:
    largest = TYPES[name][3]
    dtype = np.dtype(getattr(ml_dtypes, name))
    exact = (
        np.unique(np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)) if dtype != "float4_e2m1fn" else None
    )
    numbers = exact[np.isfinite(exact)] if exact is not None else np.arange(-12, 13, dtype=np.float32) / 2
    middles = (numbers[1:] + numbers[:-1]) / 2
    values = np.concatenate(
        (numbers, middles, np.nextafter(middles, np.float32(0)), np.array([3 * largest, -np.inf], np.float32))
    )
    given = np.resize(values[np.abs(values) <= largest], (len(values) // 8 * 8, 4)).astype(np.float32)
    quads, pairs, ones, back = run(name, given)
    rounded = given.astype(dtype)
    bits = rounded.view(np.uint8).astype(np.uint64)
    width = 4 if name.startswith("float4") else 8
    np.testing.assert_array_equal(quads, sum(bits[:, at] << np.uint64(width * at) for at in range(4)))
    np.testing.assert_array_equal(pairs, bits[:, 2] | bits[:, 3] << np.uint64(width))
    np.testing.assert_array_equal(ones, bits[:, 0])
    np.testing.assert_array_equal(back, rounded.astype(np.float32))
    beyond = np.array([[3 * largest, -3 * largest, np.inf, -np.inf]] * 2, np.float32)
    np.testing.assert_array_equal(run(name, beyond)[3][0], largest * np.sign(beyond[0]))


def test_a_word_of_narrow_numbers_read_too_early_is_found() -> None:
    with finds(DefectKind.SHARED_RACE):
        run("float4_e2m1fn", np.ones((64, 4), np.float32), order="")
