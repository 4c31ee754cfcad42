"""Hostile variants of a whole file: what a person's slip, another version, a cut disk or a forger would make of it."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from random import Random
from typing import Any

HOSTILE: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**400, 0.0, -0.0, 1e308, 1e-300, -1.5, 0.5, 1.01),
    *(float("nan"), float("inf"), float("-inf"), "", " ", "nan", "\ud800", "\x00", "\x1b[31m", "a\nb", "../../evil"),
    *(5e-324, 10**309, -5e-324, 1e-9, 1e6, "x" * 256, "\u202e::error::x", "a\x00b", "/dev/zero", ".", "..", "a/b"),
    *("/etc/passwd", "::add-mask::x", "=1+1", "x" * 30_000, "2099-01-01T00:00:00+00:00", "0001-01-01T00:00:00", "PASS"),
    *("WRONG", "nvidia-h200", "é" * 3, [], {}, [1], [[]], [None], {"": None}, {"case": []}, ["a", 1], [{}]),
)
"""What takes the place of a value."""

LITERALS = (
    *("5e-324", "1e309", "1" + "0" * 309, '"/dev/zero"', '"\\u0000x"', '"' + "x" * 256 + '"', '"../outside"', '"/"'),
    *("0", "-1", "1", "2", "0.5", "1.5", "1e400", "nan", "inf", "9" * 5000, "true", "false", '""', '" "', '"x"', "'y'"),
    *('"../.."', '"\\u0000"', '"::error::x"', "[]", "[1]", '["a"]', "{}", "{a = 1}", "[[1]]", "[" * 3000, "1979-05-27"),
    *(
        "2026-12-01",
        "9999-12-31",
        "2026-12-01T00:00:00",
        "0x10",
        '"""a\nb"""',
        "",
        "=",
        "None",
        "(1, 2)",
        "lambda n: n",
    ),
)
"""What takes the place of a value in a file that people write: TOML, Python."""

NUMBERS = (0.0, -1.0, 1e-9, 0.5, 0.98, 1.02, 2.0, 100.0, 1e9)


def document(base: Any, random: Random) -> bytes:
    """A JSON document with one to three of its values, names or entries changed; seldom one whose bytes are damaged."""
    content = copy.deepcopy(base)
    places = _places(content)
    for _ in range(random.choice((1, 1, 2, 3))):
        _edit(content, random.choice(places), places, random)
    data = json.dumps(content).encode("utf-8", errors="surrogatepass")
    return damaged(data, random) if random.random() < 0.03 else data


def lines(base: str, random: Random) -> bytes:
    """A text of lines with one to three of them changed; seldom one whose bytes are damaged."""
    text = base.splitlines()
    for _ in range(random.choice((1, 1, 2, 3))):
        _edit_line(text, random)
    data = ("\n".join(text) + "\n").encode("utf-8", errors="surrogatepass")
    return damaged(data, random) if random.random() < 0.05 else data


def bytes_changed(data: bytes, random: Random) -> bytes:
    """The bytes with one to eight of them changed, or damaged otherwise."""
    if random.random() < 0.2:
        return damaged(data, random)
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8))):
        changed[random.randrange(len(changed))] = random.choice((0, 1, 0x7F, 0xFF, random.randrange(256)))
    return bytes(changed)


def damaged(data: bytes, random: Random) -> bytes:
    """The bytes cut short, with a letter changed, a piece repeated or deleted, or something put in front."""
    at = random.randrange(len(data) + 1)
    other = random.randrange(len(data) + 1)
    return random.choice(
        (
            data[:at],
            data[:at] + bytes([random.randrange(256)]) + data[at + 1 :],
            data[:at] + data[other:],
            b"\xef\xbb\xbf" + data,
            b"[" * 5000 + data,
            data[:at] + b"\x00" + data[at:],
            data + data,
            b"",
        )
    )


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value in a document."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [place for key, each in inside for place in _places(each, (*path, key))]


def _at(content: Any, place: Sequence[Any]) -> Any:
    for key in place:
        content = content[key]
    return content


def _edit(content: Any, place: tuple[Any, ...], places: Sequence[tuple[Any, ...]], random: Random) -> None:
    try:
        holder = _at(content, place[:-1])
        value = holder[place[-1]]
        kind = random.randrange(10)
        if kind <= 3:
            holder[place[-1]] = copy.deepcopy(random.choice(HOSTILE))
        elif kind == 4:
            del holder[place[-1]]
        elif kind == 5 and isinstance(value, int | float):
            holder[place[-1]] = value * random.choice(NUMBERS)
        elif kind == 6:
            holder[place[-1]] = copy.deepcopy(_at(content, random.choice(places)))
        elif kind == 7 and isinstance(holder, list):
            holder.insert(random.randrange(len(holder) + 1), copy.deepcopy(value))
        elif kind == 8 and isinstance(holder, dict):
            holder[random.choice(("", "x", "case", "verdict", "peakgate_schema"))] = holder.pop(place[-1])
        else:
            holder[place[-1]] = random.choice(([value], {"value": value}, str(value)))
    except (KeyError, IndexError, TypeError, OverflowError):
        return  # an earlier edit took this place away


def _edit_line(text: list[str], random: Random) -> None:
    if not text:
        return
    at = random.randrange(len(text))
    line = text[at]
    name, equals, _ = line.partition("=")
    kind = random.randrange(8)
    if kind <= 3 and equals:
        text[at] = f"{name}={' ' * line.startswith(name + '= ')}{random.choice(LITERALS)}{',' * line.endswith(',')}"
    elif kind == 4:
        del text[at]
    elif kind == 5:
        text.insert(random.randrange(len(text) + 1), line)
    elif kind == 6:
        other = random.randrange(len(text))
        text[at], text[other] = text[other], line
    elif kind == 7 and equals:
        text[at] = f"{random.choice(('x', 'a.b', '', name.strip()[:-1]))} ={line[len(name) + 1 :]}"
    else:
        text[at] = random.choice(
            ("[", "[x]", "[[x]]", "[floors]", "[[acknowledged]]", '"""', "#", "\ud800", "\x00", "=")
        )
