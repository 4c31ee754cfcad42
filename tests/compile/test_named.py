"""Numbers that a kernel's source names, of which some become inputs."""

from dataclasses import replace

import pytest
from synthetic_cases import make_case

from peakgate.compile.named import MOST_NUMBERS, named_numbers
from peakgate.spec.case import Scalar, Stage


@pytest.fixture
def named(tmp_path):
    """The numbers named by a kernel with this text, and these arguments beside its own."""

    def read(text, *arguments):
        source = tmp_path / f"{len(list(tmp_path.iterdir()))}.cu"
        source.write_text(text)
        case = make_case(stage=Stage("k", "", source))
        return named_numbers(replace(case, arguments=(*case.arguments, *arguments)))

    return read


@pytest.mark.parametrize(
    ("text", "reals", "integers"),
    [
        ("y = 2.5f; if (x > 3.0f) y = 0.1f;", (3.0, 2.5), ()),
        ("x >= -6.f", (6.0,), ()),
        ("c == 'A' || c == 0x61", (), (65.0, 97.0)),
        ("switch (x) { case 100: return 7u; }", (), (100.0, 7.0)),
        ("x << 5; x >> 3; x < 200", (), (200.0, 5.0, 3.0)),
        ("if (x > 4) y = 5;", (4.0,), (4.0, 5.0)),
        ('// 3.0f\n/* 4.0f > */ const char* s = "5.0"; v1.x2 = a[0];', (), ()),
        ("x == 1e30f; y == 1e-12f; z = 4096.0f;", (), ()),
    ],
)
def test_numbers_come_from_code_and_first_from_comparisons(named, text, reals, integers):
    found = named(text)
    assert (found.reals, found.integers) == (reals, integers)


def test_numbers_of_included_files_count(named, tmp_path):
    (tmp_path / "limit.cuh").write_text("#define LIMIT 6.0f")
    assert named('#include "limit.cuh"\nx > LIMIT').reals == (6.0,)


def test_real_values_that_a_kernel_is_given_are_named(named):
    assert named("x > limit", Scalar(-0.25, "float32"), Scalar(7), Scalar(0.1, "float32")).reals == (0.25,)


def test_only_a_few_numbers_are_taken(named):
    text = " ".join(f"x == {number}.0f;" for number in range(1, 30))
    assert named(text).reals == tuple(range(1, MOST_NUMBERS + 1))


def test_a_library_call_names_nothing():
    assert not named_numbers(make_case()).reals
