"""Every written face of one comparison, by file name; whoever made the comparison writes them where they belong."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from peakgate.reports.render import junit, machine, markdown, summary, tables
from peakgate.reports.result import Comparison
from peakgate.reports.runfile import Run


def texts(
    comparison: Comparison, stem: str, history: Iterable[Run] = (), *, strict: bool = False, page: bool = True
) -> dict[str, str]:
    """``stem`` with ``.md``, ``.csv``, ``.json``, ``.junit.xml`` and, with ``page``, ``.html``.

    ``history`` are other runs of the GPU, for the page's sparklines.
    """
    faces = {
        ".md": markdown.markdown(comparison, strict=strict),
        ".csv": tables.csv(comparison),
        ".json": machine.verdict_json(comparison, strict=strict),
        ".junit.xml": junit.junit(comparison, strict=strict),
    }
    if page:
        from peakgate.reports.render import html  # noqa: PLC0415  # a quarter of a second that --no-html saves

        faces[".html"] = html.comparison_page(comparison, history, strict=strict)
    return {f"{stem}{ending}": text for ending, text in faces.items()}


def summarize(comparison: Comparison, *, strict: bool = False) -> None:
    """Append the comparison to the summary of the GitHub Actions job that this runs in, if it runs in one."""
    if path := os.environ.get(summary.VARIABLE):
        summary.append(comparison, Path(path), strict=strict)
