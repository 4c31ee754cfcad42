"""Reads saved files and settings, JSON or TOML, as typed records.

A record's type defines what a file may contain, with constraints as ``Annotated[..., msgspec.Meta(...)]``. A mismatch
is reported in one line: the file (with the line for TOML), the value's path, what was given and expected, what to do.
"""

from __future__ import annotations

import json
import re
import threading
import tomllib
import zlib
from codecs import BOM_UTF8
from collections.abc import Hashable
from functools import cache
from pathlib import Path
from typing import (
    Annotated,
    Any,
    TypeVar,
    cast,
)

import msgspec
from msgspec import Meta

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import LARGEST_FILE_BYTES, UnreadableFile, read_limited, read_text

Decoded = TypeVar("Decoded")

LONGEST_TEXT = 20_000
LARGEST_TOML_BYTES = 2**20
"""Python's parser takes some seconds for a TOML file of this size."""
MOST_PARTS = 100
"""The most parts of a TOML key (``a.b.c`` has 3): Python's parser needs memory quadratic in them."""

GZIP = 31
"""zlib's ``wbits`` for the gzip format."""
COMPRESSED = {
    "gzip": b"\x1f\x8b",
    "xz": b"\xfd7zXZ\0",
    "zstd": b"\x28\xb5\x2f\xfd",
    "bzip2": b"BZh",
    "zip": b"PK\x03\x04",
}
"""The first bytes of compressed files, none of them those of a JSON or TOML text."""

LARGEST_FLOAT = 1.7976931348623157e308

_one_type = threading.Lock()  # msgspec reads a type's annotations at first use, which is not thread-safe

Filled = Annotated[str, Meta(pattern=r"\S", description="a text that is not empty")]
Text = Annotated[str, Meta(max_length=LONGEST_TEXT, description=f"a text of at most {LONGEST_TEXT} letters")]
Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_TEXT, description="a name")]
Number = (
    Annotated[int, Meta(ge=0, le=2**63 - 1, description="a finite number from 0 up")]
    | Annotated[float, Meta(ge=0, le=LARGEST_FLOAT, description="a finite number from 0 up")]
)
Whole = Annotated[int, Meta(ge=0, le=2**63 - 1, description="a whole number from 0 up")]
Finite = Annotated[float, Meta(ge=-LARGEST_FLOAT, le=LARGEST_FLOAT, description="a finite number")]

_PART = r"""[ \t]*(?:[\w-]+|"(?:\\.|[^"\\\n])*"|'[^'\n]*')[ \t]*\."""
_LONG_KEY = re.compile(rf"^[ \t]*\[{{0,2}}(?:{_PART}){{{MOST_PARTS}}}", re.MULTILINE)


class RecordError(PeakgateError):
    """A file is not what was expected.

    ``document`` is its content if it could be parsed, ``field`` the path of the invalid value.
    """

    def __init__(self, message: str, document: object = None, field: str = "", code: Code = Code.RECORD) -> None:
        super().__init__(message, code)
        self.document, self.field = document, field


def read(path: Path, kind: type[Decoded], remedy: str, *, absent: Decoded | None = None) -> Decoded:
    """The record in a JSON or, by its suffix, TOML file, decompressed if it ends in ``.gz``.

    Returns ``absent``, if given, when there is no file. Raises RecordError, whose message ends with the ``remedy``.
    """
    try:
        content = read_limited(path, LARGEST_TOML_BYTES if path.suffix == ".toml" else LARGEST_FILE_BYTES)
    except UnreadableFile as error:
        if error.missing and absent is not None:
            return absent
        raise RecordError(f"{path}: {error.why}; {remedy}", code=Code.UNREADABLE) from None
    return decode(unpacked(content, path, remedy), kind, path, remedy)


def unpacked(content: bytes, path: Path, remedy: str) -> bytes:
    """Decompressed content of a ``*.gz`` file; any other content unchanged.

    Raises RecordError if it is damaged or larger than LARGEST_FILE_BYTES.
    """
    if path.suffix != ".gz":
        packed = next((name for name, head in COMPRESSED.items() if content.startswith(head)), None)
        if packed is not None:
            plain = "unpack it, or save it as .json or .json.gz" if packed != "gzip" else f"name it {path.name}.gz"
            raise RecordError(f"{path}: compressed by {packed}; {plain}", code=Code.MALFORMED)
        return content
    unpacker = zlib.decompressobj(wbits=GZIP)
    try:
        found = unpacker.decompress(content, LARGEST_FILE_BYTES)
    except zlib.error as error:
        raise RecordError(f"{path}: not a gzip file ({error}); {remedy}", code=Code.MALFORMED) from None
    if not unpacker.eof or unpacker.unused_data:
        raise RecordError(
            f"{path}: cut off, or more than {LARGEST_FILE_BYTES >> 20} MiB unpacked; {remedy}", code=Code.MALFORMED
        )
    return found


def decode(content: bytes, kind: type[Decoded], path: Path, remedy: str) -> Decoded:
    """As ``read``, for content that was read from ``path``."""
    if path.suffix == ".toml" and content.startswith(BOM_UTF8):
        raise RecordError(f"{path}:1: begins with a byte-order mark; save it as UTF-8 without", code=Code.MALFORMED)
    try:
        text = content.decode("utf-8" if path.suffix == ".toml" else "utf-8-sig")
    except UnicodeDecodeError:
        raise RecordError(f"{path}: not text in UTF-8; {remedy}", code=Code.MALFORMED) from None
    if path.suffix == ".toml":
        return _converted(_toml(path, text, remedy), kind, path, remedy)
    try:
        record: Decoded = _decoder(cast("Hashable", kind)).decode(text)
    except (ValueError, RecursionError):  # invalid, or NaN in an ignored field
        return _converted(_json(path, text, remedy), kind, path, remedy)
    return record


def place(path: Path, *keys: str | int) -> str:
    """``FILE:LINE`` of a TOML file, the line that sets the value at these keys, or ``FILE`` if none does."""
    lines = [line.strip() for line in read_text(path).splitlines()]
    start, header = 0, ""
    for key in keys:
        if isinstance(key, int):
            starts: list[tuple[str, ...]] = [(header,)] * key
        else:
            header = f"[[{key}]]"
            starts = [(key, f'"{key}"', f"'{key}'", f"[{key}]", header)]
        for each in starts:
            found = next((at for at in range(start, len(lines)) if lines[at].startswith(each)), None)
            start = start if found is None else found + 1
    return f"{path}:{start}" if start else str(path)


@cache
def _decoder(kind: Hashable) -> msgspec.json.Decoder[Any]:
    with _one_type:
        return msgspec.json.Decoder(kind)


def _json(path: Path, text: str, remedy: str) -> Any:
    """Parse with Python's parser, which accepts NaN and reports the position of a syntax error."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno} ({error.msg})"
        raise RecordError(f"{path}: truncated or invalid JSON at {where}; {remedy}", code=Code.MALFORMED) from None
    except (RecursionError, ValueError) as error:
        raise RecordError(
            f"{path}: JSON nested too deep or with too long a number ({error}); {remedy}", code=Code.MALFORMED
        ) from None


def _toml(path: Path, text: str, remedy: str) -> dict[str, Any]:
    if found := _LONG_KEY.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise RecordError(f"{path}:{line}: a key of more than {MOST_PARTS} parts; {remedy}", code=Code.MALFORMED)
    try:
        return tomllib.loads(text)
    except (RecursionError, ValueError) as error:  # ValueError: TOMLDecodeError, or a number of thousands of digits
        raise RecordError(f"{path}: not TOML: {error}; {remedy}", code=Code.MALFORMED) from None


def _converted(document: Any, kind: type[Decoded], path: Path, remedy: str) -> Decoded:
    try:
        with _one_type:
            return msgspec.convert(document, kind)
    except (ValueError, RecursionError):
        from peakgate.base.misfit import misfit  # noqa: PLC0415  (only for an invalid file)

        with _one_type:
            keys, problem = misfit(document, kind)
        where = place(path, *keys) if path.suffix == ".toml" else str(path)
        dotted = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)  # benchmarks[0].stats.min
        field = dotted.removeprefix(".") or "the file"
        raise RecordError(f"{where}: {field}{problem}; {remedy}", document, field) from None
