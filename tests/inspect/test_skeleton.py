"""What a foreign .cu says about its kernels, and the family that is written from it."""

import pytest
from expecting import refuses

from peakgate.base.errors import Code
from peakgate.inspect.skeleton.signature import Draft, LeftOut, arguments_of, drafts
from peakgate.inspect.skeleton.write import skeleton
from peakgate.spec.arguments import BufferAddress, Role, Struct
from peakgate.spec.catalogue import family_at

pytestmark = pytest.mark.usefixtures("idle")
SCALE = "__global__ void scale(float* out, const float* x, int n, float by) { %s }\n"
GUARDED = "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = by * x[i];"
ROUNDED_UP = "void run(float* o, float* x, int n) { scale<<<(n + 255) / 256, 256>>>(o, x, n, 2.0f); }\n"


@pytest.mark.parametrize(
    ("host", "grid", "block"),
    [
        ("scale<<<(n + 255) / 256, 256>>>(o, x, n, 2);", ("-(-n // 256)",), (256,)),
        ("scale<<<(n - 1 + 64) / 64, 64>>>(o, x, n, 2);", ("(n - 1 + 64) // 64",), (64,)),
        ("const int T = 128; scale<<<ceil_div(n, T), T>>>(o, x, n, 2);", ("-(-n // 128)",), (128,)),
        (
            "dim3 block(32, 4), grid(n / block.x, 2); scale<<<grid, block, 0, s>>>(o, x, n, 2);",
            ("n // 32", "2"),
            (32, 4),
        ),
        ("scale<<<std::ceil((float)n / 32), dim3(32)>>>(o, x, n, 2);", ("-(-n // 32)",), (32,)),
        ("int g = n / 8 + (n % 8 ? 1 : 0); scale<<<g, 8>>>(o, x, n, 2);", ("-(-n // 8)",), (8,)),
        (
            "const int T = 64, U = 4; int g = (n + T * U - 1) / (T * U); scale<<<g, T>>>(o, x, n, 2);",
            ("-(-n // 256)",),
            (64,),
        ),
        ("scale<<<rows, 64>>>(o, x, n, 2);", ("rows",), (64,)),
        ("constexpr int N = 32; scale<<<4, static_cast<unsigned>(N)>>>(o, x, N, 2);", ("4",), (32,)),
        ("constexpr int T = 32; scale<<<4, app::T>>>(o, x, n, 2);", ("4",), (32,)),
        ("scale<<<f(n)[0], 1 << 99>>>(o, x, n, 2);", ("-(-n // 256)",), (256,)),
        ("scale<<<n / 0, 64 / 0>>>(o, x, n, 2);", ("-(-n // 256)",), (256,)),
        ("int waves = 0; scale<<<n / (waves * n), 64>>>(o, x, n, 2);", ("-(-n // 64)",), (64,)),
    ],
)
def test_a_launch_is_read_as_functions_of_the_size(host, grid, block):
    (draft,) = drafts(SCALE % GUARDED + f"void run(float* o, float* x, int n, int rows) {{ {host} }}\n")
    assert (draft.grid, draft.block) == (grid, block)
    assert draft.sizes == (("rows", "n") if grid == ("rows",) else ("n",))  # a block for each row


def test_a_size_of_the_launch_that_the_kernel_takes_by_the_same_name_is_one():
    (draft,) = drafts(SCALE % GUARDED + "void run(float* o, int n, int m) { scale<<<dim3(n), 32>>>(o, o, m, 2); }\n")
    assert (draft.sizes, draft.grid) == (("n",), ("n",))


def test_launch_bounds_and_template_arguments_are_taken():
    text = "template <typename T, int N> __global__ void __launch_bounds__(128) k(T* out, int n) { out[n] = N; }\n"
    (draft,) = drafts(text)
    assert (draft.entry, draft.block, draft.operands[0].dtype) == ("k<float, 4>", (128,), "float32")
    (of_template,) = drafts("template <int block_size> __global__ void k(float* x) { x[threadIdx.x] = block_size; }\n"
                            "void run(float* x, int t) { k<512><<<1, t_threads>>>(x); }")  # fmt: skip
    assert (of_template.entry, of_template.block) == ("k<512>", (512,))
    (bounded,) = drafts("template <int X, int Y> __launch_bounds__(X, LEAST(S / sizeof(Of<X, Y>), 8)) __global__ void k"
                        "(float* x) { x[0] = X; }\nvoid run(float* x) { k<32, 2><<<1, 32>>>(x); }")  # fmt: skip
    assert bounded.entry == "k<32, 2>"
    (launched,) = drafts(text + "void run(double* o) { k<double, 8><<<1, 32>>>(o, 5); }")
    assert (launched.entry, launched.block, launched.operands[0].dtype) == ("k<double, 8>", (32,), "float64")


@pytest.mark.parametrize(
    ("name", "argument"),
    [("index_t", "int"), ("IdType", "int"), ("indptr_t", "int"), ("Idx", "int"), ("T", "float"), ("Input", "float")],
)
def test_a_type_that_is_named_after_indices_is_a_whole_number(name, argument):
    (draft,) = drafts(f"template <typename {name}> __global__ void k({name}* out, int n) {{ out[n] = 1; }}\n")
    assert draft.entry == f"k<{argument}>"


@pytest.mark.parametrize(
    "parameters",
    ["List p, float* out", "float** out", "const float* x, int n", "cudaTextureObject_t t, float* out", "List* p"],
)
def test_what_no_family_describes_is_left_out_with_its_reason(parameters):
    (found,) = drafts(f"struct List final {{ int n{{}}; List* next{{}}; }};\n__global__ void k({parameters}) {{ }}\n")
    assert isinstance(found, LeftOut)


STRUCTS = """
enum Kind { A, B };
constexpr int N = 2;
struct __align__(8) Box { float3 low; float high[N]; int count() const { return 1; } };
template <typename T> struct Pair { T a, b; };
typedef struct { int w = 1, h; double scale; Kind kind; } Params;
using Flag = cuda::atomic<int, cuda::thread_scope_system>;
"""


@pytest.mark.parametrize(
    ("parameter", "dtype", "each", "members"),
    [
        ("float4* p", "float32", 4, ""),
        ("const glm::vec3* p", "float32", 3, ""),
        ("__nv_fp8x4_e4m3* p", "float8_e4m3fn", 4, ""),
        ("__nv_fp8_storage_t* p", "uint8", 1, ""),
        ("Flag* p", "int32", 1, ""),
        ("struct Box* p", "int32", 6, ""),  # words: 12 + 8 bytes, and 4 up to a multiple of 8
        ("const Pair<double>* __restrict__ p", "float64", 2, ""),
        ("Params* p", "int32", 6, ""),  # words: 4 + 4 + 8 + 4 bytes, and 4 up to a multiple of 8
        ("const void* p", "uint16", 1, ""),
        ("Unknown* p", "uint8", 1, ""),
        ("int2 p", "", 1, "x int32, y int32"),
        ("Params p", "", 1, "w int32, h int32, scale float64, kind int32"),
        ("const __grid_constant__ Pair<float> p", "", 1, "a float32, b float32"),
    ],
)
def test_structs_and_vectors_are_described(parameter, dtype, each, members):
    (draft,) = drafts(f"{STRUCTS}__global__ void k({parameter}, int* o) {{ o[0] = *(const ushort*)p; }}\n")
    found = draft.operands[0]
    assert (found.dtype, found.each, ", ".join(map(" ".join, found.members))) == (dtype, each, members)


POINTERS = """
struct Inner { const float* bias; double by; };
template <typename T> struct Params {
    char tag; T *out, *__restrict__ more; const T* rows[2]; int n; Inner inner; int2 at;
};
__global__ void k(const __grid_constant__ Params<double> p) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < p.n) p.out[i] = p.more[i] = p.inner.by * p.rows[0][i] + p.rows[1][2 * i] + p.inner.bias[i / 64 * 64];
}
"""


def test_the_members_of_a_struct_with_pointers_are_arguments(written):
    found, family = written(POINTERS + "void run(Params<double> q) { q.tag = 3; k<<<(q.n + 63) / 64, 64>>>(q); }\n")
    case = family.sized(None).make((130, 5, 6))
    inner = Struct((BufferAddress(4), 0.5), (("bias", "pointer"), ("by", "float64")))
    at = Struct((5, 6), (("x", "int32"), ("y", "int32")))
    given = case.arguments[-1]
    assert given.values[1:] == (*map(BufferAddress, (0, 1)), (BufferAddress(2), BufferAddress(3)), 130, inner, at)
    assert given.members[:4] == (("tag", "int8"), ("out", "pointer"), ("more", "pointer"), ("rows", "pointer"))
    assert [(each.role, each.shape, each.dtype) for each in case.buffers[:4]] == [
        (Role.OUT, (130,), "float64"),
        (Role.OUT, (130,), "float64"),
        (Role.IN, (130,), "float64"),
        (Role.IN, (260,), "float64"),
    ]
    assert case.launch.grid == (3, 1, 1)
    assert all(len(line) < 120 for line in found.text.splitlines())


@pytest.mark.parametrize(
    "host",
    [
        "Line l; l.y = o; l.x = x; l.n = n; l.by = 2.5f;",
        "Line l = {o, x, n, 2.5f};",
        "Line l{.y = o, .n = n, .by = 2.5};",
    ],
)
def test_what_the_host_gives_for_a_structs_members_is_read(host):
    (draft,) = drafts(
        "struct Line { float* y; const float* x; int n; float by; };\n"
        "__global__ void k(Line l, int m) { l.y[0] = 1; }\n"
        f"void run(float* o, float* x, int n) {{ {host} k<<<(n + 31) / 32, 32>>>(l, n); }}\n"
    )
    values = {each.name: each.value for each in draft.operands if not each.is_array}
    assert (draft.sizes, draft.grid) == (("l_n",), ("-(-l_n // 32)",))
    assert values == {"l_n": "l_n", "l_by": "2.5", "m": "l_n"}


def test_long_host_code_is_read_once_for_a_struct():
    before = "Line l = made();" + " f(x);" * 60_000  # by the square of its length: minutes
    (draft,) = drafts(
        "struct Line { float* y; int n; };\n__global__ void k(Line l) { l.y[0] = 1; }\n"
        f"void run(float* x) {{ {before} k<<<1, 32>>>(l); }}\n"
    )
    assert [each.name for each in draft.operands] == ["y", "n"]


HEADS = """
struct Head { float* o; const float* x; int len; int64_t stride; };
struct Heads { Head heads[2]; float by[2]; bool is_causal; char mode; };
__global__ void k(Heads h) { h.heads[0].o[0] = 1; }
void run(float* o, float* x, int n) { %s k<<<(n + 31) / 32, 32>>>(%s); }
"""


@pytest.mark.parametrize(
    ("host", "given"),
    [
        ("Heads h{{{o, x, n, 1}, {o, x, n, 48}}, {2.0f, 3.0f}, true, 1};", "h"),
        ("", "Heads{{{o, x, n, 1}, {o, x, n, 48}}, {2.0f, 3.0f}, true, 1}"),
        pytest.param(
            "Heads h; for (int i = 0; i < 2; ++i) { h.heads[i].len = n; h.by[i] = 2; } h.heads[0].stride = 1; "
            "h.heads[1].stride = 48; h.by[1] = 3; h.is_causal = true; h.mode = 1;",
            "h",
        ),
    ],
)
def test_what_the_host_gives_for_inner_members_is_read(host, given):
    (draft,) = drafts(HEADS % (host, given))
    assert (draft.sizes, draft.grid) == (("heads0_len",), ("-(-heads0_len // 32)",))
    values = [each.value for each in draft.operands if not each.is_array]
    assert values == ["heads0_len", "1", "heads0_len", "48", "2.0", "3.0", "1", "1"]
    assert [each.at for each in draft.open] == ["heads1_stride"]


@pytest.mark.parametrize("host", ["Line l = made(o, x, n);", "Line l(o, x, n, 2);", "Line l; l.n = x.size(0);"])
def test_a_size_that_the_host_does_not_say_is_a_guess(host):
    (draft,) = drafts(
        "struct Line { float* y; const float* x; int n; int64_t stride; };\n"
        "__global__ void k(Line l) { l.y[0] = 1; }\n"
        f"void run(float* o, float* x, int n) {{ {host} k<<<(n + 31) / 32, 32>>>(l); }}\n"
    )
    assert [each.text.endswith("guess") for each in draft.open if each.at == "n"] == [True]


def test_a_callers_struct_has_sizes_that_are_no_guesses():
    (draft,) = drafts(
        "struct Line { float* y; int rows, cols; int64_t stride; };\n"
        "__global__ void k(Line l) { l.y[0] = 1; }\n"
        "void run(const Line& l) { k<<<(l.cols + 31) / 32, 32>>>(l); }\n"
    )
    assert (draft.sizes, draft.grid) == (("rows", "cols"), ("-(-cols // 32)",))
    assert [each.at for each in draft.open] == ["stride"]


@pytest.mark.parametrize(
    ("shape", "grid"),
    [
        ("p.blocks, 64", None),
        ("p.blocks.y, 64", ("blocks_y",)),
        ("(p.rows + 7) / 8, 64", ("-(-rows // 8)",)),
        ("p.stride / 32, 64", None),
    ],
)
def test_a_grid_of_a_structs_members_is_read(shape, grid):
    (draft,) = drafts(
        "struct P { dim3 blocks; float* x; int stride, rows; };\n__global__ void k(P p) { p.x[0] = 1; }\n"
        f"void run(P p) {{ k<<<{shape}>>>(p); }}\n"
    )
    assert draft.grid == grid or (grid is None and any(each.at == "grid" for each in draft.open))


def test_the_members_of_a_base_come_first():
    (draft,) = drafts(
        "struct Derived : public detail::Base { float* y; };\n"
        "struct Base { const float* x; int n; };\n"
        "__global__ void k(Derived d) { d.y[0] = 1; }\n"
    )
    assert [each.member for each in draft.operands] == ["x", "n", "y"]


@pytest.mark.parametrize(
    "derived",
    [
        "struct Base { float* y; int n; }; struct Derived : Base { int m; };",
        "template <class T> struct Base { T* y; }; struct Derived : Base<float> { int m; };",
        "struct Derived { union { float f; int i; } u; float* y; };",
    ],
)
def test_a_struct_whose_layout_is_not_known_is_left_to_decide(written, derived):
    found, _ = written(f"{derived}\n__global__ void k(Derived d) {{ d.y[0] = 1; }}\n")
    assert "        ...," in found.text


@pytest.mark.parametrize(
    "member",
    [
        "void (*f)(int)",
        "float** rows",
        "float& x",
        "Unknown x",
        "Pointing* more",
        "float* rows[100]",
        "alignas(float4) int n",
    ],
)
def test_a_struct_that_no_family_describes_is_left_out(member):
    text = f"struct Pointing {{ float* out; {member}; }};\n__global__ void k(Pointing p) {{ p.out[0] = 1; }}\n"
    (found,) = drafts(text)
    assert isinstance(found, LeftOut)


PLACED = """
struct Part { char c; double d; };
struct Params {
    %s char tag; Part part; char end; alignas(16) int n; float2 at; float3 low; float4 by; char last;
};
__global__ void k(Params p, float* y) { if (p.n) y[threadIdx.x] = p.by.w; }
"""
MEMBERS = ("tag", "end", "n", "low", "by", "last")


def test_a_typedef_may_ask_for_an_alignment():
    (draft,) = drafts(
        "typedef struct __align__(16) { float3 low; } Box;\n"
        "__global__ void k(const Box* p, float* o) { o[0] = p->low.x; }\n"
    )
    assert (draft.operands[0].dtype, draft.operands[0].each) == ("int32", 4)


@pytest.mark.parametrize(
    ("first", "offsets", "size"), [("", (0, 24, 32, 48, 64, 80), 96), ("float* out;", (8, 32, 48, 64, 80, 96), 112)]
)
def test_members_are_where_cpp_aligns_them(first, offsets, size):
    (draft,) = drafts(PLACED % first)

    def made(each):
        if each.members:
            return Struct((0,) * len(each.members), each.members), "struct"
        return (None, "pointer") if each.is_array else (0, each.dtype)

    layout = arguments_of(draft.operands, made, Struct)[0].layout()
    names = [next(each for each in (name, f"{name}_x") if each in layout.fields) for name in MEMBERS]
    assert (tuple(layout.fields[name][1] for name in names), layout.itemsize) == (offsets, size)


@pytest.mark.parametrize(
    ("parameters", "host", "given"),
    [
        ("Line l", "Line l; l.y = o; l.bias = nullptr;", {"y": ("", True), "bias": ("None", False)}),
        ("Line l", "Line l{o, NULL};", {"y": ("", True), "bias": ("None", False)}),
        ("float* l, const float* bias", "float* l = o;", {"l": ("", True), "bias": ("0", False)}),
    ],
)
def test_a_null_pointer_of_the_host_is_one(parameters, host, given):
    passed = "l, nullptr" if "," in parameters else "l"
    (draft,) = drafts(
        f"struct Line {{ float* y; const float* bias; }};\n__global__ void k({parameters}) {{ }}\n"
        f"void run(float* o) {{ {host} k<<<1, 32>>>({passed}); }}\n"
    )
    assert {each.name: (each.value, each.is_array) for each in draft.operands} == given


def test_a_struct_that_the_file_does_not_define_is_left_to_decide(written):
    found, family = written("__global__ void k(Params p, float* out, int n) { if (threadIdx.x < n) out[0] = 1; }\n")
    assert "        ...," in found.text
    assert any("Value or Struct" in line for line in found.to_do)
    with pytest.raises(TypeError, match="argument 1 of 3 is left to decide"):
        family.sized(None)


def test_the_launch_in_the_branch_of_a_condition_is_not_taken():
    (draft,) = drafts(
        SCALE % GUARDED
        + "void run(float* o, int n) {\n"
        + "  if (n <= 2) { scale<<<1, 32>>>(o, o, n, 2); return; }\n"
        + "  scale<<<(n + 63) / 64, 64>>>(o, o, n, 2);\n}\n"
    )
    assert draft.block == (64,)
    assert any("line 4" in note.text for note in draft.open)


def test_a_launch_with_a_thread_for_each_of_a_constant_is_for_that_size():
    (draft,) = drafts(SCALE % GUARDED + "constexpr int N = 32; void run() { scale<<<1, N>>>(o, x, N, 1.5f); }")
    assert (draft.only, draft.operands[3].value) == ((32,), "1.5")


def test_an_extent_that_the_launch_computes_is_none_of_its_own():
    (draft,) = drafts(
        "__global__ void k(float* o, int n, int n4) {}\nvoid f(float* o, int n) { k<<<1, 1>>>(o, n, n / 4); }"
    )
    assert isinstance(draft, Draft)
    assert (draft.sizes, draft.operands[2].value) == (("n",), "n // 4")


def test_kernels_of_one_name_are_selected_by_their_types():
    found = drafts("__global__ void k(float* x, const int n) { x[n] = 0; }\n__global__ void k(double* x) { *x = 0; }\n")
    assert [(each.entry, each.stage) for each in found] == [("k(float*, const int)", "k"), ("k(double*)", "k_2")]


@pytest.fixture
def written(tmp_path):
    """The family that is written for a text: its skeleton, and the arguments of its first case by role and shape."""

    def write(text):
        (tmp_path / "own.cu").write_text(text)
        found = skeleton(tmp_path / "own.cu", tmp_path, tmp_path)
        (tmp_path / "family.py").write_text(found.text)
        return found, family_at(tmp_path / "family.py")

    return write


def test_shapes_are_those_that_the_kernel_reaches(written):
    found, family = written(
        "template <class T> __global__ void mul(const T* a, const T* b, T* c, T* bias, int m, int n, int k) {\n"
        "  int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "  if (row >= m || column >= n) return;\n"
        "  T sum = bias[column];\n"
        "  for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + column];\n"
        "  c[row * n + column] += sum;\n"
        "}\n"
        "void run(float* a, int M, int N, int K) {\n"
        "  dim3 threads(16, 16);\n"
        "  dim3 blocks((N + threads.x - 1) / threads.x, (M + threads.y - 1) / threads.y);\n"
        "  mul<float><<<blocks, threads>>>(a, a, a, a, M, N, K);\n"
        "}\n"
    )
    buffers = family.sized(None).make((3, 5, 7)).buffers
    assert [(each.role, each.shape) for each in buffers] == [
        (Role.IN, (3, 7)),
        (Role.IN, (5, 7)),
        (Role.INOUT, (3, 5)),
        (Role.IN, (5,)),
    ]
    assert len(found.text.splitlines()) <= 15


def test_arrays_may_be_squares_of_one_size(written):
    _, family = written(
        "__global__ void square(const float* a, float* c, size_t n) {\n"
        "  size_t row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "  if (row >= n || column >= n) return;\n"
        "  float sum = 0; for (size_t i = 0; i < n; ++i) sum += a[row * n + i] * a[i * n + column];\n"
        "  c[row * n + column] = sum;\n"
        "}\n"
        "void run(float* a, size_t n) {\n"
        "  dim3 grid((n + 15) / 16, (n + 15) / 16); square<<<grid, dim3(16, 16)>>>(a, a, n);\n"
        "}\n"
    )
    case = family.sized(None).make((48,))
    assert [(each.role, each.shape) for each in case.buffers] == [(Role.IN, (48, 48)), (Role.OUT, (48, 48))]


def test_a_missing_guard_is_left_to_the_check_where_the_launch_rounds_up(written):
    unguarded = SCALE % GUARDED.replace("if (i < n) ", "")
    found, _ = written(unguarded + ROUNDED_UP)
    assert "edges=" not in found.text
    found, _ = written(unguarded + ROUNDED_UP.replace("(n + 255) / 256", "n / 256"))
    assert "edges=[1024, 1536]" in found.text
    assert any(": edges: " in line for line in found.to_do)


def test_a_reach_beyond_an_expression_is_left_to_decide(written):
    found, _ = written(SCALE % GUARDED.replace("x[i]", "x[i + 1]") + ROUNDED_UP)
    assert "In(n + 1)" in found.text
    assert any("1 beyond n" in line for line in found.to_do)


def test_what_is_left_to_decide_names_its_line(written):
    found, _ = written("__global__ void k(float* x, int mode, int n) { if (threadIdx.x < n) x[threadIdx.x] = mode; }\n")
    lines = found.text.splitlines()
    for to_do in found.to_do:
        assert "to decide" in "".join(lines[int(to_do.split(":")[1]) - 2 : int(to_do.split(":")[1])])
    assert "mode: 0 (family.py:" in found.guesses["own"]


SCATTER = (
    "__global__ void put(float* out, const float* x, const int* at, const int* count, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[at[i]] = x[i] + count[i]; }\n"
    "void run(float* o, int* a, int n) { put<<<(n + 255) / 256, 256>>>(o, o, a, a, n); }\n"
)


def test_indices_of_a_scatter_do_not_repeat(written):
    found, family = written(SCATTER)
    assert "data=lambda xp, shape: xp.arange(*shape)" in found.text
    assert found.text.count("data=") == 1  # any whole number may be counted
    unsigned, _ = written(SCATTER.replace("const int", "const unsigned"))
    assert 'data=lambda xp, shape: xp.arange(*shape, dtype="uint32")' in unsigned.text
    assert [each.role for each in family.sized(None).make((5,)).buffers] == [Role.OUT, Role.IN, Role.IN, Role.IN]


def test_sizes_whose_product_no_type_holds_are_left_to_decide(written):
    names = [f"n{number}" for number in range(16)]
    found, _ = written(
        f"__global__ void k(float* y, {', '.join(f'int {name}' for name in names)}, int all) {{ y[n0] = all; }}\n"
        f"void run(float* y, {', '.join(f'int {name}' for name in names)}) {{\n"
        f"  k<<<1, 32>>>(y, {', '.join(names)}, {' * '.join(names)}); }}\n"
    )
    assert "too large" in found.problem


def test_a_kernel_without_parameters_has_none():
    (left_out,) = drafts("__global__ void k(void) { n = 1; }\n")
    assert isinstance(left_out, LeftOut)
    assert "writes no array" in left_out.why


def test_a_pitch_is_the_width_and_arrays_are_row_major(written):
    found, _ = written(
        "__global__ void put(unsigned char* y, int pitch, int width, int height) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y;\n"
        "  if (i < width && j < height) y[j * pitch + i] = 1; }\n"
        "void run(unsigned char* y, int w, int h) { put<<<dim3((w + 31) / 32, h), 32>>>(y, w, w, h); }\n"
    )
    assert 'Out(height, width, dtype="uint8")' in found.text


def test_several_kernels_are_one_family(written):
    reduce = "__global__ void sum(const int* x, int* out) { atomicAdd(out, x[blockIdx.x * 64 + threadIdx.x]); }\n"
    launched = "void f(int* x) { sum<<<9, 64>>>(x, x); }\n"
    _, family = written(SCALE % GUARDED + reduce + "__global__ void left(void** x) {}\n" + launched)
    assert [stage.name for stage in family.stages] == ["scale", "sum"]


def test_a_file_without_a_kernel_is_refused(tmp_path):
    (tmp_path / "own.cu").write_text("int main() { return 0; }\n")
    with refuses(Code.SOURCE):
        skeleton(tmp_path / "own.cu", tmp_path, tmp_path)


def test_a_header_of_the_project_is_found(written, tmp_path):
    (tmp_path / "include" / "own").mkdir(parents=True)
    (tmp_path / "include" / "own" / "types.h").write_text("typedef double real_t;\n")
    found, _ = written('#include "own/types.h"\n' + (SCALE % GUARDED).replace("float*", "real_t*") + ROUNDED_UP)
    assert 'include=["include"]' in found.text
    assert 'In(n, dtype="float64")' in found.text


def test_the_nearest_of_several_headers_is_found(tmp_path):
    for folder, of in (("a", "double"), ("lib/src/include", "float")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "real.hxx").write_text(f"typedef {of} real_t;\n")
    source = tmp_path / "lib" / "src" / "cuda" / "own.cu"
    source.parent.mkdir()
    source.write_text('#include "real.hxx"\n' + (SCALE % GUARDED).replace("float*", "real_t*") + ROUNDED_UP)
    found = skeleton(source, tmp_path / "kernels", tmp_path)
    assert (found.stand_ins.headers, 'include=["../lib/src/include"]' in found.text) == ((), True)


def test_a_kernel_whose_shapes_are_not_found_is_left_out(written):
    far = "__global__ void far(float* out, int n) { out[1 << 28] = n; }\n"
    found, family = written(SCALE % GUARDED + far + ROUNDED_UP)
    assert [stage.name for stage in family.stages] == ["scale"]
    assert any(line.startswith("left out: far:") for line in found.to_do)


def test_a_reach_before_the_begin_is_left_to_the_check(written):
    _, family = written(SCALE % GUARDED.replace("x[i]", "x[i - 1]") + ROUNDED_UP)
    assert [stage.name for stage in family.stages] == ["own"]


@pytest.mark.parametrize("race", ["", "__shared__ int last; last = threadIdx.x; "])
def test_a_kernel_of_much_work_is_run_and_checked_at_small_sizes(race, written):
    every = f"{race}int i = blockIdx.x * blockDim.x + threadIdx.x; float sum = 0; if (i < n) {{ "
    every += "for (int j = 0; j < n; ++j) sum += x[j]; out[i] = by * sum; }"
    found, _ = written(SCALE % every + ROUNDED_UP)
    assert "Out(n), In(n)," in found.text
    assert "edges=[512, 768]," in found.text
    assert not found.problem


def test_sizes_are_so_large_that_the_grid_has_blocks(written):
    of_tiles = SCALE % "int i = blockIdx.x * blockDim.x + threadIdx.x; out[i] = by * x[i];"
    of_tiles += "void run(float* o, float* x, int n) { scale<<<n / 8192, 32>>>(o, x, n, 2.0f); }\n"
    found, _ = written(of_tiles)
    assert "grid=lambda n: n // 8192," in found.text
    assert "edges=[16384, 24576]," in found.text
    assert not found.problem


def test_rows_of_which_indices_reach_the_begin_are_whole_ones(written):
    found, _ = written(
        "__global__ void pick(const float* rows, const int* at, float* out, int m, int n, int k) {\n"
        "    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= m) return;\n"
        "    for (int j = 0; j < k; ++j) out[i * k + j] = rows[i * n + at[i]];\n}\n"
        "void run(float* r, int* a, float* o, int m, int n, int k) { pick<<<(m + 63) / 64, 64>>>(r, a, o, m, n, k); }\n"
    )
    assert "In(m, n)," in found.text
    assert "Out(m, k)," in found.text


def test_an_array_of_no_known_length_is_long_enough(written):
    launched = "void run(float* o, int n) { far<<<1, 1>>>(o, n); }\n"
    found, _ = written("__global__ void far(float* out, int n) { out[5 * n + n / 7] = 1; }\n" + launched)
    assert any("5267 elements" in line for line in found.to_do)
    assert "Out(6 * n)" in found.text
