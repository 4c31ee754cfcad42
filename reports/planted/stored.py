"""Records of a campaign that are JSON files: each states its schema, and is read whole or refused in one line."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from peakgate.common.errors import PeakgateError
from peakgate.common.files import write_whole

SCHEMA = 1

Form = TypeVar("Form")


def write_record(path: Path, content: Mapping[str, Any]) -> Path:
    """Write the record and give its path."""
    write_whole(path, json.dumps({"schema": SCHEMA} | dict(content), indent=1) + "\n")
    return path


def read_record(path: Path, form: Callable[[Mapping[str, Any]], Form]) -> Form:
    """The record in its form; a PeakgateError names a file that is missing, of another schema, or not of that form."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["schema"] != SCHEMA:
            raise PeakgateError(f"{path}: schema {content['schema']!r}, this version reads {SCHEMA}; collect it again")
        return form(content)
    except OSError as error:
        raise PeakgateError(f"{path}: cannot be read ({error.strerror}); name the folder of a campaign") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PeakgateError(f"{path}: not a campaign's record ({error!r}); restore it or collect it again") from error
