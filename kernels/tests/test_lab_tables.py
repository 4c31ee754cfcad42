"""The lab's tables are as its records have them."""

import runpy
from pathlib import Path

LAB = Path(__file__).parents[2] / "baselines" / "nvidia-h200" / "lab" / "sgemm-banks"


def test_the_tables_of_the_lab_page_are_as_the_records_have_them() -> None:
    assert runpy.run_path(str(LAB / "tables.py"))["stale"](write=False) == []
