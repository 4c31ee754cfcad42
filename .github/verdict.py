"""One exit code from the verdict files of several commands; standard library alone, so that it runs on any runner."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

MEANINGS = {
    0: ("notice", "pass"),
    3: ("warning", "could not decide"),
    2: ("error", "bad input, or a command ended before its verdict"),
    1: ("error", "regression"),
}
"""By exit code, the mildest first: the kind of annotation and its title, which is that of the gate's comment.

A test compares them with `src/peakgate/review/comment.py`: this file is run alone, where no package is installed."""


def judge(paths: Sequence[Path]) -> int:
    """Annotate the job with what each file says; the exit code of the worst."""
    found = []
    for path in paths:
        code, reported = _read(path)
        kind, title = MEANINGS[code]
        properties = f"title=Peakgate: {title}".replace(",", "%2C")
        sys.stdout.write(f"::{kind} {properties}::{_escaped(f'{path.stem}: {reported}')}\n")
        found.append(code)
    return max(found, key=list(MEANINGS).index)


def _read(path: Path) -> tuple[int, str]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        code = document["exit_code"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        return 2, f"{path} has no verdict ({type(error).__name__}); the log of the step before says why"
    if type(code) is not int or code not in MEANINGS:  # False is an int, and no verdict
        return 2, f"{path} says exit code {code}; the log of the step before says why"
    counts = document.get("counts") or document.get("verdicts")
    if not isinstance(counts, dict) or not counts:
        return code, f"exit code {code}"
    return code, ", ".join(f"{count} {verdict}" for verdict, count in counts.items())


def _escaped(text: str) -> str:
    """Text as one workflow command's message."""
    plain = "".join(each if each.isprintable() or each in "\r\n" else " " for each in text).replace("##", "# #")
    return plain.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


if __name__ == "__main__":
    sys.exit(judge([Path(name) for name in sys.argv[1:]]))
