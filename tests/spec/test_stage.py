"""A stage: where its kernel is defined."""

import pytest

from peakgate.spec.stage import Stage

SOURCE = """#include "own.cuh"
// scale(n) doubles.
__device__ float twice(float x) { return scale(x); }
template <int N>
__global__ void __launch_bounds__(256)
scale(float* out) { scale_all(out); }
"""


@pytest.mark.parametrize(("name", "line"), [("scale", 6), ("twice", 3), ("absent", 1), ("scale<256>", 6)])
def test_a_kernel_is_at_the_line_that_defines_it(tmp_path, name, line):
    path = tmp_path / "own.cu"
    path.write_text(SOURCE)
    assert Stage("own", "a lesson", path, entry=name).source_line == (path, line, "")


def test_a_kernel_without_a_file_to_read_is_at_its_first_line(tmp_path):
    assert Stage("own", "a lesson", tmp_path / "gone.cu").source_line == (tmp_path / "gone.cu", 1, "")
    assert Stage("own", "a lesson", operation="memcpy").source_line is None
