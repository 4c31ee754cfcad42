"""A benchmark test per language and framework: each right and timed on a GPU as its own calls are."""

import json
import os
import shutil
import subprocess
import sys
from datetime import date
from importlib import metadata
from pathlib import Path

import pytest

from lab.pages import ROOT, fill_page, filled, table

LANGUAGES = Path(__file__).parents[1] / "data" / "languages"
RECORD = LANGUAGES / "h200.json"
PAGE = ROOT / "docs" / "how-to" / "frameworks.md"

MOST_APART = 0.02

DISTRIBUTIONS = {
    "pytorch": "torch",
    "backward": "torch",
    "triton": "triton",
    "helion": "helion",
    "cute": "nvidia-cutlass-dsl",
    "quack": "quack-kernels",
    "tilelang": "tilelang",
    "warp": "warp-lang",
    "nvmath": "nvmath-python",
    "cupy": "cupy-cuda13x",
    "cutlass": "cupy-cuda13x",
    "jax": "jax",
}
"""The distribution that a benchmark test needs."""

NAMES = {
    "eager": "PyTorch: eager",
    "compiled": "PyTorch: torch.compile",
    "graph": "PyTorch: a CUDA graph",
    "custom_operator": "PyTorch: a custom operator",
    "of_backward": "PyTorch: the backward pass",
    "of_triton": "Triton",
    "of_gluon": "Gluon",
    "of_helion": "Helion",
    "of_cute": "CuTe DSL",
    "of_quack": "QuACK",
    "of_tilelang": "TileLang",
    "of_warp": "Warp",
    "of_nvmath": "nvmath-python",
    "raw_kernel": "CuPy: RawKernel",
    "fused": "CuPy: fuse",
    "in_python": "CuPy: jit.rawkernel",
    "cuda_core": "cuda.core",
    "of_cutlass": "CUTLASS: CuTe's headers, by CuPy",
    "jitted": "JAX: jit",
    "pallas": "Pallas",
}
"""The name of what a function of a benchmark test makes."""

STREAMS_OF_ITS_OWN = ("bench_jax",)
"""Files whose calls PyTorch's events do not time."""

BESIDE = """
import importlib, json, sys
import torch

module = importlib.import_module(sys.argv[1])
found = {}
for name in sys.argv[2:]:
    call, *arrays = getattr(module, name)()
    for _ in range(5):
        call(*arrays)
    torch.cuda.synchronize()
    torch.cuda._sleep(200_000_000)  # so that all calls are queued before the first begins
    pairs = [tuple(torch.cuda.Event(enable_timing=True) for _ in range(2)) for _ in range(40)]
    for begin, end in pairs:
        begin.record()
        call(*arrays)
        end.record()
    torch.cuda.synchronize()
    found[name] = sorted(1000 * begin.elapsed_time(end) for begin, end in pairs)[20]
print(json.dumps(found))
"""
"""Microseconds of each call by PyTorch's events, the median of 40."""


def measured(folder):
    """Rows of a run of all benchmark tests, by case; those that are not installed are left out."""
    command = [sys.executable, "-m", "peakgate", "bench", "--device", "gpu", "--out", "out", "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    saved = json.loads(next((folder / ".benchmarks").rglob("*.json")).read_text(encoding="utf-8"))
    kernels = {each["extra_info"]["case"]: each["extra_info"]["kernels"] for each in saved["benchmarks"]}
    rows = {}
    for case in json.loads(done.stdout)["cases"]:
        test, _, made = case["case"].rpartition(".bench_")[2].partition("-")
        rows[case["case"]] = {
            "made": made or f"of_{test}",
            "version": metadata.version(DISTRIBUTIONS[test]),
            "verdict": case["verdict"],
            "reason": case["reason"],
            "time_us": case["time_us"] and round(case["time_us"], 1),
            "unknown_code": [name for name, code in (kernels.get(case["case"]) or {}).items() if code is None],
        }
    return rows


def beside(folder, file, made):
    """Microseconds of calls of a file by the name of the function that makes them."""
    command = [sys.executable, "-c", BESIDE, file, *made]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def page_table(record):
    """The table of the page."""
    head = ["language or framework", "version", "time", "by events of PyTorch", "machine code"]
    beside = [f"{row['beside_us']} µs" if row["beside_us"] else "streams of its own" for row in record["cases"]]
    rows = zip(record["cases"], beside, strict=True)
    cells = [(NAMES[row["made"]], row["version"], f"{row['time_us']} µs", other, row) for row, other in rows]
    return table(head, [[*shown, "ambiguous" if row["unknown_code"] else "known"] for *shown, row in cells])


@pytest.mark.gpu
def test_every_language_is_right_and_timed_as_its_calls_are(tmp_path):
    folder = tmp_path / "languages"
    shutil.copytree(LANGUAGES, folder)
    rows = measured(folder)
    for case, row in rows.items():
        row["file"], row["beside_us"] = case.rpartition(".")[0], None
    for file in {row["file"] for row in rows.values()} - set(STREAMS_OF_ITS_OWN):
        of_file = [row for row in rows.values() if row["file"] == file and row["time_us"]]
        times = beside(folder, file, [row["made"] for row in of_file])
        for row in of_file:
            row["beside_us"] = round(times[row["made"]], 1)
    if os.environ.get("PEAKGATE_GOLDEN") == "write":
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
        order = sorted(rows.values(), key=lambda row: list(NAMES).index(row["made"]))
        record = {"commit": head.stdout.strip(), "date": date.today().isoformat(), "cases": order}
        RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        fill_page(PAGE, {"languages": page_table(record)})
    assert {case: row["reason"] for case, row in rows.items() if row["verdict"] not in ("NO_FLOOR", "PASS")} == {}
    alike = {case: row for case, row in rows.items() if row["beside_us"] and "bound by power" not in row["reason"]}
    apart = {case: row["time_us"] / row["beside_us"] - 1 for case, row in alike.items()}
    assert {case: share for case, share in apart.items() if abs(share) > MOST_APART} == {}


def test_the_page_shows_the_record():
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    assert filled(PAGE, {"languages": page_table(record)}) == PAGE.read_text(encoding="utf-8")
