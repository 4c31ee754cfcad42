"""Textures and surfaces give what the CUDA guide says, on arguments as a family describes them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import peakgate_emulator as emulator
from peakgate.base.errors import PeakgateError
from peakgate.device.cpu import CpuLaunchable, seen_texels
from peakgate.family import In
from peakgate.run import case_data
from peakgate.spec.arguments import Surface, TexelBuffer, Texture, seen_as
from peakgate.spec.case import Buffer, Role, Scale
from peakgate.spec.catalogue import module_at
from peakgate_emulator import DefectKind, KernelDefect, TexelArray

FOLDER = Path(__file__).parents[1] / "data" / "digests" / "kernels" / "textures"
KERNELS = FOLDER / "textures.cu"
RECORD = Path(__file__).parents[1] / "data" / "digests" / "h200.json"
FAMILY: Any = module_at(FOLDER / "family.py")
IMAGE = np.arange(5 * 7, dtype=np.float32).reshape(5, 7) ** 2


@pytest.fixture(scope="module", autouse=True)
def _prebuilt() -> None:
    emulator.prebuild([(KERNELS, name, ()) for name in ("plane", "volume", "fetch", "surfaces")])


def as_texture(array: np.ndarray[Any, Any], how: Texture | Surface) -> TexelArray:
    return TexelArray(array, seen_texels(TexelBuffer(Role.IN, array.shape, array.dtype.name, None, how)))


textures = st.builds(
    Texture,
    address=st.sampled_from(("clamp", "border")),
    linear=st.booleans(),
) | st.builds(
    Texture,
    address=st.sampled_from(("clamp", "border", "wrap", "mirror")),
    linear=st.booleans(),
    normalized_coords=st.just(True),
)


@settings(max_examples=30, deadline=None)
@given(textures, st.integers(-40, 40), st.integers(1, 30))
def test_every_mode_reads_the_texels_that_the_guide_names(how: Texture, start: int, step: int) -> None:
    out = np.zeros((6, 9), np.float32)
    arguments = (out, as_texture(IMAGE, how), np.int32(9), np.int32(6), np.float32(start / 16), np.float32(step / 64))
    emulator.load(KERNELS, "plane").launch((1, 2, 1), (32, 4, 1), arguments)
    places = [np.float32(start / 16) + np.arange(size, dtype=np.float32) * np.float32(step / 64) for size in out.shape]
    assert out.tolist() == FAMILY.sampled(how, IMAGE, places).tolist()


@pytest.mark.parametrize("entry", ["plane", "volume", "surfaces"])
def test_outputs_are_those_of_the_recorded_gpu(entry: str) -> None:
    recorded = json.loads(RECORD.read_text())["outputs"]
    cases = [case for case in FAMILY.FAMILY.cases(Scale.SMALL) if case.stage.entry == entry]
    for case in cases:
        launchable = CpuLaunchable(case)
        launchable.run()
        for at, output in enumerate(launchable.outputs):
            real = recorded[f"{case.id}/{at}"]["gpu"]
            named = f"{output.dtype.str}{output.shape}".encode()
            assert hashlib.sha256(named + output.tobytes()).hexdigest()[:16] == real, case.id
    assert cases


def test_a_texel_outside_linear_memory_is_a_defect() -> None:
    texels, out = np.ones((8, 2), np.float32), np.zeros((16, 2), np.float32)
    how = Texture(channels=2, linear_memory=True)
    with pytest.raises(KernelDefect, match=r"tex1Dfetch of texel 15 of argument 2 \(texels\), .* of 8") as caught:
        emulator.load(KERNELS, "fetch").launch((1, 1, 1), (64, 1, 1), (out, as_texture(texels, how), np.int32(16)))
    assert caught.value.defects[0].kind is DefectKind.OUT_OF_BOUNDS


@pytest.mark.parametrize(
    ("given_object", "complaint"),
    [
        (np.uint64(1234), "tex1Dfetch of an object that is no texture"),
        (as_texture(IMAGE, Texture()), "tex1Dfetch of argument 2 .texels., which is a texture of 2 dimensions"),
    ],
)
def test_an_object_of_another_kind_is_a_defect(given_object: Any, complaint: str) -> None:
    out = np.zeros((8, 2), np.float32)
    with pytest.raises(KernelDefect, match=complaint):
        emulator.load(KERNELS, "fetch").launch((1, 1, 1), (64, 1, 1), (out, given_object, np.int32(8)))


def test_texels_of_another_type_than_the_kernel_reads_are_named() -> None:
    texels = as_texture(np.ones((8, 2), np.int32), Texture(channels=2, linear_memory=True))
    with pytest.raises(
        emulator.KernelBuildError, match="2 floating-point channels from a texture that gives 2 integer"
    ):
        emulator.load(KERNELS, "fetch").launch(
            (1, 1, 1), (64, 1, 1), (np.zeros((8, 2), np.float32), texels, np.int32(8))
        )


def test_a_pointer_takes_no_object() -> None:
    texels = as_texture(IMAGE, Texture())
    with pytest.raises(
        emulator.EmulatorError,
        match=r"argument 1 \(out\): a texture or surface given",
    ):
        emulator.load(KERNELS, "fetch").launch((1, 1, 1), (64, 1, 1), (texels, texels, np.int32(8)))


@pytest.mark.parametrize(
    ("shape", "dtype", "how", "complaint"),
    [
        ((8,), "float64", Texture(), "of float64: expected one of int8"),
        ((8, 3), "float32", Texture(channels=3), "expected 1, 2 or 4 channels"),
        ((8, 2), "float32", Texture(channels=4), "as the last axis"),
        ((2, 2, 2, 2), "float32", Texture(), "expected 1 to 3 dimensions"),
        ((2, 8), "float32", Surface(layered=True), "2 beside layers"),
        ((8,), "int32", Texture(linear=True), "expected floats, or normalized_read"),
        ((8,), "int32", Texture(normalized_read=True), "expected integers of 8 or 16 bits"),
        ((8,), "float32", Texture(address="wrap"), "expected normalized_coords"),
        ((8, 8), "float32", Texture(linear_memory=True), "expected one dimension"),
    ],
)
def test_what_cuda_has_no_object_for_is_refused(
    shape: tuple[int, ...], dtype: str, how: Texture | Surface, complaint: str
) -> None:
    with pytest.raises(PeakgateError, match=complaint):
        TexelBuffer(Role.IN, shape, dtype, None, how)


@pytest.mark.parametrize("how", [Texture("mirror", linear=True, normalized_coords=True), Surface(channels=2), None])
def test_a_case_listed_as_data_keeps_its_objects(how: Texture | Surface | None) -> None:
    plain = Buffer(Role.INOUT, (4, 2), "float32")
    buffer = plain if how is None else TexelBuffer(Role.INOUT, (4, 2), "float32", None, how)
    kept = case_data.as_record(json.loads(json.dumps(case_data.as_data(buffer))), Path())
    assert kept == buffer
    assert seen_as(plain, buffer) == buffer
    assert seen_as(buffer, plain) == plain


def test_a_plain_buffer_is_described_as_before() -> None:
    assert repr(In(4)) == repr(Buffer(Role.IN, (4,)))
