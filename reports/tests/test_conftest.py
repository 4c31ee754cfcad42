"""pytest-benchmark's own command loads the conftest files in environments without the extra ``reports``."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_pytest_benchmark_compares_runs_at_the_root_without_the_extra_reports(tmp_path: Path) -> None:
    """In a process where importing pandas or SciPy fails, as in the environment of ``nox -s bench``."""
    run = tmp_path / "run.json"
    run.write_bytes(gzip.decompress(next((ROOT / "baselines").glob("*/runs/*-gate.json.gz")).read_bytes()))
    script = (
        "import sys; sys.modules.update(pandas=None, scipy=None, matplotlib=None)\n"
        f"sys.argv = ['pytest-benchmark', 'compare', {str(run)!r}]\n"
        "from pytest_benchmark.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert "transpose" in done.stdout
