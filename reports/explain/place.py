"""Where in the source a slower kernel changed: the file in its repository, and the line to point at."""

from __future__ import annotations

import difflib
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

_COMMENT = re.compile(r"\s*(//|/\*|\*|$)")


@dataclass(frozen=True, slots=True)
class Place:
    """A file, relative to its repository, and a line from 1."""

    file: str
    line: int


def place(folder: Path, base: str | None, head: str | None) -> Place | None:
    """Where head's source differs from base's; None for a source outside head's project in ``folder``, or none."""
    if head is None or not Path(head).is_relative_to(folder):
        return None
    inside = Path(head).relative_to(folder)
    done = subprocess.run(
        ["git", "rev-parse", "--show-prefix"], cwd=folder, capture_output=True, text=True, check=False
    )
    texts = [_text(Path(name)) if name else "" for name in (base, head)]
    return Place(f"{done.stdout.strip()}{inside.as_posix()}", changed_line(*texts))


def changed_line(before: str, after: str) -> int:
    """The first changed line of code in ``after``, comments passed over; without one, the first kernel's line."""
    old, new = before.splitlines(), after.splitlines()
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for tag, first, last, start, end in matcher.get_opcodes():
        if tag != "equal" and not all(_COMMENT.match(line) for line in (*old[first:last], *new[start:end])):
            code = next((at for at in range(start, end) if not _COMMENT.match(new[at])), start)
            return max(1, min(code + 1, len(new)))
    return next((number for number, line in enumerate(new, 1) if "__global__" in line), 1)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
