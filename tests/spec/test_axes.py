"""Sweeps by axes: which builds and cases they make, and what functions are given of them."""

from itertools import count

import pytest

from peakgate.spec import catalogue
from peakgate.spec.case import Scale, Tier

USUAL = {
    "source": "'scale.cu'",
    "arguments": "lambda n: [Out(n), In(n), Value(n)]",
    "grid": "lambda n: -(-n // 32)",
    "block": "32",
    "bytes": "lambda n: 8 * n",
    "reference": "lambda xp, x: 2 * x",
    "sizes": "[64, 128]",
    "edges": "[3]",
}


@pytest.fixture
def described(project):
    """What is described of a family whose parameters are these, by scale."""

    numbers = count()

    def run(scale=Scale.BENCH, **given):
        every = {name: value for name, value in (USUAL | given).items() if value is not None}
        call = ", ".join(f"{name}={value}" for name, value in every.items())
        imports = "from peakgate.family import Check, Compile, In, InOut, Out, Value, kernel\n"
        folder = project(f"scale{next(numbers)}", f"{imports}FAMILY = kernel({call})\n", scale="")
        return catalogue.described(scale, file=folder / "family.py")

    return run


def ids(found):
    assert found.refused == []
    return [case.id.partition(".scale-")[2] for case in found.cases]


def test_a_block_that_is_an_axis_is_launched_and_part_of_the_id(described):
    found = described(block=None, axes="{'block': [32, (8, 8)]}", grid="lambda n, block: n // 32")
    assert ids(found) == ["64-32", "128-32", "64-8x8", "128-8x8"]
    assert {(case.launch.block, case.launch.grid[0]) for case in found.cases if case.size == "128"} == {
        ((32, 1, 1), 4),
        ((8, 8, 1), 4),
    }


def test_numbers_of_the_size_may_be_axes(described):
    axes = "{'m': [8, 16], 'n': {'narrow': 4}, 'block': [32, 64]}"
    arguments = "lambda m, n: [Out(m, n), In(m, n)]"
    found = described(sizes=None, block=None, axes=axes, arguments=arguments, grid="1", bytes="lambda m, n: m * n")
    assert ids(found) == ["8xnarrow-32", "16xnarrow-32", "8xnarrow-64", "16xnarrow-64"]
    assert [case.work.bytes for case in found.cases] == [32, 64, 32, 64]


def test_labels_are_given_or_texts_or_the_axis_and_its_number(described):
    axes = "{'pad': {'': 0, 'padded': 1}, 'of': ['f32'], 'vec': [1, 4]}"
    assert ids(described(sizes="[64]", axes=axes)) == [
        "64-f32-vec1",
        "64-f32-vec4",
        "64-padded-f32-vec1",
        "64-padded-f32-vec4",
    ]


def test_a_variant_takes_the_place_of_the_labels(described):
    found = described(axes="{'pad': [0, 1]}", variant="lambda n, pad: f'p{pad}' if n > 64 else f'q{pad}'")
    assert ids(found) == ["64-q0", "128-p0", "64-q1", "128-p1"]


def test_where_leaves_holes_but_no_build_without_a_size(described):
    given = {"axes": "{'pad': [0, 1, 2]}", "where": "lambda n, pad: pad == 0 or (pad == 1 and n > 64)"}
    assert ids(described(**given)) == ["64-pad0", "128-pad0", "128-pad1"]
    assert ids(described(Scale.SMALL, **given)) == ["3-pad0", "3-pad1"]
    assert ids(described(Scale.SMALL, small_sizes="[16, 80]", **given)) == ["16-pad0", "80-pad0", "80-pad1"]


def test_a_builds_parameters_are_axes_or_functions_of_them(described):
    found = described(
        axes="{'pad': [0, 1], 'shared_bytes': {'s1K': 1024}}",
        defines="lambda pad: {'PAD': pad}",
        sizes="lambda pad: [64] if pad else [128]",
        small_sizes="lambda pad: [16] if pad else None",
        gate="lambda n, pad: pad == 1",
    )
    assert ids(found) == ["128-pad0-s1K", "64-pad1-s1K"]
    assert [(case.defines, case.launch.shared_bytes, case.tier) for case in found.cases] == [
        ((("PAD", "0"),), 1024, Tier.FULL),
        ((("PAD", "1"),), 1024, Tier.GATE),
    ]
    assert [case.id for case in catalogue.cases(Scale.SMALL)] == ["scale0.scale-16-pad1-s1K"]


def test_each_build_is_proven_by_problems_of_its_own(described):
    found = described(axes="{'pad': [0, 1]}", defines="lambda pad: {'PAD': pad}")
    for case in found.cases:
        assert [probe.build for probe in catalogue.probes(case, found.families)] == [case.build]


def test_a_reference_takes_axes_by_keyword(described):
    found = described(axes="{'by': [2, 3]}", reference="lambda xp, x, *, by, n: [by, n]", sizes="[64]")
    assert [case.reference(None, [0]) for case in found.cases] == [[2, 64], [3, 64]]


def test_groups_say_the_same_as_their_fields_alone(described):
    (alone,) = described(sizes="[64]", tolerance="0.5", defines="{'A': 1}", min_capability="'8.0'").cases
    grouped = {"check": "Check(tolerance=0.5)", "compile": "Compile(defines={'A': 1}, min_capability='8.0')"}
    (case,) = described(sizes="[64]", **grouped).cases
    assert (case.tolerance, case.defines, case.stage.needs) == (alone.tolerance, alone.defines, alone.stage.needs)
    found = described(sizes="[64]", axes="{'by': [1, 2]}", check="lambda by: Check(tolerance=by / 10)")
    assert [case.tolerance for case in found.cases] == [0.1, 0.2]


def test_the_folder_is_that_of_the_family_whoever_calls_kernel(project, tmp_path):
    (tmp_path / "peakgate.toml").write_text('pythonpath = ["shared"]\n')
    (tmp_path / "shared").mkdir()
    call = ", ".join(f"{name}={value}" for name, value in USUAL.items())
    (tmp_path / "shared" / "makes_kernels.py").write_text(
        f"from peakgate.family import In, Out, Value, kernel\ndef made():\n    return kernel({call})\n"
    )
    project("scale", "from makes_kernels import made\nFAMILY = made()\n", scale="")
    (case, _) = catalogue.cases(Scale.BENCH)
    assert (case.family, case.stage.source) == ("scale", tmp_path / "kernels" / "scale" / "scale.cu")


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"blok": "256"}, "kernel: no parameter is named 'blok', did you mean 'block'?"),
        ({"tolerence": "1"}, "kernel: no parameter is named 'tolerence', did you mean 'tolerance'?"),
        ({"sizes": "1 << 26"}, "kernel: sizes is 67108864; expected a list of sizes"),
        ({"sizes": "[(8, 8)]"}, "arguments is a function of (n); expected one of the numbers of a size, 8x8"),
        ({"small_sizes": "5"}, "kernel: small_sizes is 5; expected a list of sizes"),
        ({"bytes": "8"}, "kernel: bytes is 8; expected a function"),
        ({"bytes": "lambda n: 'x'"}, "work: bytes is 'x'; expected a whole number"),
        ({"bytes": "lambda n: n / 3"}, "work: bytes is 21.33"),
        ({"bytes": "lambda n: 0"}, "bytes is 0; expected the bytes"),
        ({"bytes": "lambda n: 0", "flops": "lambda n: 0"}, "bytes is 0 and flops is 0"),
        ({"arguments": "lambda n: [In(n), Value(n)]"}, "arguments has no Out or InOut"),
        ({"arguments": "lambda n: [Out(n, 'float64')]"}, "a type would be dtype='float64'"),
        ({"grid": "lambda n, k: n"}, "grid is a function of (n, k); expected one of"),
        ({"block": "'x'"}, "block is ('x', 1, 1); expected"),
        ({"arguments": "lambda n: [Out(n), 5]"}, "argument 2 of 2 is 5; expected In, Out"),
        ({"arguments": "lambda n: {'out': Out(n), 'x': 5}"}, "argument 2 of 2, x, is 5; expected In, Out"),
        ({"check": "Check(tolerance=1)", "terms": "3"}, "kernel: terms is given beside check"),
        ({"check": "0.5"}, "kernel: check is 0.5; expected a Check(...)"),
        ({"compile": "Compile(options=[1])"}, "compile: options is [1]; expected"),
        ({"axes": "{'pad': 3}"}, "kernel: axes is {'pad': 3}; expected a dict"),
        ({"axes": "{'pad': [1, 1]}"}, "axes: pad has 1 twice"),
        ({"axes": "{'tile': [None]}"}, "axes: no label for a value of tile, None"),
        ({"axes": "{'gate': [True]}"}, "axes: no axis is named gate"),
        ({"axes": "{'a': range(999), 'b': range(999)}"}, "axes have 998001 combinations; expected at most"),
        (
            {"axes": "{'pad': [1]}", "defines": "lambda pd: {}"},
            "defines is a function of (pd); expected one of the axes, pad",
        ),
        ({"axes": "{'n': [64]}", "sizes": None, "arguments": "lambda m, n: []"}, "axes: no m;"),
        ({"axes": "{'n': ['x']}", "sizes": None}, "axes: n is 'x'; expected a whole number"),
        ({"where": "lambda n: False"}, "scale: no size; expected"),
    ],
)
def test_a_mistake_names_the_parameter_and_what_is_expected(described, given, complaint):
    found = described(**given)
    assert {each.reason.endswith("[PG301]") for each in found.refused} == {True}
    assert complaint in found.refused[0].reason
    assert "family.py:2: " in found.refused[0].reason
