"""What `init --from` writes in place of missing headers: what is certain, and what is left to fill in."""

import pytest

from peakgate.base.errors import Code
from peakgate.inspect.skeleton.meanings import meaning
from peakgate.inspect.skeleton.stand_ins import DECLARATIONS, IN_FOLDER, stand_ins
from peakgate.inspect.skeleton.write import skeleton

KERNEL = "__global__ void k(float* x, int n) { %s }\n"
pytestmark = pytest.mark.usefixtures("idle")


@pytest.fixture
def of_kernel(tmp_path, idle):
    """The stand-ins for a text with a kernel ``k``."""

    def found(text, kernel="k"):
        (tmp_path / "own.cu").write_text(text)
        return stand_ins([kernel], tmp_path / "own.cu", (), idle)

    return found


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("half2", "#include <cuda_fp16.h>"),
        ("__float2half_rn", "#include <cuda_fp16.h>"),
        ("__nv_bfloat16", "#include <cuda_bf16.h>"),
        ("nvcuda", "#include <mma.h>"),
        ("std::is_same", "#include <type_traits>"),
        ("FLT_MAX", "#include <cfloat>"),
        ("at", "#include <ATen/ATen.h>"),
        ("c10::BFloat16", "#include <ATen/ATen.h>"),
        ("kWarpSize", "#define kWarpSize 32"),
        ("CUDA_HOST_DEVICE", "#define CUDA_HOST_DEVICE __host__ __device__"),
        ("FORCE_INLINE_DEVICE", "#define FORCE_INLINE_DEVICE __device__ inline"),
    ],
)
def test_a_name_of_one_meaning_is_declared(name, text):
    assert meaning(name) == text


@pytest.mark.parametrize(
    "name", ["warpReduceSum", "PI", "BLOCK_SIZE", "real", "CHECK", "Params", "std::format", "FUNC"]
)
def test_a_name_of_several_meanings_is_not_declared(name):
    assert meaning(name) is None


def test_conventions_compile_with_their_meaning(tmp_path):
    source = tmp_path / "own.cu"
    source.write_text(
        '#include "lost/common.h"\n'
        "HOST_DEVICE_INLINE f32 twice(f32 x) { return 2 * x; }\n"
        "__global__ void k(f32* RESTRICT x, u8* low, int64 n) {\n"
        "    __shared__ float rows[CEIL_DIV(100, WARP_SIZE)];\n"
        '    static_assert(sizeof(rows) == 16 && div_up(9, 4) == 3 && MIN(2, 3) + MAX(2, 3) == 5, "");\n'
        "    CUDA_KERNEL_LOOP(i, n) { DEVICE_ASSERT(i < n); x[i] = twice(x[i]); low[i] = uint8_t(i); }\n"
        "}\n"
    )
    found = skeleton(source, tmp_path / "kernels", tmp_path)
    assert (found.stand_ins.headers, found.problem, found.stand_ins.left) == (("lost/common.h",), "", {})
    assert "InOut(n)" in found.text
    assert 'Out(n, dtype="uint8")' in found.text


def test_a_header_of_no_use_to_a_kernel_is_empty(of_kernel):
    found = of_kernel('#include "lost/log.h"\n#include <other.hpp>\n' + KERNEL % "x[0] = n;")
    assert (found.headers, {*found.files}) == (
        ("lost/log.h", "other.hpp"),
        {f"{IN_FOLDER}/lost/log.h", f"{IN_FOLDER}/other.hpp"},
    )
    assert found.problems == {}


def test_a_header_above_the_file_has_a_stand_in(of_kernel, tmp_path):
    found = of_kernel('#include "../../shared/log.h"\n#include "../up.h"\n' + KERNEL % "x[0] = WARP_SIZE;")
    assert (found.folders, found.problems) == (
        (IN_FOLDER, f"{IN_FOLDER}/above/above", f"{IN_FOLDER}/above"),
        {},
    )
    assert {f"{IN_FOLDER}/shared/log.h", f"{IN_FOLDER}/up.h"} < {*found.files}


@pytest.mark.parametrize("name", ["cub/lost.h", "a/../../lost.h", "/lost.h", "cuda/lost"])
def test_a_header_of_cuda_or_of_no_folder_has_no_stand_in(of_kernel, name):
    found = of_kernel(f'#include "{name}"\n' + KERNEL % "x[0] = n;")
    assert found.headers == ()
    assert name in found.problems["k"]


def test_what_is_not_certain_is_left_to_fill_in(of_kernel):
    found = of_kernel(
        '#include "lost.h"\n__global__ void k(float* x, Params p) {\n    Params q = p;\n    x[0] = reduced(q);\n}\n'
    )
    assert found.left == {
        "Params": "own.cu:2 uses: __global__ void k(float* x, Params p) {",
        "reduced": found.left["reduced"],
    }
    assert found.problems["k"].endswith(f"[{Code.BUILD}]")
    assert found.to_do("kernels/own")[0] == f"kernels/own/{DECLARATIONS}:3, 4: fill in Params, reduced"


def test_a_macro_of_the_build_is_given_or_asked_for(of_kernel):
    found = of_kernel(KERNEL % "x[0] = CEIL_DIV(n, TILE);")
    assert (found.defines, found.files) == ({"CEIL_DIV(a, b)": "(((a) + (b) - 1) / (b))"}, {})
    assert [*found.left] == ["TILE"]
    assert "defines" in found.problems["k"]


def test_a_condition_on_a_build_with_cuda_holds(of_kernel):
    found = of_kernel("#if HAVE_CUDA == 1\n" + KERNEL % "x[0] = n;" + "#endif\n")
    assert (found.defines, found.problems) == ({"HAVE_CUDA": "1"}, {})


def test_calls_of_macros_outside_of_functions_are_left_out(of_kernel):
    inside = "namespace own {\nREGISTER(k, 3);\n}\n"
    found = of_kernel('#include "lost.h"\nINSTANTIATE(float, 3);\n' + KERNEL % "x[0] = n;" + inside)
    assert found.problems == {}


def test_a_namespace_of_which_nothing_is_used_is_empty(of_kernel):
    assert of_kernel('#include "lost.h"\nusing namespace a::b;\n' + KERNEL % "x[0] = n;").problems == {}


BROKEN = "#define TILE 4\n#define TWICE(x) \\\n    (2 * (x))\n#define UNUSED 1\n__device__ lost_t broken;\n"


def test_a_header_that_does_not_build_is_replaced(tmp_path, idle):
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "host.h").write_text(BROKEN)
    (tmp_path / "own.cu").write_text('#include "host.h"\n' + KERNEL % "x[0] = TWICE(TILE);")
    found = stand_ins(["k"], tmp_path / "own.cu", (tmp_path / "include",), idle)
    assert (found.replaced, found.problems) == (("host.h",), {})
    assert "TILE 4" in found.files[DECLARATIONS]
    assert "UNUSED" not in found.files[DECLARATIONS]
    assert "host.h: " in found.to_do("kernels/own")[0]


@pytest.mark.parametrize("used", ["defined_there(n)", "WARP_SIZE", "TILE"])
def test_a_header_that_a_kernel_needs_is_not_replaced(tmp_path, idle, used):
    (tmp_path / "include").mkdir()
    functions = "__device__ int defined_there(int n);\nconst int WARP_SIZE = 64;\n#ifdef A\n#define TILE 8\n#endif\n"
    (tmp_path / "include" / "host.h").write_text(BROKEN + functions)
    (tmp_path / "own.cu").write_text('#include "host.h"\n' + KERNEL % f"x[0] = {used};")
    found = stand_ins(["k"], tmp_path / "own.cu", (tmp_path / "include",), idle)
    assert found.replaced == ()
    assert "lost_t" in found.problems["k"]


def test_what_a_person_fills_in_is_kept_and_used(tmp_path):
    source, folder = tmp_path / "own.cu", tmp_path / "kernels" / "own"
    source.write_text(
        '#include "lost.h"\n__global__ void k(int* x, int n) { if (threadIdx.x < CDIV(n, 1)) '
        "x[threadIdx.x] = own::twice(n); }\n"
    )
    first = skeleton(source, folder, tmp_path)
    assert [*first.stand_ins.left] == ["own"]
    assert first.problem.endswith(f"[{Code.BUILD}]")
    first.stand_ins.write(folder)
    with (folder / DECLARATIONS).open("a") as file:
        file.write("namespace own { __device__ int twice(int x) { return 2 * x; } }\n")
    second = skeleton(source, folder, tmp_path)
    assert (second.problem, 'include=["stand_ins"]' in second.text) == ("", True)
    assert second.stand_ins.write(folder) == []
