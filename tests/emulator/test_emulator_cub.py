"""CUB's reductions and scans of a warp and a block; storage that is used again too early is a race."""

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


def test_storage_used_again_without_a_barrier_is_a_race():
    with finds(DefectKind.SHARED_RACE) as caught:
        launched("again")
    defect = caught.value.defects[0]
    lines = (CUDA / "blocks.cu").read_text().splitlines()
    first = next(number for number, line in enumerate(lines, 1) if "const int sum = Block(storage).Sum(in[" in line)
    assert (defect.other_location, defect.location) == (f"blocks.cu:{first}", f"blocks.cu:{first + 1}")


def test_what_of_cub_is_not_emulated_names_its_line(tmp_path):
    (tmp_path / "sorted.cu").write_text(
        "#include <cub/cub.cuh>\n__global__ void sorted(int* out) {\n    cub::BlockRadixSort<int, 128, 4> sort;\n}\n"
    )
    with pytest.raises(KernelBuildError, match=r"^sorted\.cu:3: .*; this part of CUB is not emulated"):
        emulator.load(tmp_path / "sorted.cu", "sorted")
