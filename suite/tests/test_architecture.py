"""Imports run one way; what is tested on any laptop imports no CuPy."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PURE = [
    "case",
    "catalogue",
    "correctness",
    "data",
    "gate",
    "metrics",
    "occupancy",
    "peaks",
    "placement",
    "preflight",
    "sampling",
    "table",
]


@pytest.mark.parametrize("module", [f"suite.{name}" for name in PURE])
def test_a_pure_module_imports_no_device_and_no_cupy(module):
    probe = f"import sys, {module}; print(*[m for m in sys.modules if m.startswith(('cupy', 'cuda.', 'suite.device'))])"
    done = subprocess.run([sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_suite_never_imports_the_reports():
    sources = [path for path in (ROOT / "suite").rglob("*.py") if "tests" not in path.parts]
    assert sources
    offending = [
        path.name for path in sources if "from reports" in path.read_text() or "import reports" in path.read_text()
    ]
    assert offending == []


def test_the_reports_never_import_a_device_but_for_the_script_that_measures():
    sources = [path for path in (ROOT / "reports").rglob("*.py") if "tests" not in path.parts]
    offending = [path.name for path in sources if "from suite.device" in path.read_text()]
    assert offending == ["own_timing.py"]


def test_kernels_holds_cuda_and_its_lessons_only():
    kinds = {path.suffix for path in (ROOT / "kernels").rglob("*") if path.is_file()}
    assert kinds <= {".cu", ".cuh", ".md", ".svg"}
