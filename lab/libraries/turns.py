"""The last stages of attention, norms, reductions and conversions in turn with PyTorch and CUB, in one process.

``python -m lab.libraries.turns FILE`` times each problem on a GPU, in rounds whose order is drawn, and writes the
microseconds of each; ``lab.libraries.page`` shows them. Everybody is timed alike: by events around one call, after the
L2 is overwritten. A library's own conversions and temporary arrays count.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import cupy
import torch
from cupy.cuda import cub
from torch.nn.attention import SDPBackend, sdpa_kernel

from lab.libraries.page import OURS
from lab.pages import ROOT
from peakgate.base.files import write_whole
from peakgate.base.text import say
from peakgate.device.choose import open_device
from peakgate.device.launcher import GpuLaunchable
from peakgate.spec.case import Case, Scale
from peakgate.spec.catalogue import module_at

FLUSHED_BYTES = 192 << 20
Function = Callable[[], Any]


def cases_of(family: str) -> dict[str, list[Case]]:
    """By variant and size, the cases of the stages to compare."""
    found: dict[str, list[Case]] = {}
    for case in module_at(ROOT / "kernels" / family / "family.py").FAMILY.cases(Scale.BENCH):
        if isinstance(case, Case) and case.stage.name in OURS[family]:
            found.setdefault(case.id.split("-", 1)[1], []).append(case)
    return found


def attention(name: str) -> dict[str, Function]:
    """PyTorch's attention by cuDNN and by its own flash kernels; sequences of 2048 columns in all heads."""
    size, width, kind = name.split("-")
    heads, length = map(int, size.split("x"))
    shape = (heads * int(width) // 2048, 2048 // int(width), length, int(width))
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))

    def by(backend: SDPBackend) -> Function:
        def call() -> None:
            with sdpa_kernel(backend):
                torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=kind == "causal")

        return call

    return {"cuDNN": by(SDPBackend.CUDNN_ATTENTION), "PyTorch's flash": by(SDPBackend.FLASH_ATTENTION)}


def norm(name: str) -> dict[str, Function]:
    """PyTorch's function of the same name."""
    size, what, kind = name.split("-")
    rows, n = map(int, size.split("x"))
    dtype = {"bf16": torch.bfloat16, "f32": torch.float32}[kind]
    x = torch.empty(rows, n, device="cuda", dtype=dtype).uniform_(-4, 4)
    weight, bias = torch.ones(n, device="cuda", dtype=dtype), torch.zeros(n, device="cuda", dtype=dtype)
    functions = {
        "softmax": lambda: torch.softmax(x, 1),
        "rms": lambda: torch.nn.functional.rms_norm(x, (n,), weight, 1e-5),
        "layer": lambda: torch.nn.functional.layer_norm(x, (n,), weight, bias, 1e-5),
    }
    return {"PyTorch": functions[what]}


def reduction(name: str) -> dict[str, Function]:
    """PyTorch's and CUB's sum, maximum, running sum and histogram; CUB as CuPy calls it."""
    size, _, what = name.partition("-")
    n = int(size.removesuffix("MiB")) << 18
    x = torch.empty(n, device="cuda").uniform_(-0.1, 1.1) if what == "spread" else torch.full((n,), 0.5, device="cuda")
    of_cub = cupy.from_dlpack(x)
    if what in ("sum", "max"):
        kind = {"sum": cub.CUPY_CUB_SUM, "max": cub.CUPY_CUB_MAX}[what]
        by_cub = lambda: cub.device_reduce(of_cub, kind, (0,), (), None, False)  # noqa: E731
        return {"PyTorch": (lambda: torch.sum(x)) if what == "sum" else (lambda: torch.max(x)), "CUB": by_cub}
    if what:
        return {"PyTorch": lambda: torch.histc(x, 256, 0, 1), "CUB": histogram_of_cub(of_cub)}
    whole = torch.randint(-1000, 1000, (n,), device="cuda", dtype=torch.int32)
    in_place = cupy.from_dlpack(whole.clone())
    return {
        "PyTorch": lambda: torch.cumsum(whole, 0, dtype=torch.int32),
        "CUB": lambda: cub.device_scan(in_place, cub.CUPY_CUB_CUMSUM),
    }


HISTOGRAM = """
#include <cub/device/device_histogram.cuh>
extern "C" int histogram(void* temporary, size_t* bytes, const float* values, int* counts, int n) {
    return cub::DeviceHistogram::HistogramEven(temporary, *bytes, values, counts, 257, 0.0f, 1.0f, n);
}
"""


@cache
def histogram_library() -> ctypes.CDLL:
    """CUB's histogram as a library, built by the toolkit's nvcc: CuPy has it for integers alone."""
    folder = Path(tempfile.mkdtemp())
    (folder / "histogram.cu").write_text(HISTOGRAM, encoding="utf-8")
    library = folder / "histogram.so"
    target = f"-arch=sm_{cupy.cuda.Device().compute_capability}"
    # The runtime library that is loaded already: its own copy would not know this process's streams.
    line = ["nvcc", "-O3", "-shared", "-Xcompiler", "-fPIC", "-cudart", "shared", target]
    subprocess.run([*line, "-o", str(library), str(folder / "histogram.cu")], check=True)
    return ctypes.CDLL(str(library))


def histogram_of_cub(values: cupy.ndarray) -> Function:
    """CUB's histogram of 256 equal bins from 0 to 1, checked once."""
    call = histogram_library().histogram
    counts, needed = cupy.zeros(256, "int32"), ctypes.c_size_t(0)
    where = [ctypes.c_void_p(each.data.ptr) for each in (values, counts)]
    if call(None, ctypes.byref(needed), *where, values.size):
        raise RuntimeError("CUB does not say how much memory its histogram needs")
    temporary = cupy.empty(max(needed.value, 1), "uint8")

    def made() -> None:
        if call(ctypes.c_void_p(temporary.data.ptr), ctypes.byref(needed), *where, values.size):
            raise RuntimeError("CUB's histogram failed")

    made()
    inside = values[(values >= 0) & (values < 1)]
    if not (counts == cupy.bincount((inside * 256).astype("int32"), minlength=256)).all():
        raise RuntimeError("CUB's histogram counts otherwise than the definition")
    return made


def conversion(name: str) -> dict[str, Function]:
    """PyTorch's own operations, one after the other, on a scale for each row; none for parts of rows or integers."""
    size, kind, group = name.split("-")
    rows, n = map(int, size.split("x"))
    if (kind, group) != ("fp8", "row"):
        return {}
    x = torch.empty(rows, n, device="cuda", dtype=torch.bfloat16).uniform_(-1, 1)

    def quantize() -> Any:
        scale = x.abs().amax(1, keepdim=True).float() / 448
        return (x / scale).to(torch.float8_e4m3fn), scale

    codes, scales = quantize()

    def restore() -> Any:
        return (codes.float() * scales).bfloat16()

    return {"PyTorch": quantize, "PyTorch, back": restore}


LIBRARIES = {"attention": attention, "norm": norm, "reduce": reduction, "quantize": conversion}


def timed(functions: Mapping[str, Function], rounds: int) -> dict[str, list[float]]:
    """Microseconds of each function in each round."""
    flushed = cupy.empty(FLUSHED_BYTES // 4, "int32")
    for function in functions.values():
        function()
        function()
    pairs: dict[str, list[Any]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name in random.sample(sorted(functions), len(functions)):
            flushed.fill(1)
            begin, end = cupy.cuda.Event(), cupy.cuda.Event()
            begin.record()
            functions[name]()
            end.record()
            pairs[name].append((begin, end))
    cupy.cuda.runtime.deviceSynchronize()
    return {name: [round(cupy.cuda.get_elapsed_time(*pair) * 1e3, 3) for pair in each] for name, each in pairs.items()}


def measure(rounds: int, families: Sequence[str]) -> dict[str, Any]:
    """Every problem of the families on the GPU at hand; prints a line each."""
    device, _ = open_device("gpu")
    device.warm_up()
    device.prebuild(
        [case for family in families for cases in cases_of(family).values() for case in cases], checked=False
    )
    found: dict[str, dict[str, Any]] = {}
    for family in families:
        for name, cases in cases_of(family).items():
            if not (functions := LIBRARIES[family](name)):
                continue
            ready: dict[str, GpuLaunchable] = {}
            for case in cases:
                launchable = device.prepare(case)
                assert isinstance(launchable, GpuLaunchable)
                launchable.run()
                ready[case.stage.name] = launchable
            taken = timed({stage: each.launch for stage, each in ready.items()} | functions, rounds)
            work = cases[0].work
            found[f"{family}.{name}"] = {"bytes": work.bytes, "flops": work.flops, "us": taken}
            say(f"{family}.{name}: " + ", ".join(f"{who} {statistics.median(us):.1f}" for who, us in taken.items()))
            del functions, ready
            torch.cuda.empty_cache()
            cupy.get_default_memory_pool().free_all_blocks()
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": os.environ.get("PEAKGATE_COMMIT", ""),
        "gpu": device.describe(),
        "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version(),
        "rounds": rounds,
        "problems": found,
    }


def main(arguments: Sequence[str]) -> int:
    """Measure and write the record."""
    parser = argparse.ArgumentParser(prog="python -m lab.libraries.turns", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--families", nargs="+", choices=LIBRARIES, default=[*LIBRARIES], metavar="FAMILY")
    options = parser.parse_args(arguments)
    write_whole(options.file, json.dumps(measure(options.rounds, options.families)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
