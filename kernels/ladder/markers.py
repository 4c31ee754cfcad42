"""Generated blocks in documents: what stands between ``<!-- ladder:NAME -->`` and ``<!-- /ladder:NAME -->``.

A marker stands alone on its line; one inside a sentence is text. Whatever is outside the blocks is never touched.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import UnreadableFile, read_text

BLOCK_MARKER = re.compile(r"\s*<!--\s*(?P<closing>/?)ladder:(?P<name>[A-Za-z0-9_.-]+)\s*-->\s*")


@dataclass(frozen=True, slots=True)
class Block:
    """A block by name; ``opening`` and ``closing`` are the indices of its marker lines."""

    name: str
    opening: int
    closing: int


def find_blocks(text: str, path: Path) -> tuple[Block, ...]:
    """The blocks of a document, in order.

    A PeakgateError names the line of a marker that is not closed, closes nothing, stands inside another block, or
    opens a block of a name that the document has already.
    """
    found: dict[str, Block] = {}
    opened: tuple[str, int] | None = None
    for index, line in enumerate(text.split("\n")):
        marker = BLOCK_MARKER.fullmatch(line)
        if marker is None:
            continue
        name = marker["name"]
        if marker["closing"]:
            if opened is None or opened[0] != name:
                _refuse(path, index, f"<!-- /ladder:{name} --> closes nothing; put <!-- ladder:{name} --> before it")
            found[name] = Block(name, opened[1], index)
            opened = None
        elif opened is not None:
            _refuse(path, index, f"ladder:{name} opens inside ladder:{opened[0]}; close that block first")
        elif name in found:
            _refuse(path, index, f"ladder:{name} stands here again; keep one of the two blocks")
        else:
            opened = name, index
    if opened is not None:
        _refuse(path, opened[1], f"ladder:{opened[0]} is not closed; put <!-- /ladder:{opened[0]} --> behind it")
    return tuple(found.values())


def fill(text: str, path: Path, content: Callable[[str], str], known: Collection[str]) -> str:
    """The document with ``content(name)`` in each of its blocks, a blank line on either side.

    A PeakgateError names a block that is not in ``known``, with the nearest that is.
    """
    lines = text.split("\n")
    for block in reversed(find_blocks(text, path)):
        if block.name not in known:
            nearest = difflib.get_close_matches(block.name, known, 1)
            meant = f", the nearest is {nearest[0]}" if nearest else ""
            blocks = ", ".join(sorted(known))
            _refuse(path, block.opening, f"there is no ladder named {block.name}{meant}; there are {blocks}")
        lines[block.opening + 1 : block.closing] = ["", *content(block.name).split("\n"), ""]
    return "\n".join(lines)


def inside(text: str, path: Path) -> dict[str, str]:
    """Present content of each block of a document, by name."""
    lines = text.split("\n")
    return {
        block.name: "\n".join(lines[block.opening + 1 : block.closing]).strip() for block in find_blocks(text, path)
    }


def read_document(path: Path) -> str:
    """The text of a document with its line ends as they are; a PeakgateError where there is none."""
    try:
        return read_text(path)
    except UnreadableFile as error:
        raise PeakgateError(
            f"{path}: expected a document ({error.why}); run at the repository's root", Code.UNREADABLE
        ) from None


def difference(old: str, new: str, path: Path) -> str:
    """The unified diff from a document as it is to what it should be."""
    lines = difflib.unified_diff(
        old.splitlines(keepends=True), new.splitlines(keepends=True), str(path), f"{path} (should be)"
    )
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def link(target: Path, folder: Path) -> str:
    """The way to a file, as a document of that folder links it; both from the same place."""
    return Path(os.path.relpath(target, folder)).as_posix()


def _refuse(path: Path, index: int, problem: str) -> NoReturn:
    raise PeakgateError(f"{path}:{index + 1}: {problem}", Code.PAGE)
