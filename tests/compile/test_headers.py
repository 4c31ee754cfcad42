"""Each header that the reference page lists compiles in both builds, and declares what the page says."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import peakgate_emulator as emulator
from peakgate.compile import cubin
from peakgate.compile.compilers import nvrtc_headers
from peakgate.spec.case import Stage
from peakgate_emulator.headers import empty_names, emulator_headers

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "emulator.md"
TABLE, EMPTY = PAGE.read_text(encoding="utf-8").partition("## Headers\n")[2].split("\nEmpty are ")
ROWS = re.findall(r"^\| (.+?) \| (.+?) \|$", TABLE, re.MULTILINE)[2:]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A kernel that includes the headers of all rows and takes the size of each type or value that they bring."""
    includes = "".join(f"#include {header}\n" for row in ROWS for header in re.findall(r"<[\w/.+]+>", row[0]))
    sizes = "".join(f"    out[0] += sizeof({name});\n" for row in ROWS for name in re.findall(r"`(.+?)`", row[1]))
    written = tmp_path / "kernel.cu"
    written.write_text(f"{includes}__global__ void kernel(unsigned long long* out) {{\n{sizes}}}\n")
    return written


def test_headers_bring_to_the_emulator_what_the_page_says(source: Path) -> None:
    emulator.load(source, "kernel")


def test_headers_bring_to_nvrtc_what_the_page_says(source: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    assert cubin.cubin(Stage("kernel", "", source), (), (9, 0)).path.exists()


def test_the_empty_headers_are_those_of_the_page() -> None:
    filled = {name for texts in (emulator_headers(), nvrtc_headers()) for name, text in texts.items() if text.strip()}
    listed = ", ".join(f"`{name}`" for name in sorted({*empty_names()} - filled)) + "\n"
    *_, page = EMPTY.partition("themselves:\n\n")
    if os.environ.get("PEAKGATE_GOLDEN") == "write":
        PAGE.write_text(PAGE.read_text(encoding="utf-8").replace(page, listed), encoding="utf-8")
        page = listed
    assert page == listed
