"""Numbers that a kernel names in its source: it may be wrong at them and right everywhere else."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from peakgate.base.emulated import read_sources
from peakgate.base.errors import PeakgateError
from peakgate.measure.patterns import NOTHING_NAMED, Named
from peakgate.spec.arguments import Scalar
from peakgate.spec.case import Case

MOST_NUMBERS = 8

LARGEST_REAL, LARGEST_COMPARED, REAL_STEP = 2.0**10, 16, 2.0**-8
"""The largest real number, the largest integer that is taken for a real number too, and what real numbers are multiples
of: larger ones would outweigh all others in a sum, and one that is not exact, like 0.1, is another one in a float64
reference than in a kernel."""

_WORDS = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?P<letter>[^'\\])'"
    r"|(?<![\w.])(?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)[uUlLfF]*(?![\w.])",
    re.DOTALL,
)
_COMPARED_BEFORE = re.compile(r"(?:[=!<>]=|(?<!<)<|(?<!>)>|\bcase)\s*-?\s*$")
_COMPARED_AFTER = re.compile(r"\s*(?:[=!<>]=|<(?!<)|>(?!>))")


def named_numbers(case: Case) -> Named:
    """The numbers of a case's source, first those with which it compares, and the real values that it is given."""
    if case.stage.source is None:
        return NOTHING_NAMED
    given = [abs(each.value) for each in case.arguments if isinstance(each, Scalar) and isinstance(each.value, float)]
    known = _of_source(case.stage.source)
    reals = [each for each in (*known.reals, *given) if each <= LARGEST_REAL and (each / REAL_STEP).is_integer()]
    return Named(_first(reals), _first(known.integers))


def _first(numbers: list[float] | tuple[float, ...]) -> tuple[float, ...]:
    return tuple(dict.fromkeys(number for number in numbers if number > 0))[:MOST_NUMBERS]


@cache
def _of_source(source: Path) -> Named:
    """All numbers of a file and of the files beside it that it includes, those of comparisons first."""
    compared, others = (list[float](), list[float]()), (list[float](), list[float]())
    try:
        files = read_sources(source)
    except PeakgateError:  # which is reported where it is built
        return NOTHING_NAMED
    for file in files:
        for word in _WORDS.finditer(file.text):
            letter, number = word["letter"], word["number"]
            if not letter and not number:
                continue
            hexadecimal = not letter and number[:2] in ("0x", "0X")
            value = float(ord(letter) if letter else int(number, 16) if hexadecimal else float(number))
            real = not letter and not hexadecimal and not number.isdigit()
            before, after = file.text[max(0, word.start() - 8) : word.start()], file.text[word.end() :][:8]
            in_comparison = _COMPARED_BEFORE.search(before) or _COMPARED_AFTER.match(after)
            (compared if in_comparison else others)[0 if real else 1].append(value)
            if in_comparison and not real and value <= LARGEST_COMPARED:
                compared[0].append(value)
    return Named(*(tuple(one + other) for one, other in zip(compared, others, strict=True)))
