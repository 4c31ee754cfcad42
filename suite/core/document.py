"""``--json``: one JSON object on standard output, for programs; everything else that is printed goes to standard error.

The object is the document that the command leaves in its ``out`` folder, with what a caller needs besides.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from peakgate.core import config
from peakgate.core.codes import Code
from peakgate.core.errors import PeakgateError
from peakgate.core.report import SCHEMA
from peakgate.core.text import as_json
from peakgate.core.verdict import ExitCode

OPTION = "--json"
VERB_FILES = {"check": "check.json", "bench": "bench.json", "ab": "ab.json"}
"""The verbs that have the option, and the file that each leaves."""


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--json`` to a verb's options: the command ``peakgate`` itself obeys it."""
    parser.add_argument(
        OPTION,
        action="store_true",
        help="print one JSON object on standard output, all else on standard error; see `peakgate help programs`",
    )


def printed_alone(
    verb: str,
    arguments: Sequence[str],
    run: Callable[[], int],
    refusals: Sequence[PeakgateError],
    gpu_s: Callable[[], float],
) -> int:
    """Run a command with its output on standard error, then print its document; the exit code.

    ``refusals`` are filled by ``run`` with the user's mistakes that it reports; ``gpu_s`` returns for how long it had
    a GPU locked.
    """
    path = _left_by(verb, arguments)
    before = _state(path)
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        code = run()
    except SystemExit as error:  # of argparse, which has printed why
        code = error.code if isinstance(error.code, int) else ExitCode.BAD_INPUT
        refusals = [PeakgateError("an option that is not possible: see standard error", Code.OPTION)] if code else []
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
    left = _read(path) if path is not None and _state(path) != before else {}
    head: dict[str, Any] = {"schema": SCHEMA, "command": verb, "exit_code": int(code), "gpu_s": round(gpu_s(), 1)}
    if refusals:
        head["error"] = {"code": refusals[-1].code, "message": refusals[-1].message}
    sys.stdout.write(as_json({**head, **{name: value for name, value in left.items() if name not in head}}))
    return code


def _left_by(verb: str, arguments: Sequence[str]) -> Path | None:
    """The file that the command will leave; None where the settings, which say where, cannot be read."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--out", type=Path)
    try:
        out = parser.parse_known_args(arguments)[0].out or config.current().out
    except (PeakgateError, argparse.ArgumentError):
        return None
    return Path(out, VERB_FILES[verb]).absolute()


def _state(path: Path | None) -> tuple[int, int] | None:
    try:
        found = path.stat() if path else None
    except OSError:
        return None
    return None if found is None else (found.st_ino, found.st_mtime_ns)


def _read(path: Path) -> Mapping[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}
