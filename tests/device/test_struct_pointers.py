"""Structs with pointers as arguments: how a family lists them, how they are packed, and what the emulator finds."""

import json
import struct
from pathlib import Path

import pytest
from expecting import refuses
from synthetic_cases import make_case

from peakgate.base.errors import Code
from peakgate.case import BufferAddress
from peakgate.family import In, InOut, Out, Struct, Surface, Temp, Texture, Value, kernel, launch
from peakgate.inspect.emulate import check_case
from peakgate.run.case_data import as_data, as_record
from peakgate.run.identity import terms
from peakgate.run.listing import Listed
from peakgate.spec.case import KernelLaunch, Scalar, Scale

PARAMS = (("tag", "int8"), ("out", "pointer"), ("in", "pointer"), ("n", "int32"), ("scale", "float32"))
LINE = (("y", "pointer"), ("x", "pointer"))


def params(n):
    return [Struct((7, Out(n), In(n), n, 0.5), PARAMS)]


def case_of(arguments=params, source="own.cu", **given):
    shape = {} if "launches" in given else {"grid": lambda n: -(-n // 32), "block": 32}
    described = {"reference": lambda xp, x: x / 2, "bytes": lambda n: 8 * n, "sizes": [100]}
    (case,) = kernel(str(source), arguments=arguments, **described | shape | given).cases(Scale.BENCH)
    return case


def test_the_arrays_of_a_struct_are_arrays_of_the_case():
    case = case_of()
    packed = Struct((7, BufferAddress(0), BufferAddress(1), 100, 0.5), PARAMS)
    assert case.arguments == (Out(100), In(100), packed)
    assert case.launches == (KernelLaunch("own", case.launch, (2,)),)
    assert (case.inputs, case.outputs, case.buffer_bytes) == ((In(100),), (Out(100),), 800)


def test_an_array_may_be_in_a_struct_and_an_argument_too():
    def arguments(n):
        x = In(n)
        return [x, Struct((Out(n), x), LINE), Struct((InOut(n), x), LINE), Value(n)]

    members = [each.values for each in case_of(arguments).arguments if isinstance(each, Struct)]
    assert case_of(arguments).launches[0].takes == (0, 2, 4, 5)
    assert members == [(BufferAddress(1), BufferAddress(0)), (BufferAddress(3), BufferAddress(0))]


def test_members_are_aligned_as_in_c():
    inner = Struct((1.5, 3, BufferAddress(1)), (("by", "float64"), ("kind", "int8"), ("bias", "pointer")))
    values = (7, inner, 9, (BufferAddress(0), BufferAddress(1)), (4, 5), None)
    kinds = ("int8", "struct", "int8", "pointer", "int16", "pointer")
    packed = Struct(values, tuple(zip("abcdef", kinds, strict=True)))
    expected = struct.pack("b7x db7xQ b7x QQ hh4x Q", 7, 1.5, 3, 64, 9, 32, 64, 4, 5, 0)
    assert packed.as_numpy({0: 32, 1: 64}).tobytes() == expected
    assert [(at, name) for at, (name, _) in packed.pointers().items()] == [(24, "b.bias"), (40, "d[0]"), (48, "d[1]")]


def test_structs_of_numbers_are_packed_and_named_as_before():
    line = Struct((3, 0.5), (("offset", "int32"), ("slope", "float64")))
    assert line.as_numpy().tobytes() == struct.pack("i4xd", 3, 0.5)
    assert repr(line) == "Struct(values=(3, 0.5), members=(('offset', 'int32'), ('slope', 'float64')))"
    case = case_of(lambda n: [Out(n), In(n), line, Value(n)])
    assert (case.arguments, case.sequence) == ((Out(100), In(100), line, Scalar(100)), ())
    found = terms([Listed(case, ())])[case.id]
    assert (found.launch, found.buffers) == ("cc7c9c11bda3", "cf8602e27373")


def test_several_launches_name_the_arrays_of_a_struct():
    def arguments(n):
        return {"p": Struct((Out(n), In(n)), LINE), "sums": Temp(8), "n": Value(n)}

    steps = [launch("first", "p sums", grid=1, block=32), launch("last", "p.y sums n", grid=1, block=32)]
    assert [each.takes for each in case_of(arguments, launches=steps).launches] == [(2, 3), (0, 3, 4)]


def test_a_reference_kernel_takes_the_struct_or_its_arrays():
    described = {"grid": 1, "block": 32, "source": "naive.cu"}
    same = case_of(reference=launch("naive", **described)).reference
    plain = case_of(lambda n: {"p": params(n)[0]}, reference=launch("naive", "p.out p.in", **described)).reference
    assert [each.launches[0].takes for each in (same, plain)] == [(2,), (0, 1)]


def test_a_struct_with_pointers_is_part_of_what_a_change_lists():
    case = case_of(
        lambda n: [Struct((Struct((Out(n), In(n)), LINE), (In(n), None)), (("l", "struct"), ("r", "pointer")))]
    )
    sent = as_record(json.loads(json.dumps(as_data(case))), Path("/"))
    assert (sent.arguments, sent.sequence) == (case.arguments, case.sequence)


MISTAKES = {
    "a number for a pointer": ((Out(8), 5), LINE),
    "an array for a number": ((Out(8), In(8)), (("y", "pointer"), ("x", "float32"))),
    "a texture": ((Out(8), In(8, texture=Texture())), LINE),
    "a surface": ((Out(8, surface=Surface()), None), LINE),
    "a struct for a pointer": ((Out(8), Struct((1,), (("n", "int32"),))), LINE),
    "an array of nothing": ((Out(8), ()), LINE),
    "no value for a pointer": ((Out(8),), LINE),
    "None for a number": ((Out(8), None), (("y", "pointer"), ("n", "int32"))),
    "structs of two layouts": (
        ((Struct((Out(8),), (("y", "pointer"),)), Struct((1,), (("n", "int32"),))),),
        (("both", "struct"),),
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_struct_that_is_none_is_refused_in_one_line(mistake):
    with pytest.raises(ValueError, match="a struct") as refused:
        Struct(*MISTAKES[mistake])
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("target", [In(8), BufferAddress(1), BufferAddress(7)])
def test_a_struct_points_to_an_array_of_its_case(target):
    with pytest.raises(ValueError, match=r"argument 2 of 2 is a struct whose x is .*; expected"):
        make_case(arguments=(Out(8), Struct((BufferAddress(0), target), LINE)))


OWN = """
struct Params { char tag; float* out; const float* in; int n; float scale; };
__global__ void own(Params p) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < p.n) p.out[i] = p.scale * p.in[i];
}
"""


@pytest.fixture
def findings(tmp_path):
    """What the emulator finds in a kernel: kinds and sentences."""

    def found(text, arguments=params, **given):
        (tmp_path / "own.cu").write_text(text)
        case = case_of(arguments, tmp_path / "own.cu", **given)
        return {finding.kind: finding.what for each in check_case(case, (0, 2)) for finding in each}

    return found


def test_a_right_kernel_is_right(findings):
    assert findings(OWN) == {}


@pytest.mark.parametrize(
    ("old", "new", "kind", "named"),
    [
        ("i < p.n", "i <= p.n", "out of bounds", "argument 1 (p.in)"),
        ("p.out[i] =", "p.out[i + 1] =", "out of bounds", "argument 1 (p.out)"),
        ("p.out[i] =", "p.out[i / 2] =", "global race", ""),
        ("i < p.n", "i < p.n - 1", "unwritten output", "argument 1 (p.out)"),
        ("p.out[i] =", "p.out[i] +=", "uninitialised global", ""),
        ("p.scale * p.in[i]", "p.in[i]", "wrong result", ""),
        ("if (i", "((float*)p.in)[i] = 1; if (i", "const write", "argument 1 (p.in)"),
    ],
)
def test_a_defect_through_a_structs_pointer_is_found(findings, old, new, kind, named):
    found = findings(OWN.replace(old, new))
    assert kind in found
    assert named in found[kind]


ROWS = """
struct Inner { const float* bias; double by; };
struct Rows { char tag; Inner inner[2]; const float* rows[2]; float* out; };
__global__ void own(const __grid_constant__ Rows p, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p.out[i] = p.rows[0][i] + p.inner[1].by * p.rows[1][i] + p.inner[0].bias[i % 3];
}
"""


def rows(n):
    inner = (("bias", "pointer"), ("by", "float64"))
    nested = Struct((In(3), 1.0), inner), Struct((None, 2.0), inner)
    members = (("tag", "int8"), ("inner", "struct"), ("rows", "pointer"), ("out", "pointer"))
    return [Struct((1, nested, (In(n), In(n)), Out(n)), members), Value(n)]


def test_structs_in_structs_and_arrays_of_pointers_are_passed(findings):
    def sum_of(xp, bias, x, y):
        return x + 2 * y + xp.resize(bias, len(x))

    assert findings(ROWS, rows, reference=sum_of) == {}
    beyond = findings(ROWS.replace("rows[1][i]", "rows[1][i + 1]"), rows, reference=sum_of)
    assert "argument 1 (p.rows[1])" in beyond["out of bounds"]
    other = findings(ROWS.replace("i % 3", "i % 4"), rows, reference=sum_of)
    assert "argument 1 (p.inner[0].bias)" in other["out of bounds"]
    null = findings(ROWS.replace("inner[0].bias", "inner[1].bias"), rows, reference=sum_of)
    assert null


def test_a_struct_of_another_size_than_the_kernels_is_refused(findings):
    with refuses(Code.ARGUMENTS):
        findings(OWN.replace("char tag;", "char tag; double more;"))
