"""Formats figures, counts and names for messages and reports; makes untrusted text safe.

Safe for a terminal, a CI log, an editor and a spreadsheet.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Collection, Sequence

# Log commands of GitHub Actions, Azure Pipelines and TeamCity: ``::name ...::`` and ``##[name]``. ``::`` inside a word,
# such as a test's node id, is kept.
COMMANDS = (
    "add-mask|add-path|debug|echo|endgroup|error|group|notice|save-state|set-env|set-output|stop-commands|warning"
)
CI_COMMAND = re.compile(rf"(?<!\S)::(?=\S)|::(?=(?:{COMMANDS})\b)|##(?=\w*\[)", re.IGNORECASE)

# Characters with an effect that JSON does not escape: control, line separators, direction, zero width.
OBEYED = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")

FORMULA = ("=", "+", "-", "@")  # the first characters of a spreadsheet formula

BARS = "▁▂▃▄▅▆▇█"
LEAST_SPAN = 0.02  # values that differ by less than this share are drawn as a nearly level line


def counted(number: int, noun: str) -> str:
    """``1 case``, ``2 cases``, ``3 launches``, ``4 families``."""
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{number} {noun if number == 1 else f'{noun[:-1]}ies'}"
    plural = "es" if noun.endswith(("s", "ch")) else "s"
    return f"{number} {noun}{'' if number == 1 else plural}"


def shown(value: object) -> str:
    """A user's value in one line of at most 80 characters."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # an integer of thousands of digits, or an error in a user's class
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def short(value: object) -> str:
    """A value in at most 60 characters, for an error message."""
    try:
        text = repr(value)
    except RecursionError:
        text = f"a nested {type(value).__name__}"
    except ValueError:  # Python refuses to convert thousands of digits
        text = "a number of thousands of digits"
    return text if len(text) <= 60 else f"{text[:57]}..."


def percent(value: float | None, form: str = "", missing: str = "") -> str:
    """``0.58 %``, ``1.3 %``, ``240 %``: two significant digits and no exponent, or by ``form``.

    ``missing`` for None or NaN.
    """
    if value is None or math.isnan(value):
        return missing
    return f"{value:{form or ('.0f' if value >= 10 else '.2g')}} %"


def share(fraction: float) -> str:
    """A fraction in percent, ``72.5 %``."""
    return f"{100 * fraction:.1f} %"


def figure(value: float, digits: int = 4) -> str:
    """A number with this many significant digits, including trailing zeros, without an exponent."""
    short = f"{value:#.{digits}g}"
    return f"{value:.0f}" if "e+" in short else short.rstrip(".")


def time_text(time_us: float) -> str:
    """A time with the unit that suits it: ``12.50 µs``, ``15.14 ms``."""
    scale, unit = next((each for each in ((1e6, "s"), (1e3, "ms")) if time_us >= each[0]), (1.0, "µs"))
    return f"{figure(time_us / scale)} {unit}"


def sparkline(values: Sequence[float]) -> str:
    """The values as bars, scaled from the least to the greatest."""
    least, most = min(values), max(values)
    span = max(most - least, LEAST_SPAN * most) or 1.0
    bottom = (least + most - span) / 2
    return "".join(BARS[round((value - bottom) / span * (len(BARS) - 1))] for value in values)


def first_of(names: Sequence[str], most: int = 3) -> str:
    """``a, b, c and 2 more``: the first ``most`` names, and how many others there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def nearest(name: str, known: Collection[str]) -> str:
    """``, did you mean 'x'?`` if one of ``known`` is close to ``name``; else empty."""
    close = difflib.get_close_matches(name, known, 1)
    return f", did you mean {close[0]!r}?" if close else ""


def duration(seconds: float) -> str:
    """``45 s``, ``3 min 20 s``: whole seconds, rounded up."""
    minutes, rest = divmod(math.ceil(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def one_line(text: str) -> str:
    """``text`` without line breaks, control characters and commands of CI logs."""
    if not text.isprintable():
        text = "".join(character if character.isprintable() else " " for character in text)
    return CI_COMMAND.sub(lambda found: f"{found[0][0]} {found[0][1]}", text)


def encodable(text: str) -> str:
    """``text`` with a question mark for each unpaired surrogate, which UTF-8 and Arrow refuse."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def as_json(document: object) -> str:
    """A document as indented JSON, with characters escaped that have an effect in a terminal or editor."""
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    return OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"


def cell(value: object) -> object:
    """A value for a CSV cell: text in one line, with an apostrophe before what a spreadsheet would compute."""
    if not isinstance(value, str):
        return value
    plain = one_line(value)
    return f"'{plain}" if plain.lstrip().startswith(FORMULA) else plain


def harmless(text: str) -> str:
    """The lines of a text, each made safe by ``one_line`` and ended by a line break."""
    return "".join(f"{one_line(line)}\n" for line in text.splitlines())
