"""What tests of the emulator expect of instructions, casts and products is what a GPU computes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matrix_forms import WARP_FORMS, WarpForm, warp_source

import peakgate_emulator as emulator

TESTS = Path(__file__).parents[1]
VALUES = (
    "every_form or cast_to_an_integer or numbers_are_rounded or narrows or widens or scale or saturated_and_packed or "
    "results_may_be_dropped"
)
OF_MAGNITUDES = 2.0**-20
"""The largest difference of a product on tensor cores, relative to the sum of its terms' magnitudes: they cut what lies
far below the largest term, where the emulator's sum is exact until it is rounded. An H200's was at most 2**-20.6 of the
largest term (docs/results/emulator.md)."""


@pytest.mark.gpu(here=True)
@pytest.mark.parametrize("form", WARP_FORMS, ids=lambda form: form.opcode)
def test_a_product_is_the_gpus_or_differs_by_what_tensor_cores_cut(tmp_path: Path, form: WarpForm) -> None:
    from on_gpu import OnGpu  # noqa: PLC0415  (it needs CuPy)

    source = tmp_path / "products.cu"
    source.write_text(warp_source([form]), encoding="utf-8")
    a, b, c = form.drawn(np.random.default_rng(1))
    results = []
    for kernel in (emulator.load(source, "products", ()), OnGpu(source, "products")):
        got, *given = form.arguments(a, b, c)
        kernel.launch((1, 1, 1), (32, 1, 1), (got, *given, np.int32(0)))
        results.append(form.product(got).astype(np.float64))
    a, b, c = (np.abs(each.astype(np.float64)) for each in (a, b, c))
    share = 0.0 if form.sums in ("s32", "f64") else OF_MAGNITUDES if form.sums == "f32" else 2.0**-10
    apart = float((np.abs(results[0] - results[1]) / (a @ b.T + c)).max())
    assert apart <= share


@pytest.mark.gpu
def test_a_gpu_computes_what_the_emulators_tests_expect(tmp_path: Path) -> None:
    files = [str(TESTS / "emulator" / f"test_emulator_{name}.py") for name in ("ptx", "language", "narrow", "matrix")]
    command = [sys.executable, "-m", "pytest", "-p", "on_gpu", "-p", "no:cacheprovider", "-q", "-rs", "-k", VALUES]
    path = os.pathsep.join([str(TESTS / "helpers"), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "PEAKGATE_EVERY_FORM": "1"}
    done = subprocess.run(
        [*command, *files], env=environment, cwd=TESTS.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    passed, skipped = (
        int((re.search(rf"(\d+) {what}", done.stdout) or ["0", "0"])[1]) for what in ("passed", "skipped")
    )
    assert passed > 2 * skipped
