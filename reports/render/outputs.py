"""Every written output of one comparison, by file name, and the summary of a GitHub Actions job."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from peakgate.common.errors import PeakgateError
from peakgate.reports.render import machine, markdown
from peakgate.reports.result import Comparison
from peakgate.reports.runs.runfile import Run

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
MOST_SUMMARY_BYTES = 1_000_000
"""GitHub drops a step's summary of more than 1 MiB whole, with everything in it."""


def texts(
    comparison: Comparison, stem: str, history: Iterable[Run] = (), *, strict: bool = False, page: bool = True
) -> dict[str, str]:
    """``stem`` with ``.md``, ``.csv``, ``.json``, ``.junit.xml`` and, with ``page``, ``.html``.

    ``history`` are other runs of the GPU, for the page's sparklines.
    """
    outputs = {
        ".md": markdown.markdown(comparison, strict=strict),
        ".csv": machine.csv(comparison),
        ".json": machine.verdict_json(comparison, strict=strict),
        ".junit.xml": machine.junit(comparison, strict=strict),
    }
    if page:
        from peakgate.reports.render import html  # noqa: PLC0415  # a quarter of a second that --no-html saves

        outputs[".html"] = html.comparison_page(comparison, history, strict=strict)
    return {f"{stem}{ending}": text for ending, text in outputs.items()}


def summarize(comparison: Comparison, *, strict: bool = False) -> None:
    """Append the comparison to the summary of the GitHub Actions job that this runs in, if it runs in one."""
    if path := os.environ.get(SUMMARY_VARIABLE):
        append_summary(comparison, Path(path), strict=strict)


def append_summary(comparison: Comparison, path: Path, *, strict: bool = False) -> None:
    """Append to the summary at ``path``, no more than still fits beside what the step has already put there."""
    try:
        present = path.stat().st_size if path.exists() else 0
        text = markdown.markdown(comparison, strict=strict, most_bytes=MOST_SUMMARY_BYTES - present - 1)
        with path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(f"{text}\n" if text else "")
    except OSError as error:
        raise PeakgateError(
            f"${SUMMARY_VARIABLE}: {path} cannot be written ({error.strerror}); unset it or name a file that can"
        ) from error
