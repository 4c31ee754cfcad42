from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from reports import charts, ladder
from reports.__main__ import main
from reports.charts import Curves
from reports.ladder import OVERVIEW, PICTURES, SGEMM_SIZES, Shown, block, pictures, show
from reports.markers import find_blocks, inside
from reports.runfile import load_run
from reports.tests.synthetic import benchmark, document, save
from suite.case import Case, Scale, Tier
from suite.catalogue import OWN_FAMILIES, families

DRAW = charts.svg
Captured = pytest.CaptureFixture[str]
FAMILIES = families([OWN_FAMILIES])
NAMES = (*(family.name for family in FAMILIES), SGEMM_SIZES)
ROOT = Path(ladder.__file__).parents[1]
RUNS = Path("baselines/nvidia-h200/runs")
TRANSPOSE_NOTE = Path("kernels/transpose/README.md")


def cases(tier: Tier = Tier.GATE) -> Iterator[Case]:
    for family in FAMILIES:
        yield from (case for case in family.cases(Scale.BENCH) if tier is Tier.FULL or case.tier is tier)


def entry(case: Case, **told: Any) -> dict[str, Any]:
    """One benchmark; every stage reaches 2000 GB/s or 10 TFLOP/s, unless told otherwise."""
    about = {"family": case.family, "stage": case.stage.name, "size": case.size, "block": case.block}
    figures = {"gbs": 2000.0, "tflops": 10.0, "peak_fraction": 0.415, "roof_fraction": 0.47, "occupancy": 0.5}
    return benchmark(case.id, 100.0, **(about | {"variant": case.variant, "dtype": case.dtype} | figures | told))


def whole_run(
    figures: Mapping[str, Mapping[str, float]] = MappingProxyType({}), *, tier: Tier = Tier.GATE, without: str = "^$"
) -> dict[str, Any]:
    """A run of every case but those whose id matches ``without``; ``figures`` are keyed by case id."""
    content = document({}, roofs={"copy_256MiB": 4152.0, "copy_1GiB": 4249.0, "fma": 65.8})
    kept = [case for case in cases(tier) if not re.search(without, case.id)]
    content["benchmarks"] = [entry(case, **figures.get(case.id, {})) for case in kept]
    return content


def shown(content: dict[str, Any], folder: Path) -> Shown:
    return show(load_run(save(folder / RUNS, "shown", content)), FAMILIES)


def row(text: str, stage: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith((f"| [{stage}]", f"| {stage} |")))
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: documents with empty blocks, one saved run of the gate; pictures are sketched, not drawn."""
    monkeypatch.setattr(charts, "svg", lambda picture: f"data {charts.digest(picture)}\n")
    monkeypatch.chdir(tmp_path)
    TRANSPOSE_NOTE.parent.mkdir(parents=True)
    TRANSPOSE_NOTE.write_text("<!-- ladder:transpose -->\n<!-- /ladder:transpose -->\n")
    blocks = [f"Before.\n<!-- ladder:{name} -->\n<!-- /ladder:{name} -->\nAfter.\n" for name in NAMES]
    OVERVIEW.write_text("# The ladder\n\n" + "\n".join(blocks))
    save(RUNS, "gate", whole_run())
    return tmp_path


def everything() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path().rglob("*") if path.is_file()}


def test_what_was_written_is_found_right_and_not_written_again(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(charts, "svg", DRAW)
    assert main(["ladder", str(RUNS / "gate.json"), "--write"]) == 0
    assert capsys.readouterr().out.count("written: ") == 2 + 5
    written = everything()
    assert main(["ladder", str(RUNS / "gate.json")]) == 0
    assert main(["ladder", str(RUNS / "gate.json"), "--write"]) == 0
    assert capsys.readouterr().out == "the ladder shows the run\n" * 2
    assert everything() == written
    assert OVERVIEW.read_text().count("Before.\n<!-- ladder:") == len(NAMES)


def test_stale_documents_are_shown_as_a_diff_and_exit_1_with_nothing_changed(capsys: Captured) -> None:
    before = everything()
    assert main(["ladder", str(RUNS / "gate.json")]) == 1
    told = capsys.readouterr().out
    assert "--- kernels/README.md" in told
    assert "+| [smem_pad](transpose/smem_pad.cu) |" in told
    assert "kernels/pictures/sgemm.svg: missing" in told
    assert everything() == before


def test_without_a_run_the_one_that_the_documents_name_is_checked(capsys: Captured) -> None:
    assert main(["ladder", str(RUNS / "gate.json"), "--write"]) == 0
    assert main(["ladder"]) == 0
    text = OVERVIEW.read_text()
    OVERVIEW.write_text(text.replace("2000 GB/s", "9000 GB/s", 1))
    assert main(["ladder"]) == 1
    assert "-| [one_per_thread](access/one_per_thread.cu)" in capsys.readouterr().out


def test_the_terminal_output_may_come_from_another_run_which_its_block_names(capsys: Captured) -> None:
    Path("README.md").write_text("<!-- ladder:bench -->\n<!-- /ladder:bench -->\n")
    gated = whole_run({"transpose.hinted-8192-256x1": {"gbs": 4103.0}})
    save(RUNS, "gated", gated)
    arguments = ["ladder", str(RUNS / "gate.json"), "--bench", str(RUNS / "gated.json"), "--write"]
    assert main(arguments) == 0
    assert "4103 GB/s" in Path("README.md").read_text()
    assert "baselines/nvidia-h200/runs/gated.json" in Path("README.md").read_text()
    assert "gated.json" not in OVERVIEW.read_text()
    assert main(["ladder"]) == 0
    capsys.readouterr()


def test_a_run_that_measured_something_else_makes_document_and_picture_stale(capsys: Captured) -> None:
    assert main(["ladder", str(RUNS / "gate.json"), "--write"]) == 0
    faster = whole_run({"transpose.hinted-16384-256x1": {"gbs": 4185.0}})
    save(RUNS, "gate", faster)
    capsys.readouterr()
    assert main(["ladder"]) == 1
    told = capsys.readouterr().out
    assert "4185 GB/s" in told
    assert "kernels/pictures/transpose.svg: differs" in told
    assert "sgemm.svg" not in told


def test_a_picture_that_was_deleted_is_missed(capsys: Captured) -> None:
    assert main(["ladder", str(RUNS / "gate.json"), "--write"]) == 0
    (PICTURES / "occupancy.svg").unlink()
    capsys.readouterr()
    assert main(["ladder"]) == 1
    assert capsys.readouterr().out == "kernels/pictures/occupancy.svg: missing\n"


def test_checking_does_not_load_what_only_drawing_needs(repository: Path) -> None:
    assert main(["ladder", str(RUNS / "gate.json"), "--write"]) == 0
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from reports.__main__ import main\n"
        "assert main(['ladder']) == 0\n"
        "loaded = [name for name in sys.modules if name.startswith(('matplotlib', 'cupy', 'cuda', 'suite.device'))]\n"
        "assert not loaded, loaded\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=repository, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("spoil", "arguments", "complaint"),
    [
        (OVERVIEW.unlink, [str(RUNS / "gate.json")], "kernels/README.md: cannot be read"),
        (lambda: OVERVIEW.write_text("# Empty\n"), [str(RUNS / "gate.json")], "kernels/README.md: no block for access"),
        (
            lambda: TRANSPOSE_NOTE.write_text("<!-- ladder:a -->\n"),
            [str(RUNS / "gate.json")],
            "README.md:1: ladder:a is",
        ),
        (lambda: None, [], "kernels/README.md: no ladder names a run yet"),
        (lambda: save(Path(), "out", whole_run()), ["out.json"], "out.json: not below baselines"),
        (lambda: save(RUNS, "my run", whole_run()), [str(RUNS / "my run.json")], "my run.json: only letters"),
        (lambda: save(RUNS, "two", document(day=2)), [str(RUNS)], "runs: 2 sessions, the ladder shows one"),
        (
            lambda: save(RUNS, "part", document()),
            [str(RUNS / "part.json")],
            "no case of access, occupancy, roof, sgemm",
        ),
    ],
)
def test_what_cannot_be_shown_is_one_line_and_exits_2_with_nothing_written(
    spoil: Any, arguments: list[str], complaint: str, capsys: Captured
) -> None:
    spoil()
    before = everything()
    assert main(["ladder", *arguments, "--write"]) == 2
    captured = capsys.readouterr()
    assert complaint in captured.err
    assert len(captured.err.splitlines()) == 1
    assert captured.out == ""
    assert everything() == before


def test_emulated_times_are_refused(capsys: Captured) -> None:
    content = whole_run()
    content["machine_info"]["gpu"]["slug"] = "cpu-emulator"
    content["peakgate"]["device"] = "cpu"
    save(RUNS, "cpu", content)
    assert main(["ladder", str(RUNS / "cpu.json")]) == 2
    assert "emulated times are no figures" in capsys.readouterr().err


def test_a_run_without_what_a_picture_shows_is_refused(capsys: Captured) -> None:
    save(RUNS, "part", whole_run(without=r"^access\.stride-"))
    assert main(["ladder", str(RUNS / "part.json")]) == 2
    assert "nothing for the picture access_stride" in capsys.readouterr().err


def test_documents_that_name_two_runs_ask_for_one(capsys: Captured) -> None:
    save(RUNS, "other", whole_run())
    assert main(["ladder", str(RUNS / "gate.json"), "--write"]) == 0
    text = TRANSPOSE_NOTE.read_text()
    TRANSPOSE_NOTE.write_text(text.replace("runs/gate.json", "runs/other.json"))
    assert main(["ladder"]) == 2
    assert "the ladders show 2 runs" in capsys.readouterr().err


def test_a_row_tells_lesson_case_rate_fractions_and_range(repository: Path) -> None:
    told = {
        "transpose.smem_pad-16384-32x8": {"gbs": 3516.2, "peak_fraction": 0.7303, "roof_fraction": 0.8275},
        "transpose.smem_pad-16384-16x16": {"gbs": 2060.4},
    }
    table = block(shown(whole_run(told), repository), OVERVIEW.parent, "transpose")
    assert row(table, "smem_pad") == [
        "[smem_pad](transpose/smem_pad.cu)",
        "A padded tile: no bank conflicts.",
        "`transpose.smem_pad-16384-32x8`",
        "3516 GB/s",
        "73.0 %",
        "82.8 %",
        "2000 (32x8-pad2) to 3516 (32x8)",
    ]


def test_arithmetic_is_told_in_tflops_and_a_yardstick_has_no_file(repository: Path) -> None:
    table = block(shown(whole_run({"sgemm.cublas-4096": {"tflops": 51.42}}), repository), OVERVIEW.parent, "sgemm")
    assert row(table, "cublas")[3] == "51.4 TFLOP/s"
    assert "![SGEMM: the stages on each size](pictures/sgemm.svg)" in table


def test_the_lessons_of_stride_and_naive_stand_for_them_where_the_run_has_them(repository: Path) -> None:
    gate = shown(whole_run(), repository)
    assert row(block(gate, OVERVIEW.parent, "access"), "stride")[2] == "`access.stride-f32-s8`"
    assert row(block(gate, OVERVIEW.parent, "sgemm"), "naive")[2] == "`sgemm.naive-1024`"
    full = shown(whole_run(tier=Tier.FULL), repository)
    assert row(block(full, OVERVIEW.parent, "sgemm"), "naive")[2] == "`sgemm.naive-4096`"


def test_a_headline_names_a_case_that_exists() -> None:
    known = {case.id: case for case in cases(Tier.FULL)}
    for stage, case_id in ladder.HEADLINES.items():
        assert f"{known[case_id].family}.{known[case_id].stage.name}" == stage


def test_a_wrong_stage_and_one_that_was_not_run_have_no_figures(repository: Path) -> None:
    content = whole_run(without=r"^transpose\.(smem|hinted)-")
    wrong = {"verdict": "WRONG", "reason": "off"}
    content["peakgate"]["not_measured"] = [wrong | {"case": "transpose.smem-16384-32x8"}]
    table = block(shown(content, repository), OVERVIEW.parent, "transpose")
    assert row(table, "smem")[2:] == ["transpose.smem-16384-32x8: WRONG", "", "", "", ""]
    assert row(table, "hinted")[2:] == ["not in this run", "", "", "", ""]


def test_the_best_of_a_size_is_bold_and_ours_are_held_against_cublas(repository: Path) -> None:
    told = {
        "sgemm.split_k-256": {"tflops": 54.32},
        "sgemm.cublas-256": {"tflops": 27.16},
        "sgemm.cublas-4096": {"tflops": 51.42},
        "sgemm.warp_tiled-4096": {"tflops": 45.69},
    }
    content = whole_run(told, without=r"^sgemm\.cublas-1024$")
    table = block(shown(content, repository), OVERVIEW.parent, SGEMM_SIZES)
    assert row(table, "stage") == ["stage", "256", "1024", "4096"]
    assert row(table, "split_k") == ["split_k", "**54.3**", "**10.0**", "–"]
    assert row(table, "warp_tiled") == ["warp_tiled", "10.0", "**10.0**", "45.7"]
    assert row(table, "cuBLAS") == ["cuBLAS", "27.2", "–", "**51.4**"]
    assert row(table, "best of ours / cuBLAS")[1:] == ["2.00", "–", "0.89"]


def test_a_full_run_fills_fifteen_sizes(repository: Path) -> None:
    table = block(shown(whole_run(tier=Tier.FULL), repository), OVERVIEW.parent, SGEMM_SIZES)
    assert row(table, "stage")[1:] == [str(side) for side in sorted(int(size) for size in row(table, "stage")[1:])]
    assert len(row(table, "stage")[1:]) == 15


def test_a_block_names_run_file_gpu_driver_and_date(repository: Path) -> None:
    first = block(shown(whole_run(), repository), TRANSPOSE_NOTE.parent, "transpose").splitlines()[0]
    assert first.startswith("NVIDIA H200, driver 580.159.04, 2026-11-01, NVRTC 13.0, tier full, commit a1b2c3d4e5f6;")
    assert first.endswith(f"run file [`{RUNS}/shown.json`](../../{RUNS}/shown.json).")


def test_text_from_a_run_file_cannot_break_out_of_its_place(repository: Path) -> None:
    content = whole_run()
    content["machine_info"]["gpu"]["name"] = "<b>|$x$\n<!-- /ladder:transpose -->"
    save(RUNS, "gate", content)
    assert main(["ladder", str(RUNS / "gate.json"), "--write"]) == 0
    assert main(["ladder"]) == 0
    assert "<b>" not in OVERVIEW.read_text()
    assert inside(OVERVIEW.read_text(), OVERVIEW).keys() == set(NAMES)


def test_the_strided_picture_sets_each_type_beside_its_sector_model(repository: Path) -> None:
    told = {"access.stride-f32-s8": {"roof_fraction": 0.12}, "access.stride-f64-s8": {"roof_fraction": 0.24}}
    picture = pictures(shown(whole_run(told), repository))[PICTURES / "access_stride.svg"]
    assert isinstance(picture, Curves)
    points = {curve.label: dict(curve.points) for curve in picture.curves}
    assert points["float, measured"][8] == 0.12
    assert points["float, predicted by the sector model"][8] == 0.125
    assert points["double, measured"][8] == 0.24
    assert points["double, predicted by the sector model"][8] == 0.25


def test_offsets_are_held_against_offset_0_of_the_same_type(repository: Path) -> None:
    told = {"access.offset-f32-o0": {"gbs": 2500.0}, "access.offset-f32-o1": {"gbs": 2250.0}}
    picture = pictures(shown(whole_run(told), repository))[PICTURES / "access_offset.svg"]
    assert isinstance(picture, Curves)
    assert dict(picture.curves[0].points) == {0: 1.0, 1: 0.9, 16: 0.8}


def test_the_documents_of_this_repository_have_the_blocks() -> None:
    overview = (ROOT / OVERVIEW).read_text(encoding="utf-8")
    assert {found.name for found in find_blocks(overview, OVERVIEW)} == set(NAMES)
    note = (ROOT / TRANSPOSE_NOTE).read_text(encoding="utf-8")
    assert [found.name for found in find_blocks(note, TRANSPOSE_NOTE)] == ["transpose"]
