"""What is read from a source's text: its kernels, its files, and the host code that is taken out around them."""

from pathlib import Path

import pytest
from emulating import CUDA

from peakgate_emulator.attempts import device_only
from peakgate_emulator.device_code import device_texts, host_code, remedy
from peakgate_emulator.errors import SourceError
from peakgate_emulator.masking import masked
from peakgate_emulator.sources import SourceFile, entry_of, kernels, missing_header, read_sources


def left_of(tmp_path: Path, text: str) -> str:
    """What is compiled of a file."""
    source = tmp_path / "a.cu"
    source.write_text(text)
    compiled = next(device_only(read_sources(source), (), tmp_path / "copies"))
    return compiled.read_text().removeprefix('#line 1 "a.cu"\n')


def test_kernels_are_listed_without_comments() -> None:
    text = """// __global__ void commented() {}
    template <class T> __global__ void __launch_bounds__(256, (2)) sum(T* out) {}
    extern "C" __global__ void plain(const char* text = "__global__ void quoted()") {}
    static __global__ __launch_bounds__(32) void bounded() {}
    """
    assert kernels(text) == ["sum<...>", "plain", "bounded"]


@pytest.mark.parametrize("unit", ["/* ", "/*\n", 'R"(', 'R"a', 'R"a(', '"', '"\\', "'\\"])
def test_what_never_ends_is_read_in_one_pass(unit: str) -> None:
    text = 'extern "C" __global__ void first() {}\n' + unit * 200_000  # by the square of its length: hours
    assert kernels(text) == ["first"]
    assert len(masked(text, literals=True)) == len(text)


def test_kernels_without_an_end_are_read_in_one_pass() -> None:
    assert kernels("template <int n> " + "__global__ __launch_bounds__(\n" * 20_000) == ["__launch_bounds__<...>"]


HOST = '__global__ void first() { f0(); }\nvoid host() { fopen(""); }\nstruct T0 { FILE* file; };\n'
MANY = 12_000


@pytest.mark.parametrize(
    "text",
    [
        "a<b> " * MANY + "x;",
        "x " + "= " * MANY + "(a) {}",
        "x{} " * MANY + ";",
        "x = {} " * MANY + ";",
        "template<> " * MANY + "void f();",
        "template<int> " * MANY + "x;",
        "template< x;" * MANY,
        "a" * 3 * MANY + ";",
        "a" * 3 * MANY + " b() {}",
        "a<" * MANY + " b() {}",
        "__global__\n" * MANY,
        "alignas(8) " * MANY + "f() {}",
        "namespace" + " " * MANY + "() {}",
        "namespace a " * MANY + "{}",
        "namespace " + "a::" * MANY,
        "namespace a { __global__ void first() {} }" * (MANY // 8),
        "T0<" * MANY + " f() {}",
        "void f() { " + "g<" * MANY + "}",
        "void f() { " + "g<a> " * MANY + "}",
        "".join(f"void f{at}() {{ f{at + 1}(); }}" for at in range(MANY // 8)),
        "void g0() { fopen(0); }" + "".join(f"void g{at + 1}() {{ g{at}(); }}" for at in range(MANY // 8)),
        "".join(f"struct T{at} {{ FILE* file; }}; T{at}<> f{at}();" for at in range(MANY // 8)),
        "".join(f"#define M{at} __device__\n" for at in range(MANY // 8)),
        "#define " + "a" * 3 * MANY,
        "void f() { fopen(0); }\n#a\n" * (MANY // 4),
    ],
)
def test_a_long_text_beside_host_code_is_read_in_one_pass(text: str) -> None:
    file = SourceFile(Path("a.cu"), f"{HOST}{text}\n", {}, ())  # by the square of its length: minutes
    entry = entry_of("first", [file])
    for named in (None, ["first"]):
        assert "first" in kernels(device_texts([file], named)[0])
    assert entry.name == "first"
    assert str(host_code(file.text, 2)).startswith("`fopen`")


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        ("namespace a { __global__ void k() {} }", "a::k"),
        ("namespace a { namespace { __global__ void k() {} } }", "a::k"),
        ("namespace a :: b { inline namespace c { __global__ void k() {} } }", "a::b::c::k"),
        ("namespace a { void f() {} } __global__ void k() {}", "k"),
        ("namespace a = b; namespace c { struct S { int i; }; } namespace d { __global__ void k() {} }", "d::k"),
        ("namespace a { __global__ void k() {} } namespace b { __global__ void k(int) {} }", "k"),
        ("} namespace a { __global__ void k() {} }", "a::k"),
    ],
)
def test_a_kernel_is_in_the_namespaces_that_are_open_around_it(text: str, kernel: str) -> None:
    assert entry_of("k", [SourceFile(Path("a.cu"), text, {}, ())]).kernel == kernel


@pytest.mark.parametrize(
    ("declaration", "stays"),
    [
        ("void used(int a = 1) {}", True),
        ("int used[] = {1, 2};", True),
        ("template <int N = int{3}> void used() {}", True),
        ("template <class T> template <class U> void used() {}", True),
        ("template  <class T> struct used { void f(); };", True),
        ("alignas(8) __attribute__((unused)) void used() {}", True),
        ("void used() { host(); }", False),
        ("void used() { host<int>(1); }", False),
        ("int used(int (*f)()) { return other<host<int>>(1); }", False),
        ("void T0<int>::used() {}", False),
        ("void T0::used() {}", False),
        ("inline namespace n { void used() { host (); } }", False),
    ],
)
def test_what_a_kernel_mentions_stays_unless_it_is_the_hosts(declaration: str, stays: bool) -> None:
    source = (
        "__global__ void first() { used(); }\ntemplate <class T> struct T0 { FILE* f; };\nvoid host() { fopen(0); }\n"
    )
    (text,) = device_texts([SourceFile(Path("a.cu"), f"{source}{declaration}\n", {}, ())])
    assert (declaration in text) == stays
    assert "used();" in text
    assert "host" not in text.replace(declaration, "")


def test_a_name_that_no_file_can_have_is_not_found(tmp_path: Path) -> None:
    source = tmp_path / "a.cu"
    source.write_text(f'#include "{"x" * 300}.h"\n__global__ void first() {{}}\n')
    (file,) = read_sources(source)
    assert [name for _, name in file.foreign] == [f"{'x' * 300}.h"]


@pytest.mark.parametrize(
    "text", ["/* __global__ void f() {}", 'R"x(__global__ void f() {} )" )y"', '"f __global__ f()']
)
def test_what_never_ends_is_masked_to_its_end(text: str) -> None:
    assert masked(f"a;\n{text}", literals=True).split() == ["a;"]


def test_a_quote_without_its_other_ends_with_its_line() -> None:
    assert kernels("#error don't\n__global__ void f() {}\n") == ["f"]


def test_a_file_without_host_code_is_compiled_as_it_is(tmp_path: Path) -> None:
    source = tmp_path / "a.cu"
    source.write_text(
        "float helper(float x) { return x; }\nint unused() { return 1; }\n__global__ void k(float* x) {}\n"
    )
    assert next(device_only(read_sources(source), ["k"], tmp_path / "copies")) == source


def test_a_file_is_tried_without_its_other_kernels_last(tmp_path: Path) -> None:
    lines = [
        "template <int N> __global__ void other() {}",
        "__global__ void k() {}",
        "template __global__ void other<3>();",
        "",
    ]
    source = tmp_path / "a.cu"
    source.write_text("\n".join(lines))
    whole, alone = device_only(read_sources(source), ["k"], tmp_path / "copies")
    assert whole == source
    assert [line.strip() for line in alone.read_text().splitlines()[1:]] == ["", lines[1], ""]


@pytest.mark.parametrize(
    ("written", "expression"),
    [
        ("one", "a::b::one"),
        ("b::one", "b::one"),
        ("hidden", "a::hidden"),
        ("two<float, 16>", "a::b::two<float, 16>"),
        ("two<float>(float*, int)", "static_cast<void (*)(float*, int)>(&a::b::two<float>)"),
        ("twice", "twice"),
        ("everywhere", "everywhere"),
        ("gone", "gone"),
    ],
)
def test_an_entry_without_namespaces_is_the_only_one_of_its_name(tmp_path: Path, written: str, expression: str) -> None:
    source = tmp_path / "a.cu"
    source.write_text(
        "namespace a { using namespace std;\nnamespace b {\n__global__ void one() {}\n"
        "template <class T, int N = 1> __global__ void two(T* x) {}\n__global__ void twice() {}\n}\n"
        "namespace { __global__ void hidden() {} }\n__global__ void twice() {}\n__global__ void everywhere() {}\n}\n"
        "__global__ void everywhere() {}\n"
    )
    assert entry_of(written, read_sources(source)).expression == expression


@pytest.mark.parametrize("source", sorted((CUDA / "host_code").glob("*.cu")), ids=lambda source: source.stem)
def test_what_is_the_hosts_goes_and_every_other_line_stays(tmp_path: Path, source: Path) -> None:
    """What is the host's is marked."""
    left = [line.partition("  // HOST")[0].strip() for line in left_of(tmp_path, source.read_text()).splitlines()]
    lines = source.read_text().splitlines()
    assert left == ["" if line.endswith("// HOST") else line.strip() for line in lines]


def test_included_files_lose_their_host_code_too(tmp_path: Path) -> None:
    (tmp_path / "b.cuh").write_text(
        "#pragma once\ninline void check(cudaError_t e) {}\n__device__ int f() { return 1; }\n"
    )
    left = left_of(tmp_path, '#include "b.cuh"\n__global__ void k(int* x) { x[0] = f(); }\n')
    header = Path(left.split('"')[1])
    assert [line.strip() for line in header.read_text().splitlines()[2:]] == ["", "__device__ int f() { return 1; }"]
    assert header.parent.parent == tmp_path / "copies"


def test_brackets_that_do_not_match_keep_the_code_of_one_file(tmp_path: Path) -> None:
    begin = "namespace own {\nint devices() { int n; cudaGetDeviceCount(&n); return n; }\n"
    (tmp_path / "begin.cuh").write_text(begin)
    (tmp_path / "end.cuh").write_text("}\n")
    kernel = "__global__ void k(int* x) { x[0] = 1; }\n"
    (tmp_path / "a.cu").write_text(f'#include "begin.cuh"\n{kernel}#include "end.cuh"\nint main() {{ cudaFree(0); }}\n')
    files = read_sources(tmp_path / "a.cu")
    source, begun, _ = device_texts(files)
    assert kernel in source
    assert "main" not in source
    assert begun == begin
    assert "brackets of begin.cuh" in remedy(files, "begin.cuh", 2, "not declared")


def test_includes_of_folders_count_in_quotes_and_angles(tmp_path: Path) -> None:
    folder = tmp_path / "headers"
    folder.mkdir()
    (folder / "a.cuh").write_text("")
    (folder / "b.cuh").write_text('#include "a.cuh"\n')
    source = tmp_path / "k.cu"
    source.write_text('#include <b.cuh>\n// #include "c.cuh"\n#include <cmath>\n#include "gone.cuh"\n')
    files = read_sources(source, (folder,))
    assert [file.path.name for file in files] == ["k.cu", "b.cuh", "a.cuh"]
    assert files[0].foreign == ((3, "cmath"), (4, "gone.cuh"))


def test_host_code_is_named_where_it_stands() -> None:
    text = "// k<<<1, 2>>>();\nk<T, 3><<<1, 2>>>();\nfloat* x; cudaMalloc(&x, 4);\nint y;\n"
    found = [host_code(text, line) for line in (1, 2, 3, 4, 9)]
    assert [each and each.split("`")[1] for each in found] == [None, "k<T, 3><<<...>>>", "cudaMalloc", None, None]


def test_a_source_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"gone\.cu"):
        read_sources(tmp_path / "gone.cu")


def device_text(file: str, *wanted: str) -> str:
    """What is compiled of a file of ``cuda``, in as many characters as it has."""
    (text,) = device_texts(read_sources(CUDA / file), wanted or None)
    assert len(text) == len((CUDA / file).read_text())
    return text


def test_a_prototype_does_not_keep_host_code_alive() -> None:
    text = device_text("prototypes.cu")
    assert [word for word in ("launch", "table", "<<<") if word in text] == []
    kept = (
        "INSTANTIATE(float);",
        "T once(T a);",
        "T once(T a) {",
        "scaled(float a);",
        "struct Line",
        "void other",
        "cudaGrid",
    )
    assert [word for word in kept if word not in text] == []


def test_kernels_that_are_not_named_are_left_out_where_some_are() -> None:
    text = device_text("prototypes.cu", "kernel")
    assert "void kernel" in text
    assert "void other" not in text


def test_a_kernel_is_known_by_its_name_behind_attributes(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    bounded = 'extern "C" __global__ void __launch_bounds__(A, 1)\n    __cluster_dims__(2, (1), 1) mine(int n) { n; }\n'
    source.write_text(bounded + bounded.replace("mine", "other"))
    (text,) = device_texts(read_sources(source), ["mine"])
    assert text.rstrip() == bounded.rstrip()


def test_a_source_in_latin_1_is_read_and_a_binary_one_named(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_bytes("// größer\r\nint a;\n".encode("latin-1"))
    assert read_sources(source)[0].text == "// größer\nint a;\n"
    source.write_bytes(b"int a;\0")
    with pytest.raises(SourceError, match=r"k\.cu"):
        read_sources(source)


def test_bindings_of_an_extension_of_pytorch_are_host_code(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    kernel = "__global__ void kernel(float* x) { *x = 1; }\n"
    source.write_text(
        f"#include <torch/extension.h>\n{kernel}"
        "void run(torch::Tensor x) { kernel<<<1, 1>>>((float*)x.data_ptr()); }\n"
        'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }\n'
    )
    (text,) = device_texts(read_sources(source))
    assert kernel in text
    assert "run" not in text


def test_a_using_declaration_goes_with_its_host_function(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    kernel = "namespace own { __global__ void kernel(int* x) { *x = twice(*x); } }\n"
    source.write_text(
        "namespace own { __device__ int twice(int x) { return 2 * x; } }\n"
        "namespace own { void run() { kernel<<<1, 1>>>(0); } }\n"
        f"{kernel}using own::run;\nusing own::twice;\n"
    )
    (text,) = device_texts(read_sources(source))
    assert kernel in text
    assert "using own::twice;" in text
    assert "run" not in text


def test_a_type_that_a_kernel_uses_loses_its_host_functions() -> None:
    text = device_text("host_types.cu")
    assert [
        word for word in ("cudaMalloc", "cudaDevice", "string", "generate", "launched", "<<<") if word in text
    ] == []
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[3:5] == ["struct Managed {", "void* operator new(size_t bytes);"]
    assert lines[6:9] == ["struct Element : Managed {", "int value;", "Element();"]
    assert "calls" not in text


@pytest.mark.parametrize("name", ["lost/logging.h", "helper_cuda ptx.h"])
@pytest.mark.parametrize(
    "message",
    [
        "{}: No such file or directory",
        "k.cu:1: {}: No such file or directory; add its folder",
        "k.cu:1:10: fatal error: {}: No such file or directory",
        "k.cu:1:10: fatal error: '{}' file not found",
        'k/k.cu:1: cannot open source file "{}"; add its folder',
    ],
)
def test_a_missing_header_is_read_from_every_compilers_message(message: str, name: str) -> None:
    assert missing_header(message.format(name)) == name


def test_a_function_with_a_vector_as_parameter_is_host_code(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    kernel = "__global__ void kernel(int* x) { *x = at(*x); }\n"
    source.write_text(
        "#include <vector>\n__host__ __device__ int at(int i) { return i; }\n"
        f"__host__ __device__ int at(const std::vector<int>& of) {{ return at(of[0]); }}\n{kernel}"
    )
    (text,) = device_texts(read_sources(source))
    assert kernel in text
    assert "at(int i)" in text
    assert "of[0]" not in text


def test_a_type_loses_what_needs_a_type_that_is_removed(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text(
        "#include <torch/extension.h>\nusing torch::Tensor;\nstruct Grid { Tensor values; int size; };\n"
        "struct Packed {\n    Packed(Grid& grid) : values(grid.values.data_ptr<float>()), size{grid.size}, twice{} {}\n"
        "    float* values; int size; int twice[2];\n};\n"
        "__global__ void kernel(Packed grid) { *grid.values = grid.size; }\n"
    )
    (text,) = device_texts(read_sources(source), ["kernel"])
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[1:7] == ["", "", "struct Packed {", ";", "float* values; int size; int twice[2];", "};"]


def test_a_macro_that_throws_is_host_code_where_it_is_called(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text(
        "#include <stdexcept>\n#define BOTH __host__ __device__\n"
        '#define FAIL(text) throw std::runtime_error(text)\n#define CHECK(x) if (!(x)) FAIL("no")\n'
        "struct Tile {\n    BOTH int size() const { CHECK(n); return n; }\n"
        "    void resize(int to) { CHECK(to); n = to; }\n"
        "    int n;\n};\ntemplate <class T> int size(const T& of) { CHECK(of.n); return of.n; }\n"
        "__global__ void kernel(Tile tile, int* size) { *size = tile.size(); }\n"
    )
    (text,) = device_texts(read_sources(source))
    assert "BOTH int size() const { CHECK(n); return n; }" in text
    assert "CHECK(to)" not in text
    assert "CHECK(of.n)" not in text
