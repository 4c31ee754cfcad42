import hashlib
import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from emulating import rows
from expecting import refuses

from peakgate.base.errors import BuildError, Code
from peakgate.compile import compilers
from peakgate.compile import cubin as cubin_module
from peakgate.compile.compilers import advice, objection_to
from peakgate.compile.cubin import Cubin, built_before, cubin, parse_resources, refuse_other_sizes
from peakgate.spec.case import Buffer, Case, Launch, Role, Scalar, Stage, Struct, Work
from peakgate_emulator import headers

pytest.importorskip("cuda.bindings", reason="NVRTC is not installed: the extra nvrtc, cuda12 or cuda13")
from peakgate.compile import nvrtc

SOURCE = """// doubles
#include "scale.cuh"
extern "C" __global__ void twice(float* out, const float* in) { out[threadIdx.x] = SCALE * in[threadIdx.x]; }
"""


@pytest.fixture
def stage(tmp_path, monkeypatch):
    monkeypatch.setenv("PEAKGATE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "scale.cuh").write_text("#ifndef SCALE\n#define SCALE 2.0f\n#endif\n")
    source = tmp_path / "twice.cu"
    source.write_text(SOURCE)
    return Stage("twice", "doubles", source)


def test_a_kernel_that_several_want_at_once_is_compiled_once(stage, monkeypatch):
    compiled, compile_unit = [], cubin_module._Unit.compiled
    monkeypatch.setattr(cubin_module._Unit, "compiled", lambda unit: compiled.append(unit) or compile_unit(unit))
    with ThreadPoolExecutor(4) as pool:
        built = list(pool.map(lambda _: cubin(stage, (), (9, 0)), range(4)))
    assert len(compiled) == 1
    assert {each.fingerprint for each in built} == {built[0].fingerprint}


def test_bindings_without_the_compilers_library_are_refused(stage, monkeypatch):
    def version():
        raise RuntimeError("Failure finding libnvrtc.so")

    monkeypatch.setattr(nvrtc, "version", version)
    with refuses(Code.INSTALLATION):
        cubin(stage, (), (9, 0))


def test_a_comment_changes_no_fingerprint_and_code_does(stage):
    first = cubin(stage, (), (9, 0))
    stage.source.write_text("// another word, another line\n\n" + SOURCE)
    commented = cubin(stage, (), (9, 0))
    changed = cubin(stage, (("SCALE", "3.0f"),), (9, 0))
    assert commented.path != first.path
    assert commented.fingerprint == first.fingerprint
    assert changed.fingerprint != first.fingerprint


def test_a_build_of_another_tree_is_found_by_its_fingerprint(stage, tmp_path):
    built = cubin(stage, (("SCALE", "3.0f"),), (9, 0))
    cubin(stage, (), (9, 0))
    elsewhere = replace(stage, source=tmp_path / "elsewhere" / "twice.cu")
    assert built_before(elsewhere, built.fingerprint) == built
    built.path.write_bytes(built.path.read_bytes()[:-1])
    with refuses(Code.CHANGED):
        built_before(elsewhere, built.fingerprint)


def test_features_of_an_architecture_build_where_asked_for(stage):
    """The emulator defines the macros that NVRTC does, of which this asks."""
    stage.source.write_text(
        """#ifndef __CUDA_ARCH_FEAT_SM90_ALL
#error
#endif
#if __CUDA_ARCH_SPECIFIC__ != 900 || __CUDA_ARCH_FAMILY_SPECIFIC__ != 900
#error "without the features of 9.0"
#endif
extern "C" __global__ void twice(float* out) { asm volatile("wgmma.fence.sync.aligned;"); }
"""
    )
    asking = replace(stage, min_capability=(9, 0), specific=True)
    assert cubin(asking, (), (9, 0)).path.read_bytes()[:4] == b"\x7fELF"
    with pytest.raises(BuildError):
        cubin(replace(asking, specific=False), (), (9, 0))


def test_a_second_build_is_read_from_the_cache(stage):
    first = cubin(stage, (), (9, 0))
    notes = first.path.with_suffix(".json")
    saved = json.loads(notes.read_text())
    saved["resources"][0]["registers"] = 99
    notes.write_text(json.dumps(saved))
    assert cubin(stage, (), (9, 0)).resources.registers == 99


@pytest.mark.parametrize("damage", ["code cut", "code edited", "notes cut", "notes of another form"])
def test_a_damaged_build_in_the_cache_is_made_again(stage, damage):
    first = cubin(stage, (), (9, 0))
    code, notes = first.path.read_bytes(), first.path.with_suffix(".json")
    if damage == "code cut":
        first.path.write_bytes(code[:100])
    elif damage == "code edited":
        first.path.write_bytes(code[:-1] + bytes([code[-1] ^ 1]))
    else:
        notes.write_text({"notes cut": "{", "notes of another form": "[]"}[damage])
    again = cubin(stage, (), (9, 0))
    assert again.path.read_bytes() == code
    assert again == first


def test_a_kernel_under_another_name_than_its_file_is_named():
    with pytest.raises(BuildError, match="no entry point `twice`"):
        parse_resources("ptxas info    : 0 bytes gmem", "twice")


KERNELS = Path(__file__).parents[1] / "data" / "defects"
FOREIGN = KERNELS / "foreign.cu"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PEAKGATE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def built(source: Path, text: str, entry: str = "kernel", **fields: Any) -> Cubin:
    source.write_text(text)
    return cubin(Stage("stage", "", source, entry=entry, **fields), (), (9, 0))


def laid_out(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return root


def test_cccl_comes_from_the_toolkit_where_the_wheels_lack_it(tmp_path, monkeypatch):
    """As PyTorch installs them: CUDA's headers, not those of its C++ libraries."""
    wheels = laid_out(tmp_path / "nvidia", "cu13/include/cuda_fp16.h")
    names = ("cuda_fp16.h", "cccl/cuda/std/limits", "cccl/nv/target")
    toolkit = laid_out(tmp_path / "toolkit", *(f"include/{name}" for name in names))
    spec = SimpleNamespace(submodule_search_locations=[str(wheels)])
    monkeypatch.setattr(headers.importlib.util, "find_spec", lambda _: spec)
    monkeypatch.setenv("CUDA_HOME", str(toolkit))

    found = headers.cuda_folders.__wrapped__(13)

    assert found == (wheels / "cu13/include", toolkit / "include/cccl")


needs_cccl = pytest.mark.skipif(
    not any(
        (folder / "cuda/std/limits").exists() for folder in headers.cuda_folders(int(nvrtc.version().split(".")[0]))
    ),
    reason="CUDA's own headers are not installed: extras cudart and cccl of cuda-toolkit",
)


@needs_cccl
def test_kernels_of_a_published_program_are_compiled_by_entry(cache):
    entries = ("softmax<float, 256>", "along")
    stages = [Stage("published", "", FOREIGN, entry=entry) for entry in entries]
    found = [cubin(stage, (), (9, 0)) for stage in stages]
    assert [made.entry for made in found] == ["_Z7softmaxIfLi256EEvPT_PKS0_RKi", "_Z5alongPfPKf4Line"]
    assert [made.resources.static_shared_bytes for made in found] == [1024, 0]
    assert found[0].fingerprint != found[1].fingerprint
    assert cubin(stages[0], (), (9, 0)) == found[0]  # from the cache


def test_constants_are_known_by_their_lowered_names(tmp_path, cache):
    (tmp_path / "s.cu").write_text(
        "namespace scaling {\n__constant__ float factors[4];\n"
        "__global__ void by_constant(float* x) { x[threadIdx.x] *= factors[threadIdx.x]; }\n}\n"
    )
    factors = Buffer(Role.IN, (4,))
    constants = (("scaling::factors", factors),)
    stage = Stage("s", "", tmp_path / "s.cu", entry="scaling::by_constant", constants=constants)
    assert cubin(stage, (), (9, 0)).constants == ("_ZN7scaling7factorsE",)
    larger = replace(stage, constants=(("scaling::factors", Buffer(Role.IN, (5,))),))
    with pytest.raises(BuildError, match=r"constant scaling::factors has 16 bytes, its data 20"):
        cubin(larger, (), (9, 0))


PADDING = (("padding_at_8", "int32"), ("padding_at_12", "int32"))
SIZES = """
struct alignas(16) Line { float slope; int n; };
__global__ void kernel(float* out, Line line, bool flag, const float* __restrict__ in, double by) {
    if (flag) out[threadIdx.x] = line.n + by * in[0];
}
"""


@pytest.mark.parametrize(
    ("padding", "flag", "refused"), [(2, "bool", None), (0, "bool", "argument 2"), (2, "int32", "argument 3")]
)
def test_a_value_of_another_size_than_the_kernels_is_refused(tmp_path, cache, padding, flag, refused):
    source = tmp_path / "sizes.cu"
    line = Struct((0.5, 3, *[0] * padding), (("slope", "float32"), ("n", "int32"), *PADDING[:padding]))
    given = (Buffer(Role.OUT, (32,)), line, Scalar(1, flag), Buffer(Role.IN, (1,)), Scalar(2.0, "float64"))
    made = built(source, SIZES)
    case = Case(
        "sizes", Stage("stage", "", source, entry="kernel"), Launch((1, 1, 1), (32, 1, 1)), given, Work(1), None
    )
    if refused is None:
        refuse_other_sizes(made, case)
    else:
        with refuses(Code.ARGUMENTS, refused):
            refuse_other_sizes(made, case)


def test_an_entry_is_found_in_its_namespace_by_its_types(tmp_path, cache):
    text = (
        "namespace a {\ntemplate <int N> __global__ void fill(int* out) { out[0] = N; }\n"
        "template <int N> __global__ void fill(float* out) { out[0] = N; }\n"
        "__global__ void broken() { missing(); }\n}\n"
    )
    assert built(tmp_path / "k.cu", text, "fill<3>(float*)").entry == "_ZN1a4fillILi3EEEvPf"
    with pytest.raises(BuildError, match=r'k\.cu:4: identifier "missing" is undefined'):
        built(tmp_path / "k.cu", text, "broken")


def test_a_kernel_may_have_the_name_of_a_library_function(tmp_path, cache):
    text = "__global__ void norm(float* x) { x[0] = norm3df(x[0], x[1], x[2]); }\n"
    assert built(tmp_path / "k.cu", text, "norm").entry == "_Z4normPf"
    old = text.replace("norm(float", "scale(float")
    assert built(tmp_path / "k.cu", old, "scale", options=("-std=c++03",)).entry == "_Z5scalePf"
    with pytest.raises(BuildError, match=r"several kernels have this name"):
        built(tmp_path / "k.cu", text + "__global__ void norm(int* x) {}\n", "norm")


def test_a_missing_entry_is_answered_with_those_that_are_there(tmp_path, cache):
    text = "template <class T> __global__ void sum(T* x) {}\n__global__ void other(int* x) {}\n"
    with pytest.raises(
        BuildError, match=r"^k\.cu has no entry point `kernel` .*: it has sum<\.\.\.>, other; .*`sum<float"
    ):
        built(tmp_path / "k.cu", text)


def test_a_missing_file_is_one_line_with_its_place(tmp_path, cache):
    with pytest.raises(BuildError, match=r'k\.cu:2: cannot open source file "gone\.cuh"; add its folder'):
        built(tmp_path / "k.cu", '\n#include "gone.cuh"\n__global__ void kernel() {}\n')


@pytest.mark.parametrize(
    ("header", "install"),
    [("crt/mma.h", "nvidia-cuda-crt"), ("curand_kernel.h", "nvidia-curand"), ("cuda/barrier", "the extra nvrtc")],
)
def test_a_header_of_cuda_that_is_missing_says_what_to_install(header, install, monkeypatch):
    monkeypatch.setattr(compilers, "cuda_folders", lambda major: ())
    message = f'cannot open source file "{header}"'
    assert f"install {install}," in advice((), "k.cu", 1, message, 13)


def test_what_is_installed_is_not_offered_for_installation(monkeypatch):
    monkeypatch.setattr(compilers, "cuda_folders", lambda major: (Path("include"),))
    said = advice((), "k.cu", 1, 'cannot open source file "cuda/new_in_14"', 13)
    assert "CUDA_HOME" in said
    assert "extra" not in said


def test_a_launch_in_the_way_is_named_with_its_line(tmp_path, cache):
    text = "__global__ void kernel() {\n    kernel<<<1, 2>>>();\n}\n"
    with pytest.raises(
        BuildError, match=r"k\.cu:2: .*`kernel<<<\.\.\.>>>` is a launch: put it under `#ifndef PEAKGATE`"
    ):
        built(tmp_path / "k.cu", text)


def test_what_nvcc_offers_without_an_include_is_there(tmp_path, cache):
    text = """__global__ void kernel(float* x) {
        uint a = 3; uint64_t b = a; ushort c = 1; std::size_t d = 2;
        x[0] = INFINITY + NAN + M_PI + sqrt(3) + ceil(7u) + b + c + d;
        __asm__ __volatile__("" ::: "memory"); __asm("");
    }
    #ifndef PEAKGATE
    #error host
    #endif
    """
    assert built(tmp_path / "k.cu", text).resources.registers > 0


def test_host_code_that_does_not_compile_is_left_out(tmp_path, cache):
    beside = "struct Held : of_no_header { int n; };\n"
    text = "__global__ void kernel(thrust::complex<float>* out) { out[0] = std::sqrt(2.0f) * out[1] / out[2]; }\n"
    headers_of = "#include <thrust/complex.h>\n#include <thrust/iterator/permutation_iterator.h>\n"
    assert built(tmp_path / "k.cu", f"{headers_of}{beside}int count(Held of) {{ return of.n; }}\n{text}").path.exists()
    with pytest.raises(BuildError, match=r"k\.cu:1: "):
        built(tmp_path / "k.cu", f"{beside}__global__ void kernel(Held of, int* out) {{ *out = of.n; }}\n")


@needs_cccl
def test_the_hosts_headers_are_there(cache):
    stage = Stage("host_headers", "", Path(__file__).parents[1] / "data" / "emulated" / "host_headers.cu")
    assert cubin(stage, (), (9, 0)).resources.registers > 0


@needs_cccl
@pytest.mark.parametrize(
    "names",
    [
        (
            "cooperative_groups.h",
            "cooperative_groups/reduce.h",
            "cooperative_groups/scan.h",
            "cuda_fp16.h",
            "cuda_bf16.h",
        ),
        ("cuda/barrier", "cuda/pipeline", "cuda/atomic", "cuda/std/cmath", "cuda.h", "cub/block/block_reduce.cuh"),
    ],
    ids=["groups and halves", "libcu++ and cub"],
)
def test_cudas_own_headers_compile(names, tmp_path, cache):
    text = "".join(f"#include <{name}>\n" for name in names) + "#include <cmath>\n"
    text += "__global__ void kernel(float* x) { x[0] = INFINITY; }\n"
    assert built(tmp_path / "k.cu", text).resources.registers > 0


def test_files_of_include_folders_change_the_build(tmp_path, cache):
    folder = tmp_path / "headers"
    folder.mkdir()
    text = "#include <value.cuh>\n__global__ void kernel(int* x) { x[0] = VALUE; }\n"
    found = []
    for value in (3, 4):
        (folder / "value.cuh").write_text(f"#define VALUE {value}\n")
        found.append(built(tmp_path / "k.cu", text, include=(folder,)).fingerprint)
    assert found[0] != found[1]


def test_options_of_a_stage_change_the_build(tmp_path, cache):
    text = "__global__ void kernel(float* x) { x[0] = x[1] / x[2]; }\n"
    plain = built(tmp_path / "k.cu", text)
    fast = built(tmp_path / "k.cu", text, options=("--use_fast_math",))
    assert plain.path != fast.path
    assert plain.fingerprint != fast.fingerprint


@pytest.mark.parametrize("option", rows("options_refused.txt"))
def test_an_option_that_could_write_elsewhere_is_refused(option, tmp_path, cache):
    text = "__global__ void kernel(float* x) { x[0] = 1; }\n"
    refusal, expected = (ValueError, "of one line") if "\\n" in option else (BuildError, "is not allowed")
    with pytest.raises(refusal, match=expected) as refused:
        built(tmp_path / "k.cu", text, options=(option.replace("\\n", "\n").format(folder=tmp_path),))
    assert len(str(refused.value).splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["k.cu"]


def test_options_that_only_change_the_machine_code_are_allowed(tmp_path):
    assert objection_to(rows("options_allowed.txt"), tmp_path / "k.cu") is None


def test_two_entries_of_one_file_have_two_fingerprints(tmp_path, cache):
    text = 'extern "C" __global__ void stage(int* x) { x[0] = 1; }\n__global__ void kernel(int* x) { x[0] = 2; }\n'
    named = built(tmp_path / "k.cu", text, "stage")
    assert named.fingerprint == hashlib.sha256(named.path.read_bytes()).hexdigest()[:16]
    assert built(tmp_path / "k.cu", text).fingerprint != named.fingerprint


def test_another_name_or_comment_changes_no_fingerprint(tmp_path):
    text = "namespace { __device__ int hidden; }\n__global__ void k(int* out) { *out = hidden; }\n"
    made = []
    for name, comment in (("k.cu", ""), ("01_k.cu", ""), ("02_k.cu", "// why\n")):
        (tmp_path / name).write_text(f"{comment}{text}")
        made.append(cubin(Stage("k", "", tmp_path / name), (), (9, 0)))
    assert len({each.fingerprint for each in made}) == 1
    assert made[0].path.read_bytes() == made[1].path.read_bytes()
    (tmp_path / "01_k.cu").write_text(f"{text}int wrong = ;\n")
    with pytest.raises(BuildError, match=r"/01_k\.cu:3: "):
        cubin(Stage("k", "", tmp_path / "01_k.cu"), (), (9, 0))


HIDDEN = """
__constant__ char table_100000_INTERNAL_[] = "{times}";
__constant__ char other[] = "40_INTERNAL_00000000_4_k_cu_k{times}_______________";
extern "C" __global__ void k(int* out) {{
    const char* given = threadIdx.x ? table_100000_INTERNAL_ : other + 29;
    for (int at = 0; at < (given[0] - '0') * 1000; ++at) atomicAdd(out, given[1]);
}}
"""


def test_more_work_behind_a_compilers_name_changes_the_print(tmp_path, cache):
    few, many = (built(tmp_path / "k.cu", HIDDEN.format(times=each), "k").fingerprint for each in ("11", "91"))
    assert few != many


def test_nvrtc_gets_the_parts_of_cub_for_blocks_and_warps() -> None:
    folders = headers.cuda_folders(13)
    if not folders:
        pytest.skip("CUDA's headers are not installed")
    names = re.findall(r"#include <(cub/[^>]*)>", compilers.nvrtc_headers()["cub/cub.cuh"])
    assert {"cub/block/block_reduce.cuh", "cub/warp/warp_scan.cuh"} <= {*names}
    assert [name for name in names if not any((folder / name).is_file() for folder in folders)] == []
