"""What a source needs for the emulator is added where it belongs, on the same lines, and nowhere else."""

from __future__ import annotations

import pytest

from peakgate_emulator.attributes import apart, with_bounds, with_keyword

CHECK, APART = " peakgate_launch_bounds({});", " PEAKGATE_APART;"


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("__global__ void __launch_bounds__(128) k(int* out) {@ }", "128"),
        (
            "template <int N>\n__global__ __launch_bounds__(Of<N, 2>::threads, 1) void k(int (&x)[N])\n{@\n}",
            "Of<N, 2>::threads, 1",
        ),
        ("__global__ void __launch_bounds__(128) k(int* out);\nstruct X { int a; };", ""),
        ("#define BOUNDS __launch_bounds__(128)\nstruct X { int a; };", ""),
        ("#define BOUNDS \\\n    __launch_bounds__(128)\nstruct X { int a; };", ""),
        ("// __launch_bounds__(128)\nstruct X { int a; };", ""),
        ("__global__\n#if A\n__launch_bounds__(64)\n#else\n__launch_bounds__(128)\n#endif\nvoid k() {}", ""),
        ("__global__ void __launch_bounds__(n) k(int n) {}", ""),
    ],
    ids=["plain", "template", "prototype", "macro", "macro on lines", "comment", "condition", "parameter"],
)
def test_launch_bounds_are_checked_first_in_the_body(text: str, given: str) -> None:
    assert with_bounds(text.replace("@", "")) == text.replace("@", CHECK.format(given))


@pytest.mark.parametrize(
    "text",
    [
        "View f(int n) {@ float own[4] = {}; return View{&own[0], n}; }",
        "View f(int n) const {@ Own own; if (n) { return view((T*)&own); } return {}; }",
        "auto f = [&](int n) -> View {@ float own = n; return View{&own}; };",
        "auto f(int n) {@ struct { int v[2]; } own; for (;;) { return view(&own); } }",
        "float* f() { static float own[4]; return &own[0]; }",
        "float* f() { __shared__ float own[4]; return &own[0]; }",
        "struct S { float own[4]; float* data() { return &own[0]; } };",
        "constexpr View f(int n) { float own = n; return View{&own}; }",
        "int f(int a, int b) { int own = a; return own & b; }",
        "#define F(x) { int own; return &own; }\nint g() { return 1; }",
    ],
)  # fmt: skip
def test_functions_that_return_addresses_of_their_own_stay_apart(text: str) -> None:
    assert apart(text.replace("@", "")) == text.replace("@", APART)


@pytest.mark.parametrize(
    "text",
    [
        "y = x.@load<4>(0) + p->@as<int, N * 2>() + f().@get<cuda::Kind>(1) + a[1].@get<T>();",
        "y = x.template load<4>(0) + load<4>(0) + Of::load<4>(0);",
        "y = a.first<b && c>(d);",
        "// x.load<4>(0)\n#define LOAD(x) x.load<4>(0)",
        'y = "x.load<4>(0)";',
    ],
)
def test_calls_of_member_templates_get_their_keyword(text: str) -> None:
    assert with_keyword(text.replace("@", "")) == text.replace("@", "template ")
