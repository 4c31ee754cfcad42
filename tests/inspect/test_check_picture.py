"""A race for shared memory is drawn: who accessed each element, the two accesses, where the barrier is missing."""

import sys

import numpy as np
import pytest
from emulating import CUDA, loaded

from peakgate import cli
from peakgate.base.errors import Code
from peakgate.inspect import check
from peakgate.inspect.picture import MOST_PICTURE_ROWS, PICTURE_COLUMNS, picture_of
from peakgate_emulator import DefectKind, EmulatorDefect, KernelDefect
from peakgate_emulator.defects import SharedAccess, Trace


@pytest.fixture
def turned():
    """Launch the kernel; the accesses to shared memory of its second block, and the defects."""

    def launch(barrier, **more):
        trace = Trace((1, 0, 0))
        out, given = np.zeros(64, "float32"), np.ones(64, "float32")
        try:
            kernel = loaded("turned", {"BARRIER": barrier})
            kernel.launch((2, 1, 1), (64, 1, 1), (out, given, np.int32(64)), trace=trace, **more)
        except KernelDefect as defect:
            return trace, defect.defects
        return trace, ()

    return launch


def test_a_trace_has_each_access_with_array_element_line_and_thread(turned):
    trace, _ = turned("__syncthreads()")
    accesses = trace.accesses()
    assert (len(accesses), trace.missing, trace.threads) == (4 * 64, 0, (64, 1, 1))
    assert accesses[9] == SharedAccess(0, 9, "before", 4, 4, "turned.cu:4", True, False, False)
    assert {(each.phase, each.line, each.writes) for each in accesses if each.array == "tile"} == {
        (1, "turned.cu:6", True),
        (2, "turned.cu:8", False),
    }
    assert [each.offset for each in accesses if each.thread == 20 and each.array == "tile"] == [80, 4 * 43]


def test_a_traced_launch_finds_the_same_defects_and_ends_at_the_same_budget(turned):
    kinds = [defect.kind for defect in turned("")[1]]
    assert DefectKind.SHARED_RACE in kinds
    assert [defect.kind for defect in turned("__syncthreads()", access_budget=300)[1]][-1] is DefectKind.ENDLESS_LOOP


def access(thread, at, line, writes=False, phase=0):
    return SharedAccess(phase, thread, "tile", 4 * at, 4, f"k.cu:{line}", writes, False, False)


def race(thread, other, line, other_line):
    place, places = (0, 0, 0), (f"k.cu:{line}", f"k.cu:{other_line}")
    return EmulatorDefect(DefectKind.SHARED_RACE, "...", *places, (thread, 0, 0), place, (other, 0, 0), place, 1)


def test_the_barrier_is_missing_between_the_rows_of_the_two_accesses():
    written = [access(thread, thread, 4, writes=True) for thread in range(100)]
    accesses = [*written, *(access(thread, 99 - thread, 6) for thread in range(100))]
    picture = picture_of("f.k-1", race(40, 59, 6, 4), accesses, (100, 1, 1))
    assert [(row.line, row.how) for row in picture.rows] == [("k.cu:4", "write"), ("k.cu:6", "read")]
    assert picture.missing_before == 1
    assert len(picture.columns) == PICTURE_COLUMNS
    assert [row.cells[59].marked for row in picture.rows] == [[59], [40]]
    assert all(cell.threads == [at] for at, cell in picture.rows[0].cells.items())


def test_two_passes_of_one_line_are_one_row_without_a_place_between():
    accesses = [access(thread, 0, 4, writes=True) for thread in range(4)]
    picture = picture_of("f.k-1", race(1, 0, 4, 4), accesses, (4, 1, 1))
    assert picture.missing_before is None
    assert picture.rows[0].cells[0].marked == [0, 1]
    assert picture.rows[0].cells[0].threads == [0, 1, 2, 3]


def test_accesses_of_other_phases_are_no_pair_and_many_rows_are_cut_to_those_around_it():
    apart = [access(0, 0, 4, writes=True), access(1, 0, 6, phase=1)]
    assert picture_of("f.k-1", race(1, 0, 6, 4), apart, (4, 1, 1)) is None
    many = [access(0, 0, line, writes=True) for line in range(100)]
    picture = picture_of("f.k-1", race(1, 0, 120, 50), [*many, access(1, 0, 120)], (4, 1, 1))
    assert {"k.cu:50", "k.cu:120"} <= {row.line for row in picture.rows}
    assert picture.left_out == 101 - len(picture.rows) >= 101 - MOST_PICTURE_ROWS


FAMILY = """
from peakgate.family import In, Out, Value, kernel
FAMILY = kernel(
    "turned.cu", block=64, grid=1, arguments=lambda n: [Out(64), In(64), Value(n)], edges=[64], sizes=[64],
    bytes=lambda n: 8 * n, reference=lambda xp, x: x[::-1],
)
"""


def test_the_page_shows_each_race_with_its_lines_and_the_missing_barrier(tmp_path, monkeypatch):
    text = (CUDA / "turned.cu").read_text()
    (tmp_path / "turned.cu").write_text(text.replace("BARRIER;", "// <none> & nothing"))
    (tmp_path / "family.py").write_text(FAMILY)
    monkeypatch.chdir(tmp_path)
    # In this process: starting others is the longest part of so small a check.
    monkeypatch.setattr(check.workers, "run", lambda tasks, *_, **__: ((n, run(str)) for n, run in enumerate(tasks)))
    assert check.main("check", ["family.py", "--html", "found.html", "--out", "."]) == 1
    page = (tmp_path / "found.html").read_text()
    assert "turned.cu:6 and turned.cu:8" in page
    assert "Shared array tile" in page
    assert page.count(' marked"') >= 2
    assert "tile[63 - threadIdx.x]" in page
    assert "<script" not in page


def test_without_what_writes_the_page_the_extra_is_named_before_anything_runs(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert cli.main(["check", "--html", "found.html"]) == 2
    said = capsys.readouterr().err
    assert "[reports]" in said
    assert f"[{Code.INSTALLATION}]" in said
