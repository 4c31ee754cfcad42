"""`ab` across the move of the tool: from a commit whose suite/ and reports/ were the package to one with it in src/.

A small project has both layouts. Nothing of the tool in either tree is loaded, nor any test or conftest.py of it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from ab_fake import commit, git
from emulating import COMPILERS

from peakgate.base.errors import PeakgateError
from peakgate.cli import main
from peakgate.compile.cubin import installed_nvrtc

Captured = pytest.CaptureFixture[str]
FAMILY = """
from peakgate.family import In, Out, Value, kernel

FAMILY = kernel(
    "kernel.cu",
    block=64,
    grid=lambda n: -(-n // 64),
    bytes=lambda n: 8 * n,
    sizes=[1 << power for power in range(10, 18)],
    arguments=lambda n: [Out(n), In(n), Value(n)],
    reference=lambda xp, x: 2 * x,
)
"""
KERNEL = """
extern "C" __global__ void kernel(float* out, const float* x, int n)
{{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = {value};
}}
"""
OLD_TOOL = (
    *("conftest.py", "suite/__init__.py", "suite/conftest.py", "suite/tests/conftest.py", "suite/tests/test_case.py"),
    *("suite/core/__init__.py", "suite/core/case.py", "suite/run/plugin.py", "reports/__init__.py"),
    *("suite/bench_all.py", "docs/__init__.py"),
)
NEW_TOOL = (
    *("conftest.py", "src/peakgate/__init__.py", "src/peakgate/spec/case.py", "suite/test_kernels.py"),
    *("tests/conftest.py", "tests/spec/test_case.py"),
)
OLD_SETTINGS = """
[tool.setuptools.package-dir]
peakgate = "suite"
"peakgate.reports" = "reports"

[tool.peakgate]
out = "reports/out"
"""
NEW_SETTINGS = """
[tool.setuptools.packages.find]
where = ["src"]

[tool.peakgate]
out = "reports/out"
"""


@pytest.fixture
def moved(tmp_path: Path) -> tuple[Path, Path, str, str]:
    """The project, the file that whatever is loaded of the tool leaves, and the commits before and after the move."""
    folder, loaded = tmp_path / "project", tmp_path / "loaded"
    for name in ("scale", "shift"):
        write(folder / "kernels" / name / "family.py", FAMILY)
        write(folder / "kernels" / name / "kernel.cu", KERNEL.format(value="2 * x[i]"))
    write(folder / "pyproject.toml", OLD_SETTINGS)
    for name in OLD_TOOL:
        write(folder / name, left_by(name, loaded))
    before = commit(folder, "before")
    git(folder, "rm", "--quiet", "-r", *OLD_TOOL)
    for name in NEW_TOOL:
        write(folder / name, left_by(name, loaded))
    write(folder / "pyproject.toml", NEW_SETTINGS)
    write(folder / "kernels" / "shift" / "kernel.cu", KERNEL.format(value="4 * x[i] - 2 * x[i]"))
    return folder, loaded, before, commit(folder, "after")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def left_by(name: str, loaded: Path) -> str:
    """Python that notes that it was loaded, and ends what loads it."""
    return f"open({str(loaded)!r}, 'a').write({name!r} + chr(10))\nraise SystemExit({name!r})\n"


def test_two_layouts_of_the_tool_are_one_project_to_ab(
    moved: tuple[Path, Path, str, str], monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    try:
        installed_nvrtc()
    except PeakgateError as error:
        pytest.skip(error.message)
    folder, loaded, before, after = moved
    monkeypatch.chdir(folder)
    assert main(["ab", before, after, "--plan", "--capability", "9.0"]) == 0
    *rows, last = capsys.readouterr().out.splitlines()
    measured = [row.partition(": ") for row in rows if "sentinel" not in row]
    assert {(case.partition("-")[0], why) for case, _, why in measured} == {("shift.kernel", "machine code changed")}
    assert re.findall(r"\d+", last)[:3] == ["8", "5", "3"]  # to measure, sentinels, unchanged
    assert not loaded.exists()


@pytest.mark.skipif(not COMPILERS, reason="needs a C++ compiler")
@pytest.mark.parametrize("side", [0, 1])
def test_a_run_of_either_layout_collects_cases_alone(
    moved: tuple[Path, Path, str, str], monkeypatch: pytest.MonkeyPatch, side: int
) -> None:
    folder, loaded, *commits = moved
    git(folder, "checkout", "--quiet", commits[side])
    monkeypatch.chdir(folder)
    assert main(["bench", "--device", "cpu", "-k", "scale or shift", "--out", "out"]) == 0
    cases = json.loads((folder / "out" / "bench.json").read_text())["cases"]
    assert {each["case"].partition("-")[0] for each in cases} == {"scale.kernel", "shift.kernel"}
    assert not loaded.exists()
