"""TOML files that people write: read strictly, every mistake reported with file and line."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from peakgate.common.errors import PeakgateError


@dataclass(frozen=True, slots=True)
class TomlFile:
    """A parsed TOML file and its text, which gives mistakes their line numbers."""

    path: Path
    text: str
    table: Mapping[str, Any]

    def refuse(self, key: str, problem: str) -> NoReturn:
        """Raise a PeakgateError that names the file and the line that sets ``key``, where one does."""
        starts = (key, f'"{key}"', f"'{key}'", f"[{key}]", f"[[{key}]]")
        numbers = (number for number, line in enumerate(self.text.splitlines(), 1) if line.strip().startswith(starts))
        line = next(numbers, None)
        raise PeakgateError(f"{self.path}{f':{line}' if line else ''}: {problem}")

    def allow(self, table: Mapping[str, Any], known: Collection[str], where: str = "") -> None:
        """Refuse a key of ``table`` that is not one of ``known``, with the nearest that is."""
        for key in table:
            if key not in known:
                self.refuse(key, f"unknown key {where}{key!r}{nearest(key, known)}; known are {', '.join(known)}")


def read_toml(path: Path) -> TomlFile:
    """Parse a file. FileNotFoundError when there is none; PeakgateError when it is not UTF-8 text or not TOML."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        raise PeakgateError(f"{path}: cannot be read as UTF-8 text ({error}); restore it") from error
    try:
        return TomlFile(path, text, tomllib.loads(text))
    except (ValueError, RecursionError) as error:  # ValueError: TOMLDecodeError, or a number of thousands of digits
        raise PeakgateError(f"{path}: not TOML: {error}; correct that line") from error


def nearest(name: str, known: Collection[str]) -> str:
    """``, did you mean 'x'?`` where one of ``known`` is close to ``name``; else empty."""
    close = difflib.get_close_matches(name, known, 1)
    return f", did you mean {close[0]!r}?" if close else ""
