"""CUB's reductions, scans and sorts of a warp and a block; storage that is used again too early is a race."""

import numpy as np
import pytest
from emulating import CUDA, ONE, finds, loaded

import peakgate_emulator as emulator
from peakgate_emulator import DefectKind, KernelBuildError

N = 96 * 4


def launched(name):
    given = np.random.default_rng(7).integers(0, 100, N).astype("int32")
    out = np.zeros(N + 97, "int32")
    loaded("blocks", entry=name).launch(ONE, (96, 1, 1), (out, given, np.int32(N)))
    return out, given


def test_reductions_fold_the_values_of_blocks_and_warps():
    out, given = launched("sums")
    product = 1
    for value in given[:7].tolist():
        product = product * value % 251
    assert out[:3].tolist() == [given.sum(), given[:96].max(), product]
    assert (out[3:6] == given[:96].reshape(3, 32).sum(axis=1)).all()


def test_scans_give_the_sum_of_what_comes_before_and_the_total():
    out, given = launched("scans")
    assert (out[:N] == np.cumsum(given) - given).all()
    assert (out[N : N + 96] == given[:96].reshape(6, 16).cumsum(axis=1).ravel()).all()
    assert out[N + 96] == given.sum()


def test_segments_of_a_warp_are_reduced_in_their_first_lanes(tmp_path):
    (tmp_path / "parts.cu").write_text(
        "#include <cub/cub.cuh>\n__global__ void parts(int* heads, int* tails) {\n"
        "    using Warp = cub::WarpReduce<int>;\n    __shared__ typename Warp::TempStorage storage;\n"
        "    const int lane = threadIdx.x, flag = lane % 5 == 2;\n"
        "    heads[lane] = Warp(storage).HeadSegmentedSum(lane, flag);\n    __syncwarp();\n"
        "    tails[lane] = Warp(storage).TailSegmentedReduce(lane, flag, cub::Max());\n}\n"
    )
    heads, tails = np.zeros(32, "int32"), np.zeros(32, "int32")
    emulator.load(tmp_path / "parts.cu", "parts").launch(ONE, (32, 1, 1), (heads, tails))
    begins = [0, *range(2, 32, 5)]
    assert heads[begins].tolist() == [sum(each) for each in np.split(np.arange(32), begins[1:])]
    ends = [0, *range(3, 32, 5)]
    assert tails[ends].tolist() == [*range(2, 32, 5), 31]


def test_the_greatest_value_of_a_block_has_its_key(tmp_path):
    (tmp_path / "best.cu").write_text(
        "#include <cub/cub.cuh>\n__global__ void best(int* out, const float* in) {\n"
        "    using Pair = cub::KeyValuePair<int, float>;\n    using Block = cub::BlockReduce<Pair, 64>;\n"
        "    __shared__ typename Block::TempStorage storage;\n"
        "    const Pair greatest = Block(storage).Reduce(Pair{(int)threadIdx.x, in[threadIdx.x]}, cub::ArgMax());\n"
        "    if (threadIdx.x == 0) *out = greatest.key;\n}\n"
    )
    out, given = np.zeros(1, "int32"), np.zeros(64, "float32")
    given[[9, 41]] = 3
    emulator.load(tmp_path / "best.cu", "best").launch(ONE, (64, 1, 1), (out, given))
    assert out[0] == 9


def test_storage_used_again_without_a_barrier_is_a_race():
    with finds(DefectKind.SHARED_RACE) as caught:
        launched("again")
    defect = caught.value.defects[0]
    lines = (CUDA / "blocks.cu").read_text().splitlines()
    first = next(number for number, line in enumerate(lines, 1) if "const int sum = Block(storage).Sum(in[" in line)
    assert (defect.other_location, defect.location) == (f"blocks.cu:{first}", f"blocks.cu:{first + 1}")


SORT = """#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_exchange.cuh>
#include <cub/warp/warp_merge_sort.cuh>
using Key = TYPE;
struct Less {
    __device__ bool operator()(Key a, Key b) const { return a < b; }
};
__global__ void kernel(Key* out, int* from, const Key* in) {
    using Radix = cub::BlockRadixSort<Key, 64, 3, int>;
    using Merge = cub::BlockMergeSort<Key, 64, 3, int>;
    using Exchange = cub::BlockExchange<Key, 64, 3>;
    __shared__ union {
        Radix::TempStorage radix;
        Merge::TempStorage merge;
        Exchange::TempStorage exchange;
    } storage;
    Key keys[3];
    int values[3];
    cub::LoadDirectBlocked(threadIdx.x, in, keys);
    for (int i = 0; i < 3; ++i) values[i] = threadIdx.x * 3 + i;
    CALL;
    cub::StoreDirectBlocked(threadIdx.x, out, keys);
    cub::StoreDirectBlocked(threadIdx.x, from, values);
}
"""
RADIX, STRIPED = "Radix(storage.radix).", "cub::StoreDirectStriped<64>(threadIdx.x, out, keys); return"
SORTS = {
    "radix": f"{RADIX}Sort(keys, values)",
    "radix, descending": f"{RADIX}SortDescending(keys, values)",
    "radix, striped": f"{RADIX}SortBlockedToStriped(keys, values); "
    "cub::StoreDirectStriped<64>(threadIdx.x, from, values); " + STRIPED,
    "merge": "Merge(storage.merge).Sort(keys, values, Less())",
    "merge, in part": "Merge(storage.merge).StableSort(keys, values, Less(), 100, Key(127))",
    "two": f"{RADIX}SortDescending(keys); __syncthreads(); Merge(storage.merge).Sort(keys, Less())",
}


@pytest.mark.parametrize(
    ("call", "kind"),
    [*((call, "int8") for call in SORTS), ("radix", "float32"), ("radix", "uint64"), ("radix, descending", "float32")],
)
def test_a_block_sorts_its_keys_and_their_values(call, kind, tmp_path):
    key = {"int8": "signed char", "float32": "float", "uint64": "unsigned long long"}[kind]
    (tmp_path / "kernel.cu").write_text(SORT.replace("CALL;", f"{SORTS[call]};").replace("TYPE", key))
    given = np.random.default_rng(3).integers(0 if kind == "uint64" else -50, 50, 192).astype(kind)
    out, places = np.zeros_like(given), np.zeros(192, np.int32)
    emulator.load(tmp_path / "kernel.cu", "kernel").launch(ONE, (64, 1, 1), (out, places, given))
    if "part" in call:
        given[100:] = 127
    wide = given.astype(np.int64 if kind != "float32" else float)
    order = np.argsort(-wide if "descending" in call else wide, kind="stable")
    assert (out == given[order]).all()
    assert call == "two" or (places == order).all()


EXCHANGES = {
    "BlockedToStriped(keys)": lambda given: given.reshape(3, 64).T,
    "StripedToBlocked(keys)": lambda given: given.reshape(64, 3).T.reshape(64, 3),
    "ScatterToBlocked(keys, values)": lambda given: given,
    "ScatterToStriped(keys, values)": lambda given: given.reshape(3, 64).T,
}


@pytest.mark.parametrize("call", EXCHANGES)
def test_a_block_exchanges_its_items(call, tmp_path):
    text = SORT.replace("TYPE", "int").replace("CALL;", f"Exchange(storage.exchange).{call};")
    (tmp_path / "kernel.cu").write_text(text)
    given, out = np.arange(192, dtype=np.int32), np.zeros(192, np.int32)
    emulator.load(tmp_path / "kernel.cu", "kernel").launch(ONE, (64, 1, 1), (out, np.zeros_like(out), given))
    assert (out == EXCHANGES[call](given).ravel()).all()


def test_each_warp_sorts_its_keys(tmp_path):
    sort = "cub::WarpMergeSort<int, 3, 16, int>::TempStorage none; cub::WarpMergeSort<int, 3, 16, int>(none)"
    text = SORT.replace("TYPE", "int").replace("CALL;", f"{sort}.Sort(keys, values, Less());")
    (tmp_path / "kernel.cu").write_text(text)
    given = np.random.default_rng(4).integers(-9, 9, 192).astype(np.int32)
    out, places = np.zeros_like(given), np.zeros_like(given)
    emulator.load(tmp_path / "kernel.cu", "kernel").launch(ONE, (64, 1, 1), (out, places, given))
    order = np.argsort(given.reshape(4, 48), axis=1, kind="stable")
    assert (places.reshape(4, 48) == order + 48 * np.arange(4)[:, None]).all()
    assert (out == given[places]).all()


def test_storage_of_a_sort_used_again_is_a_race(tmp_path):
    twice = f"{RADIX}Sort(keys, values); Merge(storage.merge).Sort(keys, values, Less())"
    (tmp_path / "kernel.cu").write_text(SORT.replace("TYPE", "int").replace("CALL;", f"{twice};"))
    given = np.zeros(192, np.int32)
    with finds(DefectKind.SHARED_RACE):
        emulator.load(tmp_path / "kernel.cu", "kernel").launch(ONE, (64, 1, 1), (given, given.copy(), given.copy()))


def test_what_of_cub_is_not_emulated_names_its_line(tmp_path):
    (tmp_path / "kernel.cu").write_text(
        "#include <cub/cub.cuh>\n__global__ void kernel(int* out) {\n    cub::BlockHistogram<int, 128, 4, 16> h;\n}\n"
    )
    with pytest.raises(KernelBuildError, match=r"^kernel\.cu:3: .*; this part of CUB is not emulated"):
        emulator.load(tmp_path / "kernel.cu", "kernel")
