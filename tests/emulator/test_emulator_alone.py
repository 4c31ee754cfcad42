"""The emulator as it is used by itself: without the tool, and from a shell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from peakgate_emulator.__main__ import main

pytestmark = pytest.mark.usefixtures("compiler")

SCALE = """__global__ void scale(float* out, const float* in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2 * in[i];
}
"""
GIVEN = ("out:float32:100", "in:float32:100", "int32=100", "--grid", "4")


@pytest.fixture
def scale(tmp_path: Path) -> Path:
    path = tmp_path / "scale.cu"
    path.write_text(SCALE)
    return path


def test_a_right_kernel_exits_0_and_shows_its_outputs(scale: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(scale), *GIVEN]) == 0
    outputs, verdict = capsys.readouterr().out.splitlines()
    assert outputs.startswith("out:float32:100: ")
    assert verdict.startswith("scale: nothing found")


def test_a_wrong_kernel_exits_1_and_names_the_line(scale: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scale.write_text(SCALE.replace("i < n", "i <= n"))
    assert main([str(scale), *GIVEN]) == 1
    assert "scale.cu:3: " in capsys.readouterr().out


def test_an_output_that_is_not_written_in_full_exits_1(scale: Path) -> None:
    assert main([str(scale), *GIVEN[:-1], "3"]) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("out:float32:100",),
        ("out:floating:100", *GIVEN[1:]),
        ("out:float32", *GIVEN[1:]),
        (*GIVEN[:2], "int8=100000", *GIVEN[3:]),
        (*GIVEN, "--block", "2000"),
        (*GIVEN, "--block", "a"),
        (*GIVEN, "--kernel", "other"),
    ],
)
def test_what_cannot_be_run_exits_2_in_one_line(
    scale: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    assert main([str(scale), *arguments]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_it_runs_where_peakgate_is_not(scale: Path) -> None:
    script = "import sys; sys.modules['peakgate'] = None; from peakgate_emulator.__main__ import main; main"
    call = f"{script}({[str(scale), *GIVEN]!r})"
    done = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "nothing found" in done.stdout


def test_its_tests_run_where_peakgate_is_not(tmp_path: Path) -> None:
    """All are collected; some are run."""
    folder = Path(__file__).parent
    script = "import sys; sys.modules['peakgate'] = None; import pytest; sys.exit(pytest.main(sys.argv[1:]))"
    common = ["-q", "-p", "no:cacheprovider", "--disable-plugin-autoload", f"--basetemp={tmp_path / 'theirs'}"]
    for chosen in (["--collect-only", str(folder)], [str(folder / "test_emulator_launch.py")]):
        command = [sys.executable, "-c", script, *common, *chosen]
        done = subprocess.run(command, cwd=folder.parents[1], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
