from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from synthetic_runs import LADDER, document, save, slower

from peakgate.base.errors import Code
from peakgate.cli import main
from peakgate.compare import judge

PAD = "transpose.smem_pad-8192-32x8"
ROOT = Path(__file__).parents[2]
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_run_against_itself_passes_and_writes_every_face(tmp_path: Path, capsys: Captured) -> None:
    run = save(tmp_path, "run", document())
    assert main(["compare", str(run), str(run)]) == 0
    out = tmp_path / ".peakgate" / "out"
    formats = ("csv", "html", "json", "junit.xml", "md")
    assert sorted(path.name for path in out.iterdir()) == [f"compare.{suffix}" for suffix in formats]
    captured = capsys.readouterr()
    assert captured.out.splitlines()[0] == "PASS: 15 SAME"
    assert captured.err == ""


def test_a_run_of_another_gpu_exits_3_unless_asked(tmp_path: Path) -> None:
    base, new = save(tmp_path, "base", document()), save(tmp_path, "new", document(slug="nvidia-l4"))
    assert main(["compare", str(base), str(new)]) == 3
    assert main(["compare", str(base), str(new), "--across-gpus"]) == 0


def test_half_a_file_exits_2_with_one_line_and_writes_nothing(tmp_path: Path, capsys: Captured) -> None:
    base = save(tmp_path, "base", document())
    half = tmp_path / "half.json"
    half.write_text(base.read_text()[: base.stat().st_size // 2])
    assert main(["compare", str(base), str(half), "--out", str(tmp_path / "out")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert "half.json" in captured.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("arguments", [["compare"], ["compare", "a"], ["compare", "a", "b", "--fast"]])
def test_wrong_usage_exits_2(arguments: list[str], capsys: Captured) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.endswith(f"[{Code.OPTION}]\n")


def test_mistakes_in_arguments_are_reported_before_slow_imports() -> None:
    mistakes = [["compare", "a", "b"], ["floors", "a"], ["history", "a"], ["import", "a"], ["show", "a"]]
    code = (
        "import sys; from peakgate.cli import main; "
        f"assert [main(each) for each in {mistakes}] == {[2] * len(mistakes)}; "
        "assert not {'pandas', 'scipy'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_an_interrupt_exits_130(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(judge, "compare", interrupted)
    run = save(tmp_path, "run", document())
    assert main(["compare", str(run), str(run)]) == 130


def test_an_output_folder_that_is_a_file_exits_2_with_one_line(tmp_path: Path, capsys: Captured) -> None:
    run = save(tmp_path, "run", document())
    (tmp_path / "taken").write_text("")
    assert main(["compare", str(run), str(run), "--out", str(tmp_path / "taken")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_no_file_is_left_half_written(tmp_path: Path) -> None:
    run = save(tmp_path, "run", document())
    (tmp_path / "out" / "compare.csv").mkdir(parents=True)
    assert main(["compare", str(run), str(run), "--out", str(tmp_path / "out")]) == 2
    assert not [path for path in (tmp_path / "out").iterdir() if path.name.startswith(".")]


NO_PROGRESS = (
    "import sys\nfrom peakgate.base import progress\nfrom peakgate.cli import main\nprogress.FIRST_LINE_S = 1e9\n"
)
"""The beginning of a program that says nothing of its progress in a log, however slow the machine is."""


def test_a_reader_that_is_gone_changes_neither_verdict_nor_files(tmp_path: Path) -> None:
    base, new = save(tmp_path, "base", document()), save(tmp_path, "new", document(slower(PAD, 1.05)))
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-c", f"{NO_PROGRESS}sys.exit(main())", "compare", str(base), str(new), "--out", "out"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")
    assert json.loads((tmp_path / "out" / "compare.json").read_text())["exit_code"] == 1


def test_strict_makes_a_missing_floor_undecided(tmp_path: Path) -> None:
    run = save(tmp_path, "run", document(extra={PAD: {"verdict": "NO_FLOOR"}}))
    assert main(["compare", str(run), str(run)]) == 0
    assert main(["compare", str(run), str(run), "--strict-gate"]) == 3


def test_reports_run_without_cupy_and_without_the_device(tmp_path: Path) -> None:
    """In a fresh interpreter, where no other test has imported anything: both sub-commands, all formats."""
    runs = [str(save(tmp_path, f"run{day}", document(LADDER, day=day))) for day in (1, 2)]
    script = (
        f"{NO_PROGRESS}"
        f"assert main(['compare', *{runs!r}]) == 0\n"
        f"assert main(['floors', *{runs!r}]) == 0\n"
        "loaded = [name for name in sys.modules if name.startswith(('cupy', 'cuda', 'peakgate.device', 'pynvml'))]\n"
        "assert not loaded, loaded\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_pytest_benchmark_compares_without_the_extra_reports(tmp_path: Path) -> None:
    """Its command loads the conftest files where importing pandas or SciPy fails, as in the environment of `bench`.

    Metadata that a build left in the root may be met too, and names its conftest.py as a module of the plug-in.
    """
    left = tmp_path / "peakgate.egg-info"
    left.mkdir()
    for name, text in {
        "PKG-INFO": "Metadata-Version: 2.4\nName: peakgate\nVersion: 0\n",
        "SOURCES.txt": "conftest.py\n",
        "entry_points.txt": "[pytest11]\npeakgate.run.plugin = peakgate.run.plugin\n",
    }.items():
        (left / name).write_text(text)
    run = tmp_path / "run.json"
    run.write_bytes(gzip.decompress(next((ROOT / "baselines").glob("*/runs/*-gate.json.gz")).read_bytes()))
    script = (
        "import sys; sys.modules.update(pandas=None, scipy=None, matplotlib=None)\n"
        f"sys.argv = ['pytest-benchmark', 'compare', {str(run)!r}]\n"
        "from pytest_benchmark.cli import main; main()"
    )
    command, found = [sys.executable, "-P", "-c", script], {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=os.environ | found, capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stdout + done.stderr) == (0, False), done.stderr
    assert "transpose" in done.stdout
