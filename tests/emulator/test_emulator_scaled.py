"""Products in tensor memory of numbers of 8, 6 and 4 bits, with scales of blocks along k."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from emulating import ONE, finds, loaded
from matrix_forms import image

import peakgate_emulator as emulator
from peakgate_emulator import DefectKind

# Code in a descriptor, bits, and numpy's type.
TYPES: dict[str, tuple[int, int, Any]] = {
    "e4m3": (0, 8, ml_dtypes.float8_e4m3fn),
    "e5m2": (1, 8, ml_dtypes.float8_e5m2),
    "e2m3": (3, 6, ml_dtypes.float6_e2m3fn),
    "e3m2": (4, 6, ml_dtypes.float6_e3m2fn),
    "e2m1": (5, 4, ml_dtypes.float4_e2m1fn),
}
KINDS = {"mxf8f6f4": (0, 1), "mxf4": (1, 2), "mxf4nvf4": (2, 4), "f8f6f4": (3, 0)}
"""The kernel's number of a kind, and scales of a row."""


@dataclass(frozen=True)
class Scaled:
    """A product with scales, which are powers of two or ``ue4m3``; ``part`` is the first byte of a word of scales."""

    kind: str
    columns: int
    a: str
    b: str
    mode: int = 1
    powers: bool = True
    part: int = 0
    flags: int = 0
    sums: type[np.floating] = np.float32

    def described(self) -> int:
        packed = self.kind.startswith("mxf4")
        a, b = (1 if packed else TYPES[name][0] for name in (self.a, self.b))
        described = a << 7 | b << 10 | self.columns // 8 << 17 | 8 << 24 | self.flags
        return described | (
            (self.sums is np.float32) << 4
            if self.kind == "f8f6f4"
            else self.part << 4 | self.part << 29 | self.powers << 23
        )


def codes(generator: np.random.Generator, rows: int, depth: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Numbers as bits and as doubles."""
    _code, bits, kind = TYPES[name]
    found = generator.integers(0, 1 << bits, (rows, depth), np.uint8)
    values = found.view(kind).astype(np.float64)
    found[~np.isfinite(values)] = 0
    return found, found.view(kind).astype(np.float64)


def laid(found: np.ndarray, bits: int, *, packed: bool) -> np.ndarray:
    """Rows of 32 bytes: 64 numbers of 4 bits, or 16 numbers at the start of every 16 bytes."""
    if packed:
        pairs: np.ndarray = found[:, 0::2] | found[:, 1::2] << 4
        return pairs
    rows = len(found)
    digits = np.unpackbits(found[..., None], axis=-1, bitorder="little")[..., :bits].reshape(rows, 2, -1)
    padded = np.zeros((rows, 2, 128), np.uint8)
    padded[..., : digits.shape[-1]] = digits
    return np.packbits(padded, axis=-1, bitorder="little").reshape(rows, 32)


def scales(generator: np.random.Generator, form: Scaled, rows: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Bytes as a copy brings them to 32 lanes, in chunks of 128 rows, and the factors."""
    low, high, kind = (120, 134, ml_dtypes.float8_e8m0fnu) if form.powers else (0x20, 0x50, ml_dtypes.float8_e4m3fn)
    words = generator.integers(low, high, (-(-rows // 128) * 128, 4), np.uint8)
    factors = words[:rows, (form.part + np.arange(count)) % 4].view(kind).astype(np.float64)
    return words.reshape(-1, 4, 32, 4).swapaxes(1, 2).reshape(-1), factors


FORMS = [
    Scaled("mxf8f6f4", 64, "e4m3", "e5m2"),
    Scaled("mxf8f6f4", 256, "e5m2", "e4m3", 0, part=3),
    Scaled("mxf8f6f4", 136, "e3m2", "e2m1", 2, part=1),
    Scaled("mxf8f6f4", 8, "e2m1", "e2m3", 3),
    Scaled("mxf4", 128, "e2m1", "e2m1"),
    Scaled("mxf4", 256, "e2m1", "e2m1", 2, part=2),
    Scaled("mxf4nvf4", 96, "e2m1", "e2m1", powers=False),
    Scaled("mxf4nvf4", 256, "e2m1", "e2m1"),
    Scaled("mxf4nvf4", 32, "e2m1", "e2m1", 0, powers=False, flags=1 << 14),
    Scaled("f8f6f4", 64, "e3m2", "e4m3"),
    Scaled("f8f6f4", 32, "e2m1", "e2m3", 0),
    Scaled("f8f6f4", 48, "e3m2", "e2m1", sums=np.float16),
]


@pytest.fixture(scope="module")
def kernel() -> Any:
    return loaded("tensor_scaled", capability=(10, 0), specific=True)


def launched(kernel: Any, form: Scaled, *, add: bool) -> tuple[np.ndarray, np.ndarray]:
    """The product and what it should be."""
    generator = np.random.default_rng(1)
    number, count = KINDS[form.kind]
    packed = form.kind.startswith("mxf4")
    depth = 64 if packed else 32
    a, of_a = codes(generator, 128, depth, form.a)
    b, of_b = codes(generator, form.columns, depth, form.b)
    (first, a_at), (second, b_at) = (
        image(laid(found, TYPES[name][1], packed=packed), transposed=False, mode=form.mode)
        for found, name in ((a, form.a), (b, form.b))
    )
    a_words, a_scales = scales(generator, form, 128, count)
    b_words, b_scales = scales(generator, form, form.columns, count)
    if count:
        of_a *= np.repeat(a_scales, depth // count, 1)
        of_b *= np.repeat(b_scales, depth // count, 1)
    words = np.resize(np.concatenate((a_words, b_words)), 3 * 512)
    out = generator.standard_normal((128, 256)).astype(form.sums)
    expected = out.copy()
    sign = -1 if form.flags & 1 << 14 else 1
    expected[:, : form.columns] = sign * of_a @ of_b.T + add * out[:, : form.columns].astype(np.float64)
    found = np.array(out.view(f"u{out.itemsize}"), np.uint32)
    given = (np.concatenate((first, second, words)).view(np.uint32), a_at, b_at, np.uint32(form.described()))
    kernel.launch(ONE, (128, 1, 1), (found, *given, np.int32(number), np.int32(add)), shared_bytes=67072)
    return found.astype(f"u{out.itemsize}").view(form.sums), expected


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_a_product_is_of_scaled_numbers(kernel: Any, form: Scaled, add: bool) -> None:
    np.testing.assert_allclose(*launched(kernel, form, add=add), rtol=1e-7)


@pytest.mark.parametrize(
    "form",
    [
        Scaled("mxf4", 64, "e2m1", "e2m1", part=1),  # scales of two bytes begin at even ones
        Scaled("mxf4", 64, "e2m1", "e2m1", powers=False),
        Scaled("mxf4nvf4", 64, "e2m1", "e2m1", part=2),
        Scaled("mxf8f6f4", 64, "e2m1", "e4m3", flags=1 << 15),  # only numbers of 8 bits are transposed
        Scaled("mxf8f6f4", 64, "e4m3", "e4m3", flags=1 << 24),
    ],
)
def test_scales_that_there_are_not_are_found(kernel: Any, form: Scaled) -> None:
    with finds(DefectKind.INVALID_DESCRIPTOR):
        launched(kernel, form, add=False)


@pytest.mark.parametrize(
    ("how", "expected"),
    [("min", -3), ("max", 4), ("min.abs", 1), ("max.abs", 4), ("max.NaN", np.nan), ("min.abs.NaN", np.nan)],
)
def test_floats_of_a_warp_are_reduced(how: str, expected: float, tmp_path: Path) -> None:
    source = tmp_path / "reduced.cu"
    step = f'asm volatile("redux.sync.{how}.f32 %0, %1, 0xffffffff;" : "=f"(found) : "f"(given[threadIdx.x]));'
    text = f"float found; {step} out[threadIdx.x] = found;"
    source.write_text(
        f'extern "C" __global__ void reduced(float* out, const float* given) {{ {text} }}', encoding="utf-8"
    )
    given, out = np.resize(np.array([1, -3, np.nan, 4], np.float32), 32), np.zeros(32, np.float32)
    emulator.load(source, "reduced", (), capability=(10, 0), specific=True).launch(ONE, (32, 1, 1), (out, given))
    np.testing.assert_array_equal(out, np.full(32, expected, np.float32))
