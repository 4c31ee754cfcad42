"""Benchmark tests of each framework on the machine at hand: what became of each case, as a record.

    python -m lab.frameworks.measure OUT.json [NAME ...]

A NAME is that of a file ``tests/bench_NAME.py`` beside this one, by default each. Every file is a run of
``peakgate bench`` of its own, on a GPU where one answers: the record has its cases, or why it did not run, and the
versions of packages. Without a GPU Triton's interpreter and Numba's simulator are on.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from lab.records import checked_out
from peakgate.device.driver import gpu_count, gpu_name

TESTS = Path(__file__).with_name("tests")
PACKAGES = (
    *("cupy-cuda13x", "torch", "triton", "jax", "jax-cuda13-plugin", "numba", "numba-cuda", "warp-lang"),
    *("cuda-core", "tilelang", "cuda-bindings", "cupti-python"),
)
FIELDS = (
    *("case", "state", "verdict", "reason", "time_us", "first_us", "footprint_bytes", "peak_fraction", "gbs"),
    *("host_bound", "activity_us", "sampling", "samples", "tuned", "energy"),
)
LIMIT_S = 300


def measured(name: str, scratch: Path, *arguments: str) -> dict[str, Any]:
    """The cases of one file, and how its run ended."""
    folder = scratch / name
    folder.mkdir()
    shutil.copy(TESTS / f"bench_{name}.py", folder)
    (folder / "peakgate.toml").write_text('benchmarks = ["."]\n', encoding="utf-8")
    variables = {"NO_COLOR": "1", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    if not gpu_count():
        variables |= {"TRITON_INTERPRET": "1", "NUMBA_ENABLE_CUDASIM": "1"}
    command = [sys.executable, "-m", "peakgate", "bench", f"--benchmark-json={folder / 'run.json'}", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=os.environ | variables, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    run, verdict = folder / "run.json", folder / ".peakgate" / "out" / "bench.json"
    entries = json.loads(run.read_text(encoding="utf-8"))["benchmarks"] if run.is_file() else []
    judged = json.loads(verdict.read_text(encoding="utf-8"))["cases"] if verdict.is_file() else []
    timed = [{field: each["extra_info"].get(field) for field in FIELDS} for each in entries]
    known = {each["case"] for each in timed}
    said = "" if judged else (done.stderr or done.stdout)[-600:]
    return {"exit_code": done.returncode, "cases": timed + [each for each in judged if each["case"] not in known]} | (
        {"said": said} if said else {}
    )


def versions() -> dict[str, str]:
    """The versions of the packages that are installed."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def main(out: Path, names: list[str]) -> None:
    """Measure, and write the record after each file."""
    every = sorted(path.stem.removeprefix("bench_") for path in TESTS.glob("bench_*.py"))
    record: dict[str, Any] = {
        "commit": checked_out(),
        "gpu": gpu_name(0) if gpu_count() else None,
        "python": sys.version.split()[0],
        "versions": versions(),
        "files": {},
    }
    with tempfile.TemporaryDirectory(prefix="peakgate-frameworks-") as scratch:
        for name in names or every:
            record["files"][name] = measured(name, Path(scratch), *(["--energy"] if name == "energy" else []))
            out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
