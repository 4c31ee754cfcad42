from __future__ import annotations

from peakgate.base.formatting import counted


def test_counts_are_singular_only_where_they_are_one() -> None:
    assert [counted(number, "case") for number in (0, 1, 2)] == ["0 cases", "1 case", "2 cases"]
    assert (counted(2, "process"), counted(1, "launch"), counted(3, "launch")) == (
        "2 processes",
        "1 launch",
        "3 launches",
    )
