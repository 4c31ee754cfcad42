"""The comparison on the page of a GitHub Actions job: its Markdown, appended to the job's summary."""

from __future__ import annotations

from pathlib import Path

from peakgate.common.errors import PeakgateError
from peakgate.reports.render import markdown
from peakgate.reports.result import Comparison

VARIABLE = "GITHUB_STEP_SUMMARY"
MOST_BYTES = 1_000_000
"""GitHub drops a step's summary of more than 1 MiB whole, with everything in it."""


def append(comparison: Comparison, path: Path, *, strict: bool = False) -> None:
    """Append to the summary at ``path``, no more than still fits beside what the step has already put there."""
    try:
        present = path.stat().st_size if path.exists() else 0
        text = markdown.markdown(comparison, strict=strict, most_bytes=MOST_BYTES - present - 1)
        with path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(f"{text}\n" if text else "")
    except OSError as error:
        raise PeakgateError(
            f"${VARIABLE}: {path} cannot be written ({error.strerror}); unset it or name a file that can"
        ) from error
