from __future__ import annotations

from peakgate.base.formatting import counted, time_text


def test_counts_are_singular_only_where_they_are_one() -> None:
    assert [counted(number, "case") for number in (0, 1, 2)] == ["0 cases", "1 case", "2 cases"]
    assert (counted(2, "process"), counted(1, "launch"), counted(3, "launch")) == (
        "2 processes",
        "1 launch",
        "3 launches",
    )
    assert (counted(2, "family"), counted(2, "array")) == ("2 families", "2 arrays")


def test_times_have_four_digits_and_the_unit_that_suits_them() -> None:
    times_us = (0.5, 12.5, 287.54, 999.96, 15140.0, 2.5e6)
    assert [*map(time_text, times_us)] == ["0.5000 µs", "12.50 µs", "287.5 µs", "1000 µs", "15.14 ms", "2.500 s"]
