"""From a line program, as compilers write them, to places in the source."""

from types import SimpleNamespace

from peakgate_emulator.binary import _ranges


def unit(*rows):
    """A compilation unit of DWARF 5 with two files and rows of (address, file, line); None ends a sequence."""
    entries = [SimpleNamespace(state=None)]
    for address, file, line in rows:
        state = SimpleNamespace(address=address, file=file or 0, line=line, end_sequence=line is None)
        entries.append(SimpleNamespace(state=state))
    files = [SimpleNamespace(name=name) for name in (b"/src/kernel.cu", b"/src/helper.cuh")]
    program = {"version": 5, "file_entry": files}
    lines = type("Program", (dict,), {"get_entries": lambda _self: entries})(program)
    return SimpleNamespace(dwarfinfo=SimpleNamespace(line_program_for_CU=lambda _unit: lines))


def test_code_without_a_line_belongs_to_the_place_before_it():
    found = list(_ranges(unit((0, 0, 12), (8, 1, 0), (16, 1, 3), (24, None, None))))
    assert found == [(0, 8, "kernel.cu:12"), (8, 16, "kernel.cu:12"), (16, 24, "helper.cuh:3")]


def test_a_place_does_not_reach_into_the_next_sequence():
    found = list(_ranges(unit((0, 0, 12), (8, None, None), (100, 1, 0), (108, None, None))))
    assert found == [(0, 8, "kernel.cu:12"), (100, 108, "helper.cuh:0")]
