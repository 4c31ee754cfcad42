"""Products in tensor memory of a sparse A, whose metadata are there too."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from emulating import finds, loaded
from matrix_forms import BITS, TYPES, drawn, image
from test_emulator_scaled import TYPES as NARROW
from test_emulator_scaled import Scaled, codes, laid, scales
from test_emulator_tensor import CODES, SUMS

from peakgate_emulator import DefectKind


@dataclass(frozen=True)
class Form:
    """A product of a sparse A by ``blocks``: the kernel's number of a kind, columns, types and the swizzle's mode."""

    kind: int
    columns: int
    sums: str
    a: str
    b: str
    mode: int = 1
    blocks: int = 1
    selector: int = 0
    transposed: str = ""

    @property
    def bits(self) -> int:
        """The bits of a number as it lies in memory."""
        return 4 if self.kind > 4 else BITS.get(self.a, 8)

    def described(self) -> int:
        if self.kind > 3:
            scaled = Scaled("mxf8f6f4" if self.kind == 4 else "mxf4", self.columns, self.a, self.b).described()
            return scaled & ~(31 << 24) | self.blocks << 27 | 1 << 2
        a, b = (NARROW[name][0] if self.kind == 2 else CODES[name] for name in (self.a, self.b))
        layouts = ("a" in self.transposed) << 15 | ("b" in self.transposed) << 16
        shape = self.columns // 8 << 17 | 8 * self.blocks << 24
        return self.selector | 1 << 2 | SUMS[self.sums] << 4 | a << 7 | b << 10 | layouts | shape


def kept(generator: np.random.Generator, rows: int, form: Form, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The columns of the numbers of A, and the four bits of each chunk, as CuTe and JAX understand them."""
    width, together = (2 if form.bits == 32 else 4), (2 if form.bits == 4 else 1)
    chunks = count * 2 // width // together
    order = np.sort(generator.random((rows, chunks, width)).argsort()[:, :, : width // 2], -1)
    if width == 4:
        swapped = (order == (1, 2)).all(-1) & (generator.random((rows, chunks)) < 0.5)
        order[swapped] = 2, 1  # 0b0110 is listed too
    bits = np.where(order[..., 0], 14, 4) if width == 2 else order[..., 0] | order[..., 1] << 2
    columns = (order + np.arange(0, chunks * width, width)[:, None]).reshape(rows, -1, 1) * together
    return (columns + np.arange(together)).reshape(rows, -1), bits.astype(np.uint32)


def words(form: Form, bits: np.ndarray) -> np.ndarray:
    """The metadata as two columns of tensor memory, of each row one bit for a column of A or two."""
    rows, chunks = bits.shape
    found = np.full((rows, 2), 0xFFFFFFFF, np.uint32)
    nibbles = np.uint32(4) * np.arange(8, dtype=np.uint32)
    if form.bits > 8:
        # Eight rows by two halves along k are 16 lanes, the next eight rows the upper halves of their words.
        halves = bits.reshape(rows // 16, 2, 8, 2, 4).transpose(0, 3, 2, 1, 4).reshape(rows, 8)
        found[:, form.selector] = (halves << nibbles).sum(1)
    else:
        found[:, : chunks // 8] = (bits.reshape(rows, -1, 8) << nibbles).sum(2)
    return found


def launched(form: Form, *, add: bool, spoilt: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The product and what it should be."""
    generator = np.random.default_rng(1)
    rows, packed = 128 * form.blocks, form.kind > 4
    count = 64 if packed else 32 if form.a in NARROW else 256 // BITS[form.a]
    if form.a in NARROW:
        a, of_a = codes(generator, rows, count, form.a)
        b, of_b = codes(generator, form.columns, 2 * count, form.b)
        a = laid(a, NARROW[form.a][1], packed=packed)
        b = np.concatenate([laid(half, NARROW[form.b][1], packed=packed) for half in np.hsplit(b, 2)], 1)
    else:
        a, b = drawn(generator, (rows, count), form.a), drawn(generator, (form.columns, 2 * count), form.b)
        of_a, of_b = a.astype(np.float64), b.astype(np.float64)
    columns, bits = kept(generator, rows, form, count)
    dense = np.zeros((rows, 2 * count))
    np.put_along_axis(dense, columns, of_a, 1)
    c = drawn(generator, (rows, form.columns), form.sums)
    factors = {4: 1, 5: 2, 6: 4}.get(form.kind, 0)
    scaled = Scaled("", form.columns, "", "")
    a_words, b_words = np.zeros((2, 0), np.uint8), np.zeros(0, np.uint8)
    if factors:
        halves = [scales(generator, scaled, 128, factors) for _ in range(form.blocks)]
        a_words = np.array([each for each, _ in halves])
        b_words, b_factors = scales(generator, scaled, form.columns, factors)
        dense *= np.repeat(np.concatenate([each for _, each in halves]), 2 * count // factors, 1)
        of_b = of_b * np.repeat(b_factors, 2 * count // factors, 1)
    images = []
    for block in range(form.blocks):
        of_block = slice(128 * block, 128 * block + 128)
        part = form.columns // form.blocks
        first, a_at = image(a[of_block], transposed="a" in form.transposed, mode=form.mode)
        second, b_at = image(b[part * block : part * block + part], transposed="b" in form.transposed, mode=form.mode)
        room = [np.resize(np.append(each, np.zeros(1024, np.uint8)), 1024) for each in (a_words[block], b_words)]
        images += [first[:16384], second[:16384], *room]
    metadata = np.concatenate([words(form, half) for half in np.vsplit(bits, form.blocks)])
    if spoilt is not None:
        metadata[3, form.selector] = spoilt
    out = np.full((rows, 256), 7, np.uint32)
    width = np.uint16 if form.sums == "f16" else np.uint32
    out[:, : form.columns] = c.view(width)
    macros = {"GROUP": f'"{form.blocks}"', "BLOCKS": str(form.blocks), "METADATA": "256"}
    loaded("tensor_sparse", macros, capability=(10, 0), specific=True).launch(
        (form.blocks, 1, 1),
        (128, 1, 1),
        (
            out,
            np.concatenate(images).view(np.uint32),
            metadata,
            a_at,
            b_at,
            np.uint32(form.described()),
            np.int32(form.kind),
            np.int32(add),
        ),
        shared_bytes=32768 + 2048,
    )
    expected = dense @ of_b.T + add * c.astype(np.float64)
    found = out[:, : form.columns]
    return (found.astype(width) if form.sums == "f16" else np.ascontiguousarray(found)).view(TYPES[form.sums]), expected


FORMS = [
    Form(0, 64, "f32", "bf16", "bf16"),
    Form(0, 256, "f16", "f16", "f16", 2, selector=1),
    Form(0, 32, "f32", "f16", "f16", 0, transposed="ab"),
    Form(0, 64, "f32", "f16", "f16", blocks=2),
    Form(1, 48, "f32", "tf32", "tf32", selector=1),
    Form(2, 32, "f32", "e4m3", "e5m2"),
    Form(2, 8, "f32", "e2m1", "e3m2", 0),
    Form(3, 32, "s32", "s8", "u8", 2),
    Form(4, 64, "f32", "e5m2", "e2m3"),
    Form(4, 128, "f32", "e4m3", "e4m3", blocks=2),
    Form(5, 128, "f32", "e2m1", "e2m1"),
    Form(6, 64, "f32", "e2m1", "e2m1", 2),
]


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_a_product_is_of_the_columns_that_metadata_name(form: Form, add: bool) -> None:
    found, expected = launched(form, add=add)
    if form.sums == "f16":
        np.testing.assert_allclose(found.astype(np.float64), expected, rtol=1e-3, atol=1e-3)
    else:
        np.testing.assert_allclose(found.astype(np.float64), expected, rtol=2e-7, atol=1e-5)


@pytest.mark.parametrize("spoilt", [0x44444445, 0x44444441])  # a column twice, and the higher one first
def test_metadata_that_the_isa_does_not_list_are_found(spoilt: int) -> None:
    with finds(DefectKind.INVALID_METADATA):
        launched(Form(2, 32, "f32", "e4m3", "e4m3"), add=False, spoilt=spoilt)


def test_only_wide_numbers_have_a_selector() -> None:
    with finds(DefectKind.INVALID_DESCRIPTOR):
        launched(Form(2, 32, "f32", "e4m3", "e4m3", selector=1), add=False)
