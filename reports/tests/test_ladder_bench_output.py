from pathlib import Path

from peakgate.reports.ladder.tables import terminal
from peakgate.reports.runs.runfile import load_run
from synthetic_runs import document, save

TIMES = {
    "transpose.smem_pad-8192-32x8": 153.0,
    "transpose.smem_pad-8192-16x16": 261.0,
    "transpose.smem_pad-16384-32x8": 610.0,
    "roof.memcpy-1GiB": 508.0,
}


def test_the_first_case_of_each_stage_is_shown_and_all_cases_are_counted(tmp_path: Path) -> None:
    lines = terminal(load_run(save(tmp_path, "run", document(TIMES))))
    assert lines[0] == "```text"
    assert lines[-2:] == ["4 cases on nvidia-h200: 4 PASS", "```"]
    shown = [line for line in lines if "GB/s" in line]
    assert len(shown) == 1
    assert shown[0].split()[:2] == ["smem_pad-8192-32x8", "153.00"]
    assert all(len(line) <= 80 for line in lines)
