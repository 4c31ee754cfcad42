"""Tensor maps as arguments: how a family lists them, what CUDA has none of, and how they are encoded."""

import ctypes
import json
from pathlib import Path

import pytest
from emulating import CUDA
from expecting import refuses
from synthetic_cases import make_case

from peakgate.base.errors import Code
from peakgate.device import driver
from peakgate.device.tensor_maps import encoded
from peakgate.family import In, Out, Temp, TensorMap, Value, kernel, launch
from peakgate.inspect.emulate import check_build
from peakgate.inspect.mutants import targets
from peakgate.inspect.problems import builds
from peakgate.run.case_data import as_data, as_record
from peakgate.spec.arguments import StridedMapArgument, TensorMapArgument
from peakgate.spec.case import Buffer, KernelLaunch, Role, Scalar, Scale, Stage

BOX = (128, 64)
FAMILY = """
from peakgate.family import In, Out, TensorMap, kernel
def arguments(m, n):
    arrays = Out(m, n, dtype="float16"), In(m, n, dtype="float16")
    return [TensorMap(array, box=(8, 64), swizzle=128) for array in arrays]
FAMILY = kernel(
    "tiles.cu", arguments=arguments, grid=lambda m, n: (-(-n // 64), -(-m // 8)), block=32, min_capability="9.0",
    bytes=lambda m, n: 4 * m * n, reference=lambda xp, x: x, sizes=[(4096, 4096)],
)
"""


def case_of(arguments, size=(256, 512), **given):
    shape = {} if "launches" in given else {"grid": 1, "block": 32}
    described = {"reference": lambda xp, *inputs: inputs[0], "bytes": lambda *_: 1, "min_capability": "9.0"}
    family = kernel("tiles.cu", arguments=arguments, sizes=[size], **described | shape | given)
    (case,) = family.cases(Scale.BENCH)
    return case


def matrices(m, n):
    return Out(m, n, dtype="bfloat16"), In(m, n, dtype="bfloat16")


def test_an_array_may_be_passed_through_its_map_alone():
    def arguments(m, n):
        out, a = matrices(m, n)
        return [out, TensorMap(a, box=BOX, swizzle=128), Value(m), TensorMap(a, box=(1, 64)), TensorMap(out, box=BOX)]

    case = case_of(arguments)
    out, a = matrices(256, 512)
    small = TensorMapArgument(1, (1, 64))
    assert case.arguments == (out, a, TensorMapArgument(1, BOX, 128), Scalar(256), small, TensorMapArgument(0, BOX))
    assert case.launches == (KernelLaunch("tiles", case.launch, (0, 2, 3, 4, 5)),)
    assert (case.inputs, case.outputs) == ((a,), (out,))


def test_an_array_may_be_passed_as_a_pointer_too():
    def arguments(m, n):
        out, a = matrices(m, n)
        return [out, TensorMap(a, box=BOX), a]

    case = case_of(arguments)
    assert case.arguments == (*matrices(256, 512)[:1], TensorMapArgument(2, BOX), matrices(256, 512)[1])
    assert not case.sequence


def test_several_launches_name_maps_as_they_name_arrays():
    def arguments(m, n):
        out, a = matrices(m, n)
        return {"out": out, "a": a, "a_map": TensorMap("a", box=BOX), "sums": Temp(8)}

    steps = [launch("tiles", "a_map sums", grid=1, block=32), launch("last", "out sums", grid=1, block=32)]
    assert [each.takes for each in case_of(arguments, launches=steps).launches] == [(2, 3), (0, 3)]
    refused = case_of(lambda m, n: {"out": Out(m, n), "b_map": TensorMap("b", box=BOX)})
    assert "named b" in refused.reason


def test_a_reference_kernel_takes_arrays_in_place_of_maps():
    def arguments(m, n):
        out, a = matrices(m, n)
        return [TensorMap(out, box=BOX), TensorMap(a, box=BOX), Value(n)]

    reference = case_of(arguments, reference=launch("naive", grid=1, block=32, source="naive.cu")).reference
    assert [reference.arguments[at] for at in reference.launches[0].takes] == [*matrices(256, 512), Scalar(512)]


MISTAKES = {
    "a dtype that TMA does not move": {"dtype": "int4"},
    "no axis": {"shape": (), "box": ()},
    "six axes": {"shape": (8,) * 6, "box": (8,) * 6},
    "a side of no axis": {"box": (1, 128, 64)},
    "a side of 257": {"box": (257, 64)},
    "no side": {"box": (0, 64)},
    "rows of 24 bytes in the box": {"box": (128, 12)},
    "rows wider than the swizzle": {"box": (128, 64), "swizzle": 64},
    "rows of 1032 bytes": {"shape": (256, 516)},
    "a swizzle of 16": {"box": (128, 8), "swizzle": 16},
    "a promotion to 512": {"l2": 512},
    "an argument that is no array": {"of": 2},
    "an argument that is not there": {"of": 9},
    "GPUs without TMA": {"min_capability": (8, 0)},
    "axes beyond the array": {"axes": ((257, 512), (512, 1))},
    "a last stride of 2": {"axes": ((256, 512), (256, 2))},
    "a stride of 8 bytes": {"axes": ((8, 4), (128, 1))},
    "fewer axes than sides": {"axes": ((512, 1),)},
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_map_that_cuda_does_not_have_is_refused_in_one_line(mistake, tmp_path):
    usual = {"of": 0, "shape": (256, 512), "dtype": "bfloat16", "box": BOX, "min_capability": (9, 0)}

    def made(of, shape, dtype, min_capability, **described):
        stage = Stage("tiles", "", tmp_path / "tiles.cu", min_capability=min_capability)
        buffer = Buffer(Role.IN, shape, dtype)
        kind = StridedMapArgument if "axes" in described else TensorMapArgument
        return make_case(stage=stage, arguments=(buffer, kind(of, **described), Scalar(1)))

    assert made(**usual).arguments[1].box == BOX
    with pytest.raises(ValueError, match=r"argument 2 of 3 is a tensor map .*; expected") as refused:
        made(**usual | MISTAKES[mistake])
    assert "\n" not in str(refused.value)


@pytest.fixture
def tiles(project):
    return project("tiles", FAMILY, tiles=(CUDA / "tiles.cu").read_text()) / "tiles.cu"


def test_sizes_whose_rows_no_map_takes_are_left_out(tiles):
    ((_, problems),) = builds().items()
    columns = {problem.buffers[0].shape[1] for problem in problems}
    assert len(columns) > 1
    assert all(each % 8 == 0 for each in columns)


def test_the_emulator_checks_kernels_that_copy_through_maps(tiles):
    ((key, _),) = builds().items()
    found = check_build("", None, key, (0,), lambda _: None)
    assert (found.findings, found.skipped, found.broken) == ((), None, None)
    assert found.launches > 1
    assert not targets()[1]
    tiles.write_text(tiles.read_text().replace('"r"(1024)', '"r"(1040)'))
    found = check_build("", None, key, (0,), lambda _: None)
    assert {finding.kind for finding in found.findings} == {"endless loop"}


def test_a_map_is_part_of_what_a_changes_process_lists():
    case = case_of(lambda m, n: [TensorMap(each, box=BOX, swizzle=128, l2=256) for each in matrices(m, n)])
    sent = as_record(json.loads(json.dumps(as_data(case))), Path("/"))
    assert (sent.arguments, sent.sequence) == (case.arguments, case.sequence)
    other = json.loads(json.dumps(as_data(case.arguments[1])))
    other["TensorMapArgument"]["swizzle"] = 96
    with pytest.raises(TypeError):
        as_record(other, Path())


def test_a_map_is_encoded_for_the_place_of_its_array(monkeypatch):
    asked = {}

    def encode(target, **given):
        asked.update(given, target=target)
        ctypes.memmove(target, bytes(range(128)), 128)
        return 0

    monkeypatch.setattr(driver, "encode_tensor_map", encode)
    buffer = Buffer(Role.IN, (4, 256, 512), "bfloat16")
    found = encoded(TensorMapArgument(0, (1, 128, 64), 128, 256), buffer, 1 << 32)
    assert (found.shape, found.tobytes()) == ((), bytes(range(128)))
    assert asked.pop("target") % 128 == 0
    assert asked == {
        "element_type": 9,
        "address": 1 << 32,
        "extents": (512, 256, 4),
        "strides_bytes": (1024, 262144),
        "box": (64, 128, 1),
        "swizzle": 3,
        "l2_promotion": 3,
    }


def test_a_map_may_see_other_axes_than_the_arrays(monkeypatch):
    columns = ((8, 64), (256, 512), (64, 1))  # 64 columns of all rows at a time

    def arguments(m, n):
        array = In(m, n, dtype="bfloat16")
        return [Out(m, n, dtype="bfloat16"), TensorMap(array, box=(1, 128, 64), axes=columns)]

    case = case_of(arguments)
    seen = case.arguments[2]
    sent = as_record(json.loads(json.dumps(as_data(case))), Path("/"))
    assert sent.arguments == case.arguments
    asked = {}
    monkeypatch.setattr(driver, "encode_tensor_map", lambda _, **given: asked.update(given) or 0)
    encoded(seen, case.arguments[1], 1 << 32)
    assert (asked["extents"], asked["strides_bytes"], asked["box"]) == ((64, 256, 8), (1024, 128), (64, 128, 1))


def test_a_map_that_the_driver_refuses_leaves_the_case_undecided(monkeypatch):
    monkeypatch.setattr(driver, "encode_tensor_map", lambda *_, **__: 1)
    with refuses(Code.ARGUMENTS):
        encoded(TensorMapArgument(0, BOX), matrices(256, 512)[1], 8)
