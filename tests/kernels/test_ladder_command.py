"""What ``python -m kernels.ladder`` prints and writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ladder_repository import NAMES, RUNS, TRANSPOSE_NOTE, lay_out, whole_run
from refusals import refusal
from synthetic_runs import document, save

from kernels.ladder.__main__ import main as ladder
from kernels.ladder.markers import inside
from kernels.ladder.tables import OVERVIEW
from peakgate.base.errors import Code

Captured = pytest.CaptureFixture[str]
GATE = str(RUNS / "gate.json")
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return lay_out(tmp_path, monkeypatch)


def everything() -> dict[str, bytes]:
    files = (path for path in Path().rglob("*") if path.is_file() and path.parent.name != "__pycache__")
    return {str(path): path.read_bytes() for path in files}


def test_what_was_written_is_found_right_and_not_written_again(capsys: Captured) -> None:
    assert ladder([GATE, "--write"]) == 0
    assert capsys.readouterr().out.count("written: ") == 2 + 15
    written = everything()
    assert ladder([GATE]) == 0
    assert ladder([GATE, "--write"]) == 0
    assert "written: " not in capsys.readouterr().out
    assert everything() == written
    assert OVERVIEW.read_text().count("Before.\n<!-- ladder:") == len(NAMES)


def test_stale_documents_are_shown_as_a_diff_and_exit_1_with_nothing_changed(capsys: Captured) -> None:
    before = everything()
    assert ladder([GATE]) == 1
    reported = capsys.readouterr().out
    assert "--- kernels/README.md" in reported
    assert "+| [smem_pad](transpose/10_smem_pad.cu) |" in reported
    assert "kernels/pictures/sgemm.svg: missing" in reported
    assert everything() == before


def test_without_a_run_the_one_that_the_documents_name_is_checked(capsys: Captured) -> None:
    assert ladder([GATE, "--write"]) == 0
    assert ladder([]) == 0
    text = OVERVIEW.read_text()
    OVERVIEW.write_text(text.replace("2000 GB/s", "9000 GB/s", 1))
    assert ladder([]) == 1
    assert "-| [one_per_thread](access/01_one_per_thread.cu)" in capsys.readouterr().out


def test_the_terminal_output_may_come_from_another_run_which_its_block_names(capsys: Captured) -> None:
    Path("README.md").write_text("<!-- ladder:bench -->\n<!-- /ladder:bench -->\n")
    gated = whole_run({"transpose.copy_row-8192-32x8": {"gbs": 4103.0}})
    save(RUNS, "gated", gated)
    arguments = [GATE, "--bench", str(RUNS / "gated.json"), "--write"]
    assert ladder(arguments) == 0
    assert "4103 GB/s" in Path("README.md").read_text()
    assert "baselines/nvidia-h200/runs/gated.json" in Path("README.md").read_text()
    assert "gated.json" not in OVERVIEW.read_text()
    assert ladder([]) == 0
    capsys.readouterr()


def test_a_run_that_measured_something_else_makes_document_and_picture_stale(capsys: Captured) -> None:
    assert ladder([GATE, "--write"]) == 0
    faster = whole_run({"transpose.hinted-16384-256x1": {"gbs": 4185.0}})
    save(RUNS, "gate", faster)
    capsys.readouterr()
    assert ladder([]) == 1
    reported = capsys.readouterr().out
    assert "4185 GB/s" in reported
    assert "kernels/pictures/transpose.svg: differs" in reported
    assert "sgemm.svg" not in reported


def test_checking_does_not_load_what_only_drawing_needs(repository: Path) -> None:
    assert ladder([GATE, "--write"]) == 0
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from kernels.ladder.__main__ import main\n"
        "assert main([]) == 0\n"
        "heavy = ('matplotlib', 'cupy', 'cuda', 'peakgate.device')\n"
        "loaded = [name for name in sys.modules if name.startswith(heavy)]\n"
        "assert not loaded, loaded\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=repository, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("spoil", "arguments", "complaint"),
    [
        (OVERVIEW.unlink, [GATE], "kernels/README.md: no such file; write one with"),
        (lambda: OVERVIEW.write_text("# Empty\n"), [GATE], "kernels/README.md: no block for access"),
        (
            lambda: TRANSPOSE_NOTE.write_text("<!-- ladder:a -->\n"),
            [GATE],
            "README.md:1: ladder:a is",
        ),
        (lambda: None, [], "kernels/README.md: no ladder names a run yet"),
        (lambda: save(Path(), "out", whole_run()), ["out.json"], "out.json: not below baselines"),
        (lambda: save(RUNS, "my run", whole_run()), [str(RUNS / "my run.json")], "my run.json: only letters"),
        (lambda: save(RUNS, "two", document(day=2)), [str(RUNS)], "runs: 2 sessions, the ladder shows one"),
        (
            lambda: save(RUNS, "part", document()),
            [str(RUNS / "part.json")],
            "no case of access, attention, hgemm, norm, occupancy, quantize, reduce, roof, sgemm",
        ),
    ],
)
def test_what_cannot_be_shown_is_one_line_and_exits_2_with_nothing_written(
    spoil: Any, arguments: list[str], complaint: str, capsys: Captured
) -> None:
    spoil()
    before = everything()
    assert ladder([*arguments, "--write"]) == 2
    captured = capsys.readouterr()
    assert complaint in captured.err
    assert len(captured.err.splitlines()) == 1
    assert captured.out == ""
    assert everything() == before


def test_a_new_family_that_no_run_has_and_no_page_names_is_left_out() -> None:
    save(RUNS, "gate", whole_run(without=r"^hgemm\."))
    text = OVERVIEW.read_text()
    start, end = text.index("<!-- ladder:hgemm -->"), text.index("<!-- /ladder:hgemm -->")
    OVERVIEW.write_text(text[:start] + text[end + len("<!-- /ladder:hgemm -->") :])
    assert ladder([GATE, "--write"]) == 0
    assert "hgemm" not in OVERVIEW.read_text()


def test_emulated_times_are_refused(capsys: Captured) -> None:
    content = whole_run()
    content["machine_info"]["gpu"]["slug"] = "cpu-emulator"
    content["peakgate"]["device"] = "cpu"
    assert ladder([str(save(RUNS.parents[1] / "cpu-emulator" / "runs", "cpu", content))]) == 2
    assert refusal(capsys) is Code.EMULATED


def test_a_run_without_what_a_picture_shows_is_refused(capsys: Captured) -> None:
    save(RUNS, "part", whole_run(without=r"^access\.stride-"))
    assert ladder([str(RUNS / "part.json")]) == 2
    assert refusal(capsys) is Code.PAGE


def test_documents_that_name_two_runs_ask_for_one(capsys: Captured) -> None:
    save(RUNS, "other", whole_run())
    assert ladder([GATE, "--write"]) == 0
    text = TRANSPOSE_NOTE.read_text()
    TRANSPOSE_NOTE.write_text(text.replace("runs/gate.json", "runs/other.json"))
    assert ladder([]) == 2
    assert refusal(capsys) is Code.PAGE


def test_text_from_a_run_file_cannot_break_out_of_its_place(repository: Path) -> None:
    content = whole_run()
    content["machine_info"]["gpu"]["name"] = "<b>|$x$\n<!-- /ladder:transpose -->"
    save(RUNS, "gate", content)
    assert ladder([GATE, "--write"]) == 0
    assert ladder([]) == 0
    assert "<b>" not in OVERVIEW.read_text()
    assert inside(OVERVIEW.read_text(), OVERVIEW).keys() == set(NAMES)
