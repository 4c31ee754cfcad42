"""A finished site that would request anything outside itself is an error."""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import SphinxError

LOADED = re.compile(
    r"<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\bsrc\s*=\s*[\"']?(?:https?:)?//[^>]*>"
    r"|<link\b(?![^>]*\brel\s*=\s*[\"']?canonical)[^>]*\bhref\s*=\s*[\"']?(?:https?:)?//[^>]*>"
    r"|(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)\"';]*"
)
"""What a browser loads by itself, in pages and in style sheets."""


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("build-finished", refuse_requests)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def refuse_requests(app: Sphinx, exception: Exception | None) -> None:
    """Name each request that the site's files would make."""
    if exception is not None:
        return
    files = [path for path in Path(app.outdir).rglob("*") if path.suffix in {".html", ".css", ".svg"}]
    found = [
        f"{path.relative_to(app.outdir)}: {made[0]}"
        for path in files
        for made in LOADED.finditer(path.read_text(encoding="utf-8"))
    ]
    if found:
        raise SphinxError("the site must request nothing outside it:\n" + "\n".join(found))
